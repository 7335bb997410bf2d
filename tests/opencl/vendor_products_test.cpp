// SPDX-License-Identifier: Apache-2.0
// Kernels for products that no device of a test machine may have: the matrix products of Intel's sub-groups, done by
// hand where the device lacks them; dot products of packed bytes, likewise; codes by way of 16-bit floats in whole
// plans. A file of the test sets what the host would, so that layouts and arithmetic are seen on any device.
#include "backends/opencl/device.h"
#include "tests/opencl/grouped.h"
#include "tests/opencl/own_kernels.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

Variant dpas_by_hand() { return another("dpas_by_hand", "gemm_dpas"); }
Variant tiled_bytes() { return another("tiled_bytes", "gemm_tiled"); }
Variant tiled_halfs() { return another("tiled_halfs", "gemm_tiled"); }
Variant skinny_halfs() { return another("skinny_halfs", "gemm_skinny"); }

class OpenClVendorProducts : public OwnKernels {};

TEST_F(OpenClVendorProducts, MatrixProductsOfSubGroupsAreRightByHand) {
  const auto made = with({dpas_by_hand});
  const auto options = [](const backend::Options& more) { return options_of("dpas_by_hand", more); };
  for (const auto& device : made.devices) {
    for (const char* lanes : {"16", "8"}) {
      expect_right_with(*device, problem(1, 5, 16), options({{"lanes", lanes}}));
      expect_right_with(*device, problem(19, 130, 300), options({{"lanes", lanes}}));
      expect_right_with(*device, problem(40, 257, 640),
                        options({{"lanes", lanes}, {"tile_m", "32"}, {"work_n", "1"}, {"sub_groups", "2"}}));
      expect_right_with(*device, problem(9, 100, 520),
                        options({{"lanes", lanes}, {"tile_m", "8"}, {"work_n", "4"}, {"split_k", "3"}}));
      Case i8 = problem(19, 70, 300, DType::i8, DType::i8);
      expect_right_with(*device, i8, options({{"lanes", lanes}, {"sub_groups", "1"}}));
      i8.d = DType::bf16;
      i8.a_grid = {1, 32};
      expect_right_with(*device, i8, options({{"lanes", lanes}, {"tile_m", "8"}}));
    }
    const std::string lanes = "16";
    expect_right_with(*device, problem(19, 70, 200, DType::e5m2, DType::e4m3fn), options({{"lanes", lanes}}));
    expect_right_with(*device, problem(5, 70, 200, DType::e4m3fn, DType::e5m2, 64), options({{"lanes", lanes}}));
    Case floats = problem(21, 70, 256);
    floats.a_source = DType::bf16;
    floats.bias = DType::f32;
    expect_right_with(*device, floats, options({{"lanes", lanes}}));
  }
}

TEST_F(OpenClVendorProducts, MatrixProductsOfSubGroupsServeManyMatrices) {
  const auto made = with({dpas_by_hand});
  for (const auto& device : made.devices) {
    Case g{.n = 70, .k = 200, .counts = {3, 0, 20, 9}};
    g.options = {{"variant", "dpas_by_hand"}, {"lanes", "16"}, {"tile_m", "8"}, {"split_k", "2"}};
    expect_right_in_both_layouts(*device, g, 40, 21);
  }
}

TEST_F(OpenClVendorProducts, MatrixProductsOfSubGroupsAreRefusedWhereTheDeviceHasNone) {
  for (const auto& device : devices()) {
    if (dynamic_cast<Device&>(*device).context()->features.dpas_lanes != 0) continue;
    Case c = problem(19, 130, 300);
    c.options = {{"variant", "gemm_dpas"}};
    expect_lacks(*device, c, "cl_intel_subgroup_matrix_multiply_accumulate");
  }
}

TEST_F(OpenClVendorProducts, DotProductsOfBytesMultiplyTilesOfI8) {
  const auto made = with_file(tiled_bytes, R"(
#ifndef BYTE_DOTS
#define BYTE_DOTS 1
static int __attribute__((overloadable)) dot_4x8packed_ss_int(uint x, uint y) {
  const char4 a = as_char4(x), b = as_char4(y);
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
#endif
#include "gemm_tiled.cl"
)");
  for (const auto& device : made.devices) {
    const Features& f = dynamic_cast<Device&>(*device).context()->features;
    EXPECT_EQ(f.byte_dots, f.extensions.find("cl_khr_integer_dot_product") != std::string::npos) << f.name;
    Case c = problem(70, 130, 300, DType::i8, DType::i8);
    expect_right_with(*device, c, {{"variant", "tiled_bytes"}});
    expect_right_with(*device, c, {{"variant", "tiled_bytes"}, {"tile_m", "16"}, {"tile_k", "32"}, {"slots", "1"}});
    c.a_grid = {1, 32};
    c.a_source = DType::f32;
    expect_right_with(*device, c, {{"variant", "tiled_bytes"}, {"work_m", "2"}, {"split_k", "2"}, {"totals", "1"}});
  }
}

TEST_F(OpenClVendorProducts, CodesByWayOfHalfsMakeWholePlans) {
  int plans = 0;
  for (const int way : {1, 2}) {
    const std::string head = "#undef HALF_BITS\n#define HALF_BITS " + std::to_string(way) + "\n";
    for (const auto& [variant, kernel] :
         {std::pair{&tiled_halfs, "gemm_tiled"}, std::pair{&skinny_halfs, "gemm_skinny"}}) {
      const auto made = with_file(variant, head + "#include \"" + kernel + ".cl\"\n");
      for (const auto& device : made.devices) {
        const Features& f = dynamic_cast<Device&>(*device).context()->features;
        if (way == 1 && f.extensions.find("cl_khr_fp16") == std::string::npos) continue;
        expect_right_with(*device, problem(13, 130, 300), {{"variant", variant().name}});
        expect_right_with(*device, problem(3, 40, 200, DType::e5m2, DType::e4m3fn), {{"variant", variant().name}});
        ++plans;
      }
    }
  }
  EXPECT_GE(plans, 2) << "vload_half is core OpenCL";
}

}  // namespace
}  // namespace ironcl::opencl::testing
