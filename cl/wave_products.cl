// SPDX-License-Identifier: Apache-2.0
// wave_products.cl: products of small matrices by a wave, as AMD's GPUs have them (MFMA of CDNA, WMMA of RDNA 3 and 4): SIDE rows by SIDE
// columns of f16 or bf16 with f32 sums, or of i8 with s32 sums. Of each operand work-item l of a wave has one line, row or column l % SIDE,
// and of that RUN k a product, in words; PARTS groups of SIDE work-items have different k. Which k it are is no matter as long as both operands
// have the same there, and they do in every product below. Of the sums l has column l % SIDE, and in sum v the row that SUM_ROW says.
//
// LANES  compiled for    SIDE  PARTS  RUN of f16, bf16, i8  row of sum v
// 64     gfx908          32    2      4, 2, 4               8 * (v / 4) + 4 * (l / 32) + v % 4
// 64     gfx90a          32    2      4, 4, 4               the same
// 64     gfx942, gfx950  32    2      4, 4, 8               the same
// 32     gfx11           16    1      16, 16, 16            2 * v + l / 16; both halves of a wave have the same lines
// 32     gfx12           16    2      8, 8, 8               v + 8 * (l / 16)
//
// The compiler says which of them it knows. A file that comes before and defines WAVE_BY_HAND has its own products, PARTS and RUN: tests do
// them by hand, in each of these forms, on devices without such products.
// Set by the including file: LANES, the work-items of a wave. Set by the host, besides those of tile.cl:
// WAVE_LANES  32 64  work-items of the device's waves; LANES must be that. Without it the file is empty.
// A wave is LANES work-items of a work-group one after another, as AMD's compiler numbers them.
// Source of layouts: AMD's Matrix Instruction Calculator, register and lane of each element.
// Source of the functions: clang's builtins for AMD's GPUs. Products need every work-item of a wave: no call stands inside a condition.
#include "tile.cl"

#if defined(WAVE_LANES) || defined(WAVE_BY_HAND)
// What is multiplied: i8; e4m3 by e4m3 as f16; where one is e5m2, bf16.
#define WAVE_I8 (A_TYPE == TYPE_I8)
#define WAVE_F16 (A_TYPE == TYPE_E4M3 && B_TYPE == TYPE_E4M3)
#if WAVE_F16 && defined(WAVE_LANES)
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#if LANES == 64
#define SIDE 32
#define SUM_ROW(v, lane) (8 * ((v) / 4) + 4 * ((lane) / 32) + (v) % 4)
typedef float16 wave_floats;
typedef int16 wave_ints;
#define VLOAD_SUMS vload16
#define VSTORE_SUMS vstore16
#define INTS_AS_FLOATS convert_float16
#else
#define SIDE 16
#define SUM_ROW(v, lane) (PARTS == 1 ? 2 * (v) + (lane) / 16 : (v) + 8 * ((lane) / 16))
typedef float8 wave_floats;
typedef int8 wave_ints;
#define VLOAD_SUMS vload8
#define VSTORE_SUMS vstore8
#define INTS_AS_FLOATS convert_float8
#endif
#define SUMS (SIDE * SIDE / LANES)

#ifdef WAVE_LANES
#if WAVE_LANES != LANES
#error "lanes must be those of the device's waves"
#endif
#ifndef __has_builtin
#error "the device's compiler does not say what it knows: no matrix products of waves"
#endif
#if LANES == 64
#if !__has_builtin(__builtin_amdgcn_mfma_f32_32x32x8f16)
#error "the device's compiler knows no matrix products of waves of 64 work-items"
#endif
#define PARTS 2
#if WAVE_I8 && (defined(__gfx908__) || defined(__gfx90a__))
#define RUN 4
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_mfma_i32_32x32x8i8(as_int(a), as_int(b), sums, 0, 0, 0)
#elif WAVE_I8
#define RUN 8
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_mfma_i32_32x32x16_i8(as_long(a), as_long(b), sums, 0, 0, 0)
#elif WAVE_F16
#define RUN 4
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_mfma_f32_32x32x8f16(as_half4(a), as_half4(b), sums, 0, 0, 0)
#elif defined(__gfx908__)
#define RUN 2
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_mfma_f32_32x32x4bf16(as_short2(a), as_short2(b), sums, 0, 0, 0)
#else
#define RUN 4
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(as_short4(a), as_short4(b), sums, 0, 0, 0)
#endif
#elif __has_builtin(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12)
// First, since compilers for gfx12 say that they know the one of gfx11 as well.
#define PARTS 2
#define RUN 8
#if WAVE_I8
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, as_int2(a), true, as_int2(b), sums, false)
#elif WAVE_F16
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(as_half8(a), as_half8(b), sums)
#else
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(as_short8(a), as_short8(b), sums)
#endif
#elif __has_builtin(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32)
#define PARTS 1
#define RUN 16
#if WAVE_I8
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, as_int4(a), true, as_int4(b), sums, false)
#elif WAVE_F16
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(as_half16(a), as_half16(b), sums)
#else
#define WAVE_PRODUCT(a, b, sums) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(as_short16(a), as_short16(b), sums)
#endif
#else
#error "the device's compiler knows no matrix products of waves of 32 work-items"
#endif
#define WAVE_SCRATCH
#endif

// 16 k of a line as words, which are PIECES products.
#define PIECES (16 / RUN)
#if WAVE_I8
typedef uint4 wave_chunk;
typedef wave_ints wave_sums;
#define FLOATS_OF_SUMS INTS_AS_FLOATS
#else
typedef uint8 wave_chunk;
typedef wave_floats wave_sums;
#define FLOATS_OF_SUMS
#endif
#define MULTIPLY_1(a, b, sums) sums = WAVE_PRODUCT(a, b, sums)
#define MULTIPLY_2(a, b, sums) \
  MULTIPLY_1((a).lo, (b).lo, sums); \
  MULTIPLY_1((a).hi, (b).hi, sums)
#define MULTIPLY_4(a, b, sums) \
  MULTIPLY_2((a).lo, (b).lo, sums); \
  MULTIPLY_2((a).hi, (b).hi, sums)
#define MULTIPLY_8(a, b, sums) \
  MULTIPLY_4((a).lo, (b).lo, sums); \
  MULTIPLY_4((a).hi, (b).hi, sums)
/// Adds the products of two chunks to `sums`.
#if PIECES == 1
#define MULTIPLY_CHUNKS MULTIPLY_1
#elif PIECES == 2
#define MULTIPLY_CHUNKS MULTIPLY_2
#elif PIECES == 4
#define MULTIPLY_CHUNKS MULTIPLY_4
#else
#define MULTIPLY_CHUNKS MULTIPLY_8
#endif
#endif
