// SPDX-License-Identifier: Apache-2.0
// probe.cl: tiny kernels whose results say what a device really does. Run by backends/opencl/probe.cpp.
// A program has the kernels probe_N of the bits N of PROBES: several in one, as parsing what a driver declares takes longest.
// PROBE 1: out[i] = x[i] / y[i].  PROBE 2: sixteen halfs, given as their bits, converted as a vector.
// PROBE 3: out[i] = x[i] under the attribute min_vector_width.  PROBE 4: the quotients of quantizer.cl by multiply-add.
// PROBE 5: out[i] = x[i], with the compiler's builtins of cache_hints.cl.
// PROBE 6: out[i] = the e4m3 code i, then the e5m2 codes, then e4m3 as weights, as HALF_BITS has them become f32; then i8, which becomes f32
// without it: a test asks for those too.
// PROBE 7: out[i] = the dot product of the four signed bytes of x[i] and of y[i].
// PROBE 8: out[i] = x[i], where arrays of the kernel's own of LOCAL_BYTES bytes of local memory kept what was written.
// PROBE 9: out[i] = the e4m3 code i, then the e5m2 codes, by the conversions of ptx.cl; then the codes of those values by theirs.
#ifndef PROBES
#define PROBES 2
#endif
#define ASKED(probe) ((PROBES) & (1 << (probe)))
#if ASKED(9)
#define PTX_SM_89
#define CODES_OF(type, codes, low, high) \
  asm("{.reg .b16 h; cvt.rn.satfinite." type "x2.f32 h,%1,%2; cvt.u32.u16 %0,h;}" : "=r"(codes) : "f"(high), "f"(low))
#endif

#define USE_FMA 0
#define SOURCE 1
#define CODE 4
#define POWER_OF_TWO 0
#define FMA_DIVIDE 1
#if ASKED(5)
// A compiler that goes by way of SPIR-V may end its process over a builtin that has no word there (Mesa's does over a prefetch), so only
// one that names what it compiles for is asked: a processor, or the SPIR of before, which has all that clang has.
#if !(defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__arm__) || defined(__riscv) || defined(__powerpc__) || \
      defined(__SPIR__))
#error "the compiler names no processor that it compiles for: its builtins are not tried"
#endif
#define CACHE_BUILTINS
#define STREAM_TILES
#endif
#include "arguments.cl"
#include "cache_hints.cl"
#include "quantizer.cl"
#if ASKED(7)
#define BYTE_DOTS 1
#endif
#if ASKED(6) || ASKED(7) || ASKED(9)
#include "code_words.cl"
#endif
#if ASKED(9)
#include "ptx.cl"
#endif

#if ASKED(1)
__kernel void probe_1(PARAMETERS(PROBE_LIST)) {
  const int i = (int)get_global_id(0);
  if (i < count) out[i] = x[i] / y[i];
}
#endif

#if ASKED(2)
typedef __fp16 half16_ __attribute__((ext_vector_type(16)));
__kernel void probe_2(PARAMETERS(PROBE_LIST)) {
  const int i = (int)get_global_id(0) * 16;
  union {
    ushort16 bits;
    half16_ values;
  } codes;
  if (i + 16 > count) return;
  codes.bits = vload16(0, (__global const ushort*)x + i);
  vstore16(__builtin_convertvector(codes.values, float16), 0, out + i);
}
#endif

#if ASKED(3)
__kernel __attribute__((min_vector_width(512))) void probe_3(PARAMETERS(PROBE_LIST)) {
  const int i = (int)get_global_id(0) * 16;
  if (i + 16 <= count) vstore16(vload16(0, x + i), 0, out + i);
}
#endif

#if ASKED(4)
__kernel void probe_4(PARAMETERS(PROBE_LIST)) {
  const int i = (int)get_global_id(0);
  if (i < count) out[i] = quotient(x[i], y[i], divide_exactly(1.0f, y[i]));
}
#endif

#if ASKED(5)
__kernel void probe_5(PARAMETERS(PROBE_LIST)) {
  const int i = (int)get_global_id(0) * 16;
  PREFETCH(x + i + 16);
  PREFETCH_FAR(x + i + 64);
  if (i + 16 <= count) STORE_TILE(__global float16, out + i, vload16(0, x + i));
  TILES_ARE_STORED();
}
#endif

#if ASKED(6)
__kernel void probe_6(PARAMETERS(PROBE_LIST)) {
  const uint i = (uint)get_global_id(0), word = 0x03020100u + 0x04040404u * (i % 64u);
  if (4 * i + 4 > (uint)count) return;
  vstore4(i < 64 ? tokens_e4m3(word) * UNIT_OF_4 : i < 128 ? word_e5m2(word) : i < 192 ? word_e4m3(word) * UNIT_OF_4 : word_i8(word), i,
          out);
}
#endif

#if ASKED(7)
__kernel void probe_7(PARAMETERS(PROBE_LIST)) {
  const int i = (int)get_global_id(0);
  if (i < count) out[i] = (float)dot_4x8packed_ss_int(((__global const uint*)x)[i], ((__global const uint*)y)[i]);
}
#endif

#if ASKED(8)
__kernel void probe_8(PARAMETERS(PROBE_LIST)) {
  __local volatile uint kept[LOCAL_BYTES / 4];
  const uint id = (uint)get_global_id(0);
  uint wrong = 0;
  for (uint i = 0; i < LOCAL_BYTES / 4; ++i) kept[i] = i * 2654435761u + id;
  for (uint i = 0; i < LOCAL_BYTES / 4; ++i) wrong |= kept[i] ^ (i * 2654435761u + id);
  if (id < (uint)count) out[id] = wrong == 0u ? x[id] : 0.0f;
}
#endif

#if ASKED(9)
__kernel void probe_9(PARAMETERS(PROBE_LIST)) {
  const uint i = (uint)get_global_id(0), word = 0x03020100u + 0x04040404u * (i % 64u);
  uint low, high, codes, more;
  if (8 * (i % 128u) + 8 > (uint)count) return;
  if (i < 64) {
    DECODE4_4(low, high, word);
  } else {
    DECODE4_5(low, high, word);
  }
  const float4 values = (float4)(decode_f16(low & 0xffffu), decode_f16(low >> 16), decode_f16(high & 0xffffu), decode_f16(high >> 16));
  if (i < 64) {
    CODES_OF("e4m3", codes, values.x, values.y);
    CODES_OF("e4m3", more, values.z, values.w);
  } else {
    CODES_OF("e5m2", codes, values.x, values.y);
    CODES_OF("e5m2", more, values.z, values.w);
  }
  vstore4(values, i, out);
  vstore4((float4)((float)(codes & 0xffu), (float)(codes >> 8), (float)(more & 0xffu), (float)(more >> 8)), 128 + i, out);
}
#endif
