// SPDX-License-Identifier: Apache-2.0
// From spans to arrays in HBM, and what happens outside of the kernel: scales of dynamic quantisation, conversion of
// scales and bias to f32.
#include "backends/ironwood/operations.h"

#include <cstring>

#include "backends/ironwood/memory.h"
#include "backends/ironwood/program.h"
#include "backends/ironwood/queue.h"
#include "backends/numerics/casts.h"

namespace ironcl::ironwood {

using backend::GemmArgs;
using numerics::DType;
using numerics::size_of;

namespace {

bool makes_scales(const Problem& p) noexcept { return p.quantizes_x() && !p.a_quantizer.given; }

/// Rows of a call: of all matrices together, and those that A has.
std::int64_t rows_of(const Problem& p, const GemmArgs& args) noexcept {
  return p.grouping == backend::Grouping::masked ? p.rows() : args.m;
}
std::int64_t rows_of_a(const Problem& p, const GemmArgs& args) noexcept {
  return p.a_rows != 0 ? args.a_rows : rows_of(p, args);
}

/// The row of A for each row of the problem that is computed (0 for the others), clamped; empty without a gather.
std::vector<std::int32_t> gather_of(const Problem& p, const GemmArgs& args, std::span<const MatrixRows> dealt) {
  const auto given = numbers<const std::int32_t>(args.a_index, rows_of(p, args));
  if (given.empty()) return {};
  std::vector<std::int32_t> index(given.size());
  for (const MatrixRows& own : dealt) {
    for (std::int64_t row = own.first; row < own.first + own.rows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      index[at] = static_cast<std::int32_t>(std::clamp<std::int64_t>(given[at], 0, args.a_rows - 1));
    }
  }
  return index;
}

/// The scales of A in f32, [rows of groups, K groups]; those that the caller gave, or those of quantising, which
/// shows codes and scales where the caller asked for them. A grid of one row has them for rows that are computed and
/// no others.
std::vector<float> scales_of_a(const Problem& p, const GemmArgs& args, std::span<const MatrixRows> parts) {
  const std::int64_t cols = p.a_scale.grid.scale_cols(p.k);
  std::vector<float> scales(static_cast<std::size_t>(p.a_scale.grid.scale_rows(rows_of_a(p, args)) * cols));
  std::vector<std::uint8_t> unseen;
  for (const MatrixRows& part : parts) {
    const std::int64_t first = part.first, rows = p.a_scale.grid.scale_rows(part.rows);
    const std::span<float> own(scales.data() + first * cols, static_cast<std::size_t>(rows * cols));
    if (!makes_scales(p)) {
      for (std::int64_t i = 0; i < rows; ++i) {
        numerics::decode(p.a_scale.dtype,
                         address_of(args.a_scale) + (first + i) * p.a_scale.ld * size_of(p.a_scale.dtype),
                         own.subspan(static_cast<std::size_t>(i * cols), static_cast<std::size_t>(cols)));
      }
      continue;
    }
    auto* codes = reinterpret_cast<std::uint8_t*>(address_of(args.a_quantized));
    const auto count = static_cast<std::size_t>(part.rows * p.k);
    if (codes == nullptr) unseen.resize(count);
    numerics::quantize(p.x(), address_of(args.a) + first * p.lda * size_of(p.x()), part.rows, p.k, p.lda, p.a,
                       p.a_scale.grid, p.a_quantizer, {codes == nullptr ? unseen.data() : codes + first * p.k, count},
                       own);
    if (codes != nullptr)
      std::memcpy(address_of(args.a_quantized_scale) + first * cols * size_of(DType::f32), own.data(),
                  own.size_bytes());
  }
  return scales;
}

/// The same as the kernel reads them: of a grid of one row [K groups, rows of the problem].
std::vector<float> lay_out_scales_of_a(const Problem& p, const GemmArgs& args, std::span<const MatrixRows> dealt,
                                       std::span<const std::int32_t> gather) {
  if (!p.scaled_x()) return {};
  const MatrixRows all{.matrix = 0, .first = 0, .rows = rows_of_a(p, args)};
  const bool row_by_row = p.a_scale.grid.group_rows == 1;
  std::vector<float> scales = scales_of_a(p, args, row_by_row && gather.empty() ? dealt : std::span(&all, 1));
  if (!row_by_row) return scales;
  const std::int64_t cols = p.a_scale.grid.scale_cols(p.k), rows = rows_of(p, args);
  std::vector<float> laid_out(static_cast<std::size_t>(cols * rows));
  for (const MatrixRows& own : dealt) {
    for (std::int64_t row = own.first; row < own.first + own.rows; ++row) {
      const std::int64_t from = gather.empty() ? row : gather[static_cast<std::size_t>(row)];
      for (std::int64_t j = 0; j < cols; ++j) {
        laid_out[static_cast<std::size_t>(j * rows + row)] = scales[static_cast<std::size_t>(from * cols + j)];
      }
    }
  }
  return laid_out;
}

class PlannedGemm final : public Command<GemmArgs, backend::Gemm> {
 public:
  PlannedGemm(Plan plan, std::shared_ptr<Workers> workers)
      : Command([this](const GemmArgs& args) { return run(args); }),
        plan_(std::move(plan)),
        workers_(std::move(workers)) {}

  backend::GemmInfo info() const override {
    return {.accuracy = backend::AccuracyClass::f32,
            .accumulation_length = plan_.problem.group,
            .variant = fmt::format("ironwood_{}", name_of(plan_.problem.family)),
            .tuning = describe(plan_),
            .form = "row_major"};
  }

