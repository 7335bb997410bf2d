// SPDX-License-Identifier: Apache-2.0
// The proof that the suite can fail: for each fault planted in the reference plugin the named test is red, and
// without a fault every test is green. Next door: plugins/faults.h (the faults, and who sees them).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/conformance/plugins/faults.h"
#include "tests/run_command.h"

namespace {

using ironcl::Ran, ironcl::run_command, ironcl::reference::kRows;

/// The suite on a plugin.
Ran run_suite_on(const char* plugin, const std::string& more) {
  return run_command(fmt::format("{} --plugin {} {}", IRONCL_TEST_SUITE, plugin, more));
}

/// The suite on the reference plugin. The delay before each product makes missing waits show.
Ran run_suite(const std::string& more) {
  return run_suite_on(IRONCL_TEST_REFERENCE, "--option delay_us=2000 " + more);
}

TEST(Faults, EachIsSeenByTheTestNamedForIt) {
  setenv("TSAN_OPTIONS", "report_bugs=0", 1);  // some faults are races, planted on purpose
  for (const auto& row : kRows) {
    const Ran run = run_suite(fmt::format("--option fault={} --filter '{}/0:{}'", row.fault, row.test, row.test));
    // A plugin that keeps a pointer for too long reads memory that the suite has given back: after the failure has
    // been printed the process may end by a signal (a shell's 128 + number) as well.
    const bool signalled = run.status > 128;
    EXPECT_TRUE(run.status == 1 || signalled) << row.fault << " is not seen by " << row.test << ":\n" << run.output;
    const std::string seen = signalled ? std::string(": Failure") : fmt::format("[  FAILED  ] {}", row.test);
    EXPECT_NE(run.output.find(seen), std::string::npos) << row.fault << ":\n" << run.output;
    EXPECT_NE(run.output.find("reproduce: ironcl_conformance --plugin"), std::string::npos)
        << row.fault << ": a failure must print the line that reproduces it";
  }
}

TEST(Faults, WithoutThemEverythingIsGreen) {
  const Ran run = run_suite("");
  EXPECT_EQ(run.status, 0) << run.output;
  // The small plugin leaves out four-bit weights, activations of D, scales of D that are given or in e8m0, and those
  // given of A.
  EXPECT_NE(run.output.find(" 0 failed, 10 unsupported,"), std::string::npos) << run.output;
}

TEST(Claims, ARefusedFloorIsRedAndOtherRefusalsAreCounted) {
  const Ran floor = run_suite("--option fault=refuses_the_floor --filter 'Exact.Blocks256Inbf16/0'");
  EXPECT_EQ(floor.status, 1);
  EXPECT_NE(floor.output.find("belongs to the floor"), std::string::npos) << floor.output;
  const Ran grouped = run_suite("--option fault=refuses_grouped --filter 'Grouped.MaskedDealtEvenly/0'");
  EXPECT_EQ(grouped.status, 1);
  EXPECT_NE(grouped.output.find("belongs to the floor"), std::string::npos) << grouped.output;
  const Ran other = run_suite("--option fault=refuses_the_floor --filter 'Grid.A256x256B256x256/0'");
  EXPECT_EQ(other.status, 0);
  EXPECT_NE(other.output.find(" 1 unsupported,"), std::string::npos) << other.output;
}

TEST(Claims, ListsAreVerified) {
  const std::string claims = fmt::format("--claims {} ", IRONCL_TEST_CLAIMS);
  const Ran stale_failure = run_suite(claims + "--filter 'Memory.WhatIsWrittenIsRead/0'");
  EXPECT_EQ(stale_failure.status, 1);
  EXPECT_NE(stale_failure.output.find("no longer fails"), std::string::npos) << stale_failure.output;
  const Ran failure = run_suite(claims + "--option fault=read_is_short --filter 'Memory.WhatIsWrittenIsRead/0'");
  EXPECT_EQ(failure.status, 0) << failure.output;
  EXPECT_NE(failure.output.find(" 1 expected failures,"), std::string::npos) << failure.output;
  const Ran stale_refusal = run_suite(claims + "--filter 'Exact.BiasInF32/0'");
  EXPECT_EQ(stale_refusal.status, 1);
  EXPECT_NE(stale_refusal.output.find("listed as unsupported"), std::string::npos) << stale_refusal.output;
}

TEST(Claims, WhoClaimsWhatItsTableHasNoFunctionForIsToldSo) {
  // Slots of each minor version: the skeleton leaves them NULL.
  for (const char* test : {"Weights.UsualLayoutIsRight", "Quantize.Groups1x128Fromf32Toe4m3fn", "Route.Qwen3",
                           "Activate.bf16Tof32", "Combine.bf16Tof32"}) {
    const Ran run = run_suite_on(IRONCL_TEST_SKELETON, fmt::format("--filter '{}/0'", test));
    EXPECT_EQ(run.status, 1) << test << ":\n" << run.output;
    EXPECT_NE(run.output.find("reproduce: ironcl_conformance --plugin"), std::string::npos) << test << run.output;
  }
}

TEST(CommandLine, SaysWhatIsWrong) {
  EXPECT_EQ(run_suite("--filter 'No.Such*'").status, 2) << "a filter that matches nothing is no success";
  EXPECT_EQ(run_suite("--device 9").status, 2);
  EXPECT_EQ(run_suite("--claims /no/such/file").status, 2);
}

}  // namespace
