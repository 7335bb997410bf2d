// SPDX-License-Identifier: Apache-2.0
// ironcl compare --expect: outputs that somebody else computed, in their own precision and class.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "host/checkpoint/matrix.h"
#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace json = boost::json;
namespace numerics = ironcl::numerics;

std::vector<double> expected_values() { return ironcl::checkpoint::load_matrix(kLayer, "y_f64").to_f64(); }

/// y of another type, in a file of its own; `path` with ":y".
std::string write_expectation(const Scratch& scratch, numerics::DType type, const std::vector<double>& values) {
  OwnTensor y("y", type, {7, 576});
  if (type == numerics::DType::f64) {
    std::memcpy(y.bytes.data(), values.data(), y.bytes.size());
  } else {
    numerics::encode(type, std::vector<float>(values.begin(), values.end()), y.bytes.data());
  }
  save(scratch.path("y.safetensors"), {y});
  return scratch.path("y.safetensors") + ":y";
}

Outcome compare_with(const std::string& expectation, const std::vector<std::string>& more = {}) {
  return ironcl_command(
      with({"compare", kLayer, "--input", kLayer + ":x", "--device", "toy:0", "--expect", expectation}, more));
}

TEST(Expect, TheOracleAndADeviceAgreeWithTorchInF64) {
  const json::value report = compare_with(kLayer + ":y_f64", {"--json", "-"}).json();
  const json::array& expect = report.at("cases").at(0).at("expect").as_array();
  ASSERT_EQ(expect.size(), 2u);
  for (const json::value& row : expect) {
    expect_members(row, {{"tensor", "y_f64"}, {"verdict", "pass"}, {"accuracy_class", "f32"}});
  }
  EXPECT_EQ(expect.at(0).at("uri").as_string(), "oracle");
  EXPECT_LT(expect.at(0).at("max_error_over_bound").to_number<double>(), 1e-6) << "both are f64";
}

TEST(Expect, OutputsOfATensorCoreAreJudgedInTheirClass) {
  prints(compare_with(kLayer + ":y_deepgemm"), 0, {"pass as tensor14"});
}

TEST(Expect, RoundedOutputsFitTheF32Class) {
  const Scratch scratch;
  for (const auto type : {numerics::DType::f32, numerics::DType::bf16, numerics::DType::f16}) {
    const json::value report =
        compare_with(write_expectation(scratch, type, expected_values()), {"--json", "-"}).json();
    for (const json::value& row : report.at("cases").at(0).at("expect").as_array()) {
      EXPECT_EQ(row.at("verdict").as_string(), "pass") << numerics::name_of(type);
      EXPECT_EQ(row.at("accuracy_class").as_string(), "f32") << numerics::name_of(type);
    }
  }
}

TEST(Expect, OneWrongElementIsNamed) {
  const Scratch scratch;
  for (const auto type : {numerics::DType::f64, numerics::DType::f32, numerics::DType::bf16}) {
    std::vector<double> values = expected_values();
    values[2 * 576 + 5] += 0.05 * std::fabs(values[2 * 576 + 5]) + 1;
    prints(compare_with(write_expectation(scratch, type, values)), 1,
           {"FAIL weight: D[2,5] of toy:0 is ", "FAIL weight: D[2,5] of oracle is "});
  }
}

TEST(Expect, ANanIsNotWhatAnybodyComputed) {
  const Scratch scratch;
  std::vector<double> values = expected_values();
  values[0] = std::nan("");
  prints(compare_with(write_expectation(scratch, numerics::DType::f64, values)), 1, {});
}

TEST(Expect, MayBeGivenSeveralTimes) {
  const json::value report =
      compare_with(kLayer + ":y_f64", {"--expect", kLayer + ":y_deepgemm", "--json", "-"}).json();
  EXPECT_EQ(report.at("cases").at(0).at("expect").as_array().size(), 4u);
}

TEST(Expect, MustHaveTheShapeOfTheResult) {
  complains(compare_with(kLayer + ":x"), 3, {"tensor 'x'", "is [7, 2048], but the result is [7, 576]"});
}

TEST(Expect, IsAboutOneLayer) {
  complains(ironcl_command({"compare", data_file("tiny-qwen3-fp8"), "--expect", kLayer + ":y_f64"}), 2,
            {"choose one with --layer"});
}

}  // namespace
