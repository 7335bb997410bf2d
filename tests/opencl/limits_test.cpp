// SPDX-License-Identifier: Apache-2.0
// Limits: what a device refuses for one, in which words and before anything is made; that every device is left a
// kernel; and what is measured where limits are odd. Next door: objects_test.cpp (objects once they are there).
#include <algorithm>

#include "backends/opencl/ceilings.h"
#include "backends/opencl/device.h"
#include "backends/opencl/select.h"
#include "tests/errors.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;
using backend::Status;

using OpenClLimits = OnDevices;

TEST_F(OpenClLimits, RefusalsSayWhatWouldBeTaken) {
  for (const auto& device : devices()) {
    Case c{.m = 4, .n = 64, .k = 256, .options = {{"tile_q", "3"}}};
    expect_error<backend::Error>(Status::invalid_argument, "known are variant", [&] { device->supports(c.desc()); });
    c.options = {{"variant", "nonsense"}};
    expect_error<backend::Error>(Status::invalid_argument, "gemm_tiled", [&] { device->supports(c.desc()); });
    c.options = {{"variant", "gemm_tiled"}, {"tile_m", "7"}};
    expect_error<backend::Error>(Status::invalid_argument, "it takes 8, 16", [&] { device->supports(c.desc()); });

    c.options = {{"variant", "gemm_tiled"}, {"tile_k", "64"}};
    c.a_grid = {1, 32};
    backend::Support no = device->supports(c.desc());
    EXPECT_EQ(no.reason, backend::Reason::option);
    EXPECT_NE(no.text.find("tile_k must divide the K group"), std::string::npos) << no.text;
    expect_error<backend::Error>(Status::unsupported, no.text, [&] { device->create_gemm(c.desc()); });

    c.options = {};
    c.a_grid = {1, 48};
    EXPECT_EQ(device->supports(c.desc()).reason, backend::Reason::scale_layout);
    c.a_grid = {1, 128};
    auto desc = c.desc();
    desc.grouping = backend::Grouping::masked;
    desc.matrices = 1 << 20;
    EXPECT_EQ(device->supports(desc).reason, backend::Reason::grouping);
    expect_error<backend::Error>(Status::unimplemented, "known are features",
                                 [&] { device->query("nonsense", nullptr); });
    for (const char* key : {"features", "options", "variants"}) EXPECT_GT(device->query(key, nullptr).size(), 20u);
    for (const char* key : {"fma_flops", "copy_bytes_per_s"})
      EXPECT_GT(std::stod(device->query(key, nullptr)), 1e8) << key;
  }
}

/// One tile of gemm_tiled that takes 34816 bytes of local memory.
const Tuning kTuning{{"tile_m", 128}, {"tile_n", 128}, {"tile_k", 16}, {"work_m", 8},       {"work_n", 8},
                     {"split_k", 1},  {"slots", 2},    {"totals", 0},  {"rows_together", 1}};
const Problem kOneTile{128, 128, 128, 128, DType::e4m3fn, DType::e4m3fn, DType::f32};

TEST_F(OpenClLimits, TooMuchLocalMemoryIsRefusedWithBothNumbers) {
  const Variant* tiled = find_variant("gemm_tiled");
  ASSERT_NE(tiled, nullptr);
  Features small{.max_work_group = 1024, .local_bytes = 34815};
  const auto refusal = refuse(*tiled, kTuning, small, kOneTile);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_NE(refusal->text.find("34816"), std::string::npos) << refusal->text;
  EXPECT_NE(refusal->text.find("34815"), std::string::npos) << refusal->text;
  small.local_bytes = 34816;
  EXPECT_FALSE(refuse(*tiled, kTuning, small, kOneTile).has_value());
}

TEST_F(OpenClLimits, ArraysOfAKernelsOwnHaveALimitOfTheirOwn) {
  Variant tiled = *find_variant("gemm_tiled");
  Features f{.max_work_group = 1024, .local_bytes = 1000, .own_local_bytes = 34815};
  tiled.own_local = true;
  const auto refusal = refuse(tiled, kTuning, f, kOneTile);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_NE(refusal->text.find("34815"), std::string::npos) << refusal->text;
  f.own_local_bytes = 34816;
  EXPECT_FALSE(refuse(tiled, kTuning, f, kOneTile).has_value());
  tiled.own_local = false;
  EXPECT_TRUE(refuse(tiled, kTuning, f, kOneTile).has_value()) << "arguments";
}

