// SPDX-License-Identifier: Apache-2.0
// What the tile unit of an x86 processor (AMX) does at most: bf16 products from registers, nothing else.
#pragma once

namespace ironcl::bench {

/// Operations a second (two for each multiply-add) of `threads` threads together, over about `seconds`; 0 where there
/// is no such unit, or the system does not let this process use it. The tiles hold random e4m3fn values: with zeros
/// in them the unit draws less power and was seen to run a fifth faster.
double tile_rate(int threads, double seconds);

}  // namespace ironcl::bench
