// SPDX-License-Identifier: Apache-2.0
// The problem line's printer and parser, and the way to ironcl_gemm_desc and back.
#include "host/report/problem.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "backends/words.h"

namespace ironcl::report {
namespace {

using numerics::Activation;
using numerics::DType;
using numerics::Quantizer;
using numerics::ScaleGrid;
using numerics::ScaleRounding;

/// By the values of Activation.
constexpr std::array<std::string_view, 3> kActivations = {"none", "silu", "swiglu_oai"};

constexpr std::array<std::string_view, 3> kOperands = {"a", "b", "d"};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw ProblemError("problem line: " + fmt::format(text, std::forward<Args>(args)...));
}

std::string_view text_of(DType type) { return type == DType::none ? "none" : numerics::name_of(type); }

std::string text_of(const Quantizer& quantizer) {
  if (quantizer.given) return "given";
  return fmt::format("{}:{}", quantizer.amax_floor, quantizer.rounding == ScaleRounding::exact ? "exact" : "pow2");
}

std::string text_of(const Scales& scales) {
  return scales.dtype == DType::none ? std::string("none") : to_text(scales.grid);
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  const auto size = words::number<std::int64_t>(text);
  return size && *size >= 0 ? size : std::nullopt;
}

DType parse_type(std::string_view text, std::string_view word) {
  if (text == "none") return DType::none;
  const std::optional<DType> type = numerics::parse_dtype(text);
  if (!type) fail("'{}' in '{}' is not an element type; those are f32, f16, bf16, e4m3fn, e5m2, i8", text, word);
  return *type;
}

Quantizer parse_quantizer(std::string_view text, std::string_view word) {
  if (text == "given") return {.given = true};
  const auto parts = words::split(text, ':');
  const auto floor = words::number<float>(parts[0]);
  if (!floor || !std::isfinite(*floor) || *floor <= 0 || parts.size() != 2 ||
      (parts[1] != "exact" && parts[1] != "pow2")) {
    fail("'{}' should be FLOOR:exact or FLOOR:pow2 with a floor above 0, as in 1e-10:exact, or given", word);
  }
  return {*floor, parts[1] == "exact" ? ScaleRounding::exact : ScaleRounding::power_of_two};
}

/// "MxK:KxN" into the problem.
void parse_shape(std::string_view word, Problem* problem) {
  std::string_view rest = word;
  const auto size_before = [&rest](std::string_view mark) {
    return parse_size(words::take_before(rest, mark).value_or(""));
  };
  const auto m = size_before("x"), k = size_before(":"), k_of_b = size_before("x"), n = parse_size(rest);
  if (!m || !k || !k_of_b || !n)
    fail("'{}' is neither an option nor a shape MxK:KxN such as 16x1024:1024x3072", word);
  if (k != k_of_b) fail("'{}' has K = {} on the left and {} on the right; they must be equal", word, *k, *k_of_b);
  if (k == 0 || n == 0) fail("'{}' has K or N of 0; only M may be 0", word);
  problem->m = *m;
  problem->k = *k;
  problem->n = *n;
}

std::uint32_t to_u32(std::int64_t value) {
  return value < 0 || value > std::numeric_limits<std::uint32_t>::max() ? 0 : static_cast<std::uint32_t>(value);
}

// A field of a description and the same of a problem, each way.
template <class To, class From>
void convert(const From& from, To& to) {
  to = static_cast<To>(from);
}
void convert(const Scales& from, ironcl_scale_desc& to) { to = to_desc(from); }
void convert(const Quantizer& from, ironcl_quantizer_desc& to) { to = to_desc(from); }
void convert(const ironcl_scale_desc& from, Scales& to) {
  if (from.dtype == IRONCL_DTYPE_NONE) return;
  to.dtype = static_cast<DType>(from.dtype);
  to.grid = {from.group_rows, from.group_cols, from.row_origin, from.col_origin};
  to.global = from.global_dtype != IRONCL_DTYPE_NONE;
}
void convert(const ironcl_quantizer_desc& from, Quantizer& to) {
  if (from.amax_floor != 0) to.amax_floor = from.amax_floor;
  to.rounding = from.scale_rounding == IRONCL_SCALE_EXACT ? ScaleRounding::exact : ScaleRounding::power_of_two;
  to.given = from.scales == IRONCL_SCALES_GIVEN;
}

/// The options of a caller's chain, which nobody has checked.
Options options_of(const ironcl_chain* chain) {
  constexpr int kLongest = 64;
  Options out;
  int length = 0;
  for (const ironcl_chain* link = chain; link != nullptr; link = link->next) {
    if (++length > kLongest) throw ProblemError("the chain of a description does not end");
    if ((link->type & ~IRONCL_CHAIN_REQUIRED) != IRONCL_CHAIN_OPTIONS) continue;
    const auto* options = reinterpret_cast<const ironcl_options*>(link);
    if (link->struct_size < sizeof *options || (options->count != 0 && options->items == nullptr))
      throw ProblemError("the options of a description have no items");
    for (std::uint32_t i = 0; i < options->count; ++i) {
      const auto& [key, value] = options->items[i];
      if (key == nullptr || value == nullptr) throw ProblemError("an option of a description has a NULL in it");
      out.emplace_back(key, value);
    }
  }
  return out;
}

}  // namespace

