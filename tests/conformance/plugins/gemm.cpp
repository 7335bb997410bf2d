// SPDX-License-Identifier: Apache-2.0
// Numbers of the reference plugin: decode, quantise, multiply, round. Plain loops over k with one f32 sum a K group.
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "backends/numerics/casts.h"
#include "tests/conformance/plugins/objects.h"

namespace ironcl::reference {

using numerics::DType;

float decode_one(ironcl_dtype type, const std::byte* at) {
  if (type == IRONCL_F8_E4M3FN) {
    const auto code = static_cast<unsigned>(*at);
    const bool negative = code > 127;
    const unsigned exponent = (code >> 3) & 15, mantissa = code & 7;
    if (exponent == 15 && mantissa == 7 && !fault("nan_code_becomes_number")) {
      return std::numeric_limits<float>::quiet_NaN();
    }
    if (exponent == 0 && fault("subnormal_codes_are_zero")) return 0;
    const float magnitude = exponent == 0
                                ? std::ldexp(static_cast<float>(mantissa), -9)
                                : std::ldexp(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 10);
    return negative ? -magnitude : magnitude;
  }
  const float value = static_cast<float>(numerics::load_as_f64(static_cast<DType>(type), at, 0));
  if (type == IRONCL_F8_E5M2 && fault("minus_is_lost_for_e5m2")) return std::fabs(value);
  return value;
}

namespace {

std::vector<float> decode_matrix(ironcl_dtype type, const std::byte* at, std::int64_t rows, std::int64_t cols,
                                 std::int64_t ld) {
  std::vector<float> out(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      out[static_cast<std::size_t>(i * cols + j)] = decode_one(type, at + (i * ld + j) * size_of(type));
    }
  }
  return out;
}

struct Grid {
  std::int64_t rows, cols, height, width;
  Grid(const ironcl_scale_desc& s, std::int64_t r, std::int64_t c)
      : rows(s.group_rows == 0 ? std::max<std::int64_t>(r, 1) : s.group_rows),
        cols(s.group_cols == 0 ? c : s.group_cols),
        height(ceil_div(r, rows)),
        width(ceil_div(c, cols)) {}
};

float scale_value(float value) { return std::isnan(value) && fault("nan_scale_becomes_one") ? 1.0f : value; }

/// Scales [height, width] with `ld`; none: ones.
std::vector<float> decode_scales(const ironcl_scale_desc& s, const std::byte* at, const Grid& g, std::int64_t ld) {
  if (s.dtype == IRONCL_DTYPE_NONE) return std::vector<float>(static_cast<std::size_t>(g.height * g.width), 1.0f);
  auto out = decode_matrix(s.dtype, at, g.height, g.width, fault("scale_ld_ignored") ? g.width : ld);
  for (auto& value : out) value = scale_value(value);
  return out;
}

/// The codes of x [rows, cols], which becomes their values, and the scales of its groups.
Bytes quantize(ironcl_dtype type, const ironcl_quantizer_desc& how, std::int64_t rows, std::int64_t cols,
               std::vector<float>& x, std::vector<float>& scales, const Grid& g) {
  const float largest = type == IRONCL_F8_E4M3FN ? 448.0f : type == IRONCL_I8 ? 127.0f : 57344.0f;
  float floor = how.amax_floor == 0 ? 1e-10f : how.amax_floor;
  if (fault("floor_ignored")) floor = 1e-10f;
  Bytes codes(x.size());
  for (std::int64_t gi = 0; gi < g.height; ++gi) {
    for (std::int64_t gj = 0; gj < g.width; ++gj) {
      const std::int64_t row_end = std::min(rows, (gi + 1) * g.rows), col_end = std::min(cols, (gj + 1) * g.cols);
      float amax = 0;
      bool bad = false;
      for (std::int64_t i = gi * g.rows; i < row_end; ++i) {
        for (std::int64_t j = gj * g.cols; j < col_end; ++j) {
          const float value = x[static_cast<std::size_t>(i * cols + j)];
          if (!std::isfinite(value) && !(std::isinf(value) && fault("infinity_becomes_448"))) bad = true;
          if (std::isfinite(value)) amax = std::max(amax, std::fabs(value));
        }
      }
      const bool zero = amax == 0 && fault("zero_group_is_nan");
      float s = std::max(amax, floor) / largest;
      if (how.scale_rounding == IRONCL_SCALE_POWER_OF_TWO) {
        int exponent = 0;
        const float fraction = std::frexp(s, &exponent);  // s = fraction * 2^exponent, 0.5 <= fraction < 1
        s = std::ldexp(1.0f, fraction == 0.5f || fault("power_of_two_rounds_down") ? exponent - 1 : exponent);
      }
      if (bad || zero) s = std::numeric_limits<float>::quiet_NaN();
      scales[static_cast<std::size_t>(gi * g.width + gj)] = s;
      for (std::int64_t i = gi * g.rows; i < row_end; ++i) {
        for (std::int64_t j = gj * g.cols; j < col_end; ++j) {
          const auto at = static_cast<std::size_t>(i * cols + j);
          const float q = fault("reciprocal_quantizer") ? x[at] * (1.0f / s) : x[at] / s;
          if (type == IRONCL_I8) {
            const float whole = bad ? 0.0f : std::clamp(std::nearbyint(q), -127.0f, 127.0f);
            codes[at] = static_cast<std::byte>(static_cast<std::int8_t>(whole));
          } else if (type == IRONCL_F8_E4M3FN) {
            codes[at] = static_cast<std::byte>(numerics::encode_e4m3fn(q, numerics::Overflow::saturate));
          } else {
            codes[at] = static_cast<std::byte>(numerics::encode_e5m2(q, numerics::Overflow::saturate));
          }
          x[at] = decode_one(type, &codes[at]);
        }
      }
    }
  }
  return codes;
}

/// Rows of D, and of A as it is given.
std::int64_t rows_of_d(const Call& call) {
  const ironcl_gemm_desc& d = call.plan->desc;
  return d.grouping == IRONCL_GROUPING_MASKED ? d.matrices * call.m : call.m;
}
std::int64_t rows_of_a(const Call& call) { return call.plan->desc.a_rows == 0 ? rows_of_d(call) : call.a_rows; }

/// Quantises A in place, as the plan says.
void quantize(const Call& call, std::vector<float>& x, std::vector<float>& scales, const Grid& g) {
  const ironcl_gemm_desc& d = call.plan->desc;
  const Bytes codes = quantize(d.a_dtype, d.a_quantizer, rows_of_a(call), d.k, x, scales, g);
  if (call.codes.memory) {
    const bool over = fault("unguarded_codes");
    std::memcpy(call.codes.at(), codes.data(), codes.size());
    if (over) call.codes.at()[codes.size()] = std::byte{0};
    std::memcpy(call.code_scales.at(), scales.data(), scales.size() * 4);
  }
}

}  // namespace

