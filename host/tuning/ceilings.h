// SPDX-License-Identifier: Apache-2.0
// What a device's plugin answers when it is asked, such as what the device can do at most; what a problem asks of it;
// what is said of several timings of one thing.
#pragma once

#include <fmt/format.h>

#include <boost/json.hpp>

#include "host/include/ironcl/ironcl.hpp"
#include "host/report/problem.h"

namespace ironcl::tuning {

/// What `read` makes of the answer to `key`; nothing where the plugin has none. Throws ironcl::Error: INTERNAL where
/// the answer is not JSON, or not what `read` expects of it; else as the device's query() does.
template <class Read>
auto answer_of(const Device& device, const std::string& key, Read&& read)
    -> std::optional<decltype(read(boost::json::value()))> {
  std::string text;
  try {
    text = device.query(key);
  } catch (const Error& error) {
    if (error.status() != IRONCL_UNIMPLEMENTED) throw;
    return std::nullopt;
  }
  try {
    return read(boost::json::parse(text));
  } catch (const std::exception& error) {
    throw Error(
        IRONCL_INTERNAL, 0,
        fmt::format("{}: plugin {} answers the query \"{}\" with \"{}\", which it must not ({}); IRONCL_DISABLE={} "
                    "leaves the plugin out",
                    device.uri(), device.plugin(), key, text.substr(0, 60), error.what(), device.plugin()));
  }
}

/// What a device can do at most, as it measured itself; 0: it cannot say.
struct Ceilings {
  double flops = 0;             ///< f32 multiply-adds, two operations each, a second.
  double bytes_per_second = 0;  ///< Copying, read and written bytes together.
};

/// The plugin's query "ceilings": {"fma_flops": ..., "copy_bytes_per_s": ...}.
Ceilings ceilings_of(const Device& device);

/// The plugin's query "fma_flops", which answers within some 20 ms; 0: it cannot say.
double fma_flops_now(const Device& device);

/// Two for each multiply-add.
double flops_of(const report::Problem& problem);

/// The fewest bytes that a call reads and writes: A as it comes, the weights once, D once.
double least_bytes_of(const report::Problem& problem);

/// Several timings of one thing, summarised: the median, and the width of the middle half.
struct Summary {
  std::size_t count = 0;
  double median = 0;
  double low = 0, high = 0;  ///< First and third quartile.

  /// (high - low) / median: what a difference must exceed to mean something.
  double spread() const noexcept { return median > 0 ? (high - low) / median : 0; }
};

inline Summary summarize(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  // The value below which a fraction `q` of them lies, interpolated.
  const auto quantile = [&values](double q) {
    const double at = q * static_cast<double>(values.size() - 1);
    const std::size_t below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {values.size(), quantile(0.5), quantile(0.25), quantile(0.75)};
}

}  // namespace ironcl::tuning