std::string to_text(ScaleGrid grid) {
  const auto side = [](std::int64_t group) { return group == 0 ? std::string("all") : fmt::format("{}", group); };
  std::string text = fmt::format("{}x{}", side(grid.group_rows), side(grid.group_cols));
  if (grid.row_origin != 0 || grid.col_origin != 0) text += fmt::format("@{}x{}", grid.row_origin, grid.col_origin);
  return text;
}

ScaleGrid parse_grid(std::string_view text) {
  const auto side = [&](std::string_view part) {
    if (part == "all") return std::int64_t{0};
    const auto size = parse_size(part);
    if (!size || *size > std::numeric_limits<std::uint32_t>::max())
      throw ProblemError(fmt::format("'{}' is not a block; write ROWSxCOLS such as 128x128, 1x128 or 1xall", text));
    return *size;
  };
  if (const auto at = text.find('@'); at != std::string_view::npos) {
    ScaleGrid grid = parse_grid(text.substr(0, at)), origin = parse_grid(text.substr(at + 1));
    if (origin.group_rows >= std::max<std::int64_t>(grid.group_rows, 1) ||
        origin.group_cols >= std::max<std::int64_t>(grid.group_cols, 1) || origin.row_origin != 0 ||
        origin.col_origin != 0) {
      throw ProblemError(fmt::format("'{}' begins outside of its block; write ROWSxCOLS@ROWxCOL", text));
    }
    grid.row_origin = origin.group_rows, grid.col_origin = origin.group_cols;
    return grid;
  }
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
  const std::array operands = {&problem.a_scale, &problem.b_scale, &problem.d_scale};
  const auto is_scaled = [&](std::size_t i) { return operands[i]->dtype != DType::none; };
  if (is_scaled(0) || is_scaled(1) || is_scaled(2)) {
    std::vector<std::string> grids, types;
    bool plain = true;
    for (std::size_t i = 0; i < (is_scaled(2) ? 3u : 2u); ++i) {
      grids.push_back(text_of(*operands[i]));
      types.emplace_back(text_of(operands[i]->dtype));
      plain = plain && (!is_scaled(i) || operands[i]->dtype == DType::f32);
    }
    add(fmt::format("--scale={}", fmt::join(grids, ":")));
    if (!plain) add(fmt::format("--scale-dt={}", fmt::join(types, ":")));
  }
  std::vector<std::string_view> globals;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i]->global) globals.push_back(kOperands[i]);
  if (!globals.empty()) add(fmt::format("--global={}", fmt::join(globals, ",")));
  if (problem.bias != DType::none) add(fmt::format("--bias={}", text_of(problem.bias)));
  if (problem.a_quantizer != Quantizer{}) add(fmt::format("--quantizer={}", text_of(problem.a_quantizer)));
  if (problem.d_quantizer != Quantizer{}) add(fmt::format("--d-quantizer={}", text_of(problem.d_quantizer)));
  if (problem.activation != Activation::none) {
    add(fmt::format("--activation={}", kActivations[static_cast<std::size_t>(problem.activation)]));
    if (problem.activation_limit != 0) add(fmt::format("--activation-limit={}", problem.activation_limit));
  }
  if (problem.weakest_accuracy != numerics::AccuracyClass::f32)
    add(fmt::format("--accuracy={}", numerics::name_of(problem.weakest_accuracy)));
  if (problem.grouping != Grouping::none)
    add(fmt::format("--grouping={}:{}", problem.grouping == Grouping::masked ? "masked" : "contiguous",
                    problem.matrices));
  if (problem.a_rows != 0) add(fmt::format("--gather={}", problem.a_rows));
  if (problem.repeatable) add("--repeatable");
  for (const auto& [key, value] : problem.options) add(fmt::format("--opt={}={}", key, value));
  add(fmt::format("{}x{}:{}x{}", problem.m, problem.k, problem.k, problem.n));
  return fmt::format("{}", fmt::join(words, " "));
}

