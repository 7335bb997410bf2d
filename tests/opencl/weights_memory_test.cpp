// SPDX-License-Identifier: Apache-2.0
// What preparing weights takes of the host's memory, from a mapped file to a device.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

/// A number of /proc/self/status, in bytes.
std::int64_t status_of(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

/// Lets VmHWM begin anew; false where the kernel does not.
bool forget_peak() { return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << 5 << std::flush); }

/// `size` bytes of a file, mapped; a hole on the disk, pages in memory as soon as they are read.
class MappedFile {
 public:
  explicit MappedFile(std::size_t size) : size_(size) {
    std::string name = (std::filesystem::temp_directory_path() / "ironcl-weights-XXXXXX").string();
    const int file = mkstemp(name.data());
    std::filesystem::remove(name);
    if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) return;
    data_ = mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
    close(file);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (data_ != MAP_FAILED) munmap(data_, size_);
  }
  const std::byte* data() const { return data_ == MAP_FAILED ? nullptr : static_cast<const std::byte*>(data_); }

 private:
  std::size_t size_;
  void* data_ = MAP_FAILED;
};

using OpenClWeightsMemory = OnDevices;

TEST_F(OpenClWeightsMemory, HeavyAreCopiedOnceFromTheFile) {
  constexpr std::int64_t n = 8192, k = 32768, size = n * k;
  const MappedFile file(size);
  if (file.data() == nullptr || !forget_peak()) GTEST_SKIP() << "no mapped file, or no peak of memory";
  const std::vector<float> scales(static_cast<std::size_t>(n / 128 * (k / 128)), 1.0f);
  for (const auto& device : devices()) {
    const bool shares = device->props().import_host_pointer;  // Else its memory is its own.
    backend::WeightsDesc w = weights_desc({.n = n, .k = k}, {});
    w.data = file.data();
    w.scales = reinterpret_cast<const std::byte*>(scales.data());
    backend::WeightsDesc few = w;  // What a driver takes once does not count.
    few.n = few.k = few.ld = 128;
    few.scale.ld = 1;
    (void)device->prepare_weights(few);
    (void)forget_peak();
    const std::int64_t before = status_of("VmRSS");
    const auto weights = device->prepare_weights(w);
    const std::int64_t peak = status_of("VmHWM") - before, after = status_of("VmRSS") - before;
    RecordProperty("peak", std::to_string(peak));
    const auto on_device = static_cast<std::int64_t>(weights->device_bytes());
    std::printf(
        "%s: weights of %lld MiB: %lld on the device, whose memory is %s; of the host's, the mapped file's pages "
        "among it, peak %lld, afterwards %lld\n",
        device->props().name.c_str(), static_cast<long long>(size >> 20), static_cast<long long>(on_device >> 20),
        shares ? "the host's" : "its own", static_cast<long long>(peak >> 20), static_cast<long long>(after >> 20));
    // The file's pages, and the weights with their scales: where they lie, or, for a device with memory of its own,
    // the image that is sent. One more in between would be another 256 MiB.
    EXPECT_LT(peak, size + on_device + size / 8);
    // No image stays.
    EXPECT_LT(after, size + (shares ? on_device : 0) + size / 8);
  }
}

/// Bytes of this process's memory that the system was advised to back with large pages of 2 MiB, in mappings that
/// begin at one; -1 where it does not say.
std::int64_t advised_bytes() {
  std::ifstream in("/proc/self/smaps");
  std::int64_t all = -1, size = 0;
  bool begins = false;
  for (std::string line; std::getline(in, line);) {
    if (line.find('-') < line.find(' ')) begins = std::stoull(line, nullptr, 16) % (2u << 20) == 0;  // FIRST-END
    if (line.starts_with("Size:")) size = std::stoll(line.substr(5)) * 1024;
    if (line.starts_with("VmFlags:"))
      all = std::max<std::int64_t>(all, 0) + (begins && line.find(" hg") != std::string::npos ? size : 0);
  }
  return all;
}

TEST_F(OpenClWeightsMemory, WeightsOfAProcessorAreAdvisedToLieInLargePages) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage") || advised_bytes() < 0)
    GTEST_SKIP() << "the system has no large pages, or does not show them";
  constexpr std::int64_t n = 3072, k = 1024, matrices = 1,
                         all = matrices * n * k;  // 3 MiB, of which one page is whole.
  const std::vector<std::byte> codes(static_cast<std::size_t>(all));
  const std::vector<float> scales(static_cast<std::size_t>(matrices * n / 128 * (k / 128)), 1.0f);
  for (const auto& device : devices()) {
    if (device->props().type != backend::DeviceType::cpu || !device->props().import_host_pointer) continue;
    backend::WeightsDesc w = weights_desc({.n = n, .k = k, .counts = std::vector<std::int32_t>(matrices)}, {});
    w.data = codes.data();
    w.scales = reinterpret_cast<const std::byte*>(scales.data());
    const std::int64_t before = advised_bytes();
    const auto weights = device->prepare_weights(w);
    EXPECT_GE(advised_bytes() - before, all) << device->props().name;
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
