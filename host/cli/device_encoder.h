// SPDX-License-Identifier: Apache-2.0
// Codes and scales of a checkpoint's weights by a device's quantiser, for ironcl quantize --device.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "host/include/ironcl/ironcl.hpp"
#include "host/quantize/codec.h"

namespace ironcl::cli {

/// The bytes of quantize::encode(), of codes of a byte whose scales are those that the device makes: f32, or powers
/// of two. Stripes take turns; any thread.
class DeviceEncoder {
 public:
  /// Throws std::invalid_argument for a scheme that a device does not make, CommandError where there is no such
  /// device.
  DeviceEncoder(const std::string& uri, const quantize::Scheme& scheme);

  /// Quantises a stripe of `rows` rows by `cols` values. Throws ironcl::Error where the device fails.
  void operator()(std::span<const float> x, std::int64_t rows, std::int64_t cols, quantize::Encoded out);

 private:
  /// Plan and buffers that stripes of one shape use in turn.
  struct Stripe {
    Quantize quantize;
    Buffer values, codes, scales;
  };
  Stripe& stripe(std::int64_t rows, std::int64_t cols, std::int64_t scales);

  Registry registry_ = Registry::discover();
  Device device_;
  Queue queue_;
  quantize::Scheme scheme_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, Stripe> stripes_;
};

}  // namespace ironcl::cli
