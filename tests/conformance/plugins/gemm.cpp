// SPDX-License-Identifier: Apache-2.0
// Numbers of the reference plugin: decode, quantise, multiply, round. Plain loops over k with one f32 sum a K group.
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "backends/numerics/casts.h"
#include "tests/conformance/plugins/objects.h"

namespace ironcl::reference {

using numerics::size_of;

float decode_one(DType type, const std::byte* at) {
  if (type == DType::e4m3fn) {
    const auto magnitude = static_cast<unsigned>(*at) & 127;
    if (magnitude == 127 && fault("nan_code_becomes_number")) return 480;  // that of 126 is 448
    if (magnitude < 8 && fault("subnormal_codes_are_zero")) return 0;
  }
  const float value = static_cast<float>(numerics::load_as_f64(type, at, 0));
  if (type == DType::e5m2 && fault("minus_is_lost_for_e5m2")) return std::fabs(value);
  return value;
}

void store_one(DType type, float value, std::byte* at) {
  if (type == DType::bf16 && fault("truncates_bf16")) {
    const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    std::memcpy(at, &bits, 2);
    return;
  }
  if (type == DType::f16 && fault("flushes_f16_subnormals") && std::fabs(value) < 0x1p-14f) value = 0;
  const auto overflow =
      type == DType::f16 && fault("saturates_f16") ? numerics::Overflow::saturate : numerics::Overflow::plain;
  numerics::encode(type, {&value, 1}, at, overflow);
}

namespace {

std::vector<float> decode_matrix(DType type, const std::byte* at, std::int64_t rows, std::int64_t cols,
                                 std::int64_t ld) {
  std::vector<float> out(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      out[static_cast<std::size_t>(i * cols + j)] = decode_one(type, at + (i * ld + j) * size_of(type));
    }
  }
  return out;
}

/// `rows` rows of `bytes` bytes, `from_apart` and `to_apart` bytes from one to the next.
void copy_rows(std::byte* to, std::int64_t to_apart, const std::byte* from, std::int64_t from_apart,
               std::int64_t rows, std::int64_t bytes) {
  for (std::int64_t i = 0; i < rows; ++i)
    std::memcpy(to + i * to_apart, from + i * from_apart, static_cast<std::size_t>(bytes));
}

/// Rows and columns of a group, and of the matrix of scales.
struct Grid {
  std::int64_t rows, cols, height, width;
  Grid(const numerics::ScaleGrid& grid, std::int64_t r, std::int64_t c)
      : rows(grid.resolved(r, c).group_rows),
        cols(grid.resolved(r, c).group_cols),
        height(grid.scale_rows(r)),
        width(grid.scale_cols(c)) {}
};

/// Scales [height, width] with `ld`; none: ones.
std::vector<float> decode_scales(DType type, const std::byte* at, std::int64_t height, std::int64_t width,
                                 std::int64_t ld) {
  if (type == DType::none) return std::vector<float>(static_cast<std::size_t>(height * width), 1.0f);
  auto out = decode_matrix(type, at, height, width, fault("scale_ld_ignored") ? width : ld);
  for (auto& value : out)
    if (std::isnan(value) && fault("nan_scale_becomes_one")) value = 1.0f;
  return out;
}

/// The products between two scalings.
std::int64_t group_of(const backend::GemmDesc& d) {
  const Grid ga(d.a_scale.grid, 1, d.k), gb(d.b_scale.grid, d.n, d.k);
  return d.a_scale.dtype == DType::none ? gb.cols : std::gcd(ga.cols, gb.cols);
}
std::int64_t at_most_128(std::int64_t group) { return group > 128 && group % 128 == 0 ? 128 : group; }

/// Rows of D, and of A as it is given.
std::int64_t rows_of_d(const backend::GemmDesc& d, const backend::GemmArgs& args) {
  return d.grouping == Grouping::masked ? d.matrices * args.m : args.m;
}
std::int64_t rows_of_a(const backend::GemmDesc& d, const backend::GemmArgs& args) {
  return d.a_rows == 0 ? rows_of_d(d, args) : args.a_rows;
}

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
void multiply_row(const backend::GemmDesc& d, const DecodedWeights& w, std::int64_t matrix, std::int64_t company,
                  const float* a, const float* sa, std::vector<float>& sum) {
  const Grid ga(d.a_scale.grid, 1, d.k), gb(d.b_scale.grid, d.n, d.k);
  std::int64_t step = group_of(d);
  if (fault("tile_straddles_group")) step = std::max<std::int64_t>(step, 128);
  if (fault("not_repeatable") && calls % 2 == 1) step = std::max<std::int64_t>(step / 4, 1);
  step = at_most_128(step);
  if (fault("rows_depend_on_company") && company > 16) step = std::max<std::int64_t>(step / 4, 1);
  const std::int64_t scale_matrix = fault("scales_of_the_first_matrix") ? 0 : matrix;
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

std::vector<std::int32_t> counts_of(const backend::GemmDesc& d, const backend::GemmArgs& args) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(d.matrices));
  if (args.matrix_rows) std::memcpy(counts.data(), address_of(args.matrix_rows), counts.size() * 4);
  return counts;
}

