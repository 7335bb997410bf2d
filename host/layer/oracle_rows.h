// SPDX-License-Identifier: Apache-2.0
// A matrix as the oracle's products take it: elements and scales in host memory. Private to oracle.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/numerics/casts.h"
#include "backends/numerics/matrix_view.h"
#include "backends/numerics/quantize.h"
#include "host/layer/operands.h"
#include "host/report/problem.h"

namespace ironcl::layer {

/// A matrix as a product takes it.
struct Rows {
  numerics::DType dtype = numerics::DType::none;
  std::vector<std::byte> values, scales;
  report::Scales form{};
  std::int64_t rows = 0, cols = 0;

  numerics::Operand operand() const {
    numerics::Operand a;
    a.dtype = dtype;
    a.data = values.data();
    a.rows = rows;
    a.cols = a.ld = cols;
    a.scale_dtype = form.dtype;
    a.scales = scales.data();
    a.grid = form.grid;
    a.scale_ld = form.grid.scale_cols(cols);
    return a;
  }

  /// Some rows of it, whose scales are their own.
  Rows gathered(std::span<const std::int64_t> from) const {
    Rows some{dtype, {}, {}, form, static_cast<std::int64_t>(from.size()), cols};
    const auto copy = [](std::vector<std::byte>& to, const std::vector<std::byte>& all, std::size_t row, auto width) {
      const auto at = all.begin() + static_cast<std::ptrdiff_t>(row * width);
      to.insert(to.end(), at, at + static_cast<std::ptrdiff_t>(width));
    };
    for (const std::int64_t row : from) {
      copy(some.values, values, static_cast<std::size_t>(row), bytes_of_matrix(dtype, 1, cols));
      if (form.dtype != numerics::DType::none)
        copy(some.scales, scales, static_cast<std::size_t>(form.grid.row_of(row)),
             bytes_of_matrix(form.dtype, 1, form.grid.scale_cols(cols)));
    }
    if (form.dtype != numerics::DType::none) some.form.grid.group_rows = 1;
    return some;
  }
};

inline Rows quantized(const Rows& x, numerics::DType code, const report::Scales& form,
                      const numerics::Quantizer& quantizer) {
  Rows rows{code, {}, {}, form, x.rows, x.cols};
  rows.values.resize(bytes_of_matrix(code, x.rows, x.cols));
  std::vector<float> scales(static_cast<std::size_t>(form.grid.scale_rows(x.rows) * form.grid.scale_cols(x.cols)));
  numerics::quantize(x.dtype, x.values.data(), x.rows, x.cols, x.cols, code, form.grid, quantizer,
                     {reinterpret_cast<std::uint8_t*>(rows.values.data()), rows.values.size()}, scales);
  const auto bytes = std::as_bytes(std::span(scales));
  rows.scales.assign(bytes.begin(), bytes.end());
  rows.form.dtype = numerics::DType::f32;
  return rows;
}

}  // namespace ironcl::layer
