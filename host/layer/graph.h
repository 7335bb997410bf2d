// SPDX-License-Identifier: Apache-2.0
// A layer as a list of operations with named values between them. A matrix by itself is a list of one product; a
// layer of experts is this list, its gate and up one product where one grid describes both
// (else two, and an `activate` operation):
//
//   router    product    x, router                       -> logits [T, E]
//   route     route      logits, bias (or sort: ids)     -> ids, weights, counts, index, rows, shared weights
//   quantise  quantize   x                               -> x codes [T, H], once; left out where one product, or few
//                                                           tokens, make that cheaper in the plans
//   gate, up  product    x or its codes by index, counts -> activation [T k, I], quantised again along I here or by
//                                                           the plan of down (hands_on_codes)
//   down      product    activation, counts              -> down [T k, H] f32, or of y's bf16 (rounds_rows)
//   (the shared expert: the last two over T rows; or, of the experts' form and on the same device, it is the first
//   matrix of theirs, which have T (k + 1) rows then, and its rows, the first T of down, are added)
//   combine   combine    down, rows, weights, shared     -> y [T, H], in the order of the slots, rounded once
//
// Three parts walk the list: runner.h on a device, oracle.h in f64, judge.h value by value.
#pragma once

#include <variant>

#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/experts_source.h"

namespace ironcl::layer {

using ValueId = std::size_t;
inline constexpr ValueId kNoValue = static_cast<ValueId>(-1);

/// A matrix between two operations, or one that a caller brings. Row-major and tight.
struct Value {
  std::string name;  ///< Printed, and looked up by find().
  numerics::DType dtype = numerics::DType::none;
  std::int64_t cols = 0;
  std::int64_t rows_per_token = 1;  ///< Rows of a call of T tokens, with those of `rows` that do not depend on T.
  std::int64_t rows = 0;
  report::Scales scales{};  ///< Scales of a quantised value.
  bool by_expert = false;   ///< Rows lie sorted by expert; those that no expert has are undefined.
  bool brought = false;     ///< The caller of each call brings it.

  std::int64_t rows_of(std::int64_t tokens) const noexcept { return rows_per_token * tokens + rows; }
  /// Of a call of `tokens` tokens. Throw std::overflow_error.
  std::size_t bytes(std::int64_t tokens) const;
  std::size_t scale_bytes(std::int64_t tokens) const;
};

/// D = A times B transposed.
struct ProductOp {
  enum In : std::size_t { kA, kCounts, kIndex, kBias };
  report::Problem problem;  ///< m: the most rows of a call.
  Projection matrix = Projection::whole;
  bool shared = false;             ///< It belongs to the shared expert.
  bool shared_first = false;       ///< Of its matrices the first is the shared expert's, the others the experts'.
  ValueId quantized_a = kNoValue;  ///< Where the plan shows how it quantised A, if a call asks for that.
};

struct QuantizeOp {
  numerics::Quantizer quantizer;
};

/// Chooses experts and sorts rows by them; with ids only the latter.
struct RouteOp {
  enum In : std::size_t { kLogits, kBias, kIds };
  enum Out : std::size_t { kCounts, kIndex, kRows, kSharedWeights, kChosenIds, kWeights };
  numerics::Routing routing;
  std::int64_t first_expert = 0;  ///< The experts that are here: as many as kCounts has columns, less a shared one.
  bool shared_first = false;      ///< A shared expert's rows come before theirs.
};

struct ActivateOp {
  enum In : std::size_t { kGate, kUp, kCounts };
  numerics::Activation function = numerics::Activation::silu;
  float limit = 0;
  numerics::Quantizer quantizer;
};

struct CombineOp {
  enum In : std::size_t { kX, kRows, kWeights, kAdd, kAddWeights };
};

/// Inputs and outputs stand in the order of the enumerators above; kNoValue for those that are absent.
struct Operation {
  std::string name;
  std::variant<ProductOp, QuantizeOp, RouteOp, ActivateOp, CombineOp> what;
  std::vector<ValueId> in, out;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Operation> operations;
  ValueId result = kNoValue;

  ValueId add(Value value);
  /// The value of that name; kNoValue where there is none.
  ValueId find(std::string_view name) const noexcept;
  /// Which operations a call runs that is given some values and wants another: those whose outputs are needed. An
  /// operation that sorts given ids stands in for the one that chooses them.
  std::vector<std::size_t> needed(const std::vector<ValueId>& given, ValueId wanted) const;
};

/// The caller's choices for a layer of experts.
struct ExpertsChoices {
  std::int64_t tokens = 0;                      ///< T: the most that a call will bring, at least 1.
  numerics::DType x = numerics::DType::bf16;    ///< Type of x: f32, f16, bf16.
  numerics::DType out = numerics::DType::bf16;  ///< Type of y: f32, f16, bf16.
  numerics::AccuracyClass weakest_accuracy = numerics::AccuracyClass::f32;
  std::vector<std::pair<std::string, std::string>> options{};  ///< A backend's own, for the grouped plans.
};

/// Throws ironcl::Error INVALID_ARGUMENT.
template <class... Args>
[[noreturn]] void invalid(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(IRONCL_INVALID_ARGUMENT, 0, fmt::format(text, std::forward<Args>(args)...));
}

/// Of a product of a layer of experts its matrix `number`, and all of them, one after another. Throw
/// std::overflow_error for sizes.
StackedMatrices matrix_of(const ExpertsSource& source, const ProductOp& product, std::int64_t number);
StackedMatrices matrices_of(const ExpertsSource& source, const ProductOp& product);

/// The list of one product: values "x", "d" and, where the problem has them, "bias" and "counts".
Graph graph_of(const report::Problem& problem);

/// Whether a product with an activation hands on codes, for `tokens` with on average so many rows of a matrix, or
/// f32, which the plan of the next one quantises. On GPUs one step activates and quantises few rows faster
/// (docs/performance/decode.md), fewer in class tensor14, whose kernels activate too (h200-grouped.md); a single one
/// costs the next one's kernel nothing.
bool hands_on_codes(const Device* device, std::int64_t tokens, double rows, numerics::AccuracyClass weakest);

/// The list of a dense gated MLP: `both`, a product with an activation, whose D is A of `down`. Values "x", "h", "d".
Graph graph_of(report::Problem both, report::Problem down);

/// The list of a layer of experts, for `device` (null: for one that takes every product). Throws ironcl::Error
/// INVALID_ARGUMENT for sizes that contradict each other, UNSUPPORTED where gate and up can be neither one product
/// nor two there.
Graph graph_of(const ExpertsForm& form, const ExpertsChoices& choices, const Device* device = nullptr);

}  // namespace ironcl::layer