/// A row of D, the row of A that it is made of, and the matrix that multiplies it.
struct Deal {
  std::int64_t d_row, a_row, matrix;
};

/// Which rows there are.
std::vector<Deal> deals_of(const backend::GemmDesc& d, const backend::GemmArgs& args,
                           const std::vector<std::int32_t>& early_counts) {
  const bool masked = d.grouping == Grouping::masked;
  std::vector<Deal> deals;
  if (d.grouping == Grouping::none) {
    for (std::int64_t m = 0; m < args.m; ++m) deals.push_back({m, m, 0});
  } else {
    const auto [begin, used] = clamp_counts(early_counts.empty() ? counts_of(d, args) : early_counts, args.m, masked);
    for (std::int64_t g = 0; g < d.matrices; ++g) {
      std::int64_t end = used[static_cast<std::size_t>(g)];
      if (fault("writes_past_the_counts") && masked) end = std::min(end + 1, args.m);
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
    std::memcpy(&index, address_of(args.a_index) + deal.d_row * 4, 4);
    const std::int64_t last = args.a_rows - 1;
    deal.a_row = std::clamp<std::int64_t>(index, 0, last);
    if (fault("wild_indices_are_row_0") && index > last) deal.a_row = 0;
    if (fault("a_index_is_ignored")) deal.a_row = std::min(deal.d_row, last);
  }
  return deals;
}

}  // namespace

Bytes quantize(DType type, numerics::Quantizer how, numerics::ScaleGrid grid, std::int64_t rows, std::int64_t cols,
               std::vector<float>& x, std::vector<float>& scales) {
  const Grid g(grid, rows, cols);
  scales.resize(static_cast<std::size_t>(g.height * g.width));
  if (fault("floor_ignored")) how.amax_floor = 1e-10f;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Bytes codes(x.size());
  for (std::int64_t gi = 0; gi < g.height; ++gi) {
    for (std::int64_t gj = 0; gj < g.width; ++gj) {
      const std::int64_t row_end = std::min(rows, (gi + 1) * g.rows), col_end = std::min(cols, (gj + 1) * g.cols);
      float amax = 0;
      for (std::int64_t i = gi * g.rows; i < row_end; ++i) {
        for (std::int64_t j = gj * g.cols; j < col_end; ++j) {
          const float value = x[static_cast<std::size_t>(i * cols + j)];
          if (std::isfinite(value))
            amax = std::isnan(amax) ? amax : std::max(amax, std::fabs(value));
          else if (std::isnan(value) || !fault("infinity_becomes_448"))
            amax = kNan;
        }
      }
      float s = numerics::scale_of(amax == 0 && fault("zero_group_is_nan") ? kNan : amax, type, how);
      if (how.rounding == numerics::ScaleRounding::power_of_two && fault("power_of_two_rounds_down")) s /= 2;
      scales[static_cast<std::size_t>(gi * g.width + gj)] = s;
      for (std::int64_t i = gi * g.rows; i < row_end; ++i) {
        for (std::int64_t j = gj * g.cols; j < col_end; ++j) {
          const auto at = static_cast<std::size_t>(i * cols + j);
          codes[at] = static_cast<std::byte>(fault("reciprocal_quantizer")
                                                 ? numerics::quantize_one(x[at] * (1.0f / s), 1.0f, type)
                                                 : numerics::quantize_one(x[at], s, type));
          x[at] = decode_one(type, &codes[at]);
        }
      }
    }
  }
  return codes;
}

std::uint64_t workspace_bytes(const backend::GemmDesc& d) {
  return d.a_source == DType::none ? 0 : static_cast<std::uint64_t>(d.m) * 8 + 64;
}

/// `d` as it is read with weights_ld_ignored planted.
static backend::WeightsDesc misread(backend::WeightsDesc d) {
  if (fault("weights_ld_ignored")) d.ld = d.k;
  return d;
}

