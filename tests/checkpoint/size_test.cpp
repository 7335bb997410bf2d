// SPDX-License-Identifier: Apache-2.0
// Large checkpoints: what opening costs as names grow, and which bytes of a file it reads. Times are of the
// processor, so that other work on the machine does not count. The large ones are heavy.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include "host/checkpoint/model.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

/// A header in pieces: entries follow each other without holes.
class Header {
 public:
  void add(const std::string& name, const std::string& dtype, std::int64_t rows, std::int64_t cols,
           std::int64_t bytes) {
    text_ += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{},{}],"data_offsets":[{},{}]}})",
                         text_.empty() ? "{" : ",", name, dtype, rows, cols, end_, end_ + bytes);
    end_ += bytes;
  }
  /// A file with that header whose tensors are holes: it takes no room on the disk.
  void write(const std::filesystem::path& path) const {
    write_file(path, raw_safetensors(text_ + "}", 0));
    std::filesystem::resize_file(path, 8 + text_.size() + 1 + static_cast<std::uint64_t>(end_));
  }

 private:
  std::string text_;
  std::int64_t end_ = 0;
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Seconds that `action` takes, the least of `times`.
double cost_of(const std::function<void()>& action, int times) {
  double least = 1e9;
  for (int i = 0; i < times; ++i) {
    const double start = processor_seconds();
    action();
    least = std::min(least, processor_seconds() - start);
  }
  return least;
}

void write_names(const std::filesystem::path& path, int count) {
  Header header;
  for (int i = 0; i < count; ++i) header.add(fmt::format("t{}", i), "U8", 1, 1, 1);
  header.write(path);
}

/// Experts of a mixture, in shards with an index: two tensors each.
void write_experts(const TempDir& dir, int layers, int experts, int shards, std::int64_t size) {
  std::vector<Header> headers(static_cast<std::size_t>(shards));
  std::string map;
  int count = 0;
  const std::int64_t blocks = (size + 127) / 128;
  for (int l = 0; l < layers; ++l)
    for (int e = 0; e < experts; ++e)
      for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
        const int shard = count++ % shards;
        const std::string name = fmt::format("model.layers.{}.mlp.experts.{}.{}", l, e, projection);
        headers[static_cast<std::size_t>(shard)].add(name + ".weight", "F8_E4M3", size, size, size * size);
        headers[static_cast<std::size_t>(shard)].add(name + ".weight_scale_inv", "F32", blocks, blocks,
                                                     4 * blocks * blocks);
        for (const char* leaf : {".weight", ".weight_scale_inv"})
          map += fmt::format(R"({}"{}{}":"s{}.safetensors")", map.empty() ? "" : ",", name, leaf, shard);
      }
  for (int s = 0; s < shards; ++s)
    headers[static_cast<std::size_t>(s)].write(dir / fmt::format("s{}.safetensors", s));
  write_file(dir / "model.safetensors.index.json", R"({"weight_map":{)" + map + "}}");
  write_file(
      dir / "config.json",
      R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128],"ignored_layers":["lm_head"]}})");
}

/// Bytes of the file that are in memory: of a file that nobody has read before, what was read of it.
std::uint64_t resident_bytes(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) throw std::runtime_error("cannot open " + path.string());
  const auto size = static_cast<std::size_t>(status.st_size);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  std::vector<unsigned char> pages((size + 4095) / 4096);
  const int failed = ::mincore(map, size, pages.data());
  ::munmap(map, size);
  ::close(file);
  if (failed != 0) throw std::runtime_error("mincore failed for " + path.string());
  return 4096u *
         static_cast<std::uint64_t>(std::count_if(pages.begin(), pages.end(), [](auto p) { return (p & 1) != 0; }));
}

void expect_only_scales_read(const TempDir& dir, int shards, std::uint64_t layers) {
  std::uint64_t total = 0, read = 0;
  for (int s = 0; s < shards; ++s) {
    const auto path = dir / fmt::format("s{}.safetensors", s);
    total += std::filesystem::file_size(path);
    read += resident_bytes(path);
  }
  // A page or two for a layer's scale, and the headers.
  EXPECT_LT(read, layers * 3 * 4096 + static_cast<std::uint64_t>(shards) * 64 * 4096 + total / 1000)
      << "of " << total;
  std::printf("  %.1f MB of %.1f GB read\n", static_cast<double>(read) / 1e6, static_cast<double>(total) / 1e9);
}

TEST(Size, OpeningIsLinearInTheNumberOfNames) {
  const TempDir dir;
  write_names(dir / "small.safetensors", 8'000);
  write_names(dir / "large.safetensors", 64'000);
  const double small = cost_of([&] { Checkpoint::open(dir / "small.safetensors"); }, 3);
  const double large = cost_of([&] { Checkpoint::open(dir / "large.safetensors"); }, 3);
  EXPECT_LT(large, 24 * small) << "8 times the names; a quadratic search costs 64 times as much";
}

TEST(Size, LayersOfShardsAreFoundInLinearTime) {
  const TempDir small, large;
  write_experts(small, 4, 32, 4, 128);
  write_experts(large, 16, 64, 4, 128);
  const double before = cost_of([&] { Checkpoint::open(small.path(), {.check_values = false}); }, 3);
  const double after = cost_of([&] { Checkpoint::open(large.path(), {.check_values = false}); }, 3);
  EXPECT_LT(after, 24 * before) << "8 times the layers; a quadratic search costs 64 times as much";
}

TEST(Size, WeightsAreNotReadByOpening) {
  const TempDir dir;
  write_experts(dir, 2, 8, 2, 2048);
  EXPECT_EQ(Checkpoint::open(dir.path()).layers().size(), 48u);
  expect_only_scales_read(dir, 2, 48);
}

TEST(HeavySize, AnIndexOf150000TensorsOpensInTwoSeconds) {
  const TempDir dir;
  write_experts(dir, 100, 250, 80, 128);
  const double seconds = cost_of([&] { EXPECT_EQ(Checkpoint::open(dir.path()).layers().size(), 75'000u); }, 3);
  std::printf("  %.2f s of the processor for 150,000 tensors in 80 shards\n", seconds);
  EXPECT_LT(seconds, 2);
}

TEST(HeavySize, AHeaderOf1400000NamesIsLinear) {
  const TempDir dir;
  write_names(dir / "s.safetensors", 350'000);
  write_names(dir / "l.safetensors", 1'400'000);
  const double small = cost_of([&] { Checkpoint::open(dir / "s.safetensors"); }, 1);
  const double large = cost_of([&] { Checkpoint::open(dir / "l.safetensors"); }, 1);
  std::printf("  %.2f s of the processor for 350,000 names, %.2f s for 1,400,000\n", small, large);
  EXPECT_LT(large, 8 * small);
}

TEST(HeavySize, TenGigabytesAreInspectedByTheirScales) {
  const TempDir dir;
  write_experts(dir, 10, 20, 8, 4096);
  EXPECT_EQ(Checkpoint::open(dir.path()).layers().size(), 600u);
  expect_only_scales_read(dir, 8, 600);
}

}  // namespace
}  // namespace ironcl::checkpoint
