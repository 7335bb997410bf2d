// SPDX-License-Identifier: Apache-2.0
// Tile instructions (AMX) and what surrounds a process: a sandbox that denies them, a processor whose unit is hidden,
// other code in the same process that uses tiles too. Next door: amx_test.cpp.
#include "backends/opencl/matrix_unit.h"
#include "backends/opencl/trial.h"
#include "tests/opencl/trials.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace ironcl::opencl::testing {
namespace {

constexpr long kAskForState = 0x1023;  // ARCH_REQ_XCOMP_PERM
constexpr long kSwitchCpuid = 0x1012;  // ARCH_SET_CPUID

Config config_with_trials() {
  Config config{.trial_program = IRONCL_TRIAL_PROGRAM};
  return config;
}

/// A product that tiles take by themselves; the variant that it ran.
std::string run_a_product(backend::Device& device, std::uint32_t seed) {
  Case c{.m = 130, .n = 200, .k = 300, .seed = seed};
  const Outcome outcome = run(device, c, make_data(c));
  expect_right(outcome, c, device.props().name);
  return outcome.info.variant;
}

/// From now on this process, its threads to come and its children get EPERM where they ask for the tiles' state.
bool deny_tiles() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAskForState, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

constexpr int kNoFilter = 77;

/// Runs one disabled test of this program in a process of its own behind the filter.
int status_behind_the_filter(const std::string& test, const std::string& cache) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (!deny_tiles()) _exit(kNoFilter);
    setenv("IRONCL_TEST_AMX_CACHE", cache.c_str(), 1);
    const std::string filter = "--gtest_filter=" + test;
    execl("/proc/self/exe", "ironcl_opencl_test", filter.c_str(), "--gtest_also_run_disabled_tests",
          static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(OpenClAmxProcess, DISABLED_BehindTheFilter) {
  Config config = config_with_trials();
  config.cache_dir = std::getenv("IRONCL_TEST_AMX_CACHE");
  const Made made = make(config);
  const auto device = cpu_of(made);
  ASSERT_NE(device, nullptr);
  EXPECT_NE(trial_of(*device, "gemm_amx").find("does not let this process use tiles"), std::string::npos)
      << trial_of(*device, "gemm_amx");
  EXPECT_NE(run_a_product(*device, 1), "gemm_amx");
}

TEST(OpenClAmxProcess, ASandboxThatDeniesTilesIsNoObstacleAndNoMemory) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  if (cpu_of(devices()) == nullptr) GTEST_SKIP() << "none of the devices under test is a processor";
  if (const std::string why = why_no_tiles(); !why.empty()) GTEST_SKIP() << why;
  const TempDir cache;
  const int status = status_behind_the_filter("OpenClAmxProcess.DISABLED_BehindTheFilter", cache.path());
  if (status == kNoFilter) GTEST_SKIP() << "this system takes no filter of system calls";
  EXPECT_EQ(status, 0) << "the test behind the filter failed";
  // A process without the filter shares the cache, and is not told what the other one was denied.
  Config config = config_with_trials();
  config.cache_dir = cache.path();
  const Made made = make(config);
  const auto device = cpu_of(made);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(trial_of(*device, "gemm_amx").find("does not let"), std::string::npos) << trial_of(*device, "gemm_amx");
}

// CPUID as a virtual machine answers it that hides the tiles: each one traps, the handler answers in its place.
void answer_cpuid(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* at = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  if (at[0] != 0x0f || at[1] != 0xa2) _exit(99);  // Another fault.
  const auto leaf = static_cast<unsigned>(registers[REG_RAX]), subleaf = static_cast<unsigned>(registers[REG_RCX]);
  syscall(SYS_arch_prctl, kSwitchCpuid, 1);
  unsigned a = 0, b = 0, c = 0, d = 0;
  __cpuid_count(leaf, subleaf, a, b, c, d);
  syscall(SYS_arch_prctl, kSwitchCpuid, 0);
  if (leaf == 7 && subleaf == 0) d &= ~(1u << 22 | 1u << 24 | 1u << 25);
  registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

TEST(OpenClAmxProcess, AHiddenUnitIsNotTried) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  struct sigaction handler {
  }, before{};
  handler.sa_sigaction = answer_cpuid;
  handler.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &handler, &before);
  if (syscall(SYS_arch_prctl, kSwitchCpuid, 0) != 0) {
    sigaction(SIGSEGV, &before, nullptr);
    GTEST_SKIP() << "this processor does not let CPUID be trapped";
  }
  const std::string why = why_no_tiles();
  Config config = config_with_trials();
  config.trial_program = "/is/not/there";  // Would be said if it were asked.
  const Made made = make(config);
  const auto device = cpu_of(made);
  const std::string trial = device != nullptr ? trial_of(*device, "gemm_amx") : why;
  const std::string variant = device != nullptr ? run_a_product(*device, 2) : "";
  syscall(SYS_arch_prctl, kSwitchCpuid, 1);
  sigaction(SIGSEGV, &before, nullptr);
  EXPECT_NE(why.find("the processor has no tiles"), std::string::npos) << why;
  EXPECT_NE(trial.find("the processor has no tiles"), std::string::npos) << trial;
  EXPECT_NE(variant, "gemm_amx");
}