Problem parse_problem(std::string_view line) {
  Problem problem;
  bool shaped = false;
  std::optional<std::string_view> types, grids, scale_types, globals;
  std::set<std::string_view> seen;
  for (std::string_view word : words::split(line, ' ')) {
    if (word.empty()) continue;
    if (!word.starts_with("--")) {
      if (shaped) fail("'{}' is a second shape; a line has one", word);
      parse_shape(word, &problem);
      shaped = true;
      continue;
    }
    const auto pair = words::key_value(word);
    const auto [key, value] = pair.value_or(std::pair(word, std::string_view()));
    if (key != "--opt" && !seen.insert(key).second) fail("'{}' is a second {}; a line has one", word, key);
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
    } else if (key == "--activation") {
      const auto at = std::find(kActivations.begin() + 1, kActivations.end(), value);
      if (at == kActivations.end()) fail("'{}': the activations are silu and swiglu_oai", word);
      problem.activation = static_cast<Activation>(at - kActivations.begin());
    } else if (key == "--activation-limit") {
      const auto limit = words::number<float>(value);
      if (!limit || !std::isfinite(*limit) || *limit < 0) fail("'{}' should be a finite number of at least 0", word);
      problem.activation_limit = *limit;
    } else if (key == "--accuracy") {
      const auto accuracy = numerics::parse_accuracy(value);
      if (!accuracy) fail("'{}': the classes are f32 and tensor14", word);
      problem.weakest_accuracy = *accuracy;
    } else if (key == "--grouping") {
      const auto parts = words::split(value, ':');
      const std::int64_t count = parts.size() == 2 ? parse_size(parts[1]).value_or(0) : 0;
      const bool known = parts[0] == "contiguous" || parts[0] == "masked";
      if (!known || count == 0 || count > std::numeric_limits<std::uint32_t>::max())
        fail("'{}' should be contiguous:COUNT or masked:COUNT", word);
      problem.grouping = parts[0] == "masked" ? Grouping::masked : Grouping::contiguous;
      problem.matrices = count;
    } else if (key == "--gather") {
      problem.a_rows = parse_size(value).value_or(0);
      if (problem.a_rows == 0) fail("'{}' should be --gather=ROWS, the rows that A has", word);
    } else if (key == "--global") {
      globals = value;
    } else if (key == "--repeatable" && !pair) {
      problem.repeatable = true;
    } else if (key == "--opt") {
      const auto option = words::key_value(value);
      if (!option) fail("'{}' should be --opt=KEY=VALUE", word);
      problem.options.emplace_back(*option);
    } else {
      fail(
          "'{}' is not an option; those are --src, --dt, --scale, --scale-dt, --global, --bias, --quantizer, "
          "--d-quantizer, --activation, --activation-limit, --accuracy, --grouping, --gather, --repeatable, --opt",
          word);
    }
  }
  if (!shaped) fail("there is no shape; write MxK:KxN such as 16x1024:1024x3072");
  if (!types) fail("there is no --dt=A:B:D, such as --dt=e4m3fn:e4m3fn:bf16");
  const auto names = words::split(*types, ':');
  if (names.size() != 3) fail("'--dt={}' should name three types, A:B:D", *types);
  problem.a = parse_type(names[0], *types);
  problem.b = parse_type(names[1], *types);
  problem.d = parse_type(names[2], *types);

  const std::array operands = {&problem.a_scale, &problem.b_scale, &problem.d_scale};
  const auto by_operand = [](std::string_view option, std::optional<std::string_view> text) {
    auto parts = text ? words::split(*text, ':') : std::vector<std::string_view>();
    if (text && parts.size() != 2 && parts.size() != 3) fail("'{}={}' should be A:B or A:B:D", option, *text);
    return parts;
  };
  for (std::size_t i = 0; const std::string_view grid : by_operand("--scale", grids)) {
    if (grid != "none") *operands[i] = {DType::f32, parse_grid(grid)};
    ++i;
  }
  for (std::size_t i = 0; const std::string_view name : by_operand("--scale-dt", scale_types)) {
    const DType type = parse_type(name, *scale_types);
    if ((type == DType::none) != (operands[i]->dtype == DType::none))
      fail("'--scale-dt={}' and --scale disagree on which operands have scales", *scale_types);
    operands[i++]->dtype = type;
  }
  for (const std::string_view name : globals ? words::split(*globals, ',') : std::vector<std::string_view>{}) {
    const auto at = static_cast<std::size_t>(std::find(kOperands.begin(), kOperands.end(), name) - kOperands.begin());
    if (at == kOperands.size() || operands[at]->dtype == DType::none)
      fail("'--global={}' should name operands with scales: a, b, d", *globals);
    operands[at]->global = true;
  }
  return problem;
}

