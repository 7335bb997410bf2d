// SPDX-License-Identifier: Apache-2.0
// code_pairs.cl: codes of two elements at a time, by the conversions of compute capability 8.9 where a device has them; bit for bit those
// of quantizer.cl. Used by quantize_wgmma.cl and gemm_mma_stream.cl.
// Set by the host: those of quantizer.cl, and PTX_SM_80, PTX_SM_89 (ptx.cl)
#include "quantizer.cl"

#if defined(PTX_SM_80) || defined(MMA_BY_HAND)
/// A register's elements of a row, at any address, zeros past k. Seldom, so it is kept out of code that must be unrolled.
__attribute__((noinline)) uint word_at(__global const uchar* x, ulong row_at, uint col, uint k)
{
#if SOURCE == TYPE_F32
  return col < k ? ((__global const uint*)x)[row_at + col] : 0u;
#else
  __global const ushort* h = (__global const ushort*)x + row_at;
  return (col < k ? (uint)h[col] : 0u) | (col + 1 < k ? (uint)h[col + 1] << 16 : 0u);
#endif
}

static inline uint magnitude(uint amax, float2 v) { return max(max(amax, as_uint(v.x) & 0x7fffffffu), as_uint(v.y) & 0x7fffffffu); }

// Codes of two elements, in the low 16 bits, where scale_and_reach() says so.
static inline uint quick_codes(float2 v, float scale, float reciprocal)
{
  const float a = quotient(v.x, scale, reciprocal), b = quotient(v.y, scale, reciprocal);
#if CODE != TYPE_I8 && !defined(PTX_SM_89)
  return (uint)ENCODE(CODE)(a) | (uint)ENCODE(CODE)(b) << 8;
#elif CODE == TYPE_E4M3
  uint r;
  asm("{.reg .b16 h; cvt.rn.satfinite.e4m3x2.f32 h,%1,%2; cvt.u32.u16 %0,h;}" : "=r"(r) : "f"(b), "f"(a));
  return r;
#elif CODE == TYPE_E5M2
  uint r;
  asm("{.reg .b16 h; cvt.rn.satfinite.e5m2x2.f32 h,%1,%2; cvt.u32.u16 %0,h;}" : "=r"(r) : "f"(b), "f"(a));
  return r;
#else
  return ((uint)(int)rint(clamp(a, -127.0f, 127.0f)) & 0xffu) | ((uint)(int)rint(clamp(b, -127.0f, 127.0f)) & 0xffu) << 8;
#endif
}
static inline uint slow_codes(float2 v, float scale, bool finite)
{
  if (!finite) return NAN_CODE | NAN_CODE << 8;
  return (uint)code_of(v.x, scale) | (uint)code_of(v.y, scale) << 8;
}

// The scale of a group from the bits of its largest magnitude; false: the quick quotients do not reach so far.
static inline bool scale_and_reach(uint amax, uint floor_bits, float* scale, float* reciprocal)
{
  *scale = scale_of_bits(amax, floor_bits);
  const bool quick = amax < 0x7f800000u && in_reach(*scale);
  *reciprocal = quick ? divide_exactly(1.0f, *scale) : 0.0f;
  return quick;
}
#endif