 private:
  double run(const GemmArgs& args) const;
  /// Multiplies, and leaves D at `d`, rows `row_bytes` apart.
  double multiply(const GemmArgs& args, std::span<const MatrixRows> dealt, std::byte* d,
                  std::int64_t row_bytes) const;

  Plan plan_;
  std::shared_ptr<Workers> workers_;
};

double PlannedGemm::run(const GemmArgs& args) const {
  const Problem& p = plan_.problem;
  if (args.m == 0) return 0;
  // Whose rows are whose, read from the device's memory now.
  const std::vector<MatrixRows> dealt =
      deal_rows(p.grouping, args.m, numbers<const std::int32_t>(args.matrix_rows, p.matrices));
  if (p.d_later == DType::none) return multiply(args, dealt, address_of(args.d), p.ldd * size_of(p.d));
  std::vector<float> d(static_cast<std::size_t>(numerics::checked_mul(rows_of(p, args), p.n)));
  double time_ns = multiply(args, dealt, reinterpret_cast<std::byte*>(d.data()), p.n * size_of(p.d));
  const std::int64_t cols = p.d_cols();
  // A grouped D has scales of single rows, so that those of a matrix begin with its rows.
  for (const MatrixRows& own : dealt) {
    const backend::ScaleDesc& scale = p.d_scale;
    float* const rows = d.data() + own.first * p.n;
    std::byte* const to = address_of(args.d) + own.first * p.ldd * size_of(p.d_later);
    if (p.gate != backend::Activation::none) {
      for (std::int64_t i = 0; i < own.rows * cols; ++i) {
        float* const gate = rows + i / cols * p.n + i % cols;
        *gate = numerics::activate(p.gate, gate[0], gate[cols], p.activation_limit);
      }
    }
    if (numerics::is_quantized(p.d_later)) {
      numerics::quantize(DType::f32, rows, own.rows, cols, p.n, scale.grid, p.d_quantizer,
                         {.type = p.d_later,
                          .codes = to,
                          .ld = p.ldd,
                          .scale_type = scale.dtype,
                          .scales = address_of(args.d_scale) + own.first * scale.ld * size_of(scale.dtype),
                          .scale_ld = scale.ld});
    } else {
      for (std::int64_t row = 0; row < own.rows; ++row)
        numerics::encode(p.d_later, {rows + row * p.n, static_cast<std::size_t>(cols)},
                         to + row * p.ldd * size_of(p.d_later));
    }
    time_ns += quantizing_ns(plan_.machine, own.rows, p.n, DType::f32, p.d_later, scale);
  }
  return time_ns;
}

double PlannedGemm::multiply(const GemmArgs& args, std::span<const MatrixRows> dealt, std::byte* d,
                             std::int64_t row_bytes) const {
  const Problem& p = plan_.problem;
  const auto& weights = dynamic_cast<const PreparedWeights&>(*args.weights);
  std::vector<std::int32_t> gather = gather_of(p, args, dealt);
  std::vector<float> x_scales = lay_out_scales_of_a(p, args, dealt, gather);

  Operands operands = describe_operands(plan_, rows_of(p, args));
  operands.x.data = address_of(args.a);
  operands.x.row_bytes = p.lda * size_of(p.x());
  operands.x.row_index = gather.empty() ? nullptr : gather.data();
  operands.x_scale.data = reinterpret_cast<std::byte*>(x_scales.data());
  operands.out.data = d;
  operands.out.row_bytes = row_bytes;
  std::vector<float> bias;
  if (args.bias) {
    bias.resize(static_cast<std::size_t>(p.n * std::max<std::int64_t>(p.matrices, 1)));
    numerics::decode(p.bias, address_of(args.bias), bias);
  }
  // The engine reads and writes arrays through one pointer type; it never writes an input.
  auto* codes = const_cast<std::byte*>(weights.codes().data());
  auto* scales = const_cast<float*>(weights.scales().data());
  operands.rows.assign(dealt.begin(), dealt.end());
  const std::int64_t matrices = std::ssize(operands.matrices);
  const std::int64_t scale_count = std::ssize(weights.scales()) / matrices;
  for (std::int64_t g = 0; g < matrices; ++g) {
    Operands::Matrix& matrix = operands.matrices[static_cast<std::size_t>(g)];
    matrix.w.data = codes + g * p.n * p.k * size_of(p.w());
    matrix.w_scale.data = reinterpret_cast<std::byte*>(scales + g * scale_count);
    if (!bias.empty()) matrix.bias.data = reinterpret_cast<std::byte*>(bias.data() + g * p.n);
  }
  return run_program(plan_, operands, workers_.get(), nullptr).core.end_ns;
}

}  // namespace

std::string describe(const Plan& plan) {
  return fmt::format(
      "tpu={},kernel_blocks={},{},{},mode={},program={},buffers={},save_x_q={},save_acc={},blocks_from={}{}",
      plan.machine.tpu->key, plan.blocks.b, plan.blocks.o, plan.blocks.i, name_of(plan.mode), name_of(plan.program),
      plan.buffers, plan.save_x_q ? "on" : "off", plan.save_acc ? "on" : "off", plan.source,
      plan.problem.d_later != DType::none ? ",d=made in a pass of its own" : "");
}

std::shared_ptr<backend::Gemm> make_gemm(Plan plan, std::shared_ptr<Workers> workers) {
  return std::make_shared<PlannedGemm>(std::move(plan), std::move(workers));
}

}  // namespace ironcl::ironwood
