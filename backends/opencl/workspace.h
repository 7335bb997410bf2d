// SPDX-License-Identifier: Apache-2.0
// The workspace of a plan: each step books what it needs, by name, before anything is allocated or built.
#pragma once

#include <string>
#include <vector>

#include "backends/numerics/size.h"

namespace ironcl::opencl {

/// Bookings of a plan's workspace. Parts lie one after another, each on a multiple of kAlignment bytes; sums that no
/// number holds throw std::overflow_error (numerics::Size).
class Booking {
 public:
  static constexpr std::int64_t kAlignment = 256;  ///< Bytes; whole cache lines, and whole vectors of any device.

  struct Part {
    std::string name;
    std::uint64_t at = 0, size = 0;  ///< Bytes.
  };

  /// Books `bytes` and returns where they begin.
  std::uint64_t book(std::string name, numerics::Size bytes) {
    parts_.push_back({std::move(name), total_.bytes(), bytes.bytes()});
    total_ += bytes.padded_to(kAlignment);
    return parts_.back().at;
  }
  std::uint64_t bytes() const noexcept { return total_.bytes(); }
  /// Asks for the plan's counter (Source::counter).
  void ask_for_counter() noexcept { counter_ = true; }
  bool counter() const noexcept { return counter_; }
  const std::vector<Part>& parts() const noexcept { return parts_; }

 private:
  numerics::Size total_;
  bool counter_ = false;
  std::vector<Part> parts_;
};

}  // namespace ironcl::opencl
