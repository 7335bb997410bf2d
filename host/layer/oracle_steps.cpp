// SPDX-License-Identifier: Apache-2.0
// Steps of the oracle.
#include "host/layer/oracle_steps.h"

#include <cmath>

namespace ironcl::layer {
namespace {

using numerics::DType;

float below(double value) {
  const auto near = static_cast<float>(value);
  return near <= value ? near : std::nextafter(near, -std::numeric_limits<float>::infinity());
}
float above(double value) { return -below(-value); }

double value_of(DType type, std::uint8_t code) { return numerics::load_as_f64(type, &code, 0); }

}  // namespace

numerics::Operand Rows::operand() const { return operand_of(dtype, values.data(), rows, cols, form, scales.data()); }

Rows Rows::gathered(std::span<const std::int64_t> from) const {
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

Rows quantized(const Rows& x, numerics::DType code, const report::Scales& form,
               const numerics::Quantizer& quantizer) {
  Rows rows{code, {}, {}, form, x.rows, x.cols};
  rows.values.resize(bytes_of_matrix(code, x.rows, x.cols));
  std::vector<float> scales(static_cast<std::size_t>(form.grid.scale_rows(x.rows) * form.grid.scale_cols(x.cols)));
  if (quantizer.given) numerics::decode(form.dtype, x.scales.data(), std::span<float>(scales));
  numerics::quantize(x.dtype, x.values.data(), x.rows, x.cols, x.cols, code, form.grid, quantizer,
                     {reinterpret_cast<std::uint8_t*>(rows.values.data()), rows.values.size()}, scales);
  rows.scales = bytes_of(scales);
  rows.form.dtype = numerics::DType::f32;
  return rows;
}

void quantize_group(DType type, const numerics::Quantizer& quantizer, std::span<double> value,
                    std::span<double> bound, std::uint8_t* codes, float& scale) {
  double amax = 0, error = 0;
  bool finite = true;
  for (std::size_t i = 0; i < value.size(); ++i) {
    finite = finite && std::isfinite(static_cast<float>(value[i])) && std::isfinite(bound[i]);
    amax = std::max(amax, std::fabs(value[i]));
    error = std::max(error, bound[i]);
  }
  if (!finite) {
    scale = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t i = 0; i < value.size(); ++i) {
      value[i] = std::numeric_limits<double>::quiet_NaN();
      bound[i] = kInfinity;
      codes[i] = numerics::quantize_one(std::numeric_limits<float>::quiet_NaN(), 1, type);
    }
    return;
  }
  const float floor = quantizer.amax_floor;
  const auto scale_for = [&](float of) { return numerics::scale_of(std::max(of, floor), type, quantizer); };
  scale = scale_for(static_cast<float>(amax));
  const float scales[] = {scale_for(below(std::max(amax - error, 0.0))), scale_for(above(amax + error))};
  for (std::size_t i = 0; i < value.size(); ++i) {
    codes[i] = numerics::quantize_one(static_cast<float>(value[i]), scale, type);
    const double here = value_of(type, codes[i]) * static_cast<double>(scale);
    double low = here, high = here;
    for (const float x : {below(value[i] - bound[i]), above(value[i] + bound[i])}) {
      for (const float s : scales) {
        const double code = value_of(type, numerics::quantize_one(x, s, type));
        for (const float other : scales) {
          low = std::min(low, code * static_cast<double>(other));
          high = std::max(high, code * static_cast<double>(other));
        }
      }
    }
    value[i] = here;
    bound[i] = std::max(high - here, here - low);
  }
}

void WeightedSum::add(double weight, double weight_error, double value, double error) {
  if (!std::isfinite(value) || !std::isfinite(error)) undefined_ = true;
  sum_ += weight * value;
  error_ += std::fabs(weight) * error + weight_error * (std::fabs(value) + error);
  magnitude_ += (std::fabs(weight) + weight_error) * (std::fabs(value) + error);
  ++terms_;
}

void WeightedSum::finish(DType out, Bounded& to) const {
  const double rounding = (static_cast<double>(terms_) + 1) * kUnit * kSecondOrder * magnitude_;
  const double before = error_ + rounding;
  to.value.push_back(undefined_ ? std::numeric_limits<double>::quiet_NaN() : sum_);
  to.bound.push_back(undefined_ ? kInfinity
                                : before + numerics::unit_roundoff(out) * (std::fabs(sum_) + before) +
                                      numerics::smallest_subnormal(out) / 2);
}

}  // namespace ironcl::layer