void store_one(ironcl_dtype type, float value, std::byte* at) {
  if (type == IRONCL_BF16 && fault("truncates_bf16")) {
    const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    std::memcpy(at, &bits, 2);
    return;
  }
  if (type == IRONCL_F16 && fault("flushes_f16_subnormals") && std::fabs(value) < 0x1p-14f) value = 0;
  const auto overflow =
      type == IRONCL_F16 && fault("saturates_f16") ? numerics::Overflow::saturate : numerics::Overflow::plain;
  numerics::encode(static_cast<DType>(type), {&value, 1}, at, overflow);
}

namespace {

/// Which scale a row or column of the operand has, under the planted faults of indices.
std::int64_t block_of(std::int64_t i, std::int64_t group, std::int64_t count) {
  std::int64_t block = i / group;
  if (fault("scale_index_at_edges") && block == count - 1 && block > 0) --block;
  return block;
}

float to_half(float value) { return numerics::decode_f16(numerics::encode_f16(value)); }
float to_bf16(float value) { return numerics::decode_bf16(numerics::encode_bf16(value)); }

std::atomic<int> calls{0};

/// One row of D into `sum`: for each K group the sum over k in f32, scaled, added. `company`: rows of its matrix.
void multiply_row(const Call& call, std::int64_t matrix, std::int64_t company, const float* a, const float* sa,
                  std::vector<float>& sum) {
  const ironcl_gemm_desc& d = call.plan->desc;
  const Grid ga(d.a_scale, 1, d.k), gb(d.b_scale, d.n, d.k);
  const WeightsData& w = *call.weights;
  std::int64_t step = d.a_scale.dtype == IRONCL_DTYPE_NONE ? gb.cols : std::gcd(ga.cols, gb.cols);
  if (fault("tile_straddles_group")) step = std::max<std::int64_t>(step, 128);
  if (fault("not_repeatable") && calls % 2 == 1) step = std::max<std::int64_t>(step / 4, 1);
  if (step > 128 && step % 128 == 0) step = 128;
  if (fault("rows_depend_on_company") && company > 16) step = std::max<std::int64_t>(step / 4, 1);
  std::int64_t scale_matrix = matrix;
  if (fault("scales_of_the_first_matrix")) scale_matrix = 0;
  std::vector<float> group(static_cast<std::size_t>(d.n));
  for (std::int64_t begin = 0; begin < d.k; begin += step) {
    std::fill(group.begin(), group.end(), 0.0f);
    const std::int64_t end = std::min(d.k, begin + step);
    const bool half = fault("f16_accumulation");
    for (std::int64_t k = begin; k < end; ++k) {
      const float value = a[k];
      const float* b = w.decoded.data() + (matrix * d.k + k) * d.n;
      for (std::int64_t n = 0; n < d.n; ++n) group[static_cast<std::size_t>(n)] += value * b[n];
      for (std::int64_t n = 0; half && n < d.n; ++n) {
        group[static_cast<std::size_t>(n)] = to_half(group[static_cast<std::size_t>(n)]);
      }
    }
    const float scale_a = sa[block_of(begin, ga.cols, ga.width)];
    for (std::int64_t n = 0; n < d.n; ++n) {
      std::int64_t block = block_of(n, gb.rows, gb.height) * gb.width + block_of(begin, gb.cols, gb.width);
      block += scale_matrix * gb.height * gb.width;
      if (fault("grid_runs_on_over_matrices")) {
        block = (matrix * d.n + n) / gb.rows * gb.width + block_of(begin, gb.cols, gb.width);
      }
      float scale_b = w.decoded_scales[static_cast<std::size_t>(block)];
      if (fault("scaled_b_in_bf16")) scale_b = to_bf16(scale_b);
      sum[static_cast<std::size_t>(n)] += group[static_cast<std::size_t>(n)] * (scale_a * scale_b);
    }
  }
}

/// A [m, k] as multiplied, and its scales.
void load_a(const Call& call, std::vector<float>& a, std::vector<float>& scales) {
  const ironcl_gemm_desc& d = call.plan->desc;
  const std::int64_t lda = d.lda == 0 || fault("ignores_lda") ? d.k : d.lda;
  const Grid grid(d.a_scale, rows_of_a(call), d.k);
  const bool dynamic = d.a_source_dtype != IRONCL_DTYPE_NONE;
  const std::byte* from = fault("ignores_offsets") ? call.a.memory->data : call.a.at();
  a = decode_matrix(dynamic ? d.a_source_dtype : d.a_dtype, from, rows_of_a(call), d.k, lda);
  if (!dynamic) {
    scales = decode_scales(d.a_scale, call.a_scale.at(), grid, d.a_scale.ld == 0 ? grid.width : d.a_scale.ld);
    return;
  }
  scales.resize(static_cast<std::size_t>(grid.height * grid.width));
  quantize(call, a, scales, grid);
  PlanData& plan = *call.plan;
  if (fault("stale_rows")) {  // quantised rows of the first call serve the later ones
    if (plan.kept_rows.size() >= a.size()) {
      std::copy_n(plan.kept_rows.begin(), a.size(), a.begin());
      std::copy_n(plan.kept_scales.begin(), scales.size(), scales.begin());
    } else {
      plan.kept_rows = a, plan.kept_scales = scales;
    }
  }
}

/// Which rows there are.
std::vector<Deal> deals_of(const Call& call) {
  const ironcl_gemm_desc& d = call.plan->desc;
  const bool masked = d.grouping == IRONCL_GROUPING_MASKED;
  std::vector<Deal> deals;
  if (d.grouping == IRONCL_GROUPING_NONE) {
    for (std::int64_t m = 0; m < call.m; ++m) deals.push_back({m, m, 0});
  } else {
    std::vector<std::int32_t> counts(d.matrices);
    std::memcpy(counts.data(), call.counts.at(), counts.size() * 4);
    if (fault("counts_are_read_early")) counts = call.early_counts;
    std::vector<std::int64_t> begin, used;
    clamp_counts(counts.data(), d.matrices, call.m, masked, &begin, &used);
    for (std::int64_t g = 0; g < d.matrices; ++g) {
      std::int64_t end = used[static_cast<std::size_t>(g)];
      if (fault("writes_past_the_counts") && masked) end = std::min(end + 1, call.m);
      if (fault("last_row_of_a_matrix_is_lost") && end > 1) --end;
      for (std::int64_t i = 0; i < end; ++i) {
        const std::int64_t row = begin[static_cast<std::size_t>(g)] + i;
        deals.push_back({row, row, fault("wrong_matrix") ? (g + 1) % d.matrices : g});
      }
    }
  }
  if (d.a_rows == 0) return deals;
  for (Deal& deal : deals) {
    std::int32_t index = 0;
    std::memcpy(&index, call.index.at() + deal.d_row * 4, 4);
    const std::int64_t last = call.a_rows - 1;
    deal.a_row = std::clamp<std::int64_t>(index, 0, last);
    if (fault("wild_indices_are_row_0") && index > last) deal.a_row = 0;
    if (fault("a_index_is_ignored")) deal.a_row = std::min(deal.d_row, last);
  }
  return deals;
}

}  // namespace

