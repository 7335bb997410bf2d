// SPDX-License-Identifier: Apache-2.0
// Scales, biases and codes in the form that the product takes them.
#include "host/checkpoint/derived.h"

#include <fmt/format.h>

#include <cstring>
#include <span>

#include "backends/numerics/casts.h"

namespace ironcl::checkpoint {
namespace {

/// Element `i` of a tensor whose bytes need not be aligned.
template <class T>
T element(const Tensor& tensor, std::int64_t i) {
  T value;
  std::memcpy(&value, tensor.data.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

[[noreturn]] void fail(ErrorKind kind, const Placed& of, const std::string& message) {
  throw Error(kind, of.file->path(), of.tensor.name, message);
}

void expect_values(const Placed& placed, std::int64_t count, const char* what) {
  if (placed.tensor.elements() == count) return;
  fail(ErrorKind::shape, placed,
       fmt::format("is {}, expected {}, {}", placed.tensor.shape_text(),
                   count == 1 ? "one value" : fmt::format("[{}]", count), what));
}

void expect_dtype(const Placed& placed, bool good, const char* expected) {
  if (!good) fail(ErrorKind::dtype, placed, fmt::format("is {}, expected {}", placed.tensor.dtype_name, expected));
}

const Placed& need(const std::optional<Placed>& placed, const LayerParts& parts, const char* leaf) {
  if (placed) return *placed;
  throw Error(ErrorKind::not_found, parts.weight.file->path(), parts.name + "." + leaf,
              fmt::format("is missing beside '{}'; is a shard missing?", parts.weight.tensor.name));
}

/// deq_scale: F32, or I64 whose low half is an F32 (models of fp16).
float product_scale(const Tensor& tensor, std::int64_t i) {
  if (tensor.dtype_name != "I64") return element<float>(tensor, i);
  const auto bits = static_cast<std::uint32_t>(element<std::uint64_t>(tensor, i));
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

Tensor f32_tensor(std::string name, std::vector<std::int64_t> shape, const std::vector<float>& values) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = DType::f32;
  tensor.dtype_name = "F32";
  tensor.shape = std::move(shape);
  const auto bytes = std::as_bytes(std::span(values));
  tensor.own = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  tensor.data = *tensor.own;
  return tensor;
}

Tensor scale_of_row_amax(const Placed& amax, std::int64_t n) {
  expect_dtype(amax, numerics::is_float(amax.tensor.dtype), "F32, F16 or BF16");
  expect_values(amax, n, "the largest magnitude of each row");
  std::vector<float> scales(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    scales[static_cast<std::size_t>(i)] =
        static_cast<float>(numerics::load_as_f64(amax.tensor.dtype, amax.tensor.data.data(), i) / 127);
  return f32_tensor(amax.tensor.name, {n}, scales);
}

StaticInt8 static_int8(const LayerParts& parts, std::int64_t n) {
  const Placed& product = need(parts.product_scale, parts, "deq_scale");
  const Placed& input = need(parts.input_scale, parts, "input_scale");
  const Placed& added = need(parts.integer_bias, parts, "quant_bias");
  const std::string_view type = product.tensor.dtype_name;
  expect_dtype(product, type == "F32" || type == "I64", "F32, or I64 with an F32 in its low half");
  expect_dtype(input, input.tensor.dtype == DType::f32, "F32");
  expect_dtype(added, added.tensor.dtype_name == "I32", "I32");
  expect_values(product, n, "one for each row");
  expect_values(input, 1, "the static scale of the activations");
  expect_values(added, n, "one for each row");
  const float in = element<float>(input.tensor, 0);
  if (!(in > 0)) fail(ErrorKind::value, input, fmt::format("is {}, expected a static scale above 0", in));
  std::vector<float> scales, biases;
  for (std::int64_t i = 0; i < n; ++i) {
    const double deq = product_scale(product.tensor, i);
    scales.push_back(static_cast<float>(deq / in));
    biases.push_back(static_cast<float>(deq * element<std::int32_t>(added.tensor, i)));
  }
  return {f32_tensor(product.tensor.name, {n}, scales), f32_tensor(added.tensor.name, {n}, biases)};
}

Tensor unpacked_shape(const LayerParts& parts) {
  const Placed& said = need(parts.shape, parts, "weight_shape");
  expect_dtype(said, said.tensor.dtype_name == "I64" || said.tensor.dtype_name == "I32", "I64");
  expect_values(said, 2, "rows and columns");
  const bool wide = said.tensor.dtype_name == "I64";
  const auto size = [&](std::int64_t i) {
    return wide ? element<std::int64_t>(said.tensor, i) : element<std::int32_t>(said.tensor, i);
  };
  Tensor weight = parts.weight.tensor;
  expect_dtype(parts.weight, weight.dtype_name == "I32", "I32 of four codes each");
  const std::int64_t n = size(0), k = size(1);
  if (n < 1 || k < 1 || weight.shape != std::vector{n, k / 4 + (k % 4 != 0 ? 1 : 0)})
    fail(ErrorKind::shape, parts.weight,
         fmt::format("is {}, expected [N, ceil(K / 4)] of the weight_shape [{}, {}]; the file is damaged or packs "
                     "other bits than 8",
                     weight.shape_text(), n, k));
  weight.dtype = DType::i8;
  weight.dtype_name = "I8";
  weight.shape = {n, k};
  return weight;
}

Tensor decoded(const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  numerics::decode(tensor.dtype, tensor.data.data(), std::span<float>(values));
  return f32_tensor(tensor.name, tensor.shape, values);
}

}  // namespace ironcl::checkpoint
