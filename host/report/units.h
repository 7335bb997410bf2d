// SPDX-License-Identifier: Apache-2.0
// Quantities as people read them: times, bytes, small numbers; and the clock. Next door: table.h (which column uses
// which).
#pragma once

#include <string>
#include <string_view>

namespace ironcl::report {

/// Nanoseconds as "812 ns", "41.3 us", "1.25 ms", "3.07 s"; three significant digits.
std::string human_time(double nanoseconds);

/// Bytes as "640 B", "1.31 MiB"; three significant digits.
std::string human_bytes(double bytes);

/// A number in three significant digits, "1.9e-09" or "0.412"; "nan", "inf", "-inf" where it is not finite.
std::string human_number(double value);

/// A number in the digits that give it back exactly; "nan", "inf", "-inf" where it is not finite.
std::string exact_number(double value);

/// "1 layer", "2 layers".
std::string counted(std::size_t count, std::string_view word);

/// Nanoseconds of a clock that only goes forward.
double now_ns();

}  // namespace ironcl::report
