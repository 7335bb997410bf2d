// SPDX-License-Identifier: Apache-2.0
#include "tests/opencl/own_kernels/gemm_transposed.h"

#include "backends/opencl/forms/forms.h"
#include "tests/opencl/own_kernels/transposed_form.h"

namespace ironcl::opencl::testing {
namespace {

std::string counted(const std::string& binary) {
  ++rewritings();
  return binary;
}

/// More work-items a work-group than any device takes.
constexpr std::int64_t kTooMany = 1u << 24;

Variant made(const char* summary) {
  Variant v;
  v.name = "gemm_transposed";
  v.summary = summary;
  v.tunables = {{"tile_n", 16, {16, 32}, "work-items a work-group, a column each"}};
  v.trial = Trial{};
  static const Toolchain toolchain{"counted-1", true, "", counted};
  v.toolchain = &toolchain;
  v.local_bytes = [](const Tuning&, const Problem&) -> std::int64_t { return 4; };
  v.tile = v.block = [](const Tuning& t) { return Shape{1, t["tile_n"]}; };
  v.weights = [](const Tuning&, const Problem&) { return blocked_form(8, 4, 16); };
  v.activations = [](const Tuning&, const Problem&) { return transposed_form(); };
  v.passes = [](const Tuning& t, const Problem& p, const Features&, std::int64_t m) -> std::vector<Pass> {
    return {{"gemm_transposed", {numerics::ceil_div(p.n, t["tile_n"]), m}, t["tile_n"]}};
  };
  v.rule_of_thumb = [](const Features&, const Problem&) { return Tuning{{"tile_n", 16}}; };
  v.estimate_ns = [](const Tuning&, const Problem&, const Features&) { return 1e-3; };
  return v;
}

}  // namespace

std::atomic<int>& rewritings() {
  static std::atomic<int> count{0};
  return count;
}

Variant gemm_transposed() { return made("a test's own: A transposed, in two steps, only where its trial went well"); }

Variant gemm_transposed_wrong() {
  Variant v = made("the same, with one wrong element");
  v.name = "gemm_transposed_wrong";
  return v;
}

Variant gemm_transposed_weak() {
  Variant v = made("the same, said to be of a weaker class");
  v.accuracy = backend::AccuracyClass::tensor14;
  return v;
}

Variant gemm_transposed_failing() {
  Variant v = made("the same with a second pass that cannot be launched where there are two rows");
  v.trial.reset();
  v.passes = [](const Tuning& t, const Problem& p, const Features&, std::int64_t m) -> std::vector<Pass> {
    return {{"gemm_transposed", {numerics::ceil_div(p.n, t["tile_n"]), m}, t["tile_n"]},
            {"gemm_transposed_nothing", {1, 1}, m == 2 ? kTooMany : 1}};
  };
  return v;
}

}  // namespace ironcl::opencl::testing
