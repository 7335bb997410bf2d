// SPDX-License-Identifier: Apache-2.0
// The problem line's printer and parser, and the way to ironcl_gemm_desc and back.
#include "host/report/problem.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "backends/words.h"

namespace ironcl::report {
namespace {

using numerics::AccuracyClass;
using numerics::DType;
using numerics::Quantizer;
using numerics::ScaleGrid;
using numerics::ScaleRounding;

constexpr float kDefaultFloor = 1e-10f;

[[noreturn]] void fail(const std::string& text) { throw ProblemError("problem line: " + text); }

std::string_view text_of(DType type) { return type == DType::none ? "none" : numerics::name_of(type); }

std::string text_of(const Quantizer& quantizer) {
  return fmt::format("{}:{}", quantizer.amax_floor, quantizer.rounding == ScaleRounding::exact ? "exact" : "pow2");
}

std::string text_of(const Scales& scales) {
  return scales.dtype == DType::none ? std::string("none") : to_text(scales.grid);
}

bool same(const Quantizer& left, const Quantizer& right) {
  return left.amax_floor == right.amax_floor && left.rounding == right.rounding;
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  const auto size = words::number<std::int64_t>(text);
  return size && *size >= 0 ? size : std::nullopt;
}

DType parse_type(std::string_view text, std::string_view word) {
  if (text == "none") return DType::none;
  const std::optional<DType> type = numerics::parse_dtype(text);
  if (!type) fail(fmt::format("'{}' in '{}' is no element type; f32, f16, bf16, e4m3fn, e5m2, i8 are", text, word));
  return *type;
}

Quantizer parse_quantizer(std::string_view text, std::string_view word) {
  const auto parts = words::split(text, ':');
  const auto floor = words::number<float>(parts[0]);
  if (!floor || !std::isfinite(*floor) || *floor <= 0 || parts.size() != 2 ||
      (parts[1] != "exact" && parts[1] != "pow2")) {
    fail(fmt::format("'{}' should be FLOOR:exact or FLOOR:pow2 with a floor above 0, as in 1e-10:exact", word));
  }
  return {*floor, parts[1] == "exact" ? ScaleRounding::exact : ScaleRounding::power_of_two};
}

/// "MxK:KxN" into the problem; false where `word` does not look like one.
void parse_shape(std::string_view word, Problem* problem) {
  const auto sides = words::split(word, ':');
  std::array<std::int64_t, 4> sizes{};
  bool ok = sides.size() == 2;
  for (std::size_t side = 0; ok && side < 2; ++side) {
    const auto pair = words::split(sides[side], 'x');
    ok = pair.size() == 2;
    for (std::size_t i = 0; ok && i < 2; ++i) {
      const auto size = parse_size(pair[i]);
      ok = size.has_value();
      if (ok) sizes[2 * side + i] = *size;
    }
  }
  if (!ok) fail(fmt::format("'{}' is neither an option nor a shape MxK:KxN such as 16x1024:1024x3072", word));
  if (sizes[1] != sizes[2]) {
    fail(
        fmt::format("'{}' has K = {} on the left and {} on the right; they must be equal", word, sizes[1], sizes[2]));
  }
  if (sizes[1] == 0 || sizes[3] == 0) fail(fmt::format("'{}' has K or N of 0; only M may be 0", word));
  problem->m = sizes[0];
  problem->k = sizes[1];
  problem->n = sizes[3];
}

std::uint32_t scale_group(std::int64_t group) {
  return group > std::numeric_limits<std::uint32_t>::max() ? 0 : static_cast<std::uint32_t>(group);
}

ironcl_scale_desc to_scale_desc(const Scales& scales) {
  ironcl_scale_desc desc{};
  desc.dtype = static_cast<ironcl_dtype>(scales.dtype);
  if (scales.dtype == DType::none) return desc;
  desc.group_rows = scale_group(scales.grid.group_rows);
  desc.group_cols = scale_group(scales.grid.group_cols);
  return desc;
}

Scales from_scale_desc(const ironcl_scale_desc& desc) {
  if (desc.dtype == IRONCL_DTYPE_NONE) return {};
  return {static_cast<DType>(desc.dtype), {desc.group_rows, desc.group_cols}};
}

ironcl_quantizer_desc to_quantizer_desc(const Quantizer& quantizer) {
  ironcl_quantizer_desc desc{};
  desc.scale_rounding = quantizer.rounding == ScaleRounding::exact ? IRONCL_SCALE_EXACT : IRONCL_SCALE_POWER_OF_TWO;
  desc.amax_floor = quantizer.amax_floor;
  return desc;
}

Quantizer from_quantizer_desc(const ironcl_quantizer_desc& desc) {
  return {desc.amax_floor != 0 ? desc.amax_floor : kDefaultFloor,
          desc.scale_rounding == IRONCL_SCALE_EXACT ? ScaleRounding::exact : ScaleRounding::power_of_two};
}

}  // namespace

bool operator==(const Problem& left, const Problem& right) {
  return left.m == right.m && left.n == right.n && left.k == right.k && left.a_source == right.a_source &&
         left.a == right.a && left.b == right.b && left.d == right.d && left.bias == right.bias &&
         left.a_scale == right.a_scale && left.b_scale == right.b_scale && left.d_scale == right.d_scale &&
         same(left.a_quantizer, right.a_quantizer) && same(left.d_quantizer, right.d_quantizer) &&
         left.weakest_accuracy == right.weakest_accuracy && left.grouping == right.grouping &&
         left.matrices == right.matrices && left.repeatable == right.repeatable && left.options == right.options;
}

std::string to_text(ScaleGrid grid) {
  const auto side = [](std::int64_t group) { return group == 0 ? std::string("all") : fmt::format("{}", group); };
  return fmt::format("{}x{}", side(grid.group_rows), side(grid.group_cols));
}

ScaleGrid parse_grid(std::string_view text) {
  const auto side = [&](std::string_view part) {
    if (part == "all") return std::int64_t{0};
    const auto size = parse_size(part);
    if (!size || *size > std::numeric_limits<std::uint32_t>::max()) {
      throw ProblemError(fmt::format("'{}' is no block; write ROWSxCOLS such as 128x128, 1x128 or 1xall", text));
    }
    return *size;
  };
  const auto parts = words::split(text, 'x');
  if (parts.size() == 1) return {side(parts[0]), side(parts[0])};
  if (parts.size() != 2) side({});
  return {side(parts[0]), side(parts[1])};
}

std::string to_line(const Problem& problem) {
  std::vector<std::string> words;
  const auto add = [&words](std::string word) { words.push_back(std::move(word)); };
  if (problem.a_source != DType::none) add(fmt::format("--src={}", text_of(problem.a_source)));
  add(fmt::format("--dt={}:{}:{}", text_of(problem.a), text_of(problem.b), text_of(problem.d)));
  const bool d_scaled = problem.d_scale.dtype != DType::none;
  if (problem.a_scale.dtype != DType::none || problem.b_scale.dtype != DType::none || d_scaled) {
    std::string grids = fmt::format("{}:{}", text_of(problem.a_scale), text_of(problem.b_scale));
    if (d_scaled) grids += fmt::format(":{}", text_of(problem.d_scale));
    add(fmt::format("--scale={}", grids));
    const auto plain = [](const Scales& scales) { return scales.dtype == DType::none || scales.dtype == DType::f32; };
    if (!plain(problem.a_scale) || !plain(problem.b_scale) || !plain(problem.d_scale)) {
      std::string types = fmt::format("{}:{}", text_of(problem.a_scale.dtype), text_of(problem.b_scale.dtype));
      if (d_scaled) types += fmt::format(":{}", text_of(problem.d_scale.dtype));
      add(fmt::format("--scale-dt={}", types));
    }
  }
  if (problem.bias != DType::none) add(fmt::format("--bias={}", text_of(problem.bias)));
  if (!same(problem.a_quantizer, {})) add(fmt::format("--quantizer={}", text_of(problem.a_quantizer)));
  if (!same(problem.d_quantizer, {})) add(fmt::format("--d-quantizer={}", text_of(problem.d_quantizer)));
  if (problem.weakest_accuracy != AccuracyClass::f32) {
    add(fmt::format("--accuracy={}", numerics::name_of(problem.weakest_accuracy)));
  }
  if (problem.grouping != IRONCL_GROUPING_NONE) {
    add(fmt::format("--grouping={}:{}", problem.grouping == IRONCL_GROUPING_MASKED ? "masked" : "contiguous",
                    problem.matrices));
  }
  if (problem.repeatable) add("--repeatable");
  for (const auto& [key, value] : problem.options) add(fmt::format("--opt={}={}", key, value));
  add(fmt::format("{}x{}:{}x{}", problem.m, problem.k, problem.k, problem.n));
  return fmt::format("{}", fmt::join(words, " "));
}

Problem parse_problem(std::string_view line) {
  Problem problem;
  bool shaped = false;
  std::optional<std::string_view> types, grids, scale_types;
  std::set<std::string_view> seen;
  for (std::string_view word : words::split(line, ' ')) {
    if (word.empty()) continue;
    if (!word.starts_with("--")) {
      if (shaped) fail(fmt::format("'{}' is a second shape; a line has one", word));
      parse_shape(word, &problem);
      shaped = true;
      continue;
    }
    const auto pair = words::key_value(word);
    const auto [key, value] = pair.value_or(std::pair(word, std::string_view()));
    if (key != "--opt" && !seen.insert(key).second)
      fail(fmt::format("'{}' is a second {}; a line has one", word, key));
    if (key == "--src") {
      problem.a_source = parse_type(value, word);
    } else if (key == "--dt") {
      types = value;
    } else if (key == "--scale") {
      grids = value;
    } else if (key == "--scale-dt") {
      scale_types = value;
    } else if (key == "--bias") {
      problem.bias = parse_type(value, word);
    } else if (key == "--quantizer") {
      problem.a_quantizer = parse_quantizer(value, word);
    } else if (key == "--d-quantizer") {
      problem.d_quantizer = parse_quantizer(value, word);
    } else if (key == "--accuracy") {
      if (value != "f32" && value != "tensor14") fail(fmt::format("'{}': the classes are f32 and tensor14", word));
      problem.weakest_accuracy = value == "f32" ? AccuracyClass::f32 : AccuracyClass::tensor14;
    } else if (key == "--grouping") {
      const auto parts = words::split(value, ':');
      const std::int64_t count = parts.size() == 2 ? parse_size(parts[1]).value_or(0) : 0;
      const bool known = parts[0] == "contiguous" || parts[0] == "masked";
      if (!known || count == 0 || count > std::numeric_limits<std::uint32_t>::max()) {
        fail(fmt::format("'{}' should be contiguous:COUNT or masked:COUNT", word));
      }
      problem.grouping = parts[0] == "masked" ? IRONCL_GROUPING_MASKED : IRONCL_GROUPING_CONTIGUOUS;
      problem.matrices = static_cast<std::uint32_t>(count);
    } else if (key == "--repeatable" && !pair) {
      problem.repeatable = true;
    } else if (key == "--opt") {
      const auto option = words::key_value(value);
      if (!option) fail(fmt::format("'{}' should be --opt=KEY=VALUE", word));
      problem.options.emplace_back(*option);
    } else {
      fail(
          fmt::format("'{}' is no option; --src, --dt, --scale, --scale-dt, --bias, --quantizer, --d-quantizer, "
                      "--accuracy, --grouping, --repeatable, --opt are",
                      word));
    }
  }
  if (!shaped) fail("there is no shape; write MxK:KxN such as 16x1024:1024x3072");
  if (!types) fail("there is no --dt=A:B:D, such as --dt=e4m3fn:e4m3fn:bf16");
  const auto names = words::split(*types, ':');
  if (names.size() != 3) fail(fmt::format("'--dt={}' should name three types, A:B:D", *types));
  problem.a = parse_type(names[0], *types);
  problem.b = parse_type(names[1], *types);
  problem.d = parse_type(names[2], *types);

  const std::array<Scales*, 3> operands = {&problem.a_scale, &problem.b_scale, &problem.d_scale};
  if (grids) {
    const auto parts = words::split(*grids, ':');
    if (parts.size() != 2 && parts.size() != 3) fail(fmt::format("'--scale={}' should be A:B or A:B:D", *grids));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] != "none") *operands[i] = {DType::f32, parse_grid(parts[i])};
    }
  }
  if (scale_types) {
    const auto parts = words::split(*scale_types, ':');
    if (parts.size() != 2 && parts.size() != 3)
      fail(fmt::format("'--scale-dt={}' should be A:B or A:B:D", *scale_types));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const DType type = parse_type(parts[i], *scale_types);
      if ((type == DType::none) != (operands[i]->dtype == DType::none)) {
        fail(fmt::format("'--scale-dt={}' and --scale disagree on which operands have scales", *scale_types));
      }
      operands[i]->dtype = type;
    }
  }
  return problem;
}

