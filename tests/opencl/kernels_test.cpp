// SPDX-License-Identifier: Apache-2.0
// The .cl files against the host's tables: same names and defaults, and every file compiles for table rows.
#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "backends/numerics/casts.h"
#include "backends/opencl/device.h"
#include "backends/opencl/select.h"
#include "backends/opencl/sources.h"
#include "backends/opencl/variant.h"
#include "tests/errors.h"
#include "tests/opencl/harness.h"
#include "tests/opencl/kinds_of_device.h"
#include "tests/opencl/own_kernels.h"
#include "tests/opencl/usual_settings.h"

namespace ironcl::opencl::testing {
namespace {

std::string text_of(const std::string& file) { return kernel_source("", file); }

TEST(OpenClKernels, EmbeddedFilesAreThoseOfTheFolder) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(IRONCL_CL_DIR)) {
    if (entry.path().extension() != ".cl") continue;
    ++files;
    EXPECT_EQ(kernel_source(IRONCL_CL_DIR, entry.path().filename().string()),
              text_of(entry.path().filename().string()));
  }
  EXPECT_EQ(embedded_sources().size(), files);
}

TEST(OpenClKernels, HeadsNameTheTunablesAndDefaultsOfTheTable) {
  for (const Variant& variant : variants()) {
    std::ifstream in(std::string(IRONCL_CL_DIR) + "/" + file_of(variant));
    ASSERT_TRUE(in) << variant.name;
    std::stringstream text;
    text << in.rdbuf();
    const std::string source = text.str();
    std::size_t rows = 0;
    bool table = false;
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line) && line.starts_with("//");) {
      if (line.starts_with("// Tunable ")) {
        table = true;
      } else if (table) {
        std::smatch match;
        if (!std::regex_match(line, match, std::regex("// ([A-Z_]+) +([0-9]+)  .*"))) break;
        ++rows;
        const auto tunable = std::find_if(variant.tunables.begin(), variant.tunables.end(),
                                          [&](const Tunable& t) { return macro_name(t.name) == match[1]; });
        ASSERT_NE(tunable, variant.tunables.end()) << variant.name << ".cl names " << match[1];
        EXPECT_EQ(std::to_string(tunable->fallback), match[2]) << variant.name << " " << match[1];
      }
    }
    EXPECT_EQ(rows, variant.tunables.size()) << variant.name;
    // The head's local memory figure is the formula's, with the defaults.
    const Problem problem{64, 64, 128, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::f32};
    const std::int64_t bytes = variant.local_bytes(first_tuning(variant), problem);
    EXPECT_NE(source.find("= " + std::to_string(bytes) + " B with the defaults"), std::string::npos)
        << variant.name << ": the table says " << bytes;
  }
}

TEST(OpenClKernels, TilesAreQuantisedInOneLaunchWhereRowsOrColumnsAreFew) {
  const Variant& amx = *find_variant("gemm_amx");
  const auto tuning = [&](std::int64_t m, std::int64_t n, std::int64_t k, backend::DType source) {
    Problem p{m, n, k, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::bf16};
    p.a_source = source;
    return amx.rule_of_thumb(wide_cores(4), p);
  };
  for (const auto& [n, k] : {std::pair{4096, 4096}, {576, 7168}, {3072, 1024}, {7168, 2048}}) {
    for (const std::int64_t m : {8, 16, 32}) {
      const Tuning t = tuning(m, n, k, backend::DType::bf16);
      EXPECT_EQ(t.at("floats"), 1) << m << "x" << n << "x" << k;
      EXPECT_EQ(t.at("split_k"), 1) << m << "x" << n << "x" << k;
      EXPECT_EQ(tuning(m, n, k, backend::DType::none).at("floats"), 0) << "there is nothing to quantise";
    }
  }
  const Tuning few = tuning(128, 576, 7168, backend::DType::bf16);
  EXPECT_EQ(few.at("floats"), 1) << "A would be read by each of nine blocks from far caches";
  EXPECT_GT(few.at("split_k"), 1) << "all of A is 1.8 MB";
  EXPECT_EQ(few.at("block_m"), 8) << "decoded once for all rows";
  for (const auto& [n, k] : {std::pair{4096, 4096}, {3072, 1024}, {7168, 2048}, {1024, 7168}, {2112, 7168}}) {
    const Tuning many = tuning(128, n, k, backend::DType::bf16);
    EXPECT_EQ(many.at("floats"), 0) << n << "x" << k << ": more than three units of columns for a core";
    EXPECT_EQ(many.at("split_k"), 1) << n << "x" << k;
  }
}

