// SPDX-License-Identifier: Apache-2.0
// A problem as data, its name, its description for the plugin, and the values that fill its operands.
// Next door: rig.h (runs it), fills.h (the ways to fill operands).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "host/include/ironcl/plugin.h"

namespace ironcl::conformance {

using numerics::DType;

/// The scales of an operand; dtype none: it has none.
struct Scale {
  DType dtype = DType::f32;
  std::int64_t rows = 1, cols = 128;  ///< The grid; 0 spans the dimension.
  std::int64_t pad = 0;               ///< Elements between the rows of the scale matrix, beyond the tight ld.

  numerics::ScaleGrid grid() const { return {rows, cols}; }
};

struct Operands;
class Random;
struct Problem;

/// Fills the tight operands of a problem (codes or values, and scales) from `random`.
using Fill = void (*)(const Problem&, Random& random, Operands& operands);

struct Problem {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t rows = -1;                        ///< Rows of the call; -1: m.
  std::int64_t a_pad = 0, b_pad = 0, d_pad = 0;  ///< Elements between rows, beyond the tight ld.
  DType a_source = DType::none;                  ///< Not none: quantised in the plan.
  DType a = DType::e4m3fn, b = DType::e4m3fn, d = DType::f32, bias = DType::none;
  Scale a_scale{DType::f32, 1, 128, 0};
  Scale b_scale{DType::f32, 128, 128, 0};
  float b_global = 0;  ///< One more factor of B; 0: none.
  numerics::Quantizer quantizer{};
  std::uint32_t flags = 0;             ///< IRONCL_GEMM_*
  std::uint32_t weakest_accuracy = 0;  ///< IRONCL_ACCURACY_*
  bool offsets = false;                ///< Every span starts inside its buffer.
  bool exact = true;                   ///< Compared bit for bit; else by the element bound.
  Fill fill = nullptr;

  std::int64_t call_rows() const { return rows < 0 ? m : rows; }
  std::int64_t lda() const { return k + a_pad; }
  std::int64_t ldb() const { return k + b_pad; }
  std::int64_t ldd() const { return n + d_pad; }
  std::int64_t a_scale_ld() const { return a_scale.grid().scale_cols(k) + a_scale.pad; }
  std::int64_t b_scale_ld() const { return b_scale.grid().scale_cols(k) + b_scale.pad; }
  bool dynamic() const { return a_source != DType::none; }
  DType a_given() const { return dynamic() ? a_source : a; }  ///< What the buffer of A holds.

  /// In one line, as failures print it: "m=5 n=576 k=448 a=e4m3fn[1x128,f32] b=e4m3fn[128x128,f32] d=bf16".
  std::string line() const;
  ironcl_gemm_desc desc() const;
};

/// Tight operands: element (i, j) of a matrix with `cols` columns is element i * cols + j.
struct Operands {
  std::vector<std::byte> a, a_scale, b, b_scale, bias;
};

/// Sized and zeroed operands for `rows` rows of A.
Operands make_operands(const Problem& problem);

/// Pseudo-random numbers, the same on every platform (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  std::int64_t between(std::int64_t low, std::int64_t high);  ///< Both included.
  double uniform();                                           ///< [0, 1)
  double normal();                                            ///< Mean 0, deviation 1, within +-6.

 private:
  std::uint64_t state_;
};

/// How many elements those bytes hold.
std::int64_t elements_in(DType type, const std::vector<std::byte>& data);

/// Stores `value`, rounded to nearest and saturated, as element `index` of an array of `type`.
void store(DType type, std::vector<std::byte>& data, std::int64_t index, double value);

/// Bytes of a matrix of rows x cols with `ld` elements between rows, from tight bytes; what lies between the rows and
/// the `tail` elements after the last are NaN (or 0x5a for integers), so that reading them shows.
std::vector<std::byte> spread(DType type, const std::vector<std::byte>& tight, std::int64_t rows, std::int64_t cols,
                              std::int64_t ld, std::int64_t tail);

/// What D must be: of the codes and scales as given, or as numerics::quantize makes them where the plan quantises A.
struct Expected {
  numerics::OracleResult oracle;
  std::vector<std::uint8_t> a_quantized;  ///< Where the plan quantises A: [rows, k].
  std::vector<float> a_quantized_scale;
};
Expected expect(const Problem& problem, const Operands& operands);

}  // namespace ironcl::conformance
