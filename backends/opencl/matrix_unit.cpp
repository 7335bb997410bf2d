// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/matrix_unit.h"

#include <cerrno>
#include <cstring>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#define IRONCL_X86_LINUX 1
#else
#define IRONCL_X86_LINUX 0
#endif

namespace ironcl::opencl {

#if IRONCL_X86_LINUX
namespace {

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}

// Leaf 7, register d.
constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
// Leaf 7, register c; of its subleaf 1, register a.
constexpr unsigned kPermutesBytes = 1u << 1, kMapsBits = 1u << 8, kDotsOfBytes = 1u << 11, kDotsOfBf16 = 1u << 5;
constexpr unsigned kSavesState = 1u << 27;  // Leaf 1, register c: OSXSAVE.
constexpr unsigned kTileState = 3u << 17;   // XCR0: configuration and data of tiles.
constexpr unsigned kVectorState = 7u << 5;  // XCR0: masks and vectors of 512 bits.
constexpr long kAskForState = 0x1023;       // ARCH_REQ_XCOMP_PERM
constexpr long kTileData = 18;              // XFEATURE_XTILE_DATA

/// Whether the system keeps all of this state.
bool system_keeps(unsigned state) {
  if ((cpuid(1, 0).c & kSavesState) == 0) return false;
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & state) == state;
}

}  // namespace

std::string why_no_tiles() {
  const unsigned has = cpuid(7, 0).d;
  if ((has & kTile) == 0) return "the processor has no tiles (AMX), or a virtual machine hides them";
  if ((has & kBf16) == 0 || (has & kInt8) == 0) return "the processor's tiles do not multiply both bf16 and int8";
  // What decodes; every processor with tiles so far has it.
  constexpr unsigned kDecodes = kPermutesBytes | kMapsBits;
  if ((cpuid(7, 0).c & kDecodes) != kDecodes) return "the processor does not permute bytes and map bits (VBMI, GFNI)";
  if (!system_keeps(kTileState | kVectorState)) return "the system does not keep the state of tiles";
  return {};
}

std::string why_no_dot_products() {
  const unsigned has = cpuid(7, 0).c;
  if ((cpuid(7, 1).a & kDotsOfBf16) == 0 || (has & kDotsOfBytes) == 0 || (has & kPermutesBytes) == 0)
    return "the processor has no dot products of bf16 and bytes (AVX512-BF16, VNNI, VBMI), or a virtual machine "
           "hides them";
  if (!system_keeps(kVectorState)) return "the system does not keep the state of vectors of 512 bits";
  return {};
}

std::string ask_for_tiles() {
  if (syscall(SYS_arch_prctl, kAskForState, kTileData) == 0) return {};
  return std::string("the system does not let this process use tiles (arch_prctl: ") + std::strerror(errno) + ")";
}

namespace {

// Twelve sums hide the latency of an instruction. The compiler knows these registers by the names of their lower
// parts.
#define IRONCL_LOOP(name, instruction)                                                                            \
  void name(long count) {                                                                                         \
    __asm__ volatile(                                                                                             \
        "vpxord %%zmm14, %%zmm14, %%zmm14\n\tvpxord %%zmm15, %%zmm15, %%zmm15\n"                                  \
        "1:\n\t.irp sum, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n\t" instruction                                    \
        " %%zmm15, %%zmm14, %%zmm\\sum\n\t.endr\n\tdec %0\n\tjnz 1b\n\tvzeroupper"                                \
        : "+r"(count)                                                                                             \
        :                                                                                                         \
        : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
          "xmm14", "xmm15");                                                                                      \
  }
IRONCL_LOOP(f32_multiply_adds, "vfmadd231ps")
IRONCL_LOOP(dot_products_of_bf16, "vdpbf16ps")
IRONCL_LOOP(dot_products_of_bytes, "vpdpbusd")
#undef IRONCL_LOOP

}  // namespace

DotProductRates dot_product_rates() {
  static const DotProductRates rates = [] {
    // The least of many short times, in turns: nobody disturbs all of them, and clocks are the same.
    using Clock = std::chrono::steady_clock;
    void (*const loops[])(long) = {f32_multiply_adds, dot_products_of_bf16, dot_products_of_bytes};
    double least[] = {1, 1, 1};
    for (int round = 0; round < 8; ++round) {
      for (int i = 0; i < 3; ++i) {
        const auto start = Clock::now();
        loops[i](300);
        least[i] = std::min(least[i], std::chrono::duration<double>(Clock::now() - start).count());
      }
    }
    return DotProductRates{least[0] / least[1], least[0] / least[2]};
  }();
  return rates;
}

std::string processor_identity() {
  const Registers maker = cpuid(0, 0), model = cpuid(1, 0), features = cpuid(7, 0), more = cpuid(7, 1);
  std::string text;
  for (const unsigned part : {maker.b, maker.d, maker.c, model.a, features.b, features.c, features.d, more.a})
    text += std::to_string(part) + " ";
  return text;
}
#else
std::string why_no_tiles() { return "tiles are for x86 with Linux"; }
std::string ask_for_tiles() { return why_no_tiles(); }
std::string why_no_dot_products() { return "dot products of bf16 and bytes are for x86 with Linux"; }
DotProductRates dot_product_rates() { return {}; }
std::string processor_identity() { return {}; }
#endif

std::int64_t bytes_of_element(const Problem& p) { return numerics::is_integer(p.b) ? 1 : 2; }

}  // namespace ironcl::opencl