TEST(OpenClKernels, WhatOneLaunchCannotCountIsQuantisedBefore) {
  Features f = wide_cores(16);
  f.dot_products_of_bf16 = f.dot_products_of_bytes = 1;
  f.amx_why_not.clear();
  f.dot_products_why_not.clear();
  Problem p{16, 150000, 128, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::bf16};
  p.a_source = backend::DType::bf16;
  for (const char* name : {"gemm_amx", "gemm_bf16"}) {
    const Variant& variant = *find_variant(name);
    p.n = 150000;
    Tuning t = variant.rule_of_thumb(f, p);
    t["floats"] = 1;
    EXPECT_EQ(broken_constraint(variant, t, p), nullptr) << name << ": an output layer of 150000 words";
    p.n = std::int64_t{1} << 27;
    EXPECT_NE(broken_constraint(variant, t, p), nullptr) << name;
    EXPECT_EQ(variant.rule_of_thumb(f, p).at("floats"), 0) << name;
    EXPECT_EQ(broken_constraint(variant, variant.rule_of_thumb(f, p), p), nullptr) << name;
    p.a_source = backend::DType::none;
    EXPECT_EQ(broken_constraint(variant, t, p), nullptr) << name << ": nothing is counted";
    p.a_source = backend::DType::bf16;
  }
}

TEST(OpenClKernels, OneFormOfWeightsServesEveryNumberOfRowsOnTensorCores) {
  AllWork trials;
  const Features f = h200();
  UsualForms usual({f, variants(), &trials});
  const std::string form = usual.of(backend::AccuracyClass::f32, backend::DType::e4m3fn)->name();
  EXPECT_EQ(form.substr(0, 8), "swizzled") << form;
  for (const auto same : {backend::DType::e5m2, backend::DType::i8})
    EXPECT_EQ(usual.of(backend::AccuracyClass::f32, same)->name(), form);
  for (const auto& [other, its] : {std::pair{backend::DType::e2m1, "lines_n16_k128_e2m1"},
                                   std::pair{backend::DType::bf16, "columns_k16_pad64_bf16"}})
    EXPECT_EQ(usual.of(backend::AccuracyClass::f32, other)->name(), its)
        << "what the kernels of fp8 do not take lies as its own read it, with a plan or without";
  for (const auto& [n, k] :
       {std::pair{100, 300}, std::pair{576, 7168}, std::pair{4096, 4096}, std::pair{7168, 16384}}) {
    for (const int m : {1, 6, 16, 40, 64, 130, 1024, 4096}) {
      const backend::GemmDesc desc = Case{.m = m, .n = n, .k = k}.desc();
      Choice choice;
      ASSERT_EQ(choose({f, variants(), &trials, &usual}, desc, &choice).reason, backend::Reason::none);
      EXPECT_EQ(choice.variant->weights(choice.tuning, choice.problem)->name(), form)
          << choice.variant->name << " for " << m << "x" << n << "x" << k;
    }
  }
}

