// SPDX-License-Identifier: Apache-2.0
// Every kernel that multiplies writes D through cl/epilogue.cl: another epilogue, in that one file, reaches them all.
#include "backends/opencl/device.h"
#include "tests/opencl/own_kernels.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

/// D of f32 as totals are, and rounded with a bias before it, K whole and in parts; edges that are no multiples of
/// anything. Of the first codes that the variant takes here: decoding does not change how D is stored.
std::vector<Case> problems(const Variant& variant, backend::Device& device) {
  for (const DType code : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    std::vector<Case> all;
    for (const bool bias : {false, true}) {
      Case c{.m = 19, .n = 131, .k = 256, .a_source = DType::bf16, .a = code, .b = code};
      c.d = bias ? DType::bf16 : DType::f32;
      c.bias = bias ? DType::f32 : DType::none;
      c.ldd = 133;
      c.weakest = backend::AccuracyClass::tensor14;
      c.options = quick(variant.name);
      if (bias && find_tunable(variant, "split_k") != nullptr) c.options.emplace_back("split_k", "2");
      if (device.supports(c.desc()).reason == backend::Reason::none) all.push_back(c);
    }
    if (!all.empty()) return all;
  }
  return {};
}

using OpenClEpilogue = OwnKernels;

TEST_F(OpenClEpilogue, AnotherOneInItsFileReachesEveryKernel) {
  // Powers of two, so that every product is exact, and others for other rows and columns.
  const auto factor = [](std::int64_t row, std::int64_t column) {
    return (row % 2 != 0 ? 4.0 : 2.0) * (column % 4 == 3 ? 0.125 : 1.0);
  };
  edit("epilogue.cl", "#include \"fp8.cl\"\n",
       "#include \"fp8.cl\"\n#define EPILOGUE(value, row, column) "
       "((value) * (((row) % 2 != 0 ? 4.0f : 2.0f) * ((column) % 4 == 3 ? 0.125f : 1.0f)))\n");
  const Made changed = with({});
  int ran = 0;
  std::string passed_over;
  for (std::size_t i = 0; i < changed.devices.size(); ++i) {
    backend::Device& device = *devices()[i];
    // A trial would find this D wrong. What does not work on the device is known of the plain kernels.
    for (Variant& variant : dynamic_cast<Device&>(*changed.devices[i]).context()->variants) variant.trial.reset();
    for (const Variant& variant : variants()) {
      int here = 0;
      for (const Case& c : problems(variant, device)) {
        const Data data = make_data(c);
        const Outcome plain = run(device, c, data);
        const Outcome outcome = run(*changed.devices[i], c, data);
        ASSERT_EQ(outcome.info.variant, variant.name);
        ASSERT_EQ(outcome.d.size(), plain.d.size());
        EXPECT_TRUE(outcome.canaries) << c.line();
        int wrong = 0;
        for (std::int64_t row = 0; row < c.m; ++row) {
          for (std::int64_t column = 0; column < c.n; ++column) {
            const auto at = static_cast<std::size_t>(row * c.n + column);
            const bool right = outcome.d[at] == plain.d[at] * factor(row, column);
            if (!right && wrong++ == 0)
              ADD_FAILURE() << variant.name << " at " << row << ", " << column << ": " << outcome.d[at] << " of "
                            << plain.d[at] << "; " << c.line();
          }
        }
        ++here;
      }
      ran += here;
      if (here == 0) passed_over += " " + variant.name;
    }
  }
  EXPECT_GE(ran, 4);
  RecordProperty("problems", ran);
  std::printf("%d problems; no device here takes:%s\n", ran, passed_over.empty() ? " -" : passed_over.c_str());
}

}  // namespace
}  // namespace ironcl::opencl::testing
