// SPDX-License-Identifier: Apache-2.0
#include "host/cli/device_encoder.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "backends/numerics/casts.h"
#include "host/cli/device_list.h"
#include "host/report/problem.h"

namespace ironcl::cli {

using numerics::DType;

DeviceEncoder::DeviceEncoder(const std::string& uri, const quantize::Scheme& scheme)
    : device_(find_devices(registry_, {uri}).at(0)), queue_(device_), scheme_(scheme) {
  const bool stored = scheme.scale == DType::f32 || scheme.scale == DType::e8m0;
  if (numerics::bits_of(scheme.code) != 8 || !stored || scheme.needs_tensor_amax())
    throw std::invalid_argument(
        "--device: a device makes the codes of schemes block, channel and mxfp8 with scales of f32 or e8m0; leave "
        "it out");
}

DeviceEncoder::Stripe& DeviceEncoder::stripe(std::int64_t rows, std::int64_t cols, std::int64_t scales) {
  const auto [at, added] = stripes_.try_emplace(std::pair(rows, cols));
  if (added) {
    QuantizeDesc desc;
    desc.rows = rows;
    desc.cols = cols;
    desc.x = IRONCL_F32;
    desc.code = static_cast<ironcl_dtype>(scheme_.code);
    desc.scale = report::to_desc(Scales{DType::f32, scheme_.grid});
    if (scheme_.scale == DType::e8m0) desc.quantizer.scale_rounding = IRONCL_SCALE_POWER_OF_TWO;
    const auto buffer = [&](std::int64_t bytes) { return Buffer(device_, static_cast<std::uint64_t>(bytes)); };
    at->second = {Quantize(device_, desc), buffer(rows * cols * 4), buffer(rows * cols), buffer(scales * 4)};
  }
  return at->second;
}

void DeviceEncoder::operator()(std::span<const float> x, std::int64_t rows, std::int64_t cols,
                               quantize::Encoded out) {
  std::vector<float> scales(static_cast<std::size_t>(scheme_.grid.scale_rows(rows) * scheme_.grid.scale_cols(cols)));
  {
    const std::lock_guard lock(mutex_);
    Stripe& on = stripe(rows, cols, static_cast<std::int64_t>(scales.size()));
    queue_.write(on.values, std::as_bytes(x));
    queue_.run(on.quantize, {.rows = rows, .x = on.values, .codes = on.codes, .scales = on.scales});
    queue_.read(on.codes, out.codes).wait();
    queue_.read(on.scales, std::span(scales)).wait();
  }
  for (float& scale : scales)  // one NaN of many
    if (std::isnan(scale)) scale = std::numeric_limits<float>::quiet_NaN();
  numerics::encode(scheme_.scale, scales, out.scales.data());
}

}  // namespace ironcl::cli
