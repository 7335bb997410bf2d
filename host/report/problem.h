// SPDX-License-Identifier: Apache-2.0
// The problem line: how a run prints a GEMM, a benchmark reads it and a bug report pastes it. One printer, one
// parser. Next door: json.h and table.h (results).
//
//   [--src=bf16] --dt=A:B:D [--scale=A:B[:D]] [--scale-dt=A:B[:D]] [--global=A|B|D[,...]] [--bias=DT]
//   [--quantizer=FLOOR:exact|pow2|given] [--d-quantizer=...] [--accuracy=f32|tensor14]
//   [--activation=silu|swiglu_oai] [--activation-limit=LIMIT] [--grouping=contiguous|masked:COUNT] [--gather=ROWS]
//   [--repeatable] [--opt=KEY=VALUE]... MxK:KxN
//
// --src is there where the plan quantises A: the type that the buffer holds. A scale is ROWSxCOLS of a block, "all"
// for a whole dimension, "none" for an operand without scales, and ROWSxCOLS@ROWxCOL where the operand begins inside
// a block. --global names the operands with a global scale, --gather the rows of an A whose rows are gathered. With
// --activation B has 2 N rows. What stands at its default is not printed: scale types f32, floor 1e-10, rounding
// exact, accuracy f32. Example, activations of bf16 quantised by tokens, 16 x 1024 x 3072:
//
//   --src=bf16 --dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 --scale-dt=f32:bf16 16x1024:1024x3072
#pragma once

#include "backends/problem.h"
#include "host/include/ironcl/problem.hpp"

namespace ironcl::report {

using ironcl::Grouping;
using ironcl::Problem;
using ironcl::Scales;

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
ironcl_scale_desc to_desc(const Scales& scales) noexcept;
ironcl_quantizer_desc to_desc(const numerics::Quantizer& quantizer) noexcept;

/// The problem as the C++ API takes it, options included.
GemmDesc to_gemm_desc(const Problem& problem);

/// The problem of a description, options of its chain included; leading dimensions, which a line does not say, become
/// tight. Throws ProblemError where the chain has a NULL, or no end.
Problem from_desc(const ironcl_gemm_desc& desc);

}  // namespace ironcl::report