ironcl_gemm_desc to_desc(const Problem& problem) noexcept {
  ironcl_gemm_desc desc{};
  desc.struct_size = sizeof desc;
  desc.flags = problem.repeatable ? static_cast<std::uint32_t>(IRONCL_GEMM_REPEATABLE) : 0u;
  desc.m = problem.m;
  desc.n = problem.n;
  desc.k = problem.k;
  desc.a_source_dtype = static_cast<ironcl_dtype>(problem.a_source);
  desc.a_dtype = static_cast<ironcl_dtype>(problem.a);
  desc.b_dtype = static_cast<ironcl_dtype>(problem.b);
  desc.d_dtype = static_cast<ironcl_dtype>(problem.d);
  desc.bias_dtype = static_cast<ironcl_dtype>(problem.bias);
  desc.weakest_accuracy = static_cast<std::uint32_t>(problem.weakest_accuracy);
  desc.grouping = problem.grouping;
  desc.group_count = problem.matrices;
  desc.a_scale = to_scale_desc(problem.a_scale);
  desc.b_scale = to_scale_desc(problem.b_scale);
  desc.d_scale = to_scale_desc(problem.d_scale);
  desc.a_quantizer = to_quantizer_desc(problem.a_quantizer);
  desc.d_quantizer = to_quantizer_desc(problem.d_quantizer);
  return desc;
}