DecodedWeights::DecodedWeights(const backend::WeightsDesc& d) : HostWeights(misread(d)), usual(d.plan == nullptr) {
  const std::int64_t rows = d.matrices * d.n, width = d.scale.grid.scale_cols(d.k);
  const std::int64_t scale_rows = d.scale.grid.scale_rows(d.n), height = d.matrices * scale_rows;
  const auto values = decode_matrix(d.dtype, data.data(), rows, d.k, d.k);
  decoded.resize(values.size());
  for (std::int64_t n = 0; n < rows; ++n) {
    const std::int64_t base = n / d.n * d.k;
    for (std::int64_t k = 0; k < d.k; ++k) {
      decoded[static_cast<std::size_t>((base + k) * d.n + n % d.n)] = values[static_cast<std::size_t>(n * d.k + k)];
    }
  }
  decoded_scales = decode_scales(d.scale.dtype, scales.data(), height, width, width);
  if (fault("rows_of_scales_shifted") && scale_rows > 1) {
    std::rotate(decoded_scales.begin(), decoded_scales.begin() + width, decoded_scales.end());
  }
}

void DecodedWeights::export_to(std::byte* to, std::byte* to_scales) {
  HostWeights::export_to(to, to_scales);
  if (fault("export_cleans_nan")) std::replace(to, to + data.size(), std::byte{0xff}, std::byte{0x7f});
  if (fault("export_overruns")) to[data.size()] = std::byte{0};
}

backend::GemmInfo HostGemm::info() const {
  backend::GemmInfo info;
  if (fault("weaker_than_allowed")) info.accuracy = numerics::AccuracyClass::tensor14;
  if (fault("classes_differ")) info.accuracy = desc.weakest_accuracy;
  info.accumulation_length = fault("accumulation_straddles") ? 2 * group_of(desc) : at_most_128(group_of(desc));
  info.workspace_bytes = workspace_bytes(desc);
  info.variant = "loops";
  return info;
}

std::shared_ptr<backend::Event> HostGemm::enqueue(const std::shared_ptr<backend::Queue>& queue,
                                                  const backend::GemmArgs& args) {
  if (fault("usual_weights_refused") && static_cast<DecodedWeights&>(*args.weights).usual)
    throw Error(Status::invalid_argument, "gemm_args.weights are not this plan's");
  std::vector<std::int32_t> early_counts;
  if (fault("counts_are_read_early")) early_counts = counts_of(desc, args);
  const bool fails = fail_next_gemm.exchange(false);
  return static_cast<HostQueue&>(*queue).run(args.wait, [self = shared_from_this(), args, fails, early_counts] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    if (fails) throw Error(Status::device_lost, "told to fail");
    self->multiply(args, early_counts);
  });
}

/// A [rows, k] as multiplied, and its scales.
void HostGemm::load_a(const backend::GemmArgs& args, std::vector<float>& a, std::vector<float>& scales) {
  const std::int64_t rows = rows_of_a(desc, args);
  const bool dynamic = desc.a_source != DType::none;
  const std::byte* from = address_of(args.a) - (fault("ignores_offsets") ? args.a.offset : 0);
  a = decode_matrix(dynamic ? desc.a_source : desc.a, from, rows, desc.k, fault("ignores_lda") ? desc.k : desc.lda);
  const Grid grid(desc.a_scale.grid, rows, desc.k);
  if (!dynamic) {
    scales = decode_scales(desc.a_scale.dtype, address_of(args.a_scale), grid.height, grid.width, desc.a_scale.ld);
    return;
  }
  const Bytes codes = quantize(desc.a, desc.a_quantizer, desc.a_scale.grid, rows, desc.k, a, scales);
  if (args.a_quantized) {
    std::memcpy(address_of(args.a_quantized), codes.data(), codes.size());
    if (fault("unguarded_codes")) address_of(args.a_quantized)[codes.size()] = std::byte{0};
    std::memcpy(address_of(args.a_quantized_scale), scales.data(), scales.size() * 4);
  }
  if (!fault("stale_rows")) return;
  if (kept_rows_.size() >= a.size()) {  // quantised rows of the first call serve the later ones
    std::copy_n(kept_rows_.begin(), a.size(), a.begin());
    std::copy_n(kept_scales_.begin(), scales.size(), scales.begin());
  } else {
    kept_rows_ = a, kept_scales_ = scales;
  }
}

