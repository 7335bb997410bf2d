// SPDX-License-Identifier: Apache-2.0
// A product of fp8 codes with scales of 128, dense or of many matrices, as tests that live through a plugin's C table
// describe it, and what the oracle makes of it. Used by faulty_opencl and soak.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/numerics/oracle.h"
#include "host/include/ironcl/plugin.h"
#include "tests/c_api.h"

namespace ironcl::testing {

struct F8Product {
  static constexpr std::int64_t kGroup = 128;

  std::int64_t m = 5, n = 72, k = 256;
  bool dynamic = true;             ///< Activations are quantised in the plan; else given as codes with scales.
  std::vector<std::int32_t> rows;  ///< Of each matrix of a grouped problem, m together; else empty.

  std::int64_t matrices() const { return std::max<std::int64_t>(1, static_cast<std::int64_t>(rows.size())); }
  std::int64_t rows_of(std::int64_t matrix) const {
    return rows.empty() ? m : rows[static_cast<std::size_t>(matrix)];
  }
  std::int64_t k_groups() const { return k / kGroup; }
  std::int64_t b_scales_of_a_matrix() const { return (n + kGroup - 1) / kGroup * k_groups(); }

  ironcl_gemm_desc desc() const {
    auto d = sized<ironcl_gemm_desc>();
    d.m = m;
    d.n = n;
    d.k = k;
    if (dynamic) d.a_source_dtype = IRONCL_BF16;
    d.a_dtype = d.b_dtype = IRONCL_F8_E4M3FN;
    d.d_dtype = IRONCL_F32;
    d.a_scale = {IRONCL_F32, 1, kGroup, 0, 0, 0, 0};
    d.b_scale = {IRONCL_F32, kGroup, kGroup, 0, 0, 0, 0};
    if (!rows.empty()) {
      d.grouping = IRONCL_GROUPING_CONTIGUOUS;
      d.matrices = static_cast<std::uint32_t>(rows.size());
    }
    return d;
  }

  ironcl_weights_desc weights(const std::vector<std::uint8_t>& codes, const void* scales, ironcl_op plan) const {
    auto w = sized<ironcl_weights_desc>();
    w.dtype = IRONCL_F8_E4M3FN;
    w.n = n;
    w.k = k;
    w.scale = {IRONCL_F32, kGroup, kGroup, 0, 0, 0, 0};
    w.matrices = static_cast<std::uint32_t>(rows.size());
    w.data = codes.data();
    w.data_bytes = codes.size();
    w.scales = scales;
    w.scale_bytes = static_cast<std::uint64_t>(matrices() * b_scales_of_a_matrix()) * sizeof(float);
    w.plan = plan;
    return w;
  }

  /// D of the rows of `matrix`, which begin at row `first`; operands are those of the whole problem.
  numerics::OracleResult oracle(std::int64_t matrix, std::int64_t first, const std::vector<std::uint8_t>& a_codes,
                                const std::vector<float>& a_scales, const std::vector<std::uint8_t>& b_codes,
                                const std::vector<float>& b_scales) const {
    numerics::Operand a, b;
    a.dtype = b.dtype = numerics::DType::e4m3fn;
    a.scale_dtype = b.scale_dtype = numerics::DType::f32;
    a.cols = a.ld = b.cols = b.ld = k;
    a.scale_ld = b.scale_ld = k_groups();
    a.data = a_codes.data() + first * k;
    a.rows = rows_of(matrix);
    a.scales = a_scales.data() + first * k_groups();
    a.grid = {1, kGroup};
    b.data = b_codes.data() + matrix * n * k;
    b.rows = n;
    b.scales = b_scales.data() + matrix * b_scales_of_a_matrix();
    b.grid = {kGroup, kGroup};
    return numerics::oracle(a, b);
  }
};

}  // namespace ironcl::testing
