// SPDX-License-Identifier: Apache-2.0
// code_pairs.cl: codes of two elements at a time, by the conversions of compute capability 8.9 where a device has them; bit for bit those
// of quantizer.cl. Used by quantize_wgmma.cl, quantize_scatter.cl and the kernels that multiply by mma.sync.
// Set by the host: those of quantizer.cl, and PTX_SM_80, PTX_SM_89, PTX_SM_90 (ptx.cl)
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

/// Elements i and i + 1 of a row whose registers those are.
static inline float2 pair_of(const uint* words, int i)
{
#if SOURCE == TYPE_F32
  return (float2)(as_float(words[i]), as_float(words[i + 1]));
#elif SOURCE == TYPE_BF16
  return (float2)(as_float(words[i / 2] << 16), as_float(words[i / 2] & 0xffff0000u));
#elif defined(MMA_BY_HAND)
  return (float2)(decode_f16(words[i / 2] & 0xffffu), decode_f16(words[i / 2] >> 16));
#else
  float2 v;
  asm("{.reg .b16 l,h; mov.b32 {l,h},%2; cvt.f32.f16 %0,l; cvt.f32.f16 %1,h;}" : "=f"(v.x), "=f"(v.y) : "r"(words[i / 2]));
  return v;
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
// Of four elements whose scale they do not reach. What is seldom is kept out of code that must be unrolled.
__attribute__((noinline)) uint slow_codes(float4 v, float scale)
{
  if (as_uint(scale) >= 0x7f800000u) return NAN_CODE * 0x01010101u;
  return (uint)code_of(v.x, scale) | (uint)code_of(v.y, scale) << 8 | (uint)code_of(v.z, scale) << 16 | (uint)code_of(v.w, scale) << 24;
}

// The scale of a group from the bits of its largest magnitude; false: the quick quotients do not reach so far.
static inline bool scale_and_reach(uint amax, uint floor_bits, float* scale, float* reciprocal)
{
  *scale = scale_of_bits(amax, floor_bits);
  const bool quick = amax < 0x7f800000u && in_reach(*scale);
  *reciprocal = quick ? divide_exactly(1.0f, *scale) : 0.0f;
  return quick;
}

// Groups of a row by 128 that a half-warp has in hand together: a pass is a group, of which each work-item has eight elements side by side.
#if defined(PTX_SM_90)
#define PER (SOURCE == TYPE_F32 ? 1 : 2)  // Elements in a register.
#define WORDS (8 / PER)
// Magnitudes grow with their bits in every type: the largest of a register's elements, of two registers', and its bits as f32.
#if SOURCE == TYPE_F32
#define MAGNITUDES(w) ((w) & 0x7fffffffu)
#define LARGER(r, a, b) r = max(a, b)
#define BITS_OF_LARGEST(w) (w)
#else
#define MAGNITUDES(w) ((w) & 0x7fff7fffu)
#define LARGER(r, a, b) asm("max.u16x2 %0,%1,%2;" : "=r"(r) : "r"(a), "r"(b))
#define BITS_OF_LARGEST(w) bits_of(max((w) & 0xffffu, (w) >> 16))
static inline uint bits_of(uint magnitude)
{
#if SOURCE == TYPE_BF16
  return magnitude << 16;
#else
  float f;
  asm("{.reg .b16 h; cvt.u16.u32 h,%1; cvt.f32.f16 %0,h;}" : "=f"(f) : "r"(magnitude));
  return as_uint(f);
#endif
}
#endif

// Eight elements of a row from column COL on into RAW: they are there, on an address that is a multiple of 16 bytes; or wherever they are.
#define LOAD_EIGHT(RAW, X, ROW_AT, COL) \
  UNROLL for (int j_ = 0; j_ < WORDS; j_ += 4) LOAD16(&(RAW)[j_], (X) + ((ROW_AT) + (COL) + j_ * PER) * (4 / PER))
#define LOAD_EIGHT_ANYWHERE(RAW, X, ROW_AT, COL, K)                                \
  UNROLL for (int j_ = 0; j_ < WORDS; j_ += 4) {                                   \
    const uint4 words_ = words_at(X, ROW_AT, (COL) + j_ * PER, (uint)(K));         \
    (RAW)[j_] = words_.x, (RAW)[j_ + 1] = words_.y, (RAW)[j_ + 2] = words_.z, (RAW)[j_ + 3] = words_.w; \
  }
__attribute__((noinline)) uint4 words_at(__global const uchar* x, ulong row_at, uint col, uint k)
{
  return (uint4)(word_at(x, row_at, col, k), word_at(x, row_at, col + PER, k), word_at(x, row_at, col + 2 * PER, k), word_at(x, row_at, col + 3 * PER, k));
}

// Of the magnitudes of twice STEP passes a pair of work-items keeps those of STEP each: with steps of half of the passes and so on to 1 a
// work-item is left with those of one pass.
#define HALVE(ALL, STEP)                                                                                              \
  if (PASSES > (STEP)) {                                                                                              \
    const bool upper_ = lane & (STEP);                                                                                \
    UNROLL for (int i_ = 0; i_ < (PASSES > (STEP) ? (STEP) : 0); ++i_) {                                              \
      const uint low_ = ALL[i_], high_ = ALL[min(i_ + (STEP), PASSES - 1)];                                           \
      uint other_;                                                                                                    \
      SHUFFLE_XOR(other_, upper_ ? low_ : high_, STEP);                                                               \
      LARGER(ALL[i_], upper_ ? high_ : low_, other_);                                                                 \
    }                                                                                                                 \
  }
// Leaves the scale of pass lane % PASSES and its reciprocal, 0 where the quick quotients do not reach. PASSES: 1, 2, 4, 8 or 16.
#define SCALES_OF_PASSES(RAW, FLOOR, SCALE, RECIPROCAL)                                                               \
  do {                                                                                                                \
    uint all_[PASSES], amax_;                                                                                         \
    UNROLL for (int i_ = 0; i_ < PASSES; ++i_) {                                                                      \
      all_[i_] = MAGNITUDES(RAW[i_][0]);                                                                              \
      UNROLL for (int j_ = 1; j_ < WORDS; ++j_) LARGER(all_[i_], all_[i_], MAGNITUDES(RAW[i_][j_]));                  \
    }                                                                                                                 \
    HALVE(all_, 8)                                                                                                    \
    HALVE(all_, 4)                                                                                                    \
    HALVE(all_, 2)                                                                                                    \
    HALVE(all_, 1)                                                                                                    \
    UNROLL for (int d_ = PASSES; d_ < 16; d_ *= 2) {                                                                  \
      SHUFFLE_XOR(amax_, all_[0], d_);                                                                                \
      LARGER(all_[0], all_[0], amax_);                                                                                \
    }                                                                                                                 \
    if (!scale_and_reach(BITS_OF_LARGEST(all_[0]), FLOOR, &(SCALE), &(RECIPROCAL))) RECIPROCAL = 0.0f;                \
  } while (0)

// The eight codes of this work-item's elements of pass I.
#define CODES_OF_PASS(LO, HI, RAW, I, SCALE, RECIPROCAL)                                                              \
  do {                                                                                                                \
    uint s_, r_;                                                                                                      \
    SHUFFLE(s_, as_uint(SCALE), (lane & 16) + (I));                                                                   \
    SHUFFLE(r_, as_uint(RECIPROCAL), (lane & 16) + (I));                                                              \
    const float s = as_float(s_), r = as_float(r_);                                                                   \
    if (r_ != 0u) {                                                                                                   \
      LO = quick_codes(pair_of(RAW[I], 0), s, r) | quick_codes(pair_of(RAW[I], 2), s, r) << 16;                       \
      HI = quick_codes(pair_of(RAW[I], 4), s, r) | quick_codes(pair_of(RAW[I], 6), s, r) << 16;                       \
    } else {                                                                                                          \
      LO = slow_codes((float4)(pair_of(RAW[I], 0), pair_of(RAW[I], 2)), s);                                           \
      HI = slow_codes((float4)(pair_of(RAW[I], 4), pair_of(RAW[I], 6)), s);                                           \
    }                                                                                                                 \
  } while (0)
#endif
#endif
