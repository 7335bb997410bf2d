// SPDX-License-Identifier: Apache-2.0
// A D that leaves the plan activated has the bits of the activation, as an operation of its own, on the f32 D of the
// same kernel with the same tunables: whether the kernel activates it or a step after it. (Quantised, too:
// quantised_output_test.cpp.)
#include <algorithm>
#include <cmath>
#include <string_view>

#include "backends/numerics/casts.h"
#include "backends/opencl/gemm.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using backend::Activation;
using backend::DType;

/// Of a variant: odd sizes whose blocks of scales lie over the border of gate and up, whole ones, and rows of many
/// matrices, contiguous and masked.
std::vector<Case> problems(const Variant& variant) {
  Case c{5, 131, 256};
  c.bias = DType::f32;
  c.activation = Activation::swiglu_oai;
  c.activation_limit = 7;
  c.ldd = 133;
  c.weakest = backend::AccuracyClass::tensor14;
  c.options = quick(variant.name);
  Case whole = c;
  whole.n = 256, whole.ldd = 256, whole.bias = DType::none, whole.d = DType::bf16;
  whole.activation = Activation::silu, whole.activation_limit = 0;
  Case floats = whole;
  floats.m = 3, floats.a_source = DType::bf16, floats.bias = DType::bf16, floats.d = DType::f16;
  Case many = whole;
  many.n = 192, many.ldd = 200, many.m = 9, many.counts = {2, 0, 7}, many.bias = DType::f16;
  Case masked = c;
  masked.n = 136, masked.ldd = 136, masked.masked = true, masked.counts = {5, 0, 2}, masked.a_rows = 7;
  return {c, whole, floats, many, masked};
}

/// The activation of the totals of `c` on the device, rows as they lie.
std::vector<std::uint8_t> activated(backend::Device& device, const Case& c, const std::vector<double>& totals) {
  const std::vector<float> both(totals.begin(), totals.end());
  const std::int64_t rows = std::ssize(totals) / (2 * c.n);
  const auto queue = device.create_queue();
  backend::ActivateDesc desc;
  desc.rows = rows, desc.cols = desc.y_ld = c.n;
  desc.gate_ld = desc.up_ld = 2 * c.n;
  desc.x = DType::f32, desc.y = c.d;
  desc.activation = c.activation, desc.limit = c.activation_limit;
  const std::uint64_t half = static_cast<std::uint64_t>(c.n) * 4, bytes = both.size() * 4;
  std::vector<std::uint8_t> y(static_cast<std::size_t>(rows * c.n) * numerics::size_of(c.d));
  backend::ActivateArgs args;
  args.rows = rows;
  args.gate = {device.create_buffer(bytes), 0, bytes - half};
  args.up = {args.gate.buffer, half, bytes - half};
  args.y = {device.create_buffer(y.size()), 0, y.size()};
  queue->write({args.gate.buffer, 0, bytes}, both.data(), backend::HostSemantics::copied_before_return);
  EXPECT_EQ(device.create_activate(desc)->enqueue(queue, args)->wait(kForEver), backend::Status::ok);
  queue->read(args.y, y.data());
  queue->finish();
  return y;
}

/// Of the variants whose names begin so; of an empty one all that are not for NVIDIA's tensor cores.
void expect_the_bits_of_the_activation(std::string_view name, int at_least) {
  int ran = 0;
  std::string in_kernel;
  for (const auto& device : devices()) {
    for (const Variant& variant : variants()) {
      const bool tensor_cores = variant.name.starts_with("gemm_mma") || variant.name.starts_with("gemm_wgmma");
      if (name.empty() ? tensor_cores : !variant.name.starts_with(name)) continue;
      for (const Case& c : problems(variant)) {
        if (device->supports(c.desc()).reason != backend::Reason::none) continue;
        Data data = make_data(c);
        if (c.counts.empty() && c.a_source == DType::none) {
          // NaN, zeros, and totals so large that exp overflows.
          const auto k = static_cast<std::size_t>(c.k);
          data.a[0] = 0x7f;
          std::fill_n(data.a.begin() + static_cast<std::ptrdiff_t>(k), k, std::uint8_t{0});
          data.a_scales[4 * 2 * 2 + 3] = 0x71, data.a_scales[4 * 2 * 2 + 2] = 0x80;
        }
        const Outcome got = run(*device, c, data);
        expect_right(got, c, device->props().name);
        Case both = c;
        both.n = both.ldd = 2 * c.n, both.d = DType::f32, both.activation = Activation::none;
        both.activation_limit = 0;
        const Outcome totals = run(*device, both, data);
        ASSERT_EQ(totals.info.tuning, got.info.tuning) << c.line();
        const std::vector<std::uint8_t> want = activated(*device, c, totals.d);
        ASSERT_EQ(got.bytes.size(), want.size()) << c.line();
        std::size_t wrong = 0;  // Which of its patterns a NaN has, the hardware's conversions say.
        for (std::size_t at = 0; at < got.d.size(); ++at) {
          const double activated_one = numerics::load_as_f64(c.d, want.data(), static_cast<std::int64_t>(at));
          wrong += got.d[at] != activated_one && !(std::isnan(got.d[at]) && std::isnan(activated_one));
        }
        EXPECT_EQ(wrong, 0u) << variant.name << " " << c.line();
        const auto plan = device->create_gemm(c.desc());
        const auto steps = dynamic_cast<const Gemm&>(*plan).step_names();
        if (std::find(steps.begin(), steps.end(), "activate D") == steps.end()) in_kernel += " " + variant.name;
        ++ran;
      }
    }
  }
  if (at_least == 0 && ran == 0) GTEST_SKIP() << "no device with tensor cores";
  EXPECT_GE(ran, at_least);
  std::printf("%d problems; activated in the kernel:%s\n", ran, in_kernel.empty() ? " -" : in_kernel.c_str());
}

using OpenClActivatedOutput = OnDevices;

TEST_F(OpenClActivatedOutput, HasTheBitsOfTheActivationOfItsTotals) { expect_the_bits_of_the_activation({}, 15); }
TEST_F(OpenClActivatedOutput, OfTensorCoresOf80) { expect_the_bits_of_the_activation("gemm_mma", 0); }
TEST_F(OpenClActivatedOutput, OfTensorCoresOf90) { expect_the_bits_of_the_activation("gemm_wgmma", 0); }

}  // namespace
}  // namespace ironcl::opencl::testing