TEST_F(OpenClLimits, WorkGroupsOfEveryPassMustFit) {
  Features f{.max_work_group = 32, .local_bytes = 1 << 16};
  const Problem problem{4, 256, 4096, 128, DType::e4m3fn, DType::e4m3fn, DType::f32};
  const Variant& variant = *find_variant("gemm_skinny");
  Tuning tuning = variant.rule_of_thumb(f, problem);
  tuning["split_k"] = 1;
  EXPECT_FALSE(refuse(variant, tuning, f, problem).has_value());
  tuning["split_k"] = 2;  // Its parts are added by work-groups of 64.
  const auto refusal = refuse(variant, tuning, f, problem);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, backend::Reason::device_feature);
  EXPECT_NE(refusal->text.find("work-groups of 64, the device takes 32"), std::string::npos) << refusal->text;
}

TEST_F(OpenClLimits, LanesThatAreNotTheDevicesAreRefused) {
  Features f{.max_work_group = 1024, .local_bytes = 64 << 10, .dpas_lanes = 16, .wave_lanes = 32};
  for (const char* name : {"gemm_dpas", "gemm_wave", "gemm_wave_bf16", "gemm_wave_s8"}) {
    const Variant& variant = *find_variant(name);
    const DType code = trial_codes(variant).first;
    const Problem problem{128, 4096, 4096, 128, code, code, DType::f32};
    Tuning tuning = variant.rule_of_thumb(f, problem);
    EXPECT_FALSE(refuse(variant, tuning, f, problem).has_value()) << name;
    const int right = tuning.at("lanes");
    tuning["lanes"] = right == 16 ? 8 : 64;
    tuning["tile_m"] = 32;
    const auto refusal = refuse(variant, tuning, f, problem);
    ASSERT_TRUE(refusal.has_value()) << name;
    EXPECT_EQ(refusal->reason, backend::Reason::option);
    EXPECT_NE(refusal->text.find("lanes must be " + std::to_string(right)), std::string::npos) << refusal->text;
  }
}

TEST_F(OpenClLimits, SupportSaysTheWorkspaceThatThePlanHas) {
  for (const auto& device : devices()) {
    for (const bool given : {false, true}) {
      Case c{.m = 40, .n = 64, .k = 256, .a_source = DType::bf16};
      backend::GemmDesc desc = c.desc();
      desc.a_quantizer.given = given;
      EXPECT_EQ(device->supports(desc).workspace_bytes, device->create_gemm(desc)->info().workspace_bytes)
          << (given ? "scales are given" : "scales are made");
    }
  }
}

TEST_F(OpenClLimits, WeightsBeyondWhatANumberHoldsAreRefused) {
  for (const auto& device : devices()) {
    constexpr std::int64_t kLargest = (std::int64_t{1} << 31) - 4096;
    backend::GemmDesc desc = Case{1, kLargest, kLargest}.desc();
    desc.grouping = backend::Grouping::contiguous;
    desc.matrices = 4;
    backend::Support support;
    ASSERT_NO_THROW(support = device->supports(desc));
    EXPECT_EQ(support.reason, backend::Reason::device_memory) << support.text;
    EXPECT_NE(support.text.find("weights"), std::string::npos) << support.text;
  }
}

TEST_F(OpenClLimits, AWorkspaceBeyondWhatANumberHoldsIsRefused) {
  // Bytes of these workspaces, taken modulo 2^64, are 2 GiB and 244,992. The device is one that takes buffers large
  // enough for the weights.
  auto made = make({});
  for (const auto& device : made.devices) {
    dynamic_cast<Device&>(*device).context()->features.max_buffer_bytes = std::uint64_t{1} << 40;
    for (const auto& [m, n] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{536870911, 536870912}, {2143615794, 134459904}}) {
      Case c{.m = m, .n = n, .k = 1, .options = {{"variant", "gemm_stream"}, {"split_k", "16"}}};
      const backend::Support support = device->supports(c.desc());
      EXPECT_EQ(support.reason, backend::Reason::device_memory) << support.text;
      EXPECT_NE(support.text.find("workspace"), std::string::npos) << support.text;
      expect_error<backend::Error>(Status::unsupported, "workspace", [&] { device->create_gemm(c.desc()); });
    }
    // Products that leave 2^63 long before the last sum.
    Case c{.m = (std::int64_t{1} << 31) - 4096, .n = 1, .k = (std::int64_t{1} << 31) - 4096, .a_source = DType::f32};
    EXPECT_EQ(device->supports(c.desc()).reason, backend::Reason::device_memory);
  }
}

