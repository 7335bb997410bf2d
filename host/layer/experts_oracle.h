// SPDX-License-Identifier: Apache-2.0
// What a layer of experts must come to: every step in f64, with how far a device may be from it. docs/numerics.md
// derives the bounds ("A layer of experts"). Next door: experts_judge.h (a device against it).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "backends/numerics/bounds.h"
#include "host/layer/experts.h"
#include "host/layer/experts_source.h"

namespace ironcl::layer {

/// A matrix with a bound for each element: |device - value| <= bound. NaN where a device must have NaN.
struct Bounded {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> value, bound;
  /// Where a value may be of this magnitude within its bound, its type may have none, and an infinity of its sign is
  /// right.
  double overflow = std::numeric_limits<double>::infinity();
};

/// Which experts each token gets, and with which weights: [T, k].
struct RoutedTokens {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

/// One gated MLP over some rows, step by step.
struct MlpOracle {
  Bounded gate, up;  ///< [rows, I]
  Bounded h;         ///< [rows, I]: what enters the second product: codes times scales, or unquantised values.
  Bounded down;      ///< [rows, H]
};

/// The rows of one expert, slot after slot: row r is slot slots[r] of the tokens.
struct ExpertOracle {
  std::int64_t expert = 0;
  std::vector<std::int64_t> slots;  ///< t * k + j, ascending.
  MlpOracle mlp;
};

/// Everything of a layer. Steps are kept for who looks for the first wrong one.
struct ExpertsOracle {
  std::vector<ExpertOracle> experts;  ///< Of those that are hit, ascending.
  MlpOracle shared;
  std::vector<double> shared_weight;  ///< [T], where there is a gate.
  Bounded y;                          ///< [T, H], rounded to the output type within the bound.
};

/// The arithmetic of the two products, of a device; the default is exact sums in class f32 over all of k.
struct ExpertsArithmetic {
  ExpertsPlanInfo gate, down, shared_gate, shared_down, router;
};
ExpertsArithmetic arithmetic_of(const Experts& experts);

/// x [T, H] of type `x_dtype`, tight. ids outside of 0 to E - 1 are nobody's. Throws std::invalid_argument where
/// sizes do not fit.
ExpertsOracle experts_oracle(const ExpertsSource& source, numerics::DType x_dtype, std::span<const std::byte> x,
                             std::int64_t tokens, const RoutedTokens& routed, numerics::DType out,
                             const ExpertsArithmetic& arithmetic = {});

/// The router's logits [T, logits()], as a product in f32.
Bounded router_oracle(const ExpertsSource& source, numerics::DType x_dtype, std::span<const std::byte> x,
                      std::int64_t tokens, const ExpertsPlanInfo& plan = {});

/// The routing that a host makes of those logits, rounded to f32: what every device is then given.
RoutedTokens route_on_host(const ExpertsSource& source, const Bounded& logits);

/// got [rows, cols] against a bound for each element.
numerics::Comparison compare(std::span<const double> got, const Bounded& want);

/// Two devices: they may differ by the sum of their bounds.
numerics::Comparison compare(std::span<const double> got, const Bounded& want, std::span<const double> other,
                             const Bounded& other_want);

}  // namespace ironcl::layer
