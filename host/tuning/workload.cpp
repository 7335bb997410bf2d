// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/workload.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"
#include "backends/numerics/quantize.h"
#include "host/report/gemm_desc.h"

namespace ironcl::tuning {
namespace {

using numerics::DType;

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::size_t bytes_of_matrix(DType type, std::int64_t rows, std::int64_t cols) {
  const std::int64_t elements = numerics::checked_mul(rows, cols);
  return static_cast<std::size_t>(
      numerics::checked_mul(elements, static_cast<std::int64_t>(numerics::size_of(type))));
}

/// A signalling pattern that no kernel writes by computing: a NaN with a payload.
void poison(DType type, std::vector<std::byte>& bytes) {
  if (type == DType::f32) {
    const std::uint32_t pattern = 0x7fa5a5a5u;
    for (std::size_t i = 0; i < bytes.size(); i += 4) std::memcpy(bytes.data() + i, &pattern, 4);
  } else {
    const std::uint16_t pattern = 0x7fa5u;  // a NaN in f16 and in bf16
    for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) std::memcpy(bytes.data() + i, &pattern, 2);
  }
}

}  // namespace

std::vector<std::int64_t> sample_rows(std::int64_t m, std::int64_t most) {
  const std::int64_t count = std::min(m, std::max<std::int64_t>(most, 2));
  std::vector<std::int64_t> rows;
  // Steps of (m - 1) / (count - 1): not a multiple of a tile's height, so rows fall on all places of a tile.
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(count == 1 ? 0 : i * (m - 1) / (count - 1));
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

Expected expect(const report::Problem& problem, const Operands& operands, std::int64_t most_rows) {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
  const std::byte* values = operands.a.data();
  const std::byte* value_scales = operands.a_scale.data();
  DType scale_type = problem.a_scale.dtype;
  if (problem.a_source != DType::none && numerics::is_quantized(problem.a)) {
    codes.resize(bytes_of_matrix(problem.a, problem.m, problem.k));
    scales.resize(bytes_of_matrix(DType::i8, problem.a_scale.grid.scale_rows(problem.m),
                                  problem.a_scale.grid.scale_cols(problem.k)));
    numerics::quantize(problem.a_source, operands.a.data(), problem.m, problem.k, problem.k, problem.a,
                       problem.a_scale.grid, problem.a_quantizer, codes, scales);
    values = reinterpret_cast<const std::byte*>(codes.data());
    value_scales = reinterpret_cast<const std::byte*>(scales.data());
    scale_type = DType::f32;
  }

  // The sampled rows, each with its own row of scales.
  Expected expected{sample_rows(problem.m, most_rows), {}};
  const std::int64_t rows = static_cast<std::int64_t>(expected.rows.size());
  const std::size_t row_bytes = bytes_of_matrix(problem.a, 1, problem.k);
  const std::int64_t scale_cols = problem.a_scale.grid.scale_cols(problem.k);
  const std::size_t scale_row_bytes = scale_type == DType::none ? 0 : bytes_of_matrix(scale_type, 1, scale_cols);
  std::vector<std::byte> a(row_bytes * expected.rows.size());
  std::vector<std::byte> a_scale(scale_row_bytes * expected.rows.size());
  for (std::size_t i = 0; i < expected.rows.size(); ++i) {
    const std::int64_t row = expected.rows[i];
    std::memcpy(a.data() + i * row_bytes, values + static_cast<std::size_t>(row) * row_bytes, row_bytes);
    if (scale_row_bytes != 0)
      std::memcpy(a_scale.data() + i * scale_row_bytes,
                  value_scales + static_cast<std::size_t>(problem.a_scale.grid.row_of(row)) * scale_row_bytes,
                  scale_row_bytes);
  }
  const numerics::Operand left{problem.a, a.data(),   rows,           problem.k,
                               problem.k, scale_type, a_scale.data(), {1, problem.a_scale.grid.group_cols},
                               scale_cols};
  const numerics::Operand right{problem.b,
                                operands.b.data(),
                                problem.n,
                                problem.k,
                                problem.k,
                                problem.b_scale.dtype,
                                operands.b_scale.data(),
                                problem.b_scale.grid,
                                problem.b_scale.grid.scale_cols(problem.k)};
  expected.oracle = numerics::oracle(left, right);
  return expected;
}

Workload::Workload(const Device& device, const report::Problem& problem, const Operands& operands,
                   std::uint64_t rotate_bytes, WeightsPool* pool, const std::string& layout)
    : problem_(problem), queue_(device) {
  const double before_plan = now_ns();
  plan_ = Gemm(device, report::to_gemm_desc(problem));
  plan_ns_ = now_ns() - before_plan;

  const WeightsDesc weights{.n = problem.n,
                            .k = problem.k,
                            .dtype = static_cast<ironcl_dtype>(problem.b),
                            .scale = report::to_scale(problem.b_scale),
                            .data = operands.b,
                            .scales = operands.b_scale};
  const std::uint64_t one = std::max<std::uint64_t>(operands.b.size(), 1);
  const std::uint64_t copies = std::clamp<std::uint64_t>((rotate_bytes + one - 1) / one, 1, 64);
  if (pool != nullptr) weights_ = pool->of(layout);
  if (weights_ == nullptr) weights_ = std::make_shared<std::vector<Weights>>();
  while (weights_->size() < copies) {
    const double before = now_ns();
    weights_->emplace_back(device, weights, &plan_);
    if (prepare_ns_ == 0) prepare_ns_ = now_ns() - before;
  }
  if (pool != nullptr) pool->of(layout) = weights_;
  // Few distinct copies of A are enough: it is rewritten or small beside the weights that pass between two uses.
  const std::uint64_t a_copies = std::min<std::uint64_t>(copies, 4);
  for (std::uint64_t i = 0; i < a_copies; ++i) {
    a_.emplace_back(device, std::max<std::uint64_t>(operands.a.size(), 1));
    if (!operands.a.empty()) queue_.write(a_.back(), std::span(operands.a));
    if (operands.a_scale.empty()) continue;
    a_scale_.emplace_back(device, operands.a_scale.size());
    queue_.write(a_scale_.back(), std::span(operands.a_scale));
  }
  d_ = Buffer(device, std::max<std::uint64_t>(bytes_of_matrix(problem.d, problem.m, problem.n), 1));
  if (const std::uint64_t bytes = plan_.info().workspace_bytes; bytes != 0) workspace_ = Buffer(device, bytes);
  queue_.finish();
}

GemmArgs Workload::arguments(std::size_t copy) const {
  GemmArgs args;
  args.m = problem_.m;
  args.weights = (*weights_)[copy % weights_->size()];
  args.a = a_[copy % a_.size()];
  if (!a_scale_.empty()) args.a_scale = a_scale_[copy % a_scale_.size()];
  args.d = d_;
  if (workspace_) args.workspace = workspace_;
  return args;
}

Timing Workload::run() {
  Timing timing;
  const double before = now_ns();
  const Event event = queue_.run(plan_, arguments(next_++));
  event.wait();
  timing.host_ns = now_ns() - before;
  const ironcl_event_profile profile = event.profile();
  timing.device_ns = static_cast<double>(profile.end_ns - profile.start_ns);
  timing.time_kind = profile.time_kind;
  return timing;
}

Check Workload::check(const Expected& expected) {
  Check check;
  const std::size_t bytes = bytes_of_matrix(problem_.d, problem_.m, problem_.n);
  std::vector<std::byte> d(bytes);
  if (bytes == 0) {
    check.pass = true;
    return check;
  }
  poison(problem_.d, d);
  const std::vector<std::byte> poisoned = d;
  queue_.write(d_, std::span(d));
  queue_.run(plan_, arguments(next_++)).wait();
  queue_.read(d_, std::span(d)).wait();

  const std::size_t width = numerics::size_of(problem_.d);
  for (std::size_t i = 0; i < bytes; i += width)
    if (std::memcmp(d.data() + i, poisoned.data() + i, width) == 0) ++check.unwritten;

  std::vector<double> got;
  got.reserve(expected.rows.size() * static_cast<std::size_t>(problem_.n));
  for (const std::int64_t row : expected.rows)
    for (std::int64_t col = 0; col < problem_.n; ++col)
      got.push_back(numerics::load_as_f64(problem_.d, d.data(), row * problem_.n + col));
  const ironcl_gemm_info info = plan_.info();
  check.comparison = numerics::compare(got, expected.oracle,
                                       {.out = problem_.d,
                                        .accuracy = static_cast<numerics::AccuracyClass>(info.accuracy_class),
                                        .k = problem_.k,
                                        .accumulation_length = info.accumulation_length});
  const auto to_row_of_d = [&](std::int64_t& row) {
    if (row >= 0) row = expected.rows[static_cast<std::size_t>(row)];
  };
  to_row_of_d(check.comparison.worst_row);
  to_row_of_d(check.comparison.first_row);
  check.rows_checked = static_cast<std::int64_t>(expected.rows.size());
  check.pass = check.comparison.pass && check.unwritten == 0;
  if (check.unwritten != 0)
    check.why = std::to_string(check.unwritten) + " elements of D were never written";
  else if (!check.comparison.pass)
    check.why = "D[" + std::to_string(check.comparison.worst_row) + ", " +
                std::to_string(check.comparison.worst_col) + "] is " + std::to_string(check.comparison.worst_got) +
                ", expected " + std::to_string(check.comparison.worst_want);
  return check;
}

}  // namespace ironcl::tuning
