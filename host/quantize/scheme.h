// SPDX-License-Identifier: Apache-2.0
// A way of quantising weights, and how a folder says so: the tensors' names and the quantization_config of the tools
// of the field. Next door: codec.h (the numbers), plan.h (which tensors).
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/numerics/formats.h"
#include "backends/numerics/scale_grid.h"

namespace ironcl::quantize {

using numerics::DType;
using numerics::ScaleGrid;

/// The tool whose names and configs a folder has.
enum class Dialect {
  fp8,                 ///< quant_method "fp8", as transformers, vLLM and SGLang read it (int8: "blockwise_int8").
  compressed_tensors,  ///< quant_method "compressed-tensors"
  modelopt,            ///< quant_method "modelopt", and hf_quant_config.json
};

struct Scheme {
  DType code = DType::e4m3fn;   ///< e4m3fn, e5m2, i8, e2m1; f32, f16 or bf16: not quantised.
  ScaleGrid grid = {128, 128};  ///< {0, 0}: per tensor; {1, 0}: per row.
  DType scale = DType::f32;     ///< f32, f16, bf16, e8m0, or e4m3fn beside a global scale; none: not quantised.
  /// NVFP4: scales in e4m3fn, and one of f32 for the tensor, which multiplies them or (compressed-tensors) divides.
  bool global = false, global_divides = false;

  bool quantized() const noexcept { return scale != DType::none; }
  /// Whether a scale depends on the largest magnitude of the whole tensor.
  bool needs_tensor_amax() const noexcept { return global || (quantized() && grid == ScaleGrid{0, 0}); }
};

/// A layer's tensors in a file: their names ("q_proj.weight_packed", "q_proj.weight_scale_inv"), `input` being the
/// static scale of the activations; and the element types of codes and scales ("F8_E4M3", "U8").
struct TensorNames {
  std::string codes, scale, global, input;
  std::string_view codes_type, scale_type;
};

/// A scheme as a folder has it.
struct Format {
  Scheme scheme;
  std::string name;  ///< "block", "channel", "tensor", "mxfp8", "mxfp4", "nvfp4"; "none": not quantised.
  Dialect dialect = Dialect::fp8;

  TensorNames names_of(const std::string& module) const;
  /// The static scale of the activations where `clip` is the largest magnitude that is to be told from larger ones.
  float input_scale(float clip) const noexcept;
  /// Throws std::invalid_argument where the format needs static scales and has none, or the reverse.
  void check_inputs(bool calibrated) const;
  /// The shape of the scales of one matrix [n, k].
  std::vector<std::int64_t> scale_shape(std::int64_t n, std::int64_t k) const;
};

/// The texts of a command line; empty ones take the scheme's default.
struct FormatTexts {
  std::string scheme, dialect = {}, type = {}, scale_type = {};
  std::optional<ScaleGrid> block = {};
};

/// Throws std::invalid_argument: what cannot be combined, and what can.
Format make_format(const FormatTexts& texts);

/// The quantization_config of `format` for a model whose linear modules `ignored` stay as they are.
/// `static_inputs`: layers have an input_scale.
boost::json::object quantization_config(const Format& format, const std::vector<std::string>& ignored,
                                        bool static_inputs);

/// modelopt's hf_quant_config.json beside it.
boost::json::object hf_quant_config(const Format& format, const std::vector<std::string>& ignored);

/// "e4m3fn, 128x128, scales f32 (fp8)"
std::string describe(const Format& format);

}  // namespace ironcl::quantize
