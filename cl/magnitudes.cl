// SPDX-License-Identifier: Apache-2.0
// magnitudes.cl: the largest magnitude of values side by side, for all that quantises (quantizer.cl) and for packing (pack_a.cl).
// Set by the including file or the host: SOURCE, the type of the values.
#include "fp8.cl"

// Magnitudes are compared as bits: larger ones have larger bits, NaN the largest, and nothing is rounded.
/// Those of `wide`, each with every sixteenth of the `count` elements from x[from] on.
static inline uint16 larger_bits(uint16 wide, __global const uchar* x, ulong from, int count) {
  int at = 0;
  for (; at + 16 <= count; at += 16) {
    const uint16 bits = as_uint16(load_floats16(SOURCE, x, from + (ulong)at)) & (uint16)(0x7fffffffu);
    wide = wide > bits ? wide : bits;
  }
  for (; at < count; ++at) wide.s0 = max(wide.s0, as_uint(load_element(SOURCE, x, from + (ulong)at)) & 0x7fffffffu);
  return wide;
}
static inline uint largest_bits(uint16 wide) {
  const uint8 w8 = max(wide.lo, wide.hi);
  const uint4 w4 = max(w8.lo, w8.hi);
  return max(max(w4.x, w4.y), max(w4.z, w4.w));
}
