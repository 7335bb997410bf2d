// SPDX-License-Identifier: Apache-2.0
// The matrix products of AMD's waves, which no device of a test machine may have: done by hand in every form that
// compilers have them in; what their trial finds; and the real ones compiled, where there is a clang for such GPUs.
// Next door: vendor_products_test.cpp (what other vendors have).
#include <cstdlib>
#include <regex>
#include <sstream>

#include "backends/opencl/device.h"
#include "backends/opencl/select.h"
#include "backends/opencl/sources.h"
#include "backends/opencl/trial.h"
#include "tests/opencl/grouped.h"
#include "tests/opencl/kinds_of_device.h"
#include "tests/opencl/own_kernels.h"
#include "tests/opencl/usual_settings.h"

namespace ironcl::opencl::testing {
namespace {

using backend::DType;

/// Of all types that the three variants take.
Variant wave_by_hand() {
  Variant v = another("wave_here", "gemm_wave");
  v.products = codes_of_a_byte();
  return v;
}

/// What clang has for a GPU: work-items of a wave, parts of k, and k that a work-item gives to a product of f16, bf16
/// and i8; and the instructions.
struct WaveForm {
  const char *gpu, *lanes;
  int parts, run_f16, run_bf16, run_i8;
  const char *f16, *bf16, *i8;
};
constexpr WaveForm kWaveForms[] = {
    {"gfx908", "64", 2, 4, 2, 4, "v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x4bf16", "v_mfma_i32_32x32x8i8"},
    {"gfx90a", "64", 2, 4, 4, 4, "v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8bf16_1k", "v_mfma_i32_32x32x8i8"},
    {"gfx942", "64", 2, 4, 4, 8, "v_mfma_f32_32x32x8_f16", "v_mfma_f32_32x32x8_bf16", "v_mfma_i32_32x32x16_i8"},
    {"gfx1100", "32", 1, 16, 16, 16, "v_wmma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_bf16",
     "v_wmma_i32_16x16x16_iu8"},
    {"gfx1201", "32", 2, 8, 8, 8, "v_wmma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_bf16", "v_wmma_i32_16x16x16_iu8"},
};

/// The kernel with its products by hand in that form, whatever the device has.
std::string by_hand(const WaveForm& form) {
  std::ostringstream text;
  text << "#define PARTS " << form.parts << "\n#define RUN (A_TYPE == 7 ? " << form.run_i8
       << " : A_TYPE == 4 && B_TYPE == 4 ? " << form.run_f16 << " : " << form.run_bf16
       << ")\n#include \"wave_by_hand.cl\"\n";
  return text.str();
}

bool wide(const WaveForm& form) { return form.lanes == std::string("64"); }

class OpenClWaveProducts : public OwnKernels {
 protected:
  static backend::Options options(const WaveForm& form, const backend::Options& more) {
    backend::Options all{{"variant", "wave_here"}, {"lanes", form.lanes}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Devices for whose kernel `file` has `to` in place of `from`, and other files are as they are.
  Made with_change(const std::string& file, const std::string& from, const std::string& to) {
    for (const char* other : {"narrow_floats.cl", "wave_by_hand.cl"}) std::ofstream(dir_ / other) << text_of(other);
    std::string text = text_of(file);
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    std::ofstream(dir_ / file) << text;
    return with_file(wave_by_hand, "#include \"wave_by_hand.cl\"\n");
  }
  static std::string text_of(const std::string& file) {
    std::ifstream in(std::string(file == "wave_by_hand.cl" ? IRONCL_TEST_CL_DIR : IRONCL_CL_DIR) + "/" + file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static std::string trial_with(const Made& made, DType code) {
    Variant v = wave_by_hand();
    const Variant* const real = find_variant(code == DType::e4m3fn ? "gemm_wave" : "gemm_wave_bf16");
    v.trial = real->trial, v.products = real->products;
    return attempt_trial(*dynamic_cast<Device&>(*made.devices.at(0)).context(), v, nullptr);
  }
};

TEST_F(OpenClWaveProducts, AreRightByHandInEveryForm) {
  for (const WaveForm& form : kWaveForms) {
    if (form.gpu == std::string("gfx90a")) continue;  // By hand it is a mixture of the two beside it.
    SCOPED_TRACE(form.gpu);
    // Blocks of 32 by 32 are many sums for a compiler of processors: one a wave. The others have two by two.
    const backend::Options blocks = wide(form) ? backend::Options{{"tile_m", "32"}, {"work_n", "1"}}
                                               : backend::Options{{"tile_m", "32"}, {"work_n", "2"}};
    const auto of_blocks = [&](backend::Options more) {
      more.insert(more.begin(), blocks.begin(), blocks.end());
      return options(form, more);
    };
    const auto made = with_file(wave_by_hand, by_hand(form));
    for (const auto& device : made.devices) {
      expect_right_with(*device, problem(40, 70, 300), of_blocks({{"waves", "2"}}));
      expect_right_with(*device, problem(3, 40, 260, DType::e5m2, DType::e4m3fn),
                        of_blocks({{"waves", "1"}, {"tile_k", "64"}, {"split_k", "3"}}));
      Case i8 = problem(40, 70, 300, DType::i8, DType::i8, 32);
      i8.d = DType::bf16;
      expect_right_with(*device, i8, of_blocks({{"waves", "1"}}));
    }
  }
}

TEST_F(OpenClWaveProducts, TakeEveryTypeAndGrid) {
  const WaveForm& form = kWaveForms[4];
  const auto made = with_file(wave_by_hand, by_hand(form));
  for (const auto& device : made.devices) {
    expect_right_with(*device, problem(1, 5, 16), options(form, {{"tile_m", "16"}, {"waves", "1"}}));
    expect_right_with(*device, problem(5, 70, 200, DType::e4m3fn, DType::e5m2, 64),
                      options(form, {{"tile_m", "16"}}));
    Case floats = problem(21, 70, 256);
    floats.a_source = DType::bf16;
    floats.bias = DType::f32;
    floats.d = DType::f16;
    expect_right_with(*device, floats, options(form, {{"tile_m", "16"}, {"tile_k", "64"}}));
    Case blocks = problem(35, 33, 192, DType::e5m2, DType::e5m2, 32);
    blocks.a_grid = {2, 32};
    expect_right_with(*device, blocks, options(form, {{"tile_m", "16"}, {"work_n", "4"}, {"waves", "1"}}));
  }
}

TEST_F(OpenClWaveProducts, ServeManyMatrices) {
  for (const WaveForm& form : {kWaveForms[2], kWaveForms[3]}) {
    SCOPED_TRACE(form.gpu);
    const auto made = with_file(wave_by_hand, by_hand(form));
    for (const auto& device : made.devices) {
      Case g{.n = 70, .k = 200, .counts = {3, 0, 40, 9}};
      g.options = options(form, {{"tile_m", wide(form) ? "32" : "16"}, {"waves", "1"}, {"split_k", "2"}});
      expect_right_in_both_layouts(*device, g, 60, 41);
    }
  }
}

TEST_F(OpenClWaveProducts, OfNaNCodesAreNaNAndLeastCodesAreKept) {
  for (const WaveForm& form : {kWaveForms[2], kWaveForms[4]}) {
    const auto made = with_file(wave_by_hand, by_hand(form));
    for (const auto& device : made.devices) {
      for (const DType b : {DType::e4m3fn, DType::e5m2}) {
        Case c = problem(40, 70, 256, DType::e4m3fn, b);
        c.options = options(form, {{"tile_m", wide(form) ? "32" : "16"}, {"waves", "1"}});
        Data data = make_data(c);
        for (std::size_t code = 0; code < 256; ++code)
          data.a[256 * (code % 32) + code] = static_cast<std::uint8_t>(code);
        for (std::size_t k = 0; k < 256; ++k) data.a[256 * 39 + k] = static_cast<std::uint8_t>(1 + k % 7);
        const Outcome outcome = run(*device, c, data);
        expect_right(outcome, c, device->props().name);
      }
    }
  }
}

TEST_F(OpenClWaveProducts, TrialFindsWhatAUnitLoses) {
  // A matrix unit that takes denormals for zero meets none: the trial is right, and so are results.
  const std::string flush = "(fabs(x) < 0x1p-14f ? 0.0f : x)";
  const std::string flushing =
      "static inline float flushed(uint bits) { const float x = decode_f16(bits); return " + flush + "; }\n";
  const auto harmless = with_change("wave_by_hand.cl", "#define LINE_AT(shown, line, e) decode_f16((uint)",
                                    flushing + "#define LINE_AT(shown, line, e) flushed((uint)");
  EXPECT_EQ(trial_with(harmless, DType::e4m3fn), "");
  EXPECT_EQ(trial_with(harmless, DType::e5m2), "");
  // Multiplications of f16 that do.
  const auto lossy =
      with_change("narrow_floats.cl", "#if HALF_BITS == 1", flushing + "#define decode_f16 flushed\n#if 0");
  EXPECT_NE(trial_with(lossy, DType::e4m3fn).find("72 elements are wrong, the first at [1, 0]"), std::string::npos)
      << trial_with(lossy, DType::e4m3fn);
  // Sums of 14 bits.
  const auto narrow =
      with_change("wave_by_hand.cl", "#define ADD_PRODUCT MUL_ADD",
                  "#define ADD_PRODUCT(a, b, sum) as_float(as_uint(MUL_ADD(a, b, sum)) & 0xfffffc00u)");
  for (const DType code : {DType::e4m3fn, DType::e5m2})
    EXPECT_NE(trial_with(narrow, code).find("the first at [0, 0]"), std::string::npos) << trial_with(narrow, code);
}

TEST_F(OpenClWaveProducts, AreRefusedWhereTheDeviceSaysNothingOfWaves) {
  for (const auto& device : devices()) {
    if (dynamic_cast<Device&>(*device).context()->features.wave_lanes != 0) continue;
    const std::pair<const char*, DType> variants[] = {
        {"gemm_wave", DType::e4m3fn}, {"gemm_wave_bf16", DType::e5m2}, {"gemm_wave_s8", DType::i8}};
    for (const auto& [variant, code] : variants) {
      Case c = problem(19, 130, 300);
      c.options = {{"variant", variant}};
      c.a = c.b = code;
      expect_lacks(*device, c, "cl_amd_device_attribute_query");
    }
  }
}

/// A GPU with waves of so many work-items, as such devices describe themselves.
Features gpu_of_waves(int lanes) {
  Features f = gpu_of(0, lanes == 64 ? 304 : 96, 2.1e9);
  f.wave_lanes = lanes;
  f.local_bytes = f.own_local_bytes = 63 << 10;
  f.max_work_group = 256;
  return f;
}

/// Every trial ends so.
class NothingWorks final : public Trials {
 public:
  std::string why_not(const Variant& variant) override { return "no " + variant.name + " here"; }
};

TEST(OpenClWaveSelection, TakesTheVariantOfTheTypesForManyRowsWhereItsTrialIsRight) {
  AllWork trials;
  NothingWorks no_trials;
  for (const int lanes : {64, 32}) {
    const Features f = gpu_of_waves(lanes);
    for (const auto& [a, b, name] : {std::tuple{DType::e4m3fn, DType::e4m3fn, "gemm_wave"},
                                     std::tuple{DType::e5m2, DType::e4m3fn, "gemm_wave_bf16"},
                                     std::tuple{DType::e4m3fn, DType::e5m2, "gemm_wave_bf16"},
                                     std::tuple{DType::i8, DType::i8, "gemm_wave_s8"}}) {
      for (const std::int64_t m : {1, 2, 17, 64, 100, 300, 4096}) {
        for (const std::int64_t group : {32, 64, 128}) {
          const backend::GemmDesc desc = problem(m, 4096, 7168, a, b, group).desc();
          Choice choice;
          const backend::Support support = choose({f, variants(), &trials}, desc, &choice);
          ASSERT_EQ(support.reason, backend::Reason::none) << support.text;
          EXPECT_FALSE(refuse(*choice.variant, choice.tuning, f, choice.problem)) << to_string(choice.tuning);
          EXPECT_TRUE(m > 1 || choice.variant->name == "gemm_skinny") << choice.variant->name;
          if (m < 100) continue;
          EXPECT_EQ(choice.variant->name, name) << m;
          EXPECT_EQ(choice.tuning.at("lanes"), lanes);
          ASSERT_EQ(choose({f, variants(), &no_trials}, desc, &choice).reason, backend::Reason::none);
          EXPECT_EQ(choice.variant->name, "gemm_tiled");
        }
      }
    }
  }
}

/// Compiles the kernel as the host would on such a GPU; its assembly, or what the compiler said.
std::string compiled(const std::string& clang, const std::filesystem::path& dir, const WaveForm& form,
                     const std::string& file, Defines settings) {
  std::ofstream(dir / "kernel.cl") << kernel_source("", file);
  settings["HALF_BITS"] = "1";
  settings["WAVE_LANES"] = settings["LANES"] = form.lanes;
  settings.merge(usual_settings(file));
  std::string defines;
  for (const auto& [name, value] : settings) defines += " -D" + name + "=" + value;
  const std::string command = clang + " -x cl -cl-std=CL1.2 -target amdgcn-amd-amdhsa -mcpu=" + form.gpu +
                              " -nogpulib -Xclang -finclude-default-header -O1 -S" + defines + " -o - " +
                              (dir / "kernel.cl").string() + " > " + (dir / "kernel.s").string() + " 2>&1";
  const bool ok = std::system(command.c_str()) == 0;  // NOLINT(cert-env33-c): a compiler of the path.
  std::ifstream in(dir / "kernel.s");
  std::stringstream text;
  text << in.rdbuf();
  return ok ? text.str() : "not compiled: " + text.str().substr(0, 2000);
}

TEST_F(OpenClWaveProducts, HeavyCompileToTheInstructionsOfEachGpuThatAClangHereKnows) {
  std::string tried;
  for (const WaveForm& form : kWaveForms) {
    for (const char* clang : {"clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16",
                              "clang-15", "clang-14", "clang"}) {
      const std::string f16 = compiled(clang, dir_.path(), form, "gemm_wave.cl", {});
      if (f16.find("not found") != std::string::npos || f16.find("invalid target ID") != std::string::npos ||
          f16.find("No available targets") != std::string::npos)
        continue;
      const auto has = [](const std::string& assembly, const char* instruction) {
        return std::regex_search(assembly, std::regex(std::string("\\t") + instruction + "[ _]"));
      };
      EXPECT_TRUE(has(f16, form.f16)) << form.gpu << " " << clang << ": " << f16.substr(0, 2000);
      const std::string bf16 = compiled(clang, dir_.path(), form, "gemm_wave.cl", {{"A_TYPE", "5"}});
      EXPECT_TRUE(has(bf16, form.bf16)) << form.gpu << " " << clang << ": " << bf16.substr(0, 2000);
      const std::string i8 = compiled(clang, dir_.path(), form, "gemm_wave.cl", {{"A_TYPE", "7"}, {"B_TYPE", "7"}});
      EXPECT_TRUE(has(i8, form.i8)) << form.gpu << " " << clang << ": " << i8.substr(0, 2000);
      tried += std::string(" ") + form.gpu + " by " + clang;
      break;
    }
  }
  if (tried.empty()) GTEST_SKIP() << "no clang in the path compiles for AMD's GPUs";
  std::printf("compiled for%s\n", tried.c_str());
}

}  // namespace
}  // namespace ironcl::opencl::testing
