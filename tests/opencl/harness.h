// SPDX-License-Identifier: Apache-2.0
// What the tests of the OpenCL backend share: devices, problems with their data, a run, the verdict of the oracle.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/interface.h"
#include "backends/numerics/bounds.h"
#include "backends/numerics/oracle.h"
#include "backends/opencl/api.h"
#include "backends/opencl/backend.h"

namespace ironcl::opencl::testing {

/// The devices under test: those of IRONCL_OPENCL_TEST_DEVICE ("0", or "platform text:device text", either may be
/// empty), by default all.
const std::vector<std::shared_ptr<backend::Device>>& devices();

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

/// A problem with its host data. Everything is drawn from `seed`.
struct Case {
  std::int64_t m = 1, n = 1, k = 1;
  backend::DType a_source = backend::DType::none;
  backend::DType a = backend::DType::e4m3fn, b = backend::DType::e4m3fn, d = backend::DType::f32;
  backend::DType bias = backend::DType::none;
  backend::DType a_scale = backend::DType::f32, b_scale = backend::DType::f32;
  numerics::ScaleGrid a_grid{1, 128}, b_grid{128, 128};
  float b_global = 1;  ///< Of the weights; other than 1 for problems without a bias.
  std::int64_t lda = 0, ldd = 0;
  backend::AccuracyClass weakest = backend::AccuracyClass::f32;
  backend::Options options = {};
  std::uint32_t seed = 1;

  backend::GemmDesc desc() const;
  std::string line() const;  ///< One line that names the case.
};

struct Data {
  std::vector<std::uint8_t> a, a_scales, b, b_scales, bias;  ///< As they go to the device: typed bytes.
};
Data make_data(const Case& c);

/// The weights of `c`, which `data` holds on to; for `plan`, or for no plan in particular.
backend::WeightsDesc weights_desc(const Case& c, const Data& data, std::shared_ptr<backend::Gemm> plan = nullptr);

constexpr auto kForEver = std::chrono::nanoseconds::max();

/// A problem with everything on the device, to be enqueued at will; D is poisoned, NaN in every type.
struct Ready {
  Case c;
  Data data;
  std::shared_ptr<backend::Gemm> plan;
  std::shared_ptr<backend::Queue> queue;
  backend::GemmArgs args;

  Ready(backend::Device& device, const Case& problem);
};

/// D as the device left it, and what the oracle says.
struct Outcome {
  std::vector<double> d;          ///< [m, n], tight.
  std::vector<std::uint8_t> raw;  ///< The bytes of D, canaries included.
  bool canaries = true;           ///< Nothing outside [m, n] was written.
  numerics::OracleResult oracle;
  numerics::Comparison comparison;
  backend::GemmInfo info;
  std::vector<std::uint8_t> a_quantized, a_quantized_scale;
};

/// Prepares, plans, runs `c` on a poisoned D with `rows` rows (-1: c.m), compares with the oracle.
Outcome run(backend::Device& device, const Case& c, const Data& data, std::int64_t rows = -1,
            bool weights_with_plan = true);

/// Expects the outcome to be right, with a line that reproduces it.
void expect_right(const Outcome& outcome, const Case& c, const std::string& device);

/// What setArg() takes for a value, or for a buffer of a Memory.
template <class T>
const T& argument(const T& value) {
  return value;
}
inline const cl::Buffer& argument(const cl::Buffer* buffer) { return *buffer; }

/// Sets the arguments of `kernel` from number `first` on, of kernels that bind() of arguments.h has no list for.
template <class... Args>
void set_args(cl::Kernel& kernel, cl_uint first, const Args&... args) {
  (kernel.setArg(first++, argument(args)), ...);
}

/// A deterministic generator.
class Random {
 public:
  explicit Random(std::uint32_t seed) : state_(seed * 2654435761u + 12345u) {}
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }  ///< [0, 1)

 private:
  std::uint32_t state_;
};

}  // namespace ironcl::opencl::testing
