// SPDX-License-Identifier: Apache-2.0
// The right values of a list of operations, in f64, each with how far a device may be from it (docs/numerics.md, "A
// layer of experts"). Next door: graph.h (the list), judge.h (a device against it).
#pragma once

#include "host/layer/graph.h"
#include "host/layer/operands.h"
#include "host/layer/runner.h"

namespace ironcl::layer {

using numerics::Bounded;

/// Which experts each token gets, and with which weights: [T, k].
struct RoutedTokens {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

/// What a caller brings to a call.
struct Brought {
  std::string value;  ///< Its name in the list.
  std::vector<std::byte> data, scales{};
};

/// Values by their ids in a list. Rows that no expert has are left out; what was not evaluated has none.
using Values = std::vector<Bounded>;

class Oracle {
 public:
  /// B of one expert of a product's matrices.
  using Matrices = std::function<StackedMatrices(const ProductOp& product, std::int64_t expert)>;

  /// Lists that it evaluates have the same values under the same names.
  Oracle(Matrices matrices, std::int64_t tokens, std::vector<Brought> brought)
      : matrices_(std::move(matrices)), tokens_(tokens), brought_(std::move(brought)) {}

  std::int64_t tokens() const noexcept { return tokens_; }
  /// Takes some tokens of what is brought, ascending; `list` becomes theirs. Rows of x share no scale that plans
  /// make.
  void take(const std::vector<std::int64_t>& tokens, Graph& list);

  /// Every value on the way to `wanted` (kNoValue: the list's result), for devices with those plans (by operation;
  /// none: exact sums in class f32 over all of k). Throws std::invalid_argument where sizes do not fit.
  Values evaluate(const Graph& graph, const std::vector<PlanInfo>& plans = {}, ValueId wanted = kNoValue);

 private:
  class Walk;

  Matrices matrices_;
  std::int64_t tokens_;
  std::vector<Brought> brought_;
  /// Products of what has no error are the same for all devices: by name, and whether class tensor14 is in them.
  std::map<std::pair<std::string, bool>, numerics::OracleResult> products_;
};

/// The oracle of a problem with its operands, of which B outlives it.
Oracle oracle_of(const report::Problem& problem, const Operands& operands);

/// Ids and weights out of a list's values.
RoutedTokens routed_of(const Graph& graph, const Values& values);

}  // namespace ironcl::layer
