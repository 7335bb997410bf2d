// SPDX-License-Identifier: Apache-2.0
// Damaged files: whatever the bytes, a file parses to tensors inside it or is an Error; nothing crashes.
#include <random>

#include "host/checkpoint/model.h"
#include "host/checkpoint/safetensors_header.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

constexpr std::uint32_t kSeed = 20240607;

/// A valid small file: two layers, a bias, metadata.
std::string valid_file() {
  const TempDir dir;
  return read_file(save(dir / "f.safetensors",
                        {OwnTensor("a.weight", DType::e4m3fn, {3, 5}), OwnTensor("a.weight_scale_inv", {1, 1}, {1}),
                         OwnTensor("a.bias", DType::bf16, {3}), OwnTensor("weight", DType::i8, {2, 2}),
                         OwnTensor("weight_scale", {2, 1}, {1, 2})},
                        {{"weight_block", "128"}, {"x_group", "1x128"}}));
}

/// One to four edits: a byte changed, a piece cut out, doubled, or replaced by text that is special to the format.
std::string mutate(std::string bytes, std::mt19937& random) {
  static const std::vector<std::string> kSpecial = {
      "-1",   "9223372036854775807", "1e999", "\"", "{",    "]", "null", "\\u0000", "F8_E8M0", "weight",
      "\xff", "__metadata__",        "0",     ",",  "[[[[", ":"};
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (std::size_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
    const std::size_t at = below(bytes.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(16, bytes.size() - at));
    switch (below(5)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 3:
        bytes.replace(at, length, kSpecial[below(kSpecial.size())]);
        break;
      default:
        bytes[below(std::min<std::size_t>(8, bytes.size()))] = static_cast<char>(below(256));
    }
  }
  return bytes;
}

/// Sets the header length to what the file has room for, so that edits of the header itself are reached.
void mend_length(std::string& bytes) {
  constexpr std::size_t kDataBytes = 15 + 4 + 6 + 4 + 8;  // of valid_file()
  if (bytes.size() < 8 + kDataBytes) return;
  const std::uint64_t length = bytes.size() - 8 - kDataBytes;
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
}

TEST(Mutations, NeverCrashTheHeaderParser) {
  const std::string good = valid_file();
  std::mt19937 random(kSeed);
  int valid = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = mutate(good, random);
    if (i % 2 == 0) mend_length(text);
    const std::vector<char> exact(text.begin(),
                                  text.end());  // a heap block of the file's size: reads past it are seen
    const std::span<const std::byte> bytes{reinterpret_cast<const std::byte*>(exact.data()), exact.size()};
    try {
      for (const Tensor& tensor : parse_safetensors(bytes, "mutant").tensors) {
        ASSERT_GE(tensor.data.data(), bytes.data()) << "seed " << kSeed << ", mutant " << i;
        ASSERT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size()) << "mutant " << i;
      }
      ++valid;
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("mutant"), std::string_view::npos);
      ++refused;
    }
  }
  EXPECT_GT(valid, 100) << "the mutations no longer reach a parse";
  EXPECT_GT(refused, 10000);
}

TEST(Mutations, NeverCrashACheckpoint) {
  const std::string good = valid_file();
  const TempDir dir;
  const auto file = dir / "f.safetensors";
  std::mt19937 random(kSeed + 1);
  int opened = 0;
  for (int i = 0; i < 1000; ++i) {
    std::string text = mutate(good, random);
    mend_length(text);
    write_file(file, text);
    try {
      const Checkpoint checkpoint = Checkpoint::open(file);
      for (const LinearLayer& layer : checkpoint.layers())
        ASSERT_TRUE(layer.problem || layer.weight.data.size() == static_cast<std::size_t>(layer.n * layer.k))
            << "seed " << kSeed + 1 << ", mutant " << i;
      ++opened;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(opened, 50);
}

TEST(Mutations, NeverCrashTheConfigReader) {
  const std::string good =
      R"({"quantization_config":{"quant_method":"compressed-tensors","ignore":["lm_head","re:.*gate$"],)"
      R"("config_groups":{"g":{"targets":["Linear"],"weights":{"strategy":"block","block_structure":[128,128],"num_bits":8},)"
      R"("input_activations":{"strategy":"group","group_size":128,"dynamic":true}}}}})";
  const TempDir dir;
  const auto file = dir / "config.json";
  std::mt19937 random(kSeed + 2);
  int read = 0;
  for (int i = 0; i < 1000; ++i) {
    write_file(file, mutate(good, random));
    try {
      (void)read_quantization_config(file).group_of("model.layers.0.mlp.up_proj");
      ++read;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(read, 50);
}

TEST(Mutations, EveryTruncationIsAnError) {
  const std::string good = valid_file();
  for (std::size_t size = 0; size < good.size(); ++size) {
    const std::vector<char> exact(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parse_safetensors({reinterpret_cast<const std::byte*>(exact.data()), size}, "cut"), Error) << size;
  }
}

}  // namespace
}  // namespace ironcl::checkpoint
