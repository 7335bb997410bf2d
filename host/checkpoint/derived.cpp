// SPDX-License-Identifier: Apache-2.0
// Scales, biases and codes in the form that the product takes them.

#include <bit>
#include <cmath>

#include "backends/numerics/casts.h"
#include "host/checkpoint/block.h"
#include "host/checkpoint/conventions.h"
#include "host/checkpoint/layer_builder.h"

namespace ironcl::checkpoint {
namespace {

void expect_values(const Tensor& tensor, std::int64_t count, const char* what) {
  if (tensor.elements() == count) return;
  throw Error(ErrorKind::shape, tensor, "is {}, expected {}, {}", tensor.shape_text(),
              count == 1 ? "one value" : fmt::format("[{}]", count), what);
}

void expect_dtype(const Tensor& tensor, bool good, const char* expected) {
  if (!good) throw Error(ErrorKind::dtype, tensor, "is {}, expected {}", tensor.dtype_name, expected);
}

const Tensor& need(const std::optional<Tensor>& part, const LayerParts& parts, const char* leaf) {
  if (part) return *part;
  throw Error(ErrorKind::not_found, parts.weight.file(), parts.name + "." + leaf,
              "is missing beside '{}'; is a shard missing?", parts.weight.name);
}

/// deq_scale: F32, or I64 whose low half is an F32 (models of fp16).
float product_scale(const Tensor& tensor, std::int64_t i) {
  if (tensor.dtype_name != "I64") return tensor.element<float>(i);
  return std::bit_cast<float>(static_cast<std::uint32_t>(tensor.element<std::uint64_t>(i)));
}

/// A tensor of F32 that owns its values, made of another.
Tensor f32_tensor(const Tensor& of, std::vector<std::int64_t> shape, const std::vector<float>& values) {
  Tensor tensor{
      .name = of.name, .dtype = DType::f32, .dtype_name = "F32", .shape = std::move(shape), .from = of.from};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.own = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  tensor.data = *tensor.own;
  return tensor;
}

/// bitsandbytes' SCB [N] or [1, N]: the scales [N] = SCB / 127.
Tensor scale_of_row_amax(const Tensor& amax, std::int64_t n) {
  expect_dtype(amax, numerics::is_float(amax.dtype), "F32, F16 or BF16");
  expect_values(amax, n, "the largest magnitude of each row");
  std::vector<float> scales(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) scales[static_cast<std::size_t>(i)] = static_cast<float>(amax.number(i) / 127);
  return f32_tensor(amax, {n}, scales);
}

void take_derived_scale(LinearLayer& layer, Tensor scale) {
  layer.scale = std::move(scale);
  layer.bytes += layer.scale.data.size();
}

/// Static W8A8 of msModelSlim, y = deq_scale (sum q code + quant_bias): weight scale deq_scale / input_scale and bias
/// quant_bias deq_scale, both [N].
void take_static_int8(const LayerParts& parts, LinearLayer& layer) {
  const std::int64_t n = layer.n;
  const Tensor& product = need(parts.product_scale, parts, "deq_scale");
  const Tensor& input = need(parts.input_scale, parts, "input_scale");
  const Tensor& added = need(parts.integer_bias, parts, "quant_bias");
  const std::string_view type = product.dtype_name;
  expect_dtype(product, type == "F32" || type == "I64", "F32, or I64 with an F32 in its low half");
  expect_dtype(input, input.dtype == DType::f32, "F32");
  expect_dtype(added, added.dtype_name == "I32", "I32");
  expect_values(product, n, "one for each row");
  expect_values(input, 1, "the static scale of the activations");
  expect_values(added, n, "one for each row");
  const float in = input.element<float>(0);
  if (!(in > 0)) throw Error(ErrorKind::value, input, "is {}, expected a static scale above 0", in);
  std::vector<float> scales, biases;
  for (std::int64_t i = 0; i < n; ++i) {
    const double deq = product_scale(product, i);
    scales.push_back(static_cast<float>(deq / in));
    biases.push_back(static_cast<float>(deq * added.element<std::int32_t>(i)));
  }
  layer.bias = f32_tensor(added, {n}, biases);
  take_derived_scale(layer, f32_tensor(product, {n}, scales));
}

/// compressed-tensors' weight_packed I32 [N, ceil(K / 4)] as I8 [N, K], in place: a row takes 4 ceil(K / 4) bytes of
/// code + 128.
Tensor unpacked_shape(const LayerParts& parts) {
  const Tensor& said = need(parts.shape, parts, "weight_shape");
  expect_dtype(said, said.dtype_name == "I64" || said.dtype_name == "I32", "I64");
  expect_values(said, 2, "rows and columns");
  const bool wide = said.dtype_name == "I64";
  const auto size = [&](std::int64_t i) {
    return wide ? said.element<std::int64_t>(i) : said.element<std::int32_t>(i);
  };
  Tensor weight = parts.weight;
  expect_dtype(weight, weight.dtype_name == "I32", "I32 of four codes each");
  const std::int64_t n = size(0), k = size(1);
  if (n < 1 || k < 1 || weight.shape != std::vector{n, numerics::ceil_div(k, 4)})
    throw Error(ErrorKind::shape, weight,
                "is {}, expected [N, ceil(K / 4)] of the weight_shape [{}, {}]; the file is damaged or packs other "
                "bits than 8",
                weight.shape_text(), n, k);
  weight.dtype = DType::i8;
  weight.dtype_name = "I8";
  weight.shape = {n, k};
  return weight;
}

/// Two codes of e2m1 to a byte: shape, type and global scale of the layer.
void take_four_bits(const LayerParts& parts, LinearLayer& layer) {
  const Tensor& scale = need(parts.scale, parts, "weight_scale");
  expect_dtype(parts.weight, layer.weight.dtype_name == "U8" || layer.weight.dtype_name == "I8",
               "U8 of two codes of four bits");
  const bool nvfp4 = scale.dtype == DType::e4m3fn;
  const std::int64_t group = nvfp4 ? 16 : 32, n = layer.n, groups = layer.k * 2 / group;
  if (layer.weight.shape.size() != 2 || layer.k * 2 % group != 0)
    throw Error(ErrorKind::shape, parts.weight, "is {}, expected [N, K / 2] with K a multiple of {}",
                layer.weight.shape_text(), group);
  if (!nvfp4)
    expect_dtype(scale, scale.dtype_name == "U8" || scale.dtype == DType::e8m0,
                 "exponents of MXFP4 (U8, F8_E8M0) or scales of NVFP4 (F8_E4M3)");
  // Source: cuBLAS, block scaling factors layout; kernels of ComfyUI, LightX2V and torchao take them so.
  if (scale.shape != std::vector{n, groups} &&
      scale.elements() == numerics::round_up(n, 128) * numerics::round_up(groups, 4))
    throw Error(ErrorKind::unsupported, scale,
                "is {}, which are the scales of [{}, {}] in tiles of 128x4 (swizzled, as cuBLAS takes them), which "
                "are not read; export with linear scales",
                scale.shape_text(), n, groups);
  layer.weight.dtype = DType::e2m1;
  layer.weight.shape[1] = layer.k *= 2;
  if (!nvfp4 && parts.global) throw Error(ErrorKind::config, *parts.global, "is a global scale, which MXFP4 lacks");
  if (!nvfp4) return;
  const Tensor& global = need(parts.global, parts, parts.packed ? "weight_global_scale" : "weight_scale_2");
  expect_dtype(global, global.dtype == DType::f32, "F32");
  expect_values(global, 1, "the scale of the whole weight");
  const double value = static_cast<double>(global.element<float>(0));
  const bool divides = global.name.ends_with("global_scale");
  if (!std::isfinite(value) || value < 0 || (divides && value == 0))
    throw Error(ErrorKind::value, global, "is {}, expected a finite scale above 0", value);
  layer.global = divides ? 1 / value : value;
  layer.bytes += global.data.size();
}

bool all_zero(const Tensor& tensor) {
  if (!numerics::is_float(tensor.dtype))
    return std::ranges::all_of(tensor.data, [](std::byte b) { return b == std::byte{0}; });
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    if (tensor.number(i) != 0) return false;
  return true;
}

/// Zero points of weights, of tools that mean (code - zero point) * scale: msModelSlim, compressed-tensors, torchao.
bool is_subtracted(const LayerParts& parts, const Tensor& zeros) {
  const std::string_view name = zeros.name;
  return !parts.expert && (name.ends_with("weight_offset") || name.ends_with("weight_zero_point"));
}

}  // namespace

bool has_four_bits(const LayerParts& parts) noexcept {
  if (parts.group == nullptr) return false;
  return parts.group->weight_dtype == DType::e2m1 ||
         (parts.weight.dtype == DType::i8 && parts.scale && parts.scale->dtype == DType::e8m0);
}

Tensor decoded(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  numerics::decode(tensor.dtype, tensor.data.data(), std::span<float>(values));
  return f32_tensor(tensor, tensor.shape, values);
}

void derive(const LayerParts& parts, LinearLayer& layer) {
  if (parts.global && !has_four_bits(parts))
    throw Error(ErrorKind::unsupported, *parts.global, std::string(refused_leaf("weight_scale_2")));
  if (has_four_bits(parts)) {
    take_four_bits(parts, layer);
  } else if (parts.packed) {
    layer.weight = unpacked_shape(parts);
    layer.packed = true;
    layer.n = layer.weight.shape[0];
    layer.k = layer.weight.shape[1];
  }
  if (parts.layout && !all_zero(*parts.layout))
    throw Error(ErrorKind::unsupported, *parts.layout,
                "is not 0: the codes lie in another order than rows (bitsandbytes), which is not read");
  if (parts.said().static_int8) return take_static_int8(parts, layer);
  if ((parts.product_scale || parts.integer_bias) && !parts.said().offsets)
    throw Error(ErrorKind::unsupported, layer.weight,
                "is of Ascend's msModelSlim (deq_scale, quant_bias), and no quant_model_description.json beside it "
                "says of which type; fetch that file");
  if (!parts.row_amax) {
    if (layer.cast) take_derived_scale(layer, f32_tensor(Tensor{.name = {}, .from = parts.weight.from}, {}, {1}));
    return;
  }
  if (parts.scale)
    throw Error(ErrorKind::config, layer.weight, "has two scales, '{}' and '{}'; one of them is wrong",
                parts.row_amax->name, parts.scale->name);
  take_derived_scale(layer, scale_of_row_amax(*parts.row_amax, layer.n));
}

const Tensor* find_zero_points(const LayerParts& parts) {
  const Tensor* found = nullptr;
  for (const Tensor& zeros : parts.zero_points) {
    const auto fail = [&zeros](const char* why) { throw Error(ErrorKind::unsupported, zeros, why); };
    if (zeros.name.ends_with("_offset") && !parts.said().offsets)
      fail(
          "is of Ascend's msModelSlim, and no quant_model_description.json beside it says of which type the layer "
          "is; fetch that file");
    // Packed zero points are biased as their codes are.
    if (parts.packed) fail("is a zero point of packed codes: asymmetric quantisation is not read");
    if (all_zero(zeros)) continue;
    if (found != nullptr || !is_subtracted(parts, zeros))
      fail("has values other than 0: asymmetric quantisation is not read; quantise symmetrically");
    found = &zeros;
  }
  return found;
}

void take_zero_points(const LayerParts& parts, const Tensor* zero_points, LinearLayer& layer) {
  if (zero_points == nullptr) {
    if (parts.said().asymmetric && parts.zero_points.empty())
      throw Error(ErrorKind::not_found, layer.weight.file(), parts.name + ".weight_zero_point",
                  "is missing: the config says that the weights are not symmetric; is a shard missing?");
    return;
  }
  const Tensor& zeros = *zero_points;
  const auto fail = [&](const std::string& why) { throw Error(ErrorKind::unsupported, zeros, why); };
  if (layer.weight.dtype != DType::i8 || layer.activations != ActivationScheme::none)
    fail(
        "has values other than 0: asymmetric quantisation is read only of int8 weights beside activations that stay "
        "as they are (W8A16); quantise symmetrically");
  if (!numerics::is_float(zeros.dtype) && zeros.dtype != DType::i8)
    fail(fmt::format("is {}, expected zero points of F32, F16, BF16 or I8", zeros.dtype_name));
  check_scale_shape(zeros, layer.weight.name, layer.n, layer.k, layer.weight_grid);
  for (std::int64_t i = 0; i < zeros.elements(); ++i) {
    const double value = zeros.number(i);
    if (value != std::nearbyint(value) || !(std::abs(value) <= 128))
      fail(fmt::format(
          "has the zero point {}, expected whole numbers of -128 to 128: then bf16 holds what they leave of a code",
          value));
  }
  layer.zero_points = zeros;
  layer.bytes += zeros.data.size();
}

}  // namespace ironcl::checkpoint
