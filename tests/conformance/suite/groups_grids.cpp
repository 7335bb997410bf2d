// SPDX-License-Identifier: Apache-2.0
// Group Grid: every granularity, scale type and scale ld is either right bit for bit or refused with a text. The
// scales are powers of two, neighbours differ: a wrong index is a factor.
#include <fmt/format.h>

#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

Problem grid(Scale a, Scale b) {
  Problem p = base_problem();
  p.a_scale = a, p.b_scale = b;
  const auto width = std::max<std::int64_t>({a.cols, b.cols, b.rows, 64});
  p.m = a.rows > 1 ? a.rows + 9 : 21;
  p.n = width + width / 2 + 5, p.k = 2 * width + width / 4 + 3;
  return p;
}

std::string name(const Scale& s) { return fmt::format("{}x{}", s.rows, s.cols); }

}  // namespace

void add_grid_tests(Suite& suite) {
  const auto f32 = [](std::int64_t rows, std::int64_t cols) { return Scale{DType::f32, rows, cols, 0}; };
  const auto add = [&suite](const Scale& a, const Scale& b, bool floor, bool heavy = false) {
    add_problem(suite, "Grid", fmt::format("A{}B{}", name(a), name(b)), grid(a, b), floor, heavy);
  };
  for (const std::int64_t g : {32, 64, 128, 256, 512}) {
    add(f32(1, g), f32(g, g), g >= 128);
    add(f32(g, g), f32(g, g), false, g != 32 && g != 256);
  }
  for (const std::int64_t g : {32, 64, 256, 512}) add(f32(1, g), f32(1, g), false, g != 32);
  add(f32(1, 128), f32(1, 128), false);
  add(f32(1, 0), f32(1, 0), false);
  add(f32(0, 0), f32(0, 0), false);
  add(f32(1, 0), f32(0, 0), false);
  add(f32(1, 0), f32(128, 128), false);
  add(f32(1, 128), f32(1, 0), false);
  add(f32(1, 128), f32(0, 0), false);
  // The widths differ: a K tile must divide both, and 16 is what 48 and 80 leave.
  add(f32(1, 64), f32(128, 128), false, true);
  add(f32(1, 128), f32(64, 64), false);
  add(f32(1, 128), f32(512, 512), false);
  add(f32(1, 512), f32(128, 128), false, true);
  add(f32(1, 48), f32(80, 80), false);
  add(f32(1, 100), f32(100, 100), false);
  add(f32(1, 128), f32(64, 128), false);
  add(f32(4, 128), f32(128, 128), false);

  for (const auto type : {DType::f16, DType::bf16, DType::e8m0}) {
    const Scale a{type, 1, 128, 0}, b{type, 128, 128, 0};
    add_problem(suite, "Grid", fmt::format("ScalesOfBIn{}", numerics::name_of(type)), grid(f32(1, 128), b), false,
                type == DType::f16);
    add_problem(suite, "Grid", fmt::format("ScalesOfAIn{}", numerics::name_of(type)), grid(a, f32(128, 128)), false,
                true);
    add_problem(suite, "Grid", fmt::format("AllScalesIn{}", numerics::name_of(type)), grid(a, b), false, true);
    Problem random = grid(a, b);
    random.fill = fill_heavy_tailed, random.exact = false;
    add_problem(suite, "Grid", fmt::format("AllScalesIn{}Random", numerics::name_of(type)), random, false);
  }
  add_problem(suite, "Grid", "MicroscalingE8m0", grid({DType::e8m0, 1, 32, 0}, {DType::e8m0, 1, 32, 0}), false);

  Problem padded = grid({DType::f32, 1, 128, 3}, f32(128, 128));
  add_problem(suite, "Grid", "ScalesOfAWithALeadingDimension", padded, false);
  padded.a_scale.pad = 0, padded.b_scale.pad = 5;
  add_problem(suite, "Grid", "ScalesOfBWithALeadingDimension", padded, true);
}

}  // namespace ironcl::conformance
