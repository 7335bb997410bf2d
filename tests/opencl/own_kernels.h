// SPDX-License-Identifier: Apache-2.0
// Kernels of a test's own in whole plans: those of own_kernels/ in a copy of the kernels' folder, or a file that sets
// what the host would set on another device, and includes a kernel. Next door: harness.h (a problem through a device,
// and its verdict).
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "backends/opencl/toolchain.h"
#include "backends/opencl/variant.h"
#include "tests/opencl/harness.h"
#include "tests/temp_dir.h"

namespace ironcl::opencl::testing {

/// The variant `of` as another one, which every device may take: the test's file NAME.cl includes its kernel.
inline Variant another(const char* name, const char* of) {
  Variant v = *find_variant(of);
  v.name = name;
  v.file.clear();
  v.needs = nullptr;
  v.lanes = nullptr;
  v.trial.reset();
  // Without the driver's optimiser, which takes seconds for products by hand that no device runs in earnest.
  static const Toolchain unoptimised{"opencl-c-unoptimised", false, " -cl-opt-disable"};
  v.toolchain = &unoptimised;
  return v;
}

/// Options that name a variant, and its tunables.
inline backend::Options options_of(const std::string& variant, const backend::Options& tunables) {
  backend::Options all{{"variant", variant}};
  all.insert(all.end(), tunables.begin(), tunables.end());
  return all;
}

class OwnKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (devices().empty()) GTEST_SKIP() << why_no_devices();
    for (const char* from : {IRONCL_CL_DIR, IRONCL_TEST_CL_DIR}) {
      for (const auto& entry : std::filesystem::directory_iterator(from))
        if (entry.path().extension() == ".cl")
          std::filesystem::copy_file(entry.path(), dir_ / entry.path().filename());
    }
  }

  /// Devices that have these variants of own_kernels/ besides.
  Made with(std::vector<Variant (*)()> variants, const std::string& cache_dir = "", backend::Log* log = nullptr) {
    Config config{.cache_dir = cache_dir, .kernel_dir = dir_.path(), .more_variants = std::move(variants)};
    return make(config, log);
  }

  /// Devices that have the variant besides, with `kernel` as the text of its file.
  Made with_file(Variant (*variant)(), const std::string& kernel) {
    std::ofstream(dir_ / (variant().name + ".cl")) << kernel;
    return with({variant});
  }

  /// Runs the problem with these options, the variant's first, on new data, and judges it.
  static void expect_right_with(backend::Device& device, Case c, backend::Options options) {
    c.options = std::move(options);
    static std::uint32_t seed = 7000;
    c.seed = ++seed;
    const Outcome outcome = run(device, c, make_data(c));
    EXPECT_EQ(outcome.info.variant, c.options.front().second);
    expect_right(outcome, c, device.props().name);
  }

  /// Puts `now` in place of `was`, which the copy of `file` has once.
  void edit(const std::string& file, const std::string& was, const std::string& now) {
    std::string text = read_file(dir_ / file);
    const std::size_t at = text.find(was);
    ASSERT_NE(at, std::string::npos) << file;
    ASSERT_EQ(text.find(was, at + 1), std::string::npos) << file;
    std::ofstream(dir_ / file) << text.replace(at, was.size(), now);
  }

  TempDir dir_;  ///< The copy.
};

/// The first processor among the devices, where it has vectors of 512 bits, and with them what decodes.
inline std::shared_ptr<backend::Device> cpu_with_wide_vectors(const Made& made) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni"))
    for (const auto& device : made.devices)
      if (device->props().type == backend::DeviceType::cpu) return device;
#endif
  return nullptr;
}

/// A product with K groups of `group` on the side of A.
inline Case problem(std::int64_t m, std::int64_t n, std::int64_t k, backend::DType a = backend::DType::e4m3fn,
                    backend::DType b = backend::DType::e4m3fn, std::int64_t group = 128) {
  Case c{.m = m, .n = n, .k = k, .a = a, .b = b, .a_grid = {1, group}};
  return c;
}

}  // namespace ironcl::opencl::testing