TEST(OpenClKernels, WorkGroupsStayForOneTileOfRowsThatAreQuantised) {
  const Features f = wide_cores(6);
  Problem p{3, 4096, 7168, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::bf16};
  p.a_source = backend::DType::bf16;
  const Tuning stream{{"tile_m", 3}, {"tile_n", 32}, {"block_m", 1}, {"block_n", 32}, {"split_k", 1}, {"floats", 1}};
  const Tuning dots{{"tile_m", 3}, {"block_m", 1}};
  for (const auto& [name, t] : {std::pair{"gemm_stream", stream}, {"gemm_stream_bf16", dots}}) {
    const Variant& variant = *find_variant(name);
    EXPECT_EQ(variant.persistent_groups(t, p), 64) << name << ": 56 K groups, and problems share programs";
    ASSERT_EQ(variant.passes(t, p, f, 3).size(), 1u);
    EXPECT_EQ(variant.passes(t, p, f, 3)[0].work_groups[0] * variant.passes(t, p, f, 3)[0].work_groups[1], 6) << name;
    Problem other = p;
    other.a_source = backend::DType::none;
    EXPECT_EQ(variant.persistent_groups(t, other), 0) << name << ": nothing to quantise";
    other = p;
    other.m = 4;
    EXPECT_EQ(variant.persistent_groups(t, other), 0) << name << ": two tiles";
    other = p;
    other.matrices = 2;
    EXPECT_EQ(variant.persistent_groups(t, other), 0) << name << ": rows are dealt";
    other = p;
    other.a_rows = 1;
    EXPECT_EQ(variant.persistent_groups(t, other), 0) << name << ": rows lie here and there";
    other = p;
    other.k = 65536;
    EXPECT_EQ(variant.persistent_groups(t, other), 0) << name << ": no room";
    EXPECT_GT(variant.passes(t, other, f, 3)[0].work_groups[0] * variant.passes(t, other, f, 3)[0].work_groups[1], 6)
        << name;
    for (const char* tunable : {"block_m", "split_k"}) {
      if (t.count(tunable) == 0) continue;
      Tuning parts = t;
      parts[tunable] = 2;
      EXPECT_EQ(variant.persistent_groups(parts, p), 0) << name << ": " << tunable;
    }
  }
  Tuning before = stream;
  before["floats"] = 0;
  EXPECT_EQ(find_variant("gemm_stream")->persistent_groups(before, p), 0) << "quantised by a kernel before";
}

TEST(OpenClKernels, AGpuWhoseLocalMemoryIsGlobalTakesWorkGroupsOfManyWorkItems) {
  Features f;  // As a Mali says of itself.
  f.type = backend::DeviceType::gpu;
  f.vector_width = 4;
  f.compute_units = 10;
  f.clock_hz = 8e8;
  f.local_bytes = 32 << 10;
  f.max_work_group = 384;
  f.max_buffer_bytes = std::uint64_t{1} << 30;
  f.fma = f.fma_divide = true;
  f.half_bits = 1;
  for (const std::int64_t m : {1, 16, 100, 1024}) {
    for (const std::int64_t matrices : {0, 4}) {
      Case c{m, 4096, 4096};
      backend::GemmDesc desc = c.desc();
      if (matrices != 0) desc.grouping = backend::Grouping::contiguous;
      desc.matrices = matrices;
      Choice choice;
      ASSERT_EQ(choose(f, desc, &choice).reason, backend::Reason::none);
      EXPECT_GE(most_work_items(*choice.variant, choice.tuning, f, choice.problem), 32)
          << choice.variant->name << ", m = " << m;
    }
  }
}

using OpenClBuilds = OnDevices;

/// The file's text, told to say so where it asks for a setting that nobody sets, which is else 0 to a preprocessor.
/// Not so the driver's own headers, which some have it read after the text has begun.
std::string strict_text_of(const std::string& file) {
  return "#pragma clang diagnostic push\n#pragma clang diagnostic error \"-Wundef\"\n" + text_of(file) +
         "\n#pragma clang diagnostic pop\n";
}

