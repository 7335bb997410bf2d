// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/matrix_unit.h"

#include <cerrno>
#include <cstdint>
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
constexpr unsigned kSavesState = 1u << 27;  // Leaf 1, register c: OSXSAVE.
constexpr unsigned kTileState = 3u << 17;   // XCR0: configuration and data of tiles.
constexpr long kAskForState = 0x1023;       // ARCH_REQ_XCOMP_PERM
constexpr long kTileData = 18;              // XFEATURE_XTILE_DATA

}  // namespace

std::string why_no_tiles() {
  const unsigned has = cpuid(7, 0).d;
  if ((has & kTile) == 0) return "the processor has no tiles (AMX), or a virtual machine hides them";
  if ((has & kBf16) == 0 || (has & kInt8) == 0) return "the processor's tiles do not multiply both bf16 and int8";
  if ((cpuid(1, 0).c & kSavesState) == 0) return "the system does not save the processor's extended state";
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kTileState) != kTileState) return "the system does not keep the state of tiles";
  return {};
}

std::string ask_for_tiles() {
  if (syscall(SYS_arch_prctl, kAskForState, kTileData) == 0) return {};
  return std::string("the system does not let this process use tiles (arch_prctl: ") + std::strerror(errno) + ")";
}

std::string processor_identity() {
  const Registers maker = cpuid(0, 0), model = cpuid(1, 0), features = cpuid(7, 0);
  std::string text;
  for (const unsigned part : {maker.b, maker.d, maker.c, model.a, features.b, features.c, features.d})
    text += std::to_string(part) + " ";
  return text;
}
#else
std::string why_no_tiles() { return "tiles are for x86 with Linux"; }
std::string ask_for_tiles() { return why_no_tiles(); }
std::string processor_identity() { return {}; }
#endif

}  // namespace ironcl::opencl
