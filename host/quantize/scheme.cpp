// SPDX-License-Identifier: Apache-2.0
// Schemes by name, and what each dialect calls them. Sources: transformers' finegrained_fp8.py and
// compressed-tensors' quant_scheme.py for what they read; modelopt's convert_hf_config.py; SGLang's blockwise_int8.
#include "host/quantize/scheme.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>
#include <iterator>

#include "host/checkpoint/block.h"

namespace ironcl::quantize {
namespace {

namespace json = boost::json;

/// What is fixed of a scheme, and who can say it.
struct Row {
  std::string_view name;
  ScaleGrid grid;
  // The first of each is the default.
  std::vector<DType> codes, scales;
  std::vector<Dialect> dialects;
  std::string_view algorithm;  ///< modelopt's quant_algo.
  std::string_view ct_format;  ///< compressed-tensors' format; its int8 is "int-quantized".
};

const std::vector<Row>& rows() {
  using enum DType;
  using enum Dialect;
  constexpr Dialect ct = compressed_tensors;
  constexpr std::string_view plain = "float-quantized";
  static const std::vector<Row> all = {
      {"block", {128, 128}, {e4m3fn, e5m2, i8}, {f32, bf16, e8m0}, {fp8, ct, modelopt}, "fp8_pb_wo", plain},
      {"channel", {1, 0}, {e4m3fn, i8}, {f32, bf16}, {ct, modelopt}, "FP8_PER_CHANNEL_PER_TOKEN", plain},
      {"tensor", {0, 0}, {e4m3fn, i8}, {f32, bf16}, {ct, fp8, modelopt}, "FP8", plain},
      {"mxfp8", {1, 32}, {e4m3fn}, {e8m0}, {ct, modelopt}, "MXFP8", "mxfp8-quantized"},
      {"mxfp4", {1, 32}, {e2m1}, {e8m0}, {ct}, "", "mxfp4-pack-quantized"},
      {"nvfp4", {1, 16}, {e2m1}, {e4m3fn}, {ct, modelopt}, "NVFP4", "nvfp4-pack-quantized"},
      {"none", {0, 0}, {bf16, f16, f32}, {}, {fp8}, "", ""},
  };
  return all;
}

constexpr std::array<std::pair<std::string_view, Dialect>, 3> kDialects = {
    {{"fp8", Dialect::fp8}, {"compressed-tensors", Dialect::compressed_tensors}, {"modelopt", Dialect::modelopt}}};

std::string_view word(DType type) { return numerics::name_of(type); }
std::string_view word(Dialect dialect) { return kDialects[static_cast<std::size_t>(dialect)].first; }

const Row& row_of(const Format& format) { return *std::ranges::find(rows(), format.name, &Row::name); }

/// The one of `allowed` that `value` is, or the first. Throws where it is none of them.
template <class T>
T pick(std::string_view option, const std::string& text, std::optional<T> value, const std::vector<T>& allowed,
       std::string_view scheme) {
  if (text.empty()) return allowed.front();
  if (value && std::ranges::find(allowed, *value) != allowed.end()) return *value;
  std::vector<std::string_view> words;
  std::ranges::transform(allowed, std::back_inserter(words), [](T one) { return word(one); });
  throw std::invalid_argument(fmt::format("{} {}: scheme {} has {}", option, text, scheme, fmt::join(words, ", ")));
}

void refuse(bool condition, const char* why) {
  if (condition) throw std::invalid_argument(why);
}

json::object quantization_args(const Format& format) {
  const Scheme& scheme = format.scheme;
  const bool i8 = scheme.code == DType::i8;
  json::object args = {{"num_bits", numerics::bits_of(scheme.code)},
                       {"type", i8 ? "int" : "float"},
                       {"symmetric", true},
                       {"dynamic", false}};
  if (format.name == "block") {
    args["strategy"] = "block";
    args["block_structure"] = {scheme.grid.group_rows, scheme.grid.group_cols};
  } else if (format.name == "channel" || format.name == "tensor") {
    args["strategy"] = format.name;
  } else {
    args["strategy"] = scheme.global ? "tensor_group" : "group";
    args["group_size"] = scheme.grid.group_cols;
    args["scale_dtype"] = scheme.global ? "torch.float8_e4m3fn" : "torch.uint8";
  }
  return args;
}

/// compressed-tensors' scheme of the activations; empty: they stay as they are.
json::object input_args(const Format& format, bool static_inputs) {
  json::object args = quantization_args(format);
  args.erase("block_structure");
  if (format.name == "mxfp4" || (format.name == "nvfp4" && !static_inputs)) return {};
  args["dynamic"] = !static_inputs;
  if (format.name == "nvfp4") {
    args["dynamic"] = "local";
  } else if (static_inputs) {
    args["strategy"] = "tensor";
  } else if (format.name == "block") {
    args["strategy"] = "group";
    args["group_size"] = format.scheme.grid.group_cols;
  } else if (format.name != "mxfp8") {
    args["strategy"] = "token";
  }
  return args;
}

}  // namespace

TensorNames Format::names_of(const std::string& module) const {
  const bool ct = dialect == Dialect::compressed_tensors, four_bits = scheme.code == DType::e2m1;
  const bool exponents = scheme.scale == DType::e8m0 && dialect != Dialect::fp8;
  return {.codes = module + (four_bits && ct ? ".weight_packed" : ".weight"),
          .scale = module + (dialect == Dialect::fp8 ? ".weight_scale_inv" : ".weight_scale"),
          .global = module + (dialect == Dialect::modelopt ? ".weight_scale_2" : ".weight_global_scale"),
          .input = module + (scheme.global && ct       ? ".input_global_scale"
                             : dialect == Dialect::fp8 ? ".activation_scale"
                                                       : ".input_scale"),
          .codes_type = four_bits ? "U8" : numerics::file_name_of(scheme.code),
          .scale_type = exponents ? "U8" : numerics::file_name_of(scheme.scale)};
}

float Format::input_scale(float clip) const noexcept {
  const auto largest = static_cast<float>(numerics::largest(scheme.code) * (scheme.global ? 448 : 1));
  return scheme.global && scheme.global_divides ? largest / clip : clip / largest;
}

void Format::check_inputs(bool calibrated) const {
  const bool able = name == "tensor" || name == "nvfp4" || (name == "channel" && dialect != Dialect::modelopt);
  refuse(calibrated && !able,
         "--calibration: this scheme scales its activations as they come; static scales are for tensor, nvfp4, and "
         "for channel of compressed-tensors");
  refuse(!calibrated && dialect == Dialect::modelopt && (name == "tensor" || name == "nvfp4"),
         "--dialect modelopt: its FP8 and NVFP4 have static scales of activations; add --calibration, or take "
         "--dialect compressed-tensors");
}

std::vector<std::int64_t> Format::scale_shape(std::int64_t n, std::int64_t k) const {
  if (name == "tensor" && dialect != Dialect::compressed_tensors) return {};
  if (name == "tensor") return {1};
  if (name == "channel") return dialect == Dialect::modelopt ? std::vector{n} : std::vector<std::int64_t>{n, 1};
  const std::int64_t rows = scheme.grid.scale_rows(n), cols = scheme.grid.scale_cols(k);
  if (name == "block" && dialect == Dialect::modelopt) return {rows, 1, cols, 1};
  return {rows, cols};
}

Format make_format(const FormatTexts& texts) {
  const auto row = std::ranges::find(rows(), texts.scheme, &Row::name);
  if (row == rows().end())
    throw std::invalid_argument(
        fmt::format("--scheme {}: write one of block, channel, tensor, mxfp8, mxfp4, nvfp4, none", texts.scheme));
  Format format;
  format.name = row->name;
  std::optional<Dialect> dialect;
  for (const auto& [name, one] : kDialects)
    if (name == texts.dialect) dialect = one;
  format.dialect = pick("--dialect", texts.dialect, dialect, row->dialects, row->name);
  Scheme& scheme = format.scheme;
  const std::string type = texts.type == "int8" ? "i8" : texts.type;
  scheme.code = pick("--type", type, numerics::parse_dtype(type), row->codes, row->name);
  scheme.grid = row->grid;
  if (texts.block) {
    refuse(format.name != "block" && *texts.block != row->grid, "--block: only scheme block has a size to choose");
    refuse(
        format.name == "block" && (texts.block->group_rows == 0 || texts.block->group_cols == 0),
        "--block: its sizes are at least 1; one scale for each row is --scheme channel, one for all --scheme tensor");
    scheme.grid = *texts.block;
  }
  refuse(format.name == "none" && !texts.scale_type.empty(), "--scale-type: scheme none has no scales");
  scheme.scale = format.name == "none" ? DType::none
                                       : pick("--scale-type", texts.scale_type,
                                              numerics::parse_dtype(texts.scale_type), row->scales, row->name);
  scheme.global = format.name == "nvfp4";
  scheme.global_divides = format.dialect == Dialect::compressed_tensors;
  refuse(scheme.code == DType::e5m2 && format.dialect != Dialect::fp8,
         "--type e5m2: compressed-tensors and modelopt have e4m3 alone; take --dialect fp8");
  refuse(scheme.code == DType::i8 && format.dialect == Dialect::modelopt,
         "--type int8: the int8 of modelopt needs calibrated activations; take --dialect compressed-tensors");
  refuse(scheme.code == DType::i8 && (format.dialect == Dialect::fp8) != (format.name == "block"),
         "--type int8: scheme block is written as --dialect fp8 (blockwise_int8), channel and tensor as --dialect "
         "compressed-tensors");
  refuse(scheme.scale == DType::e8m0 && format.name == "block" && format.dialect != Dialect::fp8,
         "--scale-type e8m0: of scheme block only --dialect fp8 has it (scale_fmt ue8m0)");
  return format;
}

json::object quantization_config(const Format& format, const std::vector<std::string>& ignored, bool static_inputs) {
  const Scheme& scheme = format.scheme;
  if (format.dialect == Dialect::fp8) {
    json::object config = {{"quant_method", scheme.code == DType::i8 ? "blockwise_int8" : "fp8"},
                           {"activation_scheme", static_inputs ? "static" : "dynamic"}};
    if (scheme.code != DType::i8) config["fmt"] = scheme.code == DType::e5m2 ? "e5m2" : "e4m3";
    config["weight_block_size"] = nullptr;
    if (format.name == "block") config["weight_block_size"] = {scheme.grid.group_rows, scheme.grid.group_cols};
    if (scheme.scale == DType::e8m0) config["scale_fmt"] = "ue8m0";
    config["modules_to_not_convert"] = json::value_from(ignored);
    return config;
  }
  json::object inputs = input_args(format, static_inputs);
  json::object group = {{"targets", {"Linear"}}, {"weights", quantization_args(format)}};
  group["input_activations"] = inputs.empty() ? json::value(nullptr) : json::value(inputs);
  const Row& row = row_of(format);
  if (format.dialect == Dialect::modelopt) {
    // modelopt's own configs of blocks and MX say the algorithm alone.
    return {{"quant_method", "modelopt"},
            {"quant_algo", row.algorithm},
            {"producer", hf_quant_config(format, ignored).at("producer")},
            {"ignore", json::value_from(ignored)}};
  }
  const std::string_view ct_format = scheme.code == DType::i8 ? "int-quantized" : row.ct_format;
  group["output_activations"] = nullptr;
  group["format"] = ct_format;
  return {{"quant_method", "compressed-tensors"}, {"format", ct_format},
          {"quantization_status", "compressed"},  {"config_groups", {{"group_0", std::move(group)}}},
          {"kv_cache_scheme", nullptr},           {"ignore", json::value_from(ignored)}};
}

json::object hf_quant_config(const Format& format, const std::vector<std::string>& ignored) {
  json::object quantization = {{"quant_algo", row_of(format).algorithm},
                               {"kv_cache_quant_algo", nullptr},
                               {"exclude_modules", json::value_from(ignored)}};
  if (format.scheme.global) quantization["group_size"] = format.scheme.grid.group_cols;
  // Engines look for the producer's name.
  return {{"producer", {{"name", "modelopt"}, {"version", "0.47.0"}}}, {"quantization", std::move(quantization)}};
}

std::string describe(const Format& format) {
  const Scheme& scheme = format.scheme;
  if (!scheme.quantized()) return fmt::format("{}, not quantised", word(scheme.code));
  return fmt::format("{} {}, scales {}{} ({})", word(scheme.code), checkpoint::grid_text(scheme.grid),
                     word(scheme.scale), scheme.global ? " and one of f32" : "", word(format.dialect));
}

}  // namespace ironcl::quantize