/// A stranger's use of tiles: three of them, of other shapes than ours, and sums of bytes. Returns how many of its
/// products were wrong.
int strangers_products(const std::atomic<bool>& stop, std::atomic<int>& made) {
  struct alignas(64) Shapes {
    unsigned char palette = 1, start = 0, reserved[14] = {};
    unsigned short row_bytes[16] = {20, 12, 20};  // Sums 7 x 5, A 7 x 12 bytes, B 3 x 5 columns of 4 bytes.
    unsigned char rows[16] = {7, 7, 3};
  } shapes, kept;
  alignas(64) signed char a[7 * 12], b[3 * 20];
  alignas(64) int sums[7 * 5];
  for (int i = 0; i < 7 * 12; ++i) a[i] = static_cast<signed char>(i % 23 - 11);
  for (int i = 0; i < 3 * 20; ++i) b[i] = static_cast<signed char>(i % 17 - 8);
  int want[7 * 5] = {};
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 5; ++j)
      for (int k = 0; k < 12; ++k) want[i * 5 + j] += a[i * 12 + k] * b[k / 4 * 20 + j * 4 + k % 4];
  int wrong = 0;
  __asm__ volatile(".byte 0xc4,0xe2,0x78,0x49,0x00" ::"a"(&shapes) : "memory");  // LDTILECFG [rax]
  do {
    for (int round = 0; round < 1000; ++round) {
      __asm__ volatile(".byte 0xc4,0xe2,0x7b,0x49,0xc0\n"  // TILEZERO 0
                       ::
                           : "memory");
      __asm__ volatile(".byte 0xc4,0xe2,0x7b,0x4b,0x0c,0x10" ::"a"(a), "d"(12L) : "memory");  // TILELOADD 1
      __asm__ volatile(".byte 0xc4,0xe2,0x7b,0x4b,0x14,0x10" ::"a"(b), "d"(20L) : "memory");  // TILELOADD 2
      __asm__ volatile(".byte 0xc4,0xe2,0x6b,0x5e,0xc1" ::: "memory");                        // TDPBSSD 0, 1, 2
      __asm__ volatile(".byte 0xc4,0xe2,0x7a,0x4b,0x04,0x10" ::"a"(sums), "d"(20L) : "memory");
      wrong += std::memcmp(sums, want, sizeof(want)) != 0;
    }
    ++made;
  } while (!stop);
  __asm__ volatile(".byte 0xc4,0xe2,0x78,0x49,0x00" ::"a"(&shapes) : "memory");
  __asm__ volatile(".byte 0xc4,0xe2,0x79,0x49,0x00" ::"a"(&kept) : "memory");  // STTILECFG [rax]
  wrong += std::memcmp(&shapes, &kept, sizeof(shapes)) != 0;
  __asm__ volatile(".byte 0xc4,0xe2,0x78,0x49,0xc0" ::: "memory");  // TILERELEASE
  return wrong;
}

TEST(OpenClAmxProcess, AnotherLibraryUsesTilesAtTheSameTime) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  if (const std::string why = why_no_tiles(); !why.empty()) GTEST_SKIP() << why;
  if (const std::string why = ask_for_tiles(); !why.empty()) GTEST_SKIP() << why;  // As the stranger would.
  std::atomic<bool> stop{false};
  std::atomic<int> made_by_strangers{0}, wrong{0};
  std::vector<std::thread> strangers;
  for (int i = 0; i < 2; ++i) strangers.emplace_back([&] { wrong += strangers_products(stop, made_by_strangers); });
  {
    const Made made = make(config_with_trials());  // The device and its trial come after them.
    const auto device = cpu_of(made);
    if (device != nullptr) {
      const bool tiles = trial_of(*device, "gemm_amx") == "right";
      for (std::uint32_t seed = 10; seed < 15; ++seed) {
        const int before = made_by_strangers;
        EXPECT_EQ(run_a_product(*device, seed) == "gemm_amx", tiles);
        while (made_by_strangers < before + 2) std::this_thread::yield();
      }
    }
  }
  stop = true;
  for (std::thread& thread : strangers) thread.join();
  EXPECT_EQ(wrong, 0) << "products of the other library";
  // And in one thread after the other.
  std::atomic<bool> once{true};
  EXPECT_EQ(strangers_products(once, made_by_strangers), 0);
}

}  // namespace
}  // namespace ironcl::opencl::testing
#endif