TEST_F(OpenClBuilds, EveryFileBuildsWithTheUsualSettings) {
  for (const auto& device : devices()) {
    auto& builder = *dynamic_cast<Device&>(*device).context()->builder;
    for (const EmbeddedSource& source : embedded_sources()) {
      const std::string name(source.name);
      const bool is_whole = text_of(name).find("__kernel ") != std::string::npos;  // Else others set things for it.
      EXPECT_NO_THROW(builder.build_text(name, is_whole ? strict_text_of(name) : text_of(name), usual_settings(name)))
          << name << " on " << device->props().name;
    }
  }
}

TEST_F(OpenClBuilds, ASettingThatIsNotSetIsSeen) {
  for (const auto& device : devices()) {
    if (device->props().driver.find("Portable Computing Language") == std::string::npos)
      continue;  // Not clang, perhaps.
    auto& builder = *dynamic_cast<Device&>(*device).context()->builder;
    Defines less = usual_settings("gemm_stream.cl");
    ASSERT_EQ(less.erase("SPLIT_K"), 1u);
    expect_error<backend::Error>(backend::Status::build_failed, "", [&] {
      builder.build_text("a kernel without a setting", strict_text_of("gemm_stream.cl"), less);
    });
  }
}

TEST_F(OpenClBuilds, AFusedMultiplyAddIsTimedWhereTheDeviceDoesNotSayThatItHasOne) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this processor has none";
  for (const auto& device : devices()) {
    if (device->props().type != backend::DeviceType::cpu) continue;
    const ContextPtr& context = dynamic_cast<Device&>(*device).context();
    Features features = query_features(context->platform, context->device);
    features.fma = false;  // As Intel's runtime says.
    run_probes(context->context, context->device, *context->builder, features);
    EXPECT_TRUE(features.fma) << features.name;
  }
#endif
}

class OpenClProbes : public OwnKernels {};

TEST_F(OpenClProbes, AFusedMultiplyAddThatIsAFunctionIsSeenByItsTime) {
  std::ofstream(dir_ / "fp8.cl", std::ios::app) << R"(
#if USE_FMA
#undef MUL_ADD
#define MUL_ADD(a, b, c) (exp((a) * (b)) + (c))
#endif
)";
  const Made made = with({});
  for (const auto& device : made.devices) {
    const ContextPtr& context = dynamic_cast<Device&>(*device).context();
    if (!context->features.fma) continue;  // There is no kernel with USE_FMA.
    Features features = query_features(context->platform, context->device);
    features.fma = false;
    run_probes(context->context, context->device, *context->builder, features);
    EXPECT_FALSE(features.fma) << features.name;
  }
}

TEST_F(OpenClBuilds, ArraysOfAKernelsOwnKeepWhatIsWritten) {
  for (const auto& device : devices()) {
    const ContextPtr& context = dynamic_cast<Device&>(*device).context();
    const Features& f = context->features;
    if (f.ptx_sm_90) {
      EXPECT_GT(f.own_local_bytes, 200u << 10) << f.name;
    } else {
      EXPECT_EQ(f.own_local_bytes, f.local_bytes) << f.name;
    }
    const std::string bytes = std::to_string(std::min<std::uint64_t>(f.own_local_bytes / 4 * 4, 256 << 10));
    cl::Kernel kernel(
        context->builder->build("probe.cl", {{"PROBES", std::to_string(1 << 8)}, {"LOCAL_BYTES", bytes}}), "probe_8");
    std::vector<float> x{1.0f, 2.0f, 3.0f}, out(3);
    const cl::Buffer in(context->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, std::size_t{12}, x.data());
    const cl::Buffer to(context->context, CL_MEM_WRITE_ONLY, std::size_t{12});
    kernel.setArg(0, in);
    kernel.setArg(1, in);
    kernel.setArg(2, to);
    kernel.setArg(3, cl_int{3});
    const cl::CommandQueue queue(context->context, context->device);
    queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(3), cl::NDRange(1));
    queue.enqueueReadBuffer(to, CL_TRUE, 0, 12, out.data());
    EXPECT_EQ(out, x) << f.name;
  }
}

