// SPDX-License-Identifier: Apache-2.0
// Every kernel that multiplies writes D through cl/epilogue.cl: another epilogue, in that one file, reaches them all.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/opencl/device.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

namespace fs = std::filesystem;
using backend::DType;

/// cl/ with an epilogue that multiplies D by `factor`, OpenCL C of `row` and `column`.
class OtherEpilogue {
 public:
  explicit OtherEpilogue(const std::string& factor)
      : dir_(fs::temp_directory_path() / ("ironcl_epilogue_" + std::to_string(getpid()))) {
    fs::create_directories(dir_);
    for (const auto& file : fs::directory_iterator(IRONCL_CL_DIR))
      if (file.path().extension() == ".cl")
        fs::copy_file(file.path(), dir_ / file.path().filename(), fs::copy_options::overwrite_existing);
    std::ostringstream text;
    text << "#define EPILOGUE(value, row, column) ((value) * (" << factor << "))\n"
         << std::ifstream(fs::path(IRONCL_CL_DIR) / "epilogue.cl").rdbuf();
    std::ofstream(dir_ / "epilogue.cl") << text.str();
  }
  ~OtherEpilogue() { fs::remove_all(dir_); }
  OtherEpilogue(const OtherEpilogue&) = delete;
  OtherEpilogue& operator=(const OtherEpilogue&) = delete;
  std::string dir() const { return dir_.string(); }

 private:
  fs::path dir_;
};

/// D of f32 as totals are, and rounded with a bias before it, K whole and in parts; edges that are no multiples of
/// anything. Of the first codes that the variant takes here: decoding does not change how D is stored.
std::vector<Case> problems(const Variant& variant, backend::Device& device) {
  for (const DType code : {DType::e4m3fn, DType::e5m2, DType::i8}) {
    std::vector<Case> all;
    for (const bool bias : {false, true}) {
      Case c{19, 131, 256};
      c.a_source = DType::bf16;
      c.a = c.b = code;
      c.d = bias ? DType::bf16 : DType::f32;
      c.bias = bias ? DType::f32 : DType::none;
      c.ldd = 133;
      c.weakest = backend::AccuracyClass::tensor14;
      c.options = {{"variant", variant.name}};
      if (bias && find_tunable(variant, "split_k") != nullptr) c.options.emplace_back("split_k", "2");
      if (device.supports(c.desc()).reason == backend::Reason::none) all.push_back(c);
    }
    if (!all.empty()) return all;
  }
  return {};
}

TEST(OpenClEpilogue, AnotherOneInItsFileReachesEveryKernel) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  // Powers of two, so that every product is exact, and others for other rows and columns.
  const auto factor = [](std::int64_t row, std::int64_t column) {
    return (row % 2 != 0 ? 4.0 : 2.0) * (column % 4 == 3 ? 0.125 : 1.0);
  };
  const OtherEpilogue other("((row) % 2 != 0 ? 4.0f : 2.0f) * ((column) % 4 == 3 ? 0.125f : 1.0f)");
  Config config;
  config.kernel_dir = other.dir();
  config.trial_program = IRONCL_TRIAL_PROGRAM;
  const Made changed = make(config);
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