Problem from_desc(const ironcl_gemm_desc& desc) {
  Problem problem;
  problem.m = desc.m;
  problem.n = desc.n;
  problem.k = desc.k;
  problem.a_source = static_cast<DType>(desc.a_source_dtype);
  problem.a = static_cast<DType>(desc.a_dtype);
  problem.b = static_cast<DType>(desc.b_dtype);
  problem.d = static_cast<DType>(desc.d_dtype);
  problem.bias = static_cast<DType>(desc.bias_dtype);
  problem.weakest_accuracy = static_cast<AccuracyClass>(desc.weakest_accuracy);
  problem.grouping = desc.grouping;
  problem.matrices = desc.group_count;
  problem.a_scale = from_scale_desc(desc.a_scale);
  problem.b_scale = from_scale_desc(desc.b_scale);
  problem.d_scale = from_scale_desc(desc.d_scale);
  problem.a_quantizer = from_quantizer_desc(desc.a_quantizer);
  problem.d_quantizer = from_quantizer_desc(desc.d_quantizer);
  problem.repeatable = (desc.flags & IRONCL_GEMM_REPEATABLE) != 0;
  for (const ironcl_chain* link = desc.next; link != nullptr; link = link->next) {
    if ((link->type & ~IRONCL_CHAIN_REQUIRED) != IRONCL_CHAIN_OPTIONS) continue;
    const auto* options = reinterpret_cast<const ironcl_options*>(link);
    for (std::uint32_t i = 0; i < options->count; ++i) {
      problem.options.emplace_back(options->items[i].key, options->items[i].value);
    }
  }
  return problem;
}

}  // namespace ironcl::report
