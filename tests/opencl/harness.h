// SPDX-License-Identifier: Apache-2.0
// What the tests of the OpenCL backend share: its devices. Next door: tests/products (problems, runs, verdicts).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/opencl/api.h"
#include "backends/opencl/backend.h"
#include "backends/opencl/context.h"
#include "tests/products/product.h"

namespace ironcl::opencl::testing {

using namespace products;

/// The devices under test: those of IRONCL_OPENCL_TEST_DEVICE ("0", or "platform text:device text", either may be
/// empty), by default all.
const std::vector<std::shared_ptr<backend::Device>>& devices();

/// Those of compute capability 9.0.
std::vector<std::shared_ptr<backend::Device>> tensor_cores();

/// Why there are none, for GTEST_SKIP.
std::string why_no_devices();

/// A suite that is skipped where there are no devices.
class OnDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (devices().empty()) GTEST_SKIP() << why_no_devices();
  }
};

/// A fresh backend with its own configuration, and its devices filtered the same way.
struct Made {
  std::unique_ptr<backend::Backend> backend;
  std::vector<std::shared_ptr<backend::Device>> devices;
};
Made make(const Config& config, backend::Log* log = nullptr);

/// The device refuses the case for a feature that it lacks, and `says` which.
void expect_lacks(backend::Device& device, const Case& c, const std::string& says);

/// Options that name a variant; of the tiled ones, tiles that build quickly.
backend::Options quick(const std::string& variant);

/// What setArg() takes for a value, or for a buffer of a Memory.
template <class T>
const T& argument(const T& value) {
  return value;
}
inline const cl::Buffer& argument(const cl::Buffer* buffer) { return *buffer; }

/// Calls expect(context) for every device; skips the test where there is none.
void on_every_context(const std::function<void(const Context&)>& expect);

/// Sets the arguments of `kernel` from number `first` on, of kernels that bind() of arguments.h has no list for.
template <class... Args>
void set_args(cl::Kernel& kernel, cl_uint first, const Args&... args) {
  (kernel.setArg(first++, argument(args)), ...);
}

}  // namespace ironcl::opencl::testing
