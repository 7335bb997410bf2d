// SPDX-License-Identifier: Apache-2.0
// quantize_group.cl: one scale group of one row of X quantised into f32 values, for kernels that quantise what they multiply.
// Set by the host: those of quantizer.cl.
#include "quantizer.cl"

/// The `count` elements from x[from] on, in units of their scale, to to[0..15], to[stride + 0..15] and so on, with zeros up to `padded`, a
/// multiple of 16. The scale.
static inline float quantise_group(__local float* to, int stride, __global const uchar* x, ulong from, int count, int padded) {
  const uint amax = largest_bits(larger_bits((uint16)(0u), x, from, count));
  const float scale = scale_of_bits(amax, FLOOR_BITS);
  const bool finite = amax < 0x7f800000u;
  int at = 0;
  if (finite && in_reach(scale)) {
    const int whole = count / 16 * 16;
    const float reciprocal = divide_exactly(1.0f, scale);
    for (; at < whole; at += 16, to += stride) {
      const float16 quotients = quotient_16(load_floats16(SOURCE, x, from + (ulong)at), scale, reciprocal);
      *(__local float16*)to = ROUND_16(CODE)(quotients);
    }
  }
  for (; at < padded; at += 16, to += stride) {
    for (int j = 0; j < 16; ++j) {
      float value = 0.0f;
      if (at + j < count) {
        const uchar code = finite ? code_of(load_element(SOURCE, x, from + (ulong)(at + j)), scale) : (uchar)NAN_CODE;
        value = DECODE(CODE)((uint)code);
      }
      to[j] = value;
    }
  }
  return scale;
}