Bytes quantize_rows(ironcl_dtype type, const ironcl_quantizer_desc& how, const ironcl_scale_desc& scale,
                    std::int64_t rows, std::int64_t cols, std::vector<float>& x, std::vector<float>& scales) {
  const Grid grid(scale, rows, cols);
  scales.resize(static_cast<std::size_t>(grid.height * grid.width));
  return quantize(type, how, rows, cols, x, scales, grid);
}

std::uint32_t size_of(ironcl_dtype type) { return numerics::size_of(static_cast<DType>(type)); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t accumulation_length(const ironcl_gemm_desc& d) {
  const Grid ga(d.a_scale, 1, d.k), gb(d.b_scale, d.n, d.k);
  const std::int64_t group = d.a_scale.dtype == IRONCL_DTYPE_NONE ? gb.cols : std::gcd(ga.cols, gb.cols);
  if (fault("accumulation_straddles")) return 2 * group;
  return group > 128 && group % 128 == 0 ? 128 : group;
}

std::shared_ptr<WeightsData> prepare(const ironcl_weights_desc& d) {
  auto out = std::make_shared<WeightsData>();
  out->desc = d;
  const std::int64_t ld = d.ld == 0 || fault("weights_ld_ignored") ? d.k : d.ld;
  const Grid grid(d.scale, d.n, d.k);
  const std::int64_t scale_ld = d.scale.ld == 0 ? grid.width : d.scale.ld;
  const auto* data = static_cast<const std::byte*>(d.data);
  const auto* scales = static_cast<const std::byte*>(d.scales);
  const std::size_t row = static_cast<std::size_t>(d.k) * size_of(d.dtype);
  const std::int64_t matrices = std::max<std::int64_t>(d.matrices, 1);
  for (std::int64_t i = 0; i < matrices * d.n; ++i) {
    const std::byte* from = data + i * ld * size_of(d.dtype);
    out->data.insert(out->data.end(), from, from + row);
  }
  if (d.scale.dtype != IRONCL_DTYPE_NONE) {
    const std::size_t scale_row = static_cast<std::size_t>(grid.width) * size_of(d.scale.dtype);
    for (std::int64_t i = 0; i < matrices * grid.height; ++i) {
      const std::byte* from = scales + i * scale_ld * size_of(d.scale.dtype);
      out->scales.insert(out->scales.end(), from, from + scale_row);
    }
  }
  const auto values = decode_matrix(d.dtype, out->data.data(), matrices * d.n, d.k, d.k);
  out->decoded.resize(values.size());
  for (std::int64_t n = 0; n < matrices * d.n; ++n) {
    const std::int64_t base = n / d.n * d.k;
    for (std::int64_t k = 0; k < d.k; ++k) {
      out->decoded[static_cast<std::size_t>((base + k) * d.n + n % d.n)] =
          values[static_cast<std::size_t>(n * d.k + k)];
    }
  }
  Grid all = grid;
  all.height *= matrices;
  out->decoded_scales = decode_scales(d.scale, out->scales.data(), all, grid.width);
  if (fault("rows_of_scales_shifted") && grid.height > 1) {
    std::rotate(out->decoded_scales.begin(), out->decoded_scales.begin() + grid.width, out->decoded_scales.end());
  }
  out->borrowed = d.data;
  return out;
}

void export_weights(const WeightsData& w, std::byte* data, std::byte* scales) {
  std::copy(w.data.begin(), w.data.end(), data);
  std::copy(w.scales.begin(), w.scales.end(), scales);
  if (fault("export_cleans_nan")) {
    for (std::size_t i = 0; i < w.data.size(); ++i) {
      if (data[i] == std::byte{0xff}) data[i] = std::byte{0x7f};
    }
  }
  if (fault("export_overruns")) data[w.data.size()] = std::byte{0};
}

void multiply(const Call& call) {
  const ironcl_gemm_desc& d = call.plan->desc;
  ++calls;
  const std::uint32_t element = size_of(d.d_dtype);
  const std::int64_t ldd = d.ldd == 0 ? d.n : d.ldd;
  if (call.m == 0) {
    if (fault("no_rows_write") && call.d.memory) *call.d.at() = std::byte{0};
    return;
  }
  if (fault("weights_keep_the_pointer")) {
    call.weights->decoded.assign(call.weights->decoded.size(), 0x77);  // what the caller's memory has by now
  }
  std::vector<float> a, scales;
  load_a(call, a, scales);
  const Grid grid(d.a_scale, rows_of_a(call), d.k);
  const float bump = fault("codes_change_product") && call.codes.memory ? 2.0f : 1.0f;
  std::vector<float> sum(static_cast<std::size_t>(d.n));
  std::vector<float> whole;  // D before it is quantised
  const bool quantised = d.d_scale.dtype != IRONCL_DTYPE_NONE;
  const std::vector<Deal> deals = deals_of(call);
  std::vector<std::int64_t> company(std::max<std::size_t>(d.matrices, 1));
  for (const Deal& deal : deals) ++company[static_cast<std::size_t>(deal.matrix)];
  for (const Deal& deal : deals) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    std::byte* row = call.d.at() + deal.d_row * ldd * element;
    multiply_row(call, deal.matrix, company[static_cast<std::size_t>(deal.matrix)], a.data() + deal.a_row * d.k,
                 scales.data() + block_of(deal.a_row, grid.rows, grid.height) * grid.width, sum);
    const std::int64_t biased = fault("bias_of_the_first_matrix") ? 0 : deal.matrix;
    for (std::int64_t n = 0; n < d.n; ++n) {
      if (fault("last_column_is_not_written") && n == d.n - 1 && deal.d_row == call.m - 1) continue;
      float value = sum[static_cast<std::size_t>(n)] * bump;
      if (d.bias_dtype != IRONCL_DTYPE_NONE && !fault("bias_is_forgotten")) {
        value += decode_one(d.bias_dtype, call.bias.at() + (biased * d.n + n) * size_of(d.bias_dtype));
      }
      if (quantised) {
        whole.push_back(value);
        continue;
      }
      if (fault("adds_to_d") && !std::isnan(decode_one(d.d_dtype, row + n * element))) {
        value += decode_one(d.d_dtype, row + n * element);
      }
      store_one(d.d_dtype, value, row + n * element);
    }
    if (fault("writes_the_gap") && deal.d_row + 1 < call.m && ldd > d.n) row[d.n * element] = std::byte{0};
  }
  if (quantised) {
    // Rows that are dealt out have scales of their own; else they are all of D, in order.
    const std::int64_t rows = std::ssize(deals);
    const Grid d_grid(d.d_scale, rows, d.n);
    std::vector<float> d_scales(static_cast<std::size_t>(d_grid.height * d_grid.width));
    const Bytes codes = quantize(d.d_dtype, d.d_quantizer, rows, d.n, whole, d_scales, d_grid);
    if (fault("scale_of_d_off_by_one")) std::rotate(d_scales.begin(), d_scales.begin() + 1, d_scales.end());
    const std::int64_t scale_ld = d.d_scale.ld == 0 ? d_grid.width : d.d_scale.ld;
    for (std::int64_t i = 0; i < rows; ++i) {
      std::memcpy(call.d.at() + deals[static_cast<std::size_t>(i)].d_row * ldd, codes.data() + i * d.n,
                  static_cast<std::size_t>(d.n));
    }
    for (std::int64_t i = 0; i < d_grid.height; ++i) {
      const std::int64_t to = d.grouping == IRONCL_GROUPING_NONE ? i : deals[static_cast<std::size_t>(i)].d_row;
      std::memcpy(call.d_scale.at() + to * scale_ld * 4, d_scales.data() + i * d_grid.width,
                  static_cast<std::size_t>(d_grid.width) * 4);
    }
  }
  if (fault("writes_rows_past_m")) call.d.at()[call.m * ldd * element] = std::byte{0};
  if (fault("writes_before_d")) *(call.d.at() - 1) = std::byte{0};
  if (fault("writes_input")) *call.a.at() ^= std::byte{1};
  if (fault("writes_past_workspace") && call.workspace.memory) {
    call.workspace.at()[workspace_bytes(d)] = std::byte{0};
  }
}

void quantize(const QuantizeCall& call) {
  const ironcl_quantize_desc& d = call.desc;
  if (call.rows == 0) return;
  const Grid grid(d.scale, call.rows, d.cols);
  std::vector<float> x = decode_matrix(d.x_dtype, call.x.at(), call.rows, d.cols, d.x_ld == 0 ? d.cols : d.x_ld);
  std::vector<float> scales(static_cast<std::size_t>(grid.height * grid.width));
  const Bytes codes = quantize(d.code_dtype, d.quantizer, call.rows, d.cols, x, scales, grid);
  const std::int64_t ld = d.code_ld == 0 || fault("code_ld_ignored") ? d.cols : d.code_ld;
  const std::int64_t scale_ld = d.scale.ld == 0 ? grid.width : d.scale.ld;
  for (std::int64_t row = 0; row < call.rows; ++row)
    std::memcpy(call.codes.at() + row * ld, codes.data() + row * d.cols, static_cast<std::size_t>(d.cols));
  for (std::int64_t row = 0; row < grid.height; ++row) {
    std::memcpy(call.scales.at() + row * scale_ld * 4, scales.data() + row * grid.width,
                static_cast<std::size_t>(grid.width) * 4);
  }
}

}  // namespace ironcl::reference
