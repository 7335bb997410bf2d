// SPDX-License-Identifier: Apache-2.0
// Codes and scales of what is only known within a bound.
#include "host/layer/requantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

float below(double value) {
  const auto near = static_cast<float>(value);
  return near <= value ? near : std::nextafter(near, -std::numeric_limits<float>::infinity());
}
float above(double value) {
  const auto near = static_cast<float>(value);
  return near >= value ? near : std::nextafter(near, std::numeric_limits<float>::infinity());
}

double decoded(DType type, std::uint8_t code) { return numerics::load_as_f64(type, &code, 0); }

}  // namespace

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
    const double here = decoded(type, codes[i]) * static_cast<double>(scale);
    double low = here, high = here;
    for (const float x : {below(value[i] - bound[i]), above(value[i] + bound[i])}) {
      for (const float s : scales) {
        const double code = decoded(type, numerics::quantize_one(x, s, type));
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

}  // namespace ironcl::layer
