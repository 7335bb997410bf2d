// SPDX-License-Identifier: Apache-2.0
// The problem line: how a run prints a GEMM, a benchmark reads it and a bug report pastes it. One printer, one
// parser. Next door: json.h and table.h (results).
//
//   [--src=bf16] --dt=A:B:D [--scale=A:B[:D]] [--scale-dt=A:B[:D]] [--bias=DT] [--quantizer=FLOOR:exact|pow2]
//   [--d-quantizer=FLOOR:exact|pow2] [--accuracy=f32|tensor14] [--grouping=contiguous|masked:COUNT] [--repeatable]
//   [--opt=KEY=VALUE]... MxK:KxN
//
// --src is there where the plan quantises A: the type that the buffer holds. A scale is ROWSxCOLS of a block, "all"
// for a whole dimension, "none" for an operand without scales. What stands at its default is not printed: scale types
// f32, floor 1e-10, rounding exact, accuracy f32. Example, activations of bf16 quantised by tokens, 16 x 1024 x 3072:
//
//   --src=bf16 --dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 --scale-dt=f32:bf16 16x1024:1024x3072
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/numerics/bounds.h"
#include "backends/numerics/formats.h"
#include "backends/numerics/quantize.h"
#include "backends/numerics/scale_grid.h"
#include "host/include/ironcl/plugin.h"

namespace ironcl::report {

/// The scales of an operand; dtype none: it has none.
struct Scales {
  numerics::DType dtype = numerics::DType::none;
  numerics::ScaleGrid grid;

  friend bool operator==(const Scales&, const Scales&) = default;
};

/// D [m, n] = A [m, k] times B [n, k] transposed; the fields are those of ironcl_gemm_desc, leading dimensions tight.
struct Problem {
  std::int64_t m = 0, n = 0, k = 0;
  numerics::DType a_source = numerics::DType::none;  ///< none: A comes as `a`; else the type that is quantised.
  numerics::DType a = numerics::DType::none, b = numerics::DType::none, d = numerics::DType::none;
  numerics::DType bias = numerics::DType::none;
  Scales a_scale, b_scale, d_scale;
  numerics::Quantizer a_quantizer, d_quantizer;
  numerics::AccuracyClass weakest_accuracy = numerics::AccuracyClass::f32;
  std::uint32_t grouping = IRONCL_GROUPING_NONE;  ///< IRONCL_GROUPING_*.
  std::uint32_t matrices = 0;
  bool repeatable = false;
  std::vector<std::pair<std::string, std::string>> options;  ///< A backend's own, in the order given.
};

bool operator==(const Problem& left, const Problem& right);

/// A line that is not a problem: the text names the word and what may stand there.
class ProblemError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The problem as one line, without a line break; parse_problem(to_line(p)) == p.
std::string to_line(const Problem& problem);

/// The problem that a line describes; words are separated by blanks, their order is free. Throws ProblemError.
Problem parse_problem(std::string_view line);

/// "128x128", "1xall"; the grammar of --scale, --block and --x-block.
std::string to_text(numerics::ScaleGrid grid);

/// The grid of "128x128", "1xall" or "128" (square). Throws ProblemError naming `text`.
numerics::ScaleGrid parse_grid(std::string_view text);

/// The description that a plugin takes; options are left out, since they travel as a chain that the caller owns.
ironcl_gemm_desc to_desc(const Problem& problem) noexcept;

/// The problem of a description, options of its chain included. Leading dimensions are not part of a problem.
Problem from_desc(const ironcl_gemm_desc& desc);

}  // namespace ironcl::report
