// SPDX-License-Identifier: Apache-2.0
#include "bench/tile_rate.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "backends/numerics/casts.h"

namespace ironcl::bench {
namespace {

constexpr int kTurns = 2000;                            ///< Of four products each, between looks at the clock.
constexpr double kOperations = 4.0 * 2 * 16 * 16 * 32;  ///< Of a turn.
constexpr long kAskForState = 0x1023, kTileData = 18;   // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA

bool may_use_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & (1u << 24)) == 0 || (d & (1u << 22)) == 0) return false;
  return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
}

struct alignas(64) Shapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

struct alignas(64) Tile {
  std::uint16_t values[512];
};

/// Runs products until `end`; the operations of whole looks at the clock.
double products(const Tile* tiles, std::chrono::steady_clock::time_point end) {
  const Shapes shapes;
  const long row = 64;
  __asm__ volatile(".byte 0xc4,0xe2,0x78,0x49,0x00" ::"a"(&shapes) : "memory");                   // LDTILECFG
  __asm__ volatile(".byte 0xc4,0xe2,0x7b,0x4b,0x24,0x10" ::"a"(tiles), "d"(row) : "memory");      // TILELOADD 4
  __asm__ volatile(".byte 0xc4,0xe2,0x7b,0x4b,0x2c,0x10" ::"a"(tiles + 1), "d"(row) : "memory");  // to 7
  __asm__ volatile(".byte 0xc4,0xe2,0x7b,0x4b,0x34,0x10" ::"a"(tiles + 2), "d"(row) : "memory");
  __asm__ volatile(".byte 0xc4,0xe2,0x7b,0x4b,0x3c,0x10" ::"a"(tiles + 3), "d"(row) : "memory");
  double done = 0;
  do {
    __asm__ volatile(
        ".byte 0xc4,0xe2,0x7b,0x49,0xc0\n.byte 0xc4,0xe2,0x7b,0x49,0xc8\n"  // TILEZERO 0 to 3
        ".byte 0xc4,0xe2,0x7b,0x49,0xd0\n.byte 0xc4,0xe2,0x7b,0x49,0xd8");
    for (int i = 0; i < kTurns; ++i)
      __asm__ volatile(
          ".byte 0xc4,0xe2,0x4a,0x5c,0xc4\n.byte 0xc4,0xe2,0x42,0x5c,0xcc\n"  // TDPBF16PS, four sums
          ".byte 0xc4,0xe2,0x4a,0x5c,0xd5\n.byte 0xc4,0xe2,0x42,0x5c,0xdd");
    done += kTurns * kOperations;
  } while (std::chrono::steady_clock::now() < end);
  __asm__ volatile(".byte 0xc4,0xe2,0x78,0x49,0xc0" ::: "memory");  // TILERELEASE
  return done;
}

}  // namespace

double tile_rate(int threads, double seconds) {
  if (!may_use_tiles()) return 0;
  std::vector<Tile> tiles(4);
  std::mt19937 random(1);
  for (Tile& tile : tiles)
    for (std::uint16_t& value : tile.values) {
      const float x = static_cast<float>(static_cast<int>(random() % 241) - 120) / 16;
      value = numerics::encode_bf16(numerics::decode_e4m3fn(numerics::encode_e4m3fn(x)));
    }
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::atomic<int> ready{0};
  std::vector<std::thread> workers;
  workers.reserve(rates.size());
  for (double& rate : rates)
    workers.emplace_back([&] {
      for (++ready; ready < threads;) std::this_thread::yield();
      const auto start = std::chrono::steady_clock::now();
      const auto length =
          std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
      const double done = products(tiles.data(), start + length);
      rate = done / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    });
  double sum = 0;
  for (std::thread& worker : workers) worker.join();
  for (const double rate : rates) sum += rate;
  return sum;
}

}  // namespace ironcl::bench
#else
namespace ironcl::bench {
double tile_rate(int, double) { return 0; }
}  // namespace ironcl::bench
#endif