TEST_F(OpenClLimits, MoreThanKernelsCountIsRefused) {
  // Of 2^31 - 1 columns the last step of sixteen would end past what 32 bits hold.
  constexpr std::int64_t kMost = 0x7fffffff;
  for (const auto& device : devices()) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, kMost}, {kMost, 1}}) {
      backend::QuantizeDesc quantize;
      quantize.rows = rows;
      quantize.cols = quantize.x_ld = quantize.code_ld = cols;
      quantize.x = DType::f16;
      quantize.code = DType::e4m3fn;
      quantize.scale = {DType::f32, {1, 0}, 1};
      expect_error<backend::Error>(Status::unsupported, "at most 2147479552",
                                   [&] { device->create_quantize(quantize); });
      backend::ActivateDesc activate;
      activate.rows = rows;
      activate.cols = activate.gate_ld = activate.up_ld = activate.y_ld = cols;
      activate.x = activate.y = DType::f16;
      expect_error<backend::Error>(Status::unsupported, "at most 2147479552",
                                   [&] { device->create_activate(activate); });
      const backend::CombineDesc combine{1, cols, rows, 1, cols, 0, cols, DType::f16, DType::none, DType::f16};
      expect_error<backend::Error>(Status::unsupported, "at most 2147479552",
                                   [&] { device->create_combine(combine); });
    }
    backend::RouteDesc route;
    route.tokens = kMost;
    route.experts = route.top_k = route.local_experts = 1;
    route.given = true;
    expect_error<backend::Error>(Status::unsupported, "at most 2147479552", [&] { device->create_route(route); });
    route.tokens = 1;
    route.capacity = kMost;
    expect_error<backend::Error>(Status::unsupported, "at most 2147479552", [&] { device->create_route(route); });
    route.capacity = 0;
    route.experts = route.local_experts = 1 << 28;
    expect_error<backend::Error>(Status::unsupported, "bytes of local memory while rows are sorted",
                                 [&] { device->create_route(route); });
  }
}

TEST_F(OpenClLimits, SomeVariantRunsOnEveryDevice) {
  for (const std::uint64_t local : {16384, 32768, 48128}) {
    for (const int width : {1, 4, 16}) {
      Features f;
      f.local_bytes = local;
      f.max_buffer_bytes = 1u << 30;
      f.max_work_group = 64;
      f.vector_width = width;
      f.local_is_dedicated = width == 1;
      Case c{100, 4096, 4096};
      EXPECT_EQ(choose(f, c.desc(), nullptr).reason, backend::Reason::none) << choose(f, c.desc(), nullptr).text;
    }
  }
}

TEST_F(OpenClLimits, RuleOfThumbIsValidOnDevicesOfAllSizes) {
  for (const Variant& variant : variants()) {
    for (const std::uint64_t local :
         {std::uint64_t{48128}, std::uint64_t{32768}, std::uint64_t{65536}, std::uint64_t{1} << 20}) {
      for (const std::uint64_t items : {64, 128, 256, 1024}) {
        for (const int width : {1, 4, 8, 16}) {
          for (const std::int64_t m : {0, 1, 5, 16, 17, 100, 128, 4096}) {
            Features f;
            f.local_bytes = local;
            f.max_work_group = items;
            f.vector_width = width;
            f.compute_units = 8;
            f.local_is_dedicated = width == 1;
            f.type = width == 1 ? backend::DeviceType::gpu : backend::DeviceType::cpu;
            for (const int group : {128, 64, 32}) {
              const Problem p{m, 4096, 4096, group, DType::e4m3fn, DType::e4m3fn, DType::f32};
              const Tuning tuning = variant.rule_of_thumb(f, p);
              // A decoded panel of 128 x 32 in two slots does not fit in 32 KiB: there another variant is chosen.
              const auto refusal = refuse(variant, tuning, f, p);
              // Variants with needs of their own may refuse any of these devices; the others none.
              if (local > 32768 && variant.needs == nullptr) {
                EXPECT_FALSE(refusal.has_value()) << refusal->text;
              }
              for (const Tunable& tunable : variant.tunables) {
                EXPECT_NE(std::find(tunable.values.begin(), tunable.values.end(), tuning.at(tunable.name)),
                          tunable.values.end())
                    << variant.name << " " << to_string(tuning);
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(OpenClLimits, CeilingsAreMeasuredWhereWorkGroupsAreOfAnOddSize) {
  for (const auto& device : make({}).devices) {
    const ContextPtr& context = dynamic_cast<Device&>(*device).context();
    if (context->features.max_work_group < 48) continue;
    context->features.type = backend::DeviceType::gpu;
    context->features.local_is_dedicated = true;
    context->features.max_work_group = 48;  // Not every device's is a power of two.
    context->features.max_buffer_bytes = 64 << 20;
    EXPECT_GT(measure_fma_flops(*context), 0) << context->features.name;
    EXPECT_GT(measure_copy_rate(*context), 0) << context->features.name;
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
