// SPDX-License-Identifier: Apache-2.0
// A grouped problem made ready on a device, and what is checked after each call.
#include "tests/conformance/suite/grouped.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backends/numerics/casts.h"
#include "backends/numerics/experts.h"
#include "tests/conformance/suite/groups.h"
#include "tests/quantized_output.h"

namespace ironcl::conformance {
namespace {

std::vector<std::byte> row_of(const std::vector<std::byte>& tight, std::int64_t row, std::size_t bytes) {
  const auto from = tight.begin() + static_cast<std::ptrdiff_t>(at(row) * bytes);
  return {from, from + static_cast<std::ptrdiff_t>(bytes)};
}

void set_row(std::vector<std::byte>& tight, std::int64_t row, std::size_t bytes, std::byte value) {
  std::fill_n(tight.begin() + static_cast<std::ptrdiff_t>(at(row) * bytes), bytes, value);
}

/// Every element times 2^exponent.
void scale_all(DType type, std::vector<std::byte>& values, int exponent) {
  if (type == DType::none) return;
  const auto count = static_cast<std::int64_t>(values.size() / numerics::size_of(type));
  for (std::int64_t i = 0; i < count; ++i) {
    store(type, values, i, std::ldexp(numerics::load_as_f64(type, values.data(), i), exponent));
  }
}

/// The rows of A that a matrix multiplies.
std::vector<bool> rows_in_use(const GroupedProblem& p, const std::vector<std::int64_t>& begin,
                              const std::vector<std::int64_t>& used, const std::vector<std::int32_t>& index) {
  std::vector<bool> out(at(p.rows_of_a()));
  for (std::size_t g = 0; g < begin.size(); ++g) {
    for (std::int64_t row = begin[g]; row < begin[g] + used[g]; ++row) {
      const std::int64_t from = p.a_rows == 0 ? row : std::clamp<std::int64_t>(index[at(row)], 0, p.a_rows - 1);
      out[at(from)] = true;
    }
  }
  return out;
}

struct Dealt {
  std::vector<std::int64_t> begin, used;
};

Dealt dealt(const GroupedProblem& p) {
  Dealt out{std::vector<std::int64_t>(p.counts.size()), std::vector<std::int64_t>(p.counts.size())};
  numerics::clamp_counts(p.counts, p.masked() ? p.m : p.call_rows(), p.masked(), out.begin, out.used);
  return out;
}

/// Rows of A in an order that jumps, and where nobody reads it, nonsense.
std::vector<std::int32_t> make_index(const GroupedProblem& p, const Dealt& rows, Random& random) {
  std::vector<std::int32_t> index(at(p.rows()), std::numeric_limits<std::int32_t>::min());
  for (std::size_t g = 0; g < rows.begin.size(); ++g) {
    for (std::int64_t row = rows.begin[g]; row < rows.begin[g] + rows.used[g]; ++row) {
      index[at(row)] = static_cast<std::int32_t>(random.between(0, p.a_rows - 1));
      if (p.wild_index && row % 3 == 0)
        index[at(row)] = row % 2 == 0 ? -1 - static_cast<std::int32_t>(row) : 0x7ffffff0;
    }
  }
  return index;
}

}  // namespace

ironcl_gemm_desc GroupedProblem::desc() const {
  ironcl_gemm_desc out = dense.desc();
  out.m = m;
  out.grouping = grouping;
  out.matrices = static_cast<std::uint32_t>(counts.size());
  out.a_rows = a_rows;
  if (d_scale.dtype != DType::none) {
    out.d_scale.dtype = static_cast<ironcl_dtype>(d_scale.dtype);
    out.d_scale.group_rows = static_cast<std::uint32_t>(d_scale.rows);
    out.d_scale.group_cols = static_cast<std::uint32_t>(d_scale.cols);
    if (d_scale.pad != 0) out.d_scale.ld = d_scale.grid().scale_cols(dense.n) + d_scale.pad;
  }
  return out;
}

std::string GroupedProblem::line() const {
  std::string list;
  for (std::size_t g = 0; g < counts.size() && g < 12; ++g) list += fmt::format("{}{}", g == 0 ? "" : ",", counts[g]);
  if (counts.size() > 12) list += ",...";
  return fmt::format("{} {} matrices, rows {} of {}{}, {}", masked() ? "masked" : "contiguous", counts.size(), list,
                     call_rows(), a_rows != 0 ? fmt::format(" gathered from {}", a_rows) : "", dense.line());
}

GroupedProblem contiguous(std::vector<std::int32_t> counts, std::int64_t tail) {
  GroupedProblem p;
  p.dense = base_problem();
  p.dense.n = 136, p.dense.k = 264;
  p.m = std::accumulate(counts.begin(), counts.end(), tail);
  p.counts = std::move(counts);
  return p;
}

GroupedProblem masked(std::vector<std::int32_t> counts, std::int64_t capacity) {
  GroupedProblem p = contiguous(std::move(counts));
  p.grouping = IRONCL_GROUPING_MASKED;
  p.m = capacity;
  return p;
}

GroupedOperands make_operands(const Context& context, const GroupedProblem& p) {
  Random random(context.seed);
  GroupedOperands out;
  Problem rows = p.dense;
  rows.m = p.rows_of_a(), rows.rows = -1;
  Operands whole = make_operands(rows);
  rows.fill(rows, random, whole);
  out.a = std::move(whole.a), out.a_scale = std::move(whole.a_scale);
  for (std::size_t g = 0; g < p.counts.size(); ++g) {
    Problem matrix = p.dense;
    matrix.m = 0, matrix.rows = -1;
    Operands operands = make_operands(matrix);
    matrix.fill(matrix, random, operands);
    const int exponent = p.spread_scales ? static_cast<int>(g % 40) - 20 : 0;
    if (p.dense.b_scale.dtype != DType::none) {
      scale_all(p.dense.b_scale.dtype, operands.b_scale, exponent);
    } else {
      scale_all(p.dense.b, operands.b, exponent);
    }
    out.matrix.push_back(std::move(operands));
  }
  const Dealt rows_of = dealt(p);
  if (p.a_rows != 0) out.index = make_index(p, rows_of, random);
  const std::vector<bool> in_use = rows_in_use(p, rows_of.begin, rows_of.used, out.index);
  const std::size_t bytes = at(p.dense.k) * numerics::size_of(p.dense.a_given());
  const std::size_t scale_bytes = out.a_scale.empty() ? 0 : out.a_scale.size() / in_use.size();
  for (std::int64_t row = 0; row < p.rows_of_a(); ++row) {
    if (in_use[at(row)]) continue;
    set_row(out.a, row, bytes, std::byte{0x7f});  // a NaN in every type that has one (i8: 127)
    if (scale_bytes != 0) set_row(out.a_scale, row, scale_bytes, std::byte{0xff});
  }
  return out;
}

GroupedRig::GroupedRig(Context& context, const GroupedProblem& problem)
    : GroupedRig(context, problem, make_operands(context, problem)) {}

GroupedRig::GroupedRig(Context& context, const GroupedProblem& problem, GroupedOperands operands)
    : context_(context),
      problem_(problem),
      operands_(std::move(operands)),
      queue_(make_queue(context)),
      plan_(make_plan(context, problem.desc())),
      info_(info_of(context, plan_.get())),
      weights_(prepare()) {
  Dealt rows = dealt(problem_);
  begin_ = std::move(rows.begin), used_ = std::move(rows.used);
  reset();
}

Weights GroupedRig::prepare() {
  const Problem& p = problem_.dense;
  std::vector<std::byte> data, scales;
  for (const Operands& matrix : operands_.matrix) {
    data.insert(data.end(), matrix.b.begin(), matrix.b.end());
    scales.insert(scales.end(), matrix.b_scale.begin(), matrix.b_scale.end());
  }
  auto desc = sized<ironcl_weights_desc>();
  desc.dtype = static_cast<ironcl_dtype>(p.b);
  desc.n = p.n, desc.k = p.k;
  desc.matrices = static_cast<std::uint32_t>(problem_.counts.size());
  desc.scale = p.desc().b_scale;
  desc.data = data.data(), desc.data_bytes = data.size();
  desc.scales = scales.empty() ? nullptr : scales.data(), desc.scale_bytes = scales.size();
  desc.plan = plan_.get();
  ironcl_weights weights = nullptr;
  Error error;
  require(context_.table.weights_prepare(context_.device, &desc, &weights, &error), error, "weights_prepare");
  return {context_.table, weights};
}

void GroupedRig::reset() {
  const Problem& p = problem_.dense;
  const ironcl_queue queue = queue_.get();
  const std::int64_t rows = problem_.rows(), a_rows = problem_.rows_of_a();
  a_ = part(context_, queue, spread(p.a_given(), operands_.a, a_rows, p.k, p.lda(), 0));
  if (!operands_.a_scale.empty()) {
    a_scale_ =
        part(context_, queue,
             spread(p.a_scale.dtype, operands_.a_scale, a_rows, p.a_scale.grid().scale_cols(p.k), p.a_scale_ld(), 0));
  }
  d_ = part(context_, queue, extent(rows, p.ldd(), p.n, numerics::size_of(p.d)));
  if (problem_.d_scale.dtype != DType::none) {
    const std::int64_t width = problem_.d_scale.grid().scale_cols(p.n);
    d_scale_ = part(context_, queue, extent(rows, width + problem_.d_scale.pad, width, 4));
  }
  if (p.bias != DType::none) {
    std::vector<std::byte> all;
    for (const Operands& matrix : operands_.matrix) all.insert(all.end(), matrix.bias.begin(), matrix.bias.end());
    bias_ = part(context_, queue, all);
  }
  counts_ = part(context_, queue, bytes_of(problem_.counts));
  if (problem_.a_rows != 0) index_ = part(context_, queue, bytes_of(operands_.index));
}

ironcl_gemm_args GroupedRig::args() const {
  auto args = sized<ironcl_gemm_args>();
  args.m = problem_.masked() ? problem_.m : problem_.call_rows();
  args.weights = weights_.get();
  args.a = a_.span(), args.a_scale = a_scale_.span(), args.d = d_.span(), args.d_scale = d_scale_.span();
  args.bias = bias_.span(), args.matrix_rows = counts_.span();
  args.a_rows = args.m == 0 ? 0 : problem_.a_rows;
  args.a_index = index_.span();
  return args;
}

Event GroupedRig::enqueue(ironcl_queue queue, std::span<const ironcl_event> wait_for) {
  ironcl_gemm_args call = args();
  call.wait = wait_for.data();
  call.wait_count = static_cast<std::uint32_t>(wait_for.size());
  ironcl_event event = nullptr;
  Error error;
  require(context_.table.op_enqueue(plan_.get(), queue, &call, &event, &error), error, "op_enqueue");
  return {context_.table, event};
}

void GroupedRig::call() {
  reset();
  const Event event = enqueue(queue_.get());
  wait(context_, event.get(), "op_enqueue of a grouped problem");
}

Problem GroupedRig::dense_of(std::size_t g) const {
  Problem p = problem_.dense;
  p.m = used_[g], p.rows = -1;
  return p;
}

Operands GroupedRig::operands_of(std::size_t g) const {
  Operands out = operands_.matrix[g];
  const std::size_t bytes = at(problem_.dense.k) * numerics::size_of(problem_.dense.a_given());
  const std::size_t scale_bytes = operands_.a_scale.empty() ? 0 : operands_.a_scale.size() / at(problem_.rows_of_a());
  for (std::int64_t row = begin_[g]; row < begin_[g] + used_[g]; ++row) {
    const std::int64_t from =
        problem_.a_rows == 0 ? row : std::clamp<std::int64_t>(operands_.index[at(row)], 0, problem_.a_rows - 1);
    const auto values = row_of(operands_.a, from, bytes), scales = row_of(operands_.a_scale, from, scale_bytes);
    out.a.insert(out.a.end(), values.begin(), values.end());
    out.a_scale.insert(out.a_scale.end(), scales.begin(), scales.end());
  }
  return out;
}

void GroupedRig::expect_matrix(std::size_t g, const std::vector<std::byte>& d,
                               const std::vector<std::byte>& d_scales) {
  const Problem p = dense_of(g);
  const Expected want = expect(p, operands_of(g));
  const numerics::BoundTerms terms = bound_terms(p, info_);
  const std::size_t bytes = at(p.n) * numerics::size_of(p.d);
  const auto first = d.begin() + static_cast<std::ptrdiff_t>(at(begin_[g]) * bytes);
  std::vector<double> got(at(used_[g] * p.n));
  numerics::decode(p.d, d.data() + (first - d.begin()), std::span<double>(got));
  if (problem_.d_scale.dtype == DType::none) {
    const std::string wrong = wrong_about(p, terms, got, want.oracle);
    if (!wrong.empty()) ADD_FAILURE() << "matrix " << g << ": " << wrong << "   [" << problem_.line() << "]";
    return;
  }
  const numerics::ScaleGrid grid = problem_.d_scale.grid();
  const std::int64_t width = grid.scale_cols(p.n);
  const auto all = values_of<float>(d_scales);
  const std::vector<float> scales(all.begin() + begin_[g] * width, all.begin() + (begin_[g] + used_[g]) * width);
  numerics::BoundTerms f32 = terms;
  f32.out = DType::f32;
  const auto verdict = compare_quantized(got, p.d, scales, grid, numerics::Quantizer{}, bounded(want.oracle, f32));
  EXPECT_TRUE(verdict.pass) << fmt::format("matrix {}: {} codes of D are out of bounds, the first is [{}, {}]   [{}]",
                                           g, verdict.out_of_bounds, verdict.first_row, verdict.first_col,
                                           problem_.line());
}

void GroupedRig::expect_right() {
  const Problem& p = problem_.dense;
  const std::size_t element = numerics::size_of(p.d);
  const std::vector<std::byte> d = collect(context_, queue_.get(), d_, problem_.rows(), p.n, p.ldd(), element, "D");
  std::vector<std::byte> d_scales;
  const std::int64_t width = problem_.d_scale.dtype == DType::none ? 0 : problem_.d_scale.grid().scale_cols(p.n);
  if (width != 0) {
    d_scales =
        collect(context_, queue_.get(), d_scale_, problem_.rows(), width, width + problem_.d_scale.pad, 4, "d_scale");
  }
  std::vector<bool> used(at(problem_.rows()));
  for (std::size_t g = 0; g < begin_.size(); ++g) {
    std::fill_n(used.begin() + begin_[g], used_[g], true);
    if (used_[g] != 0) expect_matrix(g, d, d_scales);
  }
  const auto untouched = [](const std::vector<std::byte>& bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kPattern; });
  };
  for (std::int64_t row = 0; row < problem_.rows(); ++row) {
    if (used[at(row)]) continue;
    ASSERT_TRUE(untouched(row_of(d, row, at(p.n) * element)))
        << "row " << row << " of D is no matrix's and was written   [" << problem_.line() << "]";
    ASSERT_TRUE(untouched(row_of(d_scales, row, at(width) * 4)))
        << "row " << row << " of d_scale is no matrix's and was written   [" << problem_.line() << "]";
  }
}

std::vector<std::byte> GroupedRig::used_bytes() {
  const Problem& p = problem_.dense;
  const std::size_t element = numerics::size_of(p.d), bytes = at(p.n) * element;
  const std::vector<std::byte> d = collect(context_, queue_.get(), d_, problem_.rows(), p.n, p.ldd(), element, "D");
  std::vector<std::byte> out;
  for (std::size_t g = 0; g < begin_.size(); ++g) {
    const auto from = d.begin() + static_cast<std::ptrdiff_t>(at(begin_[g]) * bytes);
    out.insert(out.end(), from, from + static_cast<std::ptrdiff_t>(at(used_[g]) * bytes));
  }
  return out;
}

}  // namespace ironcl::conformance