void HostGemm::multiply(const backend::GemmArgs& args, const std::vector<std::int32_t>& early_counts) {
  const backend::GemmDesc& d = desc;
  auto& weights = static_cast<DecodedWeights&>(*args.weights);
  ++calls;
  const std::int64_t element = size_of(d.d);
  if (args.m == 0) {
    if (fault("no_rows_write") && args.d) *address_of(args.d) = std::byte{0};
    return;
  }
  if (fault("weights_keep_the_pointer")) {
    weights.decoded.assign(weights.decoded.size(), 0x77);  // what the caller's memory has by now
  }
  std::vector<float> a, scales;
  load_a(args, a, scales);
  const Grid grid(d.a_scale.grid, rows_of_a(d, args), d.k);
  const float bump = fault("codes_change_product") && args.a_quantized ? 2.0f : 1.0f;
  std::vector<float> sum(static_cast<std::size_t>(d.n));
  std::vector<float> whole;  // D before it is quantised
  const bool quantised = d.d_scale.dtype != DType::none;
  const std::vector<Deal> deals = deals_of(d, args, early_counts);
  std::vector<std::int64_t> company(static_cast<std::size_t>(std::max<std::int64_t>(d.matrices, 1)));
  for (const Deal& deal : deals) ++company[static_cast<std::size_t>(deal.matrix)];
  for (const Deal& deal : deals) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    std::byte* row = address_of(args.d) + deal.d_row * d.ldd * element;
    multiply_row(d, weights, deal.matrix, company[static_cast<std::size_t>(deal.matrix)], a.data() + deal.a_row * d.k,
                 scales.data() + block_of(deal.a_row, grid.rows, grid.height) * grid.width, sum);
    const std::int64_t biased = fault("bias_of_the_first_matrix") ? 0 : deal.matrix;
    for (std::int64_t n = 0; n < d.n; ++n) {
      if (fault("last_column_is_not_written") && n == d.n - 1 && deal.d_row == args.m - 1) continue;
      float value = sum[static_cast<std::size_t>(n)] * bump;
      if (d.bias != DType::none && !fault("bias_is_forgotten")) {
        value += decode_one(d.bias, address_of(args.bias) + (biased * d.n + n) * size_of(d.bias));
      }
      if (quantised) {
        whole.push_back(value);
        continue;
      }
      if (fault("adds_to_d") && !std::isnan(decode_one(d.d, row + n * element))) {
        value += decode_one(d.d, row + n * element);
      }
      store_one(d.d, value, row + n * element);
    }
    if (fault("writes_the_gap") && deal.d_row + 1 < args.m && d.ldd > d.n) row[d.n * element] = std::byte{0};
  }
  if (quantised) {
    // Rows that are dealt out have scales of their own; else they are all of D, in order.
    const std::int64_t rows = std::ssize(deals);
    std::vector<float> d_scales;
    const Bytes codes = quantize(d.d, d.d_quantizer, d.d_scale.grid, rows, d.n, whole, d_scales);
    if (fault("scale_of_d_off_by_one")) std::rotate(d_scales.begin(), d_scales.begin() + 1, d_scales.end());
    const Grid d_grid(d.d_scale.grid, rows, d.n);
    for (std::int64_t i = 0; i < rows; ++i) {
      std::memcpy(address_of(args.d) + deals[static_cast<std::size_t>(i)].d_row * d.ldd, codes.data() + i * d.n,
                  static_cast<std::size_t>(d.n));
    }
    for (std::int64_t i = 0; i < d_grid.height; ++i) {
      const std::int64_t to = d.grouping == Grouping::none ? i : deals[static_cast<std::size_t>(i)].d_row;
      std::memcpy(address_of(args.d_scale) + to * d.d_scale.ld * 4, d_scales.data() + i * d_grid.width,
                  static_cast<std::size_t>(d_grid.width) * 4);
    }
  }
  if (fault("writes_rows_past_m")) address_of(args.d)[args.m * d.ldd * element] = std::byte{0};
  if (fault("writes_before_d")) *(address_of(args.d) - 1) = std::byte{0};
  if (fault("writes_input")) *address_of(args.a) ^= std::byte{1};
  if (fault("writes_past_workspace") && args.workspace) address_of(args.workspace)[workspace_bytes(d)] = std::byte{0};
}

void quantize(const backend::QuantizeDesc& d, const backend::QuantizeArgs& args) {
  std::vector<float> x = decode_matrix(d.x, address_of(args.x), args.rows, d.cols, d.x_ld), scales;
  const Bytes codes = quantize(d.code, d.quantizer, d.scale.grid, args.rows, d.cols, x, scales);
  copy_rows(address_of(args.codes), fault("code_ld_ignored") ? d.cols : d.code_ld, codes.data(), d.cols, args.rows,
            d.cols);
  const std::int64_t bytes = d.scale.grid.scale_cols(d.cols) * 4;
  copy_rows(address_of(args.scales), d.scale.ld * 4, reinterpret_cast<const std::byte*>(scales.data()), bytes,
            d.scale.grid.scale_rows(args.rows), bytes);
}

}  // namespace ironcl::reference
