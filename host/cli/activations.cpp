// SPDX-License-Identifier: Apache-2.0
// Reading, making and quantising A.
#include "host/cli/activations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/numerics/casts.h"
#include "host/checkpoint/matrix.h"
#include "host/cli/exit_status.h"
#include "host/cli/heavy_tail.h"

namespace ironcl::cli {
namespace {

using checkpoint::ActivationScheme;
using checkpoint::ErrorKind;
using checkpoint::LinearLayer;
using checkpoint::Matrix;
using numerics::DType;
using numerics::ScaleGrid;

constexpr std::int64_t kDefaultRows = 16;

[[noreturn]] void fail(ErrorKind kind, const std::filesystem::path& file, const std::string& tensor,
                       const std::string& text) {
  throw checkpoint::Error(kind, file, tensor, text);
}

std::vector<std::byte> bytes_of_rows(const checkpoint::Tensor& tensor, std::int64_t rows, std::int64_t cols) {
  const auto bytes = static_cast<std::size_t>(rows * cols) * numerics::size_of(tensor.dtype);
  return {tensor.data.begin(), tensor.data.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

/// The rows of `matrix` that are used; checks both dimensions.
std::int64_t rows_of(const Matrix& matrix, const ActivationSource& source, const LinearLayer& layer) {
  if (matrix.cols != layer.k) {
    fail(ErrorKind::shape, matrix.file.path(), matrix.tensor.name,
         fmt::format("is {}, but layer {} takes K = {} columns; name a layer that fits with --layer",
                     matrix.tensor.shape_text(), layer.name, layer.k));
  }
  if (source.m && *source.m > matrix.rows) {
    fail(ErrorKind::shape, matrix.file.path(), matrix.tensor.name,
         fmt::format("is {}, which has fewer rows than --m {}", matrix.tensor.shape_text(), *source.m));
  }
  return source.m.value_or(matrix.rows);
}

DType code_type(const LinearLayer& layer) { return layer.weight.dtype == DType::i8 ? DType::i8 : DType::e4m3fn; }

void quantize_here(Activations* a) {
  const ScaleGrid grid = a->scale.grid;
  a->codes.resize(static_cast<std::size_t>(a->m * a->k));
  a->code_scales.resize(static_cast<std::size_t>(grid.scale_rows(a->m) * grid.scale_cols(a->k)));
  numerics::quantize(a->source, a->data.data(), a->m, a->k, a->k, a->dtype, grid, a->quantizer, a->codes,
                     a->code_scales);
}

/// Codes of a fixed ("static") scale: what an engine does before it calls the GEMM.
void apply_fixed_scale(const LinearLayer& layer, Activations* a) {
  if (!layer.input_scale || layer.input_scale->elements() != 1) {
    fail(ErrorKind::not_found, layer.weight_file, layer.name,
         "its activations have a fixed scale, but there is no input_scale of one element");
  }
  const auto scale =
      static_cast<float>(numerics::load_as_f64(layer.input_scale->dtype, layer.input_scale->data.data(), 0));
  std::vector<float> x(static_cast<std::size_t>(a->m * a->k));
  numerics::decode(a->source, a->data.data(), x);
  a->data.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    a->data[i] = std::byte{numerics::quantize_one(x[i], scale, a->dtype)};
  }
  a->source = DType::none;
  a->scale = {DType::f32, {0, 0}};
  a->scales.resize(sizeof scale);
  std::memcpy(a->scales.data(), &scale, sizeof scale);
}

/// How unquantised activations enter the product.
void quantize_as_layer_says(const LinearLayer& layer, const ActivationSource& source, Activations* a) {
  if (layer.activations == ActivationScheme::none && !source.x_group) {
    a->dtype = a->source;
    a->source = DType::none;
    return;
  }
  a->dtype = code_type(layer);
  if (layer.activations == ActivationScheme::fixed && !source.x_group) {
    apply_fixed_scale(layer, a);
    return;
  }
  a->scale = {DType::f32, source.x_group.value_or(layer.activation_grid)};
  a->quantizer.rounding = layer.activation_rounding;
  quantize_here(a);
}

Activations from_file(const ActivationSource& source, const LinearLayer& layer) {
  const auto ref = checkpoint::parse_tensor_ref(source.input, 1);
  const Matrix x = checkpoint::load_matrix(ref.file, ref.tensors[0]);
  if (!numerics::is_float(x.tensor.dtype)) {
    fail(ErrorKind::dtype, ref.file, ref.tensors[0],
         fmt::format("is {}; --input takes f32, f16 or bf16 (--input-q takes codes with their scales)",
                     numerics::name_of(x.tensor.dtype)));
  }
  Activations a;
  a.m = rows_of(x, source, layer);
  a.k = layer.k;
  a.origin = fmt::format("{} of {}", ref.tensors[0], ref.file.filename().string());
  a.source = x.tensor.dtype;
  a.data = bytes_of_rows(x.tensor, a.m, a.k);
  quantize_as_layer_says(layer, source, &a);
  return a;
}

bool fits(ScaleGrid grid, std::int64_t rows, std::int64_t cols, const std::vector<std::int64_t>& shape) {
  const std::int64_t scale_rows = grid.scale_rows(rows), scale_cols = grid.scale_cols(cols);
  if (shape.size() == 2) return shape[0] == scale_rows && shape[1] == scale_cols;
  if (shape.size() == 1) return shape[0] == scale_rows && scale_cols == 1;
  return scale_rows == 1 && scale_cols == 1;
}

/// The grid of given scales: what the caller, the file or the layer says, else the only one that fits the shapes.
ScaleGrid grid_of_scales(const ActivationSource& source, const Matrix& codes, const std::string& name,
                         const LinearLayer& layer) {
  if (source.x_group) return *source.x_group;
  const auto& metadata = codes.file.metadata();
  if (const auto said = metadata.find("x_group"); said != metadata.end()) {
    try {
      return report::parse_grid(said->second);
    } catch (const report::ProblemError& error) {
      fail(ErrorKind::config, codes.file.path(), {}, fmt::format("metadata x_group: {}", error.what()));
    }
  }
  const checkpoint::Tensor& scales = codes.file.at(name);
  if (layer.activations == ActivationScheme::dynamic &&
      fits(layer.activation_grid, codes.rows, codes.cols, scales.shape)) {
    return layer.activation_grid;
  }
  std::vector<ScaleGrid> found;
  for (std::int64_t g = 16; g <= 1024; g *= 2) {
    for (const ScaleGrid grid : {ScaleGrid{1, g}, ScaleGrid{g, g}}) {
      if (fits(grid, codes.rows, codes.cols, scales.shape)) found.push_back(grid);
    }
  }
  if (found.size() != 1) {
    fail(ErrorKind::ambiguous, codes.file.path(), name,
         fmt::format("is {} for codes of {}: {}; say the group with --x-group, such as --x-group 1x128",
                     scales.shape_text(), codes.tensor.shape_text(),
                     found.empty() ? "no group of 16 to 1024 fits" : "several groups fit"));
  }
  return found.front();
}

Activations from_codes(const ActivationSource& source, const LinearLayer& layer) {
  const auto ref = checkpoint::parse_tensor_ref(source.input_q, 2);
  const Matrix codes = checkpoint::load_matrix(ref.file, ref.tensors[0]);
  if (!numerics::is_quantized(codes.tensor.dtype)) {
    fail(ErrorKind::dtype, ref.file, ref.tensors[0],
         fmt::format("is {}; --input-q takes e4m3fn, e5m2 or i8 (--input takes f32, f16, bf16)",
                     numerics::name_of(codes.tensor.dtype)));
  }
  Activations a;
  a.m = rows_of(codes, source, layer);
  a.k = layer.k;
  a.origin = fmt::format("{} and {} of {}", ref.tensors[0], ref.tensors[1], ref.file.filename().string());
  a.dtype = codes.tensor.dtype;
  a.data = bytes_of_rows(codes.tensor, a.m, a.k);
  const ScaleGrid grid = grid_of_scales(source, codes, ref.tensors[1], layer);
  const Matrix scales = checkpoint::load_scales(ref.file, ref.tensors[1], codes.rows, codes.cols, grid);
  a.scale = {scales.tensor.dtype, grid};
  a.scales = bytes_of_rows(scales.tensor, grid.scale_rows(a.m), grid.scale_cols(a.k));
  return a;
}

Activations make_up(const ActivationSource& source, const LinearLayer& layer) {
  Activations a;
  a.m = source.m.value_or(kDefaultRows);
  a.k = layer.k;
  a.origin = fmt::format("made up (heavy-tailed bf16, seed {})", source.seed);
  a.source = DType::bf16;
  const std::vector<std::uint16_t> x = heavy_tailed_activations(a.m, a.k, source.seed);
  a.data.resize(x.size() * sizeof x[0]);
  if (!x.empty()) std::memcpy(a.data.data(), x.data(), a.data.size());
  quantize_as_layer_says(layer, source, &a);
  return a;
}

}  // namespace

numerics::Operand Activations::operand() const {
  numerics::Operand operand;
  operand.dtype = dtype;
  operand.data = quantized_by_plan() ? static_cast<const void*>(codes.data()) : data.data();
  operand.rows = m;
  operand.cols = k;
  operand.ld = k;
  operand.scale_dtype = scale.dtype;
  operand.scales = quantized_by_plan() ? static_cast<const void*>(code_scales.data()) : scales.data();
  operand.grid = scale.grid;
  operand.scale_ld = scale.grid.scale_cols(k);
  return operand;
}

Activations load_activations(const ActivationSource& source, const LinearLayer& layer) {
  if (!source.input.empty()) return from_file(source, layer);
  if (!source.input_q.empty()) return from_codes(source, layer);
  return make_up(source, layer);
}

}  // namespace ironcl::cli