ironcl_scale_desc to_desc(const Scales& scales) noexcept {
  ironcl_scale_desc desc{};
  if (scales.dtype == DType::none) return desc;
  desc.dtype = static_cast<ironcl_dtype>(scales.dtype);
  desc.group_rows = to_u32(scales.grid.group_rows);
  desc.group_cols = to_u32(scales.grid.group_cols);
  desc.row_origin = to_u32(scales.grid.row_origin);
  desc.col_origin = to_u32(scales.grid.col_origin);
  desc.global_dtype = scales.global ? IRONCL_F32 : IRONCL_DTYPE_NONE;
  desc.ld = scales.ld;
  return desc;
}

ironcl_quantizer_desc to_desc(const Quantizer& quantizer) noexcept {
  ironcl_quantizer_desc desc{};
  desc.scales = quantizer.given ? IRONCL_SCALES_GIVEN : IRONCL_SCALES_MADE;
  if (quantizer.given) return desc;
  desc.scale_rounding = quantizer.rounding == ScaleRounding::exact ? IRONCL_SCALE_EXACT : IRONCL_SCALE_POWER_OF_TWO;
  desc.amax_floor = quantizer.amax_floor;
  return desc;
}

// The list has every field of the struct but these: struct_size, kind, next, flags, reserved.
#define IRONCL_SIZE(c, cpp) +sizeof(ironcl_gemm_desc::c)  // NOLINT(bugprone-macro-parentheses)
static_assert(4 * sizeof(std::uint32_t) + sizeof(void*) IRONCL_PROBLEM_FIELDS(IRONCL_SIZE) ==
              sizeof(ironcl_gemm_desc));
#undef IRONCL_SIZE

ironcl_gemm_desc to_desc(const Problem& problem) noexcept {
  ironcl_gemm_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = IRONCL_OP_GEMM;
  desc.flags = problem.repeatable ? static_cast<std::uint32_t>(IRONCL_GEMM_REPEATABLE) : 0u;
#define IRONCL_CONVERT(c, cpp) convert(problem.cpp, desc.c);
  IRONCL_PROBLEM_FIELDS(IRONCL_CONVERT)
#undef IRONCL_CONVERT
  return desc;
}

GemmDesc to_gemm_desc(const Problem& problem) {
  GemmDesc desc = GemmDesc::from_c(to_desc(problem));
  desc.options = problem.options;
  return desc;
}

Problem from_desc(const ironcl_gemm_desc& desc) {
  Problem problem;
#define IRONCL_CONVERT(c, cpp) convert(desc.c, problem.cpp);
  IRONCL_PROBLEM_FIELDS(IRONCL_CONVERT)
#undef IRONCL_CONVERT
  problem.lda = problem.ldd = 0;
  problem.repeatable = (desc.flags & IRONCL_GEMM_REPEATABLE) != 0;
  problem.options = options_of(desc.next);
  return problem;
}

}  // namespace ironcl::report
