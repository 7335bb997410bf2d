// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/matrix.h"

#include "backends/numerics/casts.h"
#include "backends/words.h"
#include "host/checkpoint/block.h"

namespace ironcl::checkpoint {

TensorRef parse_tensor_ref(std::string_view text, std::size_t count) {
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorKind::config, "", "", "'{}' {}, expected {}", text, why,
                count == 1 ? "FILE:TENSOR" : "FILE:VALUES,SCALES");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) fail("has no file and colon in front");
  TensorRef ref;
  ref.file = std::string(text.substr(0, colon));
  const std::string_view names = text.substr(colon + 1);
  // One name may hold commas.
  for (const std::string_view name : count == 1 ? std::vector{names} : words::split(names, ',')) {
    if (name.empty()) fail("has an empty tensor name");
    ref.tensors.emplace_back(name);
  }
  if (ref.tensors.size() != count) fail(fmt::format("names {} tensors", ref.tensors.size()));
  return ref;
}

std::vector<double> Matrix::to_f64() const {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
  numerics::decode(tensor.dtype, tensor.data.data(), std::span<double>(values));
  return values;
}

Matrix load_matrix(const std::filesystem::path& file, const std::string& tensor) {
  SafetensorsFile opened = SafetensorsFile::open(file);
  Tensor found = opened.at(tensor);
  if (!numerics::is_float(found.dtype) && !numerics::is_quantized(found.dtype) && found.dtype != DType::f64)
    throw Error(ErrorKind::dtype, found, "is {}, expected F32, F16, BF16, F64, F8_E4M3, F8_E5M2 or I8",
                found.dtype_name);
  if (found.shape.size() != 2)
    throw Error(ErrorKind::shape, found, "is {}, expected a matrix of two dimensions; reshape it",
                found.shape_text());
  const std::int64_t rows = found.shape[0], cols = found.shape[1];
  return {std::move(opened), std::move(found), rows, cols};
}

Matrix load_scales(const std::filesystem::path& file, const std::string& tensor, std::int64_t rows, std::int64_t cols,
                   ScaleGrid grid) {
  SafetensorsFile opened = SafetensorsFile::open(file);
  Tensor found = opened.at(tensor);
  check_scale_dtype(found);
  check_scale_shape(found, "the values", rows, cols, grid);
  check_scale_values(found);
  return {std::move(opened), std::move(found), grid.scale_rows(rows), grid.scale_cols(cols)};
}

}  // namespace ironcl::checkpoint