TEST_F(OpenClBuilds, BuiltinsAreNotTriedWhereTheCompilerNamesNoProcessor) {
  // Mesa's compiler, which names none, ends the process over one of them.
  std::string nameless;
  for (const char* const name :
       {"__x86_64__", "__i386__", "__aarch64__", "__arm__", "__riscv", "__powerpc__", "__SPIR__"})
    nameless += "#undef " + std::string(name) + "\n";
  for (const auto& device : devices()) {
    auto& builder = *dynamic_cast<Device&>(*device).context()->builder;
    SCOPED_TRACE(device->props().name);
    expect_error<backend::Error>(backend::Status::build_failed, "", [&] {
      builder.build_text("a probe", nameless + text_of("probe.cl"), {{"PROBES", std::to_string(1 << 5)}});
    });
  }
}

TEST_F(OpenClBuilds, WordsOfCodesAreTheirValuesByEveryWayThatADeviceHas) {
  constexpr std::size_t kCodes = 256;
  int ways = 0;
  for (const auto& device : devices()) {
    const ContextPtr& context = dynamic_cast<Device&>(*device).context();
    for (const int way : {0, 1, 2}) {
      if (way == 1 && context->features.extensions.find("cl_khr_fp16") == std::string::npos) continue;
      cl::Kernel kernel(context->builder->build(
                            "probe.cl", {{"PROBES", std::to_string(1 << 6)}, {"HALF_BITS", std::to_string(way)}}),
                        "probe_6");
      std::vector<float> out(4 * kCodes, -1.0f);
      const cl::Buffer buffer(context->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, out.size() * 4, out.data());
      for (const cl_uint argument : {0u, 1u, 2u}) kernel.setArg(argument, buffer);
      kernel.setArg(3, static_cast<cl_int>(out.size()));
      const cl::CommandQueue queue(context->context, context->device);
      queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(out.size() / 4), cl::NDRange(1));
      queue.enqueueReadBuffer(buffer, CL_TRUE, 0, out.size() * 4, out.data());
      const auto same = [](float a, float b) {
        return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
      };
      for (std::size_t code = 0; code < kCodes; ++code) {
        const auto byte = static_cast<std::uint8_t>(code);
        EXPECT_TRUE(same(out[code], numerics::decode_e4m3fn(byte))) << "e4m3 " << code << ", way " << way;
        EXPECT_TRUE(same(out[kCodes + code], numerics::decode_e5m2(byte))) << "e5m2 " << code << ", way " << way;
        EXPECT_EQ(out[3 * kCodes + code], static_cast<float>(static_cast<std::int8_t>(byte))) << "i8 " << code;
        if ((code & 0x7f) == 0x7f) continue;  // A NaN code of the weights is seen to where they are packed.
        EXPECT_EQ(out[2 * kCodes + code], numerics::decode_e4m3fn(byte)) << "weight " << code << ", way " << way;
      }
      ++ways;
    }
  }
  EXPECT_GE(ways, 2) << "vload_half is core OpenCL";
}

TEST_F(OpenClBuilds, HeavyEveryTunableBuildsAtEachOfItsValues) {
  for (const auto& device : devices()) {
    auto& ours = dynamic_cast<Device&>(*device);
    auto& builder = *ours.context()->builder;
    const Problem problem{64, 64, 128, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::f32};
    for (const Variant& variant : variants()) {
      for (const Tunable& tunable : variant.tunables) {
        for (const int value : tunable.values) {
          Tuning tuning = first_tuning(variant);
          tuning[tunable.name] = value;
          if (refuse(variant, tuning, ours.context()->features, problem)) continue;
          Defines defines = usual_settings(file_of(variant));
          set_tunables(defines, tuning);
          EXPECT_NO_THROW(builder.build(file_of(variant), defines, "", *variant.toolchain))
              << variant.name << " " << to_string(tuning) << " on " << device->props().name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
