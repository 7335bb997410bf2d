// SPDX-License-Identifier: Apache-2.0
// What goes wrong on one rank is the same error on every rank, and nobody waits for ever.
#include <atomic>

#include "tests/ranks/support.h"

namespace ironcl::ranks {
namespace {

constexpr const char* kLine = "--src=bf16 --dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 4x256:256x384";

/// What `work` throws on each rank of this process.
std::vector<std::string> errors_of(int ranks, const std::function<void(Group&)>& work,
                                   Group::Settings settings = {}) {
  std::map<int, std::string> errors;
  std::mutex mutex;
  on_ranks(
      ranks,
      [&](Group& group) {
        std::string error = error_of([&] { work(group); });
        const std::lock_guard lock(mutex);
        errors[group.rank()] = std::move(error);
      },
      settings);
  std::vector<std::string> all;
  for (auto& [rank, error] : errors) all.push_back(std::move(error));
  return all;
}

void expect_same(const std::vector<std::string>& errors, const std::string& part) {
  for (const std::string& one : errors) {
    EXPECT_EQ(one, errors[0]);
    EXPECT_TRUE(one.find(part) != std::string::npos) << "\"" << one << "\" lacks " << part;
  }
}

TEST(Ranks14, RanksThatDisagreeGetTheSameErrorOnEveryRank) {
  const Example example(kLine);
  const std::function<void(Whole&, Choices&)> changes[] = {
      [](Whole& whole, Choices&) { whole.problem.m = 5; },
      [](Whole& whole, Choices&) { whole.problem.d = IRONCL_BF16; },
      [](Whole& whole, Choices&) { whole.problem.b_scale.rows = 64; },
      [](Whole&, Choices& choices) { choices.ragged = true; },
      [](Whole&, Choices& choices) { choices.chunks = 2; },
      [](Whole&, Choices& choices) { choices.digest = "0123"; },
  };
  for (const auto& change : changes) {
    expect_same(errors_of(3,
                          [&](Group& group) {
                            Whole whole = example.whole();
                            Choices choices{.ragged = false};
                            if (group.rank() == 2) change(whole, choices);
                            const Linear linear(group, devices()[0], whole, choices);
                          }),
                "rank 2 has ");
  }
}

/// Creating: a rank without memory, or with a bad file. Running: a rank whose device fails. The group lives on.
TEST(Ranks15, AFailureOfOneRankIsThatOfEveryRank) {
  const Example example(kLine);
  for (const int bad : {0, 1, 2}) {
    expect_same(errors_of(3,
                          [&](Group& group) {
                            Whole whole = example.whole();
                            if (group.rank() == bad) whole.b.data = whole.b.data.first(100);
                            const Linear linear(group, devices()[0], whole, {});
                          }),
                "INVALID_ARGUMENT: creating a column split: rank " + std::to_string(bad) +
                    ": B has fewer bytes than its description says");
    expect_same(errors_of(3,
                          [&](Group& group) {
                            group.together("reading", "", [&] {
                              if (group.rank() >= bad) throw std::bad_alloc();
                            });
                          }),
                "OUT_OF_HOST_MEMORY: reading: rank " + std::to_string(bad) + ": out of memory");
  }
  // In the second of three chunks, whose rows are 2 and 3.
  for (const std::uint64_t gather : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
    std::atomic<int> right = 0;
    expect_same(errors_of(3,
                          [&](Group& group) {
                            const auto part = [&](Range rows, std::span<std::byte> to, const detail::Poll&) {
                              if (group.rank() == 1 && rows.begin == 2 && right == 0)
                                throw Error(IRONCL_DEVICE_LOST, -5, "the device is gone");
                              std::fill(to.begin(), to.end(), std::byte{0x3f});
                            };
                            Bytes d(6 * 4 * 4), own(d.size());
                            const auto call = [&] {
                              detail::reduce(group, 6, 4, IRONCL_F32, {0, 1, 2}, 3, own, {}, "a call", part, d);
                            };
                            const std::string error = error_of(call);
                            group.together("pause", "", [] {});
                            ++right;
                            call();
                            if (!error.empty()) throw Error(IRONCL_DEVICE_LOST, -5, error);
                          },
                          {std::chrono::seconds(60), gather}),
                "sum of partial results: rank 1: the device is gone");
    const bool threads = world() == nullptr || world()->size() < 3;
    EXPECT_EQ(right, threads ? 3 : world()->rank() < 3 ? 1 : 0) << "the call after it worked on every rank";
  }
}

/// In a call: numbers of rows, or arguments of one rank. No rank waits for messages that do not come.
TEST(Ranks14, RanksThatDisagreeInACallGetTheSameErrorOnEveryRank) {
  const Example example(kLine);
  for (const Split split : {Split::column, Split::row}) {
    for (const bool rows : {true, false}) {
      for (const std::uint64_t gather : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
        expect_same(errors_of(3,
                              [&](Group& group) {
                                Linear linear(group, devices()[0], example.whole(),
                                              {.split = split, .chunks = rows ? 1 : 2});
                                const int m = rows && group.rank() == 2 ? 3 : 4;
                                Bytes d(static_cast<std::size_t>(m) * 384 * 4 - (!rows && group.rank() == 1 ? 4 : 0));
                                linear.run(m, std::span(example.made.a).first(static_cast<std::size_t>(m) * 512), d);
                              },
                              {std::chrono::seconds(20), gather}),
                    rows ? ": rank 2 has a call of 3 rows, rank 0 has a call of 4 rows; "
                         : ": rank 1: a call of 4 rows with 2048 bytes of x and 6140 of d; ");
      }
    }
  }
}

TEST(Ranks16, ARankThatHangsIsNamedAndEndsTheGroup) {
  on_ways(3, 2, [](const std::vector<Transport*>& ways) {
    Group all(*ways[0]), group(*ways[1], {std::chrono::seconds(1), 0});
    all.together("the beginning", "", [] {});
    if (group.rank() != 1) {
      const std::string why =
          "rank 1 was silent for 1 s in 'the phase'; it hangs or has ended, and the group ends with it";
      EXPECT_EQ(error_of([&] { group.together("the phase", "", [] {}); }), "TIMEOUT: " + why);
      EXPECT_EQ(error_of([&] { group.together("the next", "", [] {}); }), "UNAVAILABLE: the next: " + why);
    }
    all.together("the end", "", [] {});  // Until here rank 1 hangs.
  });
}

/// Else the tests over processes would be tests of threads.
TEST(Processes, AreThoseThatMpirunStarted) {
  const char* started = std::getenv("RANKS_TEST_PROCESSES");
  EXPECT_EQ(world() == nullptr ? 1 : world()->size(), started == nullptr ? 1 : std::atoi(started));
}

TEST(Failures, AMessageOfAnotherSizeIsNoData) {
  const std::vector<std::string> errors = errors_of(2,
                                                    [](Group& group) {
                                                      const Bytes mine(group.rank() == 0 ? 8 : 4);
                                                      all_gather(group, "sizes", mine, {8, 8}).finish();
                                                    },
                                                    {std::chrono::milliseconds(500), 0});
  EXPECT_NE(errors[0].find("rank 1 sent 260 bytes where rank 0 expects 264"), std::string::npos) << errors[0];
}

}  // namespace
}  // namespace ironcl::ranks
