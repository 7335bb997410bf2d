// SPDX-License-Identifier: Apache-2.0
// What happened when on the modelled core: spans on named tracks. Next door: trace.h (Chrome JSON and terminal
// views).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ironcl::ironwood {

/// One busy stretch of a track. Times in modelled nanoseconds from the start of the kernel.
struct TimelineSpan {
  int track = 0;
  std::int64_t step = -1;  ///< Grid step that caused it; -1 outside the grid.
  double start_ns = 0;
  double duration_ns = 0;
  std::uint64_t bytes = 0;  ///< Of a transfer; 0 for compute.
  std::string label;        ///< "x[0,3] -> slot 1", "dot 512x512x512".
};

/// Spans in the order in which they were caused; bounded, so that a long grid cannot fill memory.
struct Timeline {
  std::vector<std::string> tracks;
  std::vector<TimelineSpan> spans;
  std::size_t capacity = 100'000;
  std::uint64_t dropped = 0;  ///< Spans that did not fit.

  int track(const std::string& name) {
    for (std::size_t i = 0; i < tracks.size(); ++i) {
      if (tracks[i] == name) return static_cast<int>(i);
    }
    tracks.push_back(name);
    return static_cast<int>(tracks.size()) - 1;
  }
  bool full() const noexcept { return spans.size() >= capacity; }
  void add(TimelineSpan span) {
    if (full()) {
      ++dropped;
    } else {
      spans.push_back(std::move(span));
    }
  }
};

}  // namespace ironcl::ironwood
