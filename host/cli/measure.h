// SPDX-License-Identifier: Apache-2.0
// How `ironcl bench` times calls: warm-up, then enough of them. Next door: bench_command.cpp, bench_experts.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "host/layer/execution.h"
#include "host/tuning/statistics.h"

namespace ironcl::cli {

struct MeasureSettings {
  int runs = 9;                          ///< Timed calls at the least,
  double min_ms = 50, warm_up_ms = 200;  ///< and until that much time is spent; after calls that are not counted.
};

struct Timed {
  tuning::Summary device, host;
  std::uint32_t kind = IRONCL_TIME_NONE;
};

/// A model's times are no measurement: they are shown, never set against a ceiling that was measured.
inline bool is_measured(std::uint32_t kind) { return kind == IRONCL_TIME_MEASURED; }

/// Times call.run(). `between` comes after the warm-up with an empty slice, then after every 40 ms with their times.
template <class Call>
Timed measure(Call& call, const MeasureSettings& settings,
              const std::function<void(const std::vector<double>& slice, std::uint32_t kind)>& between = {}) {
  constexpr double kSliceNs = 40e6;
  layer::Timing timing = call.run();
  const std::uint32_t kind = timing.time_kind;
  // A GPU that has been idle raises its clocks over many milliseconds.
  for (double spent = timing.host_ns; is_measured(kind) && spent < settings.warm_up_ms * 1e6; spent += timing.host_ns)
    timing = call.run();
  std::vector<double> device, host, slice;
  double spent = 0;
  const auto more = [&] {
    return device.size() < static_cast<std::size_t>(settings.runs) ||
           (spent < settings.min_ms * 1e6 && device.size() < 100000);
  };
  for (double sliced = kSliceNs; more();) {
    if (sliced >= kSliceNs && between) between(slice, kind);
    if (sliced >= kSliceNs) slice.clear(), sliced = 0;
    timing = call.run();
    slice.push_back(timing.ns());
    device.push_back(timing.ns());
    host.push_back(timing.host_ns);
    sliced += timing.host_ns;
    spent += timing.host_ns;
  }
  if (between) between(slice, kind);
  return {tuning::summarize(device), tuning::summarize(host), kind};
}

}  // namespace ironcl::cli
