// SPDX-License-Identifier: Apache-2.0
// From spans to arrays in HBM, and what happens outside of the kernel: scales of dynamic quantisation, conversion of
// scales and bias to f32.
#include "backends/ironwood/gemm.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "backends/ironwood/memory.h"
#include "backends/ironwood/quantize_tile.h"
#include "backends/ironwood/queue.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/checked.h"

namespace ironcl::ironwood {

using backend::Error;
using backend::GemmArgs;
using backend::Status;
using numerics::DType;
using numerics::size_of;

namespace {

/// Bytes from the first element of a rows x cols matrix to its last; 0 without rows.
std::uint64_t extent(std::int64_t rows, std::int64_t cols, std::int64_t ld, std::uint32_t element) {
  if (rows == 0 || cols == 0) return 0;
  return static_cast<std::uint64_t>(
      numerics::checked_mul(numerics::checked_add(numerics::checked_mul(rows - 1, ld), cols), element));
}

/// Everything of a call that a check can refuse, before any of it runs.
struct Bound {
  const PreparedWeights* weights = nullptr;
  std::byte* a = nullptr;
  std::byte* d = nullptr;
  const std::byte* a_scale = nullptr;
  const std::byte* bias = nullptr;
  std::byte* a_quantized = nullptr;
  std::byte* a_quantized_scale = nullptr;
};

Bound bind(const Problem& p, const GemmArgs& args) {
  Bound bound;
  bound.weights = dynamic_cast<const PreparedWeights*>(args.weights.get());
  if (bound.weights == nullptr) {
    throw Error(Status::invalid_argument, "ironwood: weights are missing or of another backend");
  }
  const PreparedWeights& w = *bound.weights;
  const bool same_grid = w.scale_dtype() == DType::none || w.grid() == p.w_grid;
  if (w.n() != p.n || w.k() != p.k || w.dtype() != p.w || w.scale_dtype() != p.w_scale || !same_grid) {
    throw Error(
        Status::invalid_argument,
        fmt::format("ironwood: weights of {} {}x{} with scales {} {}x{}; the plan expects {} {}x{} with {} {}x{}",
                    numerics::name_of(w.dtype()), w.n(), w.k(), numerics::name_of(w.scale_dtype()),
                    w.grid().group_rows, w.grid().group_cols, numerics::name_of(p.w), p.n, p.k,
                    numerics::name_of(p.w_scale), p.w_grid.group_rows, p.w_grid.group_cols));
  }
  if (args.m < 0 || args.m > p.m) {
    throw Error(Status::invalid_argument, fmt::format("ironwood: m is {}; the plan takes 0 to {}", args.m, p.m));
  }
  if (args.m == 0) return bound;
  bound.a = address_of(args.a, extent(args.m, p.k, p.ldx, size_of(p.x)), "A");
  bound.d = address_of(args.d, extent(args.m, p.n, p.ldd, size_of(p.d)), "D");
  const std::int64_t scale_rows = p.x_grid.scale_rows(args.m), scale_cols = p.x_grid.scale_cols(p.k);
  if (p.scaled_x && !p.quantize_x) {
    bound.a_scale =
        address_of(args.a_scale, extent(scale_rows, scale_cols, p.x_scale_ld, size_of(p.x_scale)), "the scales of A");
  }
  if (p.bias != DType::none) bound.bias = address_of(args.bias, extent(1, p.n, p.n, size_of(p.bias)), "the bias");
  if (p.quantize_x && (args.a_quantized || args.a_quantized_scale)) {
    bound.a_quantized = address_of(args.a_quantized, extent(args.m, p.k, p.k, 1), "a_quantized");
    bound.a_quantized_scale =
        address_of(args.a_quantized_scale, extent(scale_rows, scale_cols, scale_cols, 4), "a_quantized_scale");
  }
  return bound;
}

}  // namespace

std::string describe(const Plan& plan) {
  return fmt::format(
      "tpu={},kernel_blocks={},{},{},mode={},program={},buffers={},save_x_q={},save_acc={},blocks_from={}",
      plan.machine.tpu->key, plan.blocks.b, plan.blocks.o, plan.blocks.i, name_of(plan.mode), name_of(plan.program),
      plan.buffers, plan.save_x_q ? "on" : "off", plan.save_acc ? "on" : "off", plan.source);
}

PlannedGemm::PlannedGemm(const backend::GemmDesc& desc, Plan plan, std::shared_ptr<Workers> workers)
    : desc_(desc), plan_(std::move(plan)), workers_(std::move(workers)) {}

backend::GemmInfo PlannedGemm::info() const {
  backend::GemmInfo info;
  info.accuracy = backend::AccuracyClass::f32;
  info.accumulation_length = plan_.problem.group;
  info.variant = fmt::format("ironwood_{}", name_of(plan_.problem.family));
  info.config = describe(plan_);
  return info;
}

std::shared_ptr<backend::Event> PlannedGemm::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                                     const GemmArgs& args) {
  auto* model_queue = dynamic_cast<ModelQueue*>(queue.get());
  if (model_queue == nullptr) throw Error(Status::invalid_argument, "ironwood: the queue is of another backend");
  bind(plan_.problem, args);
  return model_queue->run(args.wait, [&] { return run(args); });
}

double PlannedGemm::run(const GemmArgs& args) const {
  const Problem& p = plan_.problem;
  const Bound bound = bind(p, args);
  const std::int64_t m = args.m;
  if (m == 0) return 0;
  Operands operands = describe_operands(plan_, m);
  operands.x.data = bound.a;
  operands.x.row_bytes = p.ldx * size_of(p.x);
  operands.out.data = bound.d;
  operands.out.row_bytes = p.ldd * size_of(p.d);
  // The engine reads and writes arrays through one pointer type; it never writes an input.
  operands.w.data = const_cast<std::byte*>(bound.weights->codes().data());
  operands.w_scale.data = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(bound.weights->scales().data()));

  std::vector<float> x_scales, bias;
  if (p.quantize_x) {
    const std::int64_t rows = p.x_grid.scale_rows(m), cols = p.x_grid.scale_cols(p.k);
    const bool transposed = p.x_grid.group_rows == 1;
    x_scales.resize(static_cast<std::size_t>(rows * cols));
    make_scales(p.x, bound.a, m, p.k, p.ldx, p.code, p.x_grid, p.quantizer, x_scales.data(), transposed ? 1 : cols,
                transposed ? rows : 1);
    if (bound.a_quantized != nullptr) {
      numerics::quantize(p.x, bound.a, m, p.k, p.ldx, p.code, p.x_grid, p.quantizer,
                         {reinterpret_cast<std::uint8_t*>(bound.a_quantized), static_cast<std::size_t>(m * p.k)},
                         {reinterpret_cast<float*>(bound.a_quantized_scale), static_cast<std::size_t>(rows * cols)});
    }
  } else if (p.scaled_x) {
    x_scales = lay_out_scales(p.x_scale, bound.a_scale, p.x_grid, m, p.k, p.x_scale_ld);
  }
  operands.x_scale.data = reinterpret_cast<std::byte*>(x_scales.data());
  if (bound.bias != nullptr) {
    bias.resize(static_cast<std::size_t>(p.n));
    numerics::decode(p.bias, bound.bias, std::span<float>(bias));
    operands.bias.data = reinterpret_cast<std::byte*>(bias.data());
  }
  return run_program(plan_, m, operands, workers_.get(), nullptr).time_ns;
}

}  // namespace ironcl::ironwood
