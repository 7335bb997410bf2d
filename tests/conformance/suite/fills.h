// SPDX-License-Identifier: Apache-2.0
// The ways to fill operands, each made so that a certain kind of fault cannot hide.
#pragma once

#include "tests/conformance/suite/problem.h"

namespace ironcl::conformance {

/// Integers of -2 to 2 and a power of two for every scale, 2^-3 to 2^3, neighbours always different: every partial
/// sum is exact in f32, so a result is right bit for bit or wrong, and a wrong scale index is a factor.
void fill_exact(const Problem& p, Random& random, Operands& o);
/// The same with scales of A from 2^-6 to 2^6 and of B from 2^-1 to 2^1, and the other way round.
void fill_exact_wide_a(const Problem& p, Random& random, Operands& o);
void fill_exact_wide_b(const Problem& p, Random& random, Operands& o);

/// Heavy-tailed values over the type's whole range, scales spread over 2^-8 to 2^4.
void fill_heavy_tailed(const Problem& p, Random& random, Operands& o);

/// Row i of A has only code i (mod 256), at one place that moves with i; the same for B, at the same place of the
/// row: every product of two codes is one element of D. Scales 1.
void fill_all_code_pairs(const Problem& p, Random& random, Operands& o);
/// Row i of A has only code i, somewhere in K; B is ones. And the other way round.
void fill_all_codes_of_a(const Problem& p, Random& random, Operands& o);
void fill_all_codes_of_b(const Problem& p, Random& random, Operands& o);

/// As fill_exact, with results beyond the largest value of f16 and, at some, of f32 and bf16.
void fill_overflow(const Problem& p, Random& random, Operands& o);
/// As fill_exact, with results around the subnormals of f16.
void fill_f16_subnormals(const Problem& p, Random& random, Operands& o);
/// As fill_exact, with a NaN scale for one block of A and one of B.
void fill_nan_scales(const Problem& p, Random& random, Operands& o);

/// Unquantised activations with everything that a quantiser gets wrong: zero groups, subnormals, values under the
/// floor, ties, values for which a division and a multiplication by the reciprocal differ, NaN and infinity (in rows
/// 3 and 4 of every 8, so that the other rows stay finite).
void fill_hard_activations(const Problem& p, Random& random, Operands& o);
/// Heavy-tailed finite activations.
void fill_activations(const Problem& p, Random& random, Operands& o);

}  // namespace ironcl::conformance
