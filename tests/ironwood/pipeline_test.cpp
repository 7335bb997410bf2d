// SPDX-License-Identifier: Apache-2.0
// The engine: how often blocks are fetched and stored, when, and what it does to a program that breaks its rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/interface.h"
#include "backends/ironwood/pipeline.h"

namespace ironcl::ironwood {
namespace {

using backend::Error;

struct Counts {
  std::int64_t x, w, channel_scale, token_scale, out;
};

/// The GEMM's index maps on a grid of blocks of 8 x 128 in f32, time only.
Counts run_grid(const Grid& grid, int buffers, double* end_ns = nullptr, Work work = {}) {
  Core core(Machine{}, false, 64 * kMiB, nullptr);
  const auto array = [](const char* name, std::int64_t rows, std::int64_t cols) {
    return HbmArray{.name = name, .rows = rows * 8, .cols = cols * 128, .row_bytes = cols * 512, .element_bytes = 4};
  };
  const HbmArray x = array("x", grid[0], grid[2]), w = array("w", grid[1], grid[2]), ws = array("ws", 1, grid[1]),
                 xs = array("xs", 1, grid[0]), out = array("out", grid[0], grid[1]);
  std::vector<Window> windows;
  const auto add = [&](const HbmArray& a, std::function<BlockIndex(const GridIndex&)> index) {
    BlockMap map = [&a, index](const GridIndex& g) { return Block{&a, block_region(a, 8, 128, index(g))}; };
    windows.push_back({&a, 8, 128, std::move(map), buffers, a.rows == 8 && a.cols == 128});
  };
  add(x, [](const GridIndex& g) { return BlockIndex{g[0], g[2]}; });
  add(w, [](const GridIndex& g) { return BlockIndex{g[1], g[2]}; });
  add(ws, [](const GridIndex& g) { return BlockIndex{0, g[1]}; });
  add(xs, [](const GridIndex& g) { return BlockIndex{0, g[0]}; });
  Inputs inputs(core, grid, std::move(windows));
  Slots stores(core, "out", std::min(buffers, 2), 8, 128, 4);
  const auto block_of_out = [&](const GridIndex& g) { return Block{&out, block_region(out, 8, 128, {g[0], g[1]})}; };
  const auto totals = run_pipeline(
      inputs, stores, block_of_out, [&](const Step&, std::byte*) { return work; }, "step");
  const auto core_totals = core.finish();
  if (end_ns != nullptr) *end_ns = core_totals.end_ns;
  EXPECT_EQ(totals.steps, grid[0] * grid[1] * grid[2]);
  const auto& rows = totals.windows;
  return {rows[0].copies, rows[1].copies, rows[2].copies, rows[3].copies, rows[4].copies};
}

TEST(IronwoodPipeline, FetchAndStoreCountsAreTheClosedFormsOnEveryGridUpToFive) {
  for (int buffers = 1; buffers <= 4; ++buffers) {
    for (std::int64_t nb = 1; nb <= 5; ++nb) {
      for (std::int64_t no = 1; no <= 5; ++no) {
        for (std::int64_t ni = 1; ni <= 5; ++ni) {
          const Counts got = run_grid({nb, no, ni}, buffers);
          const std::int64_t x = ni > 1 ? nb * no * ni : nb;
          const std::int64_t w = no > 1 && ni > 1 ? nb * no * ni : no > 1 ? nb * no : ni > 1 ? nb * ni : 1;
          EXPECT_EQ(got.x, x) << nb << no << ni << " buffers " << buffers;
          EXPECT_EQ(got.w, w) << nb << no << ni << " buffers " << buffers;
          EXPECT_EQ(got.channel_scale, no > 1 ? nb * no : 1) << nb << no << ni << " buffers " << buffers;
          EXPECT_EQ(got.token_scale, nb) << nb << no << ni << " buffers " << buffers;
          EXPECT_EQ(got.out, nb * no) << nb << no << ni << " buffers " << buffers;
        }
      }
    }
  }
}

/// T = in(0) + sum over s of max(C, in(s+1) + out(s-1)) + out(last), on the fetches of the grid.
double closed_form(const Grid& grid, double compute) {
  const double block = 8 * 128 * 4 / Machine{}.hbm_bytes_per_ns();
  std::vector<double> in, out;
  GridIndex last{-1, -1, -1};
  const auto [nb, no, ni] = grid;
  for (std::int64_t b = 0; b < nb; ++b) {
    for (std::int64_t o = 0; o < no; ++o) {
      for (std::int64_t i = 0; i < ni; ++i) {
        int blocks = 0;
        blocks += b != last[0] || i != last[2];
        blocks += o != last[1] || i != last[2];
        blocks += o != last[1];
        blocks += b != last[0];
        in.push_back(blocks * block);
        out.push_back(i == ni - 1 ? block : 0);
        last = {b, o, i};
      }
    }
  }
  double time = in[0];
  for (std::size_t s = 0; s < in.size(); ++s) {
    const double next_in = s + 1 < in.size() ? in[s + 1] : 0;
    const double previous_out = s > 0 ? out[s - 1] : 0;
    time += std::max(compute, next_in + previous_out);
  }
  return time + out.back();
}

TEST(IronwoodPipeline, TimeIsThePublishedRuleWithTwoBuffers) {
  for (const double compute : {0.1, 2.0, 5.0, 100.0}) {
    for (const Grid& grid : {Grid{2, 3, 4}, Grid{4, 2, 3}, Grid{5, 5, 5}, Grid{3, 2, 5}}) {
      double end = 0;
      run_grid(grid, 2, &end, {.mxu_ns = compute});
      EXPECT_NEAR(end, closed_form(grid, compute), 1e-6 * end) << grid[0] << grid[1] << grid[2] << " " << compute;
    }
  }
}

TEST(IronwoodPipeline, OneBufferOverlapsNothing) {
  double one = 0, two = 0;
  run_grid({4, 4, 4}, 1, &one, {.mxu_ns = 3});
  run_grid({4, 4, 4}, 2, &two, {.mxu_ns = 3});
  EXPECT_GT(one, two);
}

class IronwoodCore : public ::testing::Test {
 protected:
  IronwoodCore() : core_(Machine{}, true, kMiB, nullptr), data_(16 * 256), semaphore_(core_.semaphore("s")) {
    array_ = {.name = "a", .data = data_.data(), .rows = 16, .cols = 256, .row_bytes = 256, .element_bytes = 1};
  }
  /// Starts a copy to or from the first slot.
  std::uint64_t start(Core::Way way, VmemBuffer& buffer, const Region& region = {0, 0, 16, 256}) {
    return core_.start(way, array_, region, buffer, 0, semaphore_, 0);
  }
  Core core_;
  std::vector<std::byte> data_;
  HbmArray array_;
  int semaphore_;
};

TEST_F(IronwoodCore, FindsAReadBeforeItsWait) {
  auto& buffer = core_.allocate("a", 2, 16, 256, 1);
  const auto bytes = start(Core::Way::in, buffer);
  EXPECT_THROW(core_.readable(buffer, 0), Error);
  EXPECT_NO_THROW(core_.readable(buffer, 1));
  core_.wait(semaphore_, bytes);
  EXPECT_NO_THROW(core_.readable(buffer, 0));
}

TEST_F(IronwoodCore, FindsAWriteDuringAStore) {
  auto& buffer = core_.allocate("a", 1, 16, 256, 1);
  const auto bytes = start(Core::Way::out, buffer);
  EXPECT_THROW(core_.writable(buffer, 0), Error);
  EXPECT_THROW(start(Core::Way::in, buffer), Error);
  core_.wait(semaphore_, bytes);
  EXPECT_NO_THROW(core_.writable(buffer, 0));
}

TEST_F(IronwoodCore, FindsADeadlockAndACopyLeftInFlight) {
  const auto bytes = start(Core::Way::in, core_.allocate("a", 1, 16, 256, 1));
  EXPECT_THROW(core_.finish(), Error);
  core_.wait(semaphore_, bytes);
  EXPECT_NO_THROW(core_.finish());
  EXPECT_THROW(core_.wait(semaphore_, 1), Error);
}

TEST_F(IronwoodCore, RefusesCopiesThatLeaveTheArrayAndBuffersBeyondTheLimit) {
  EXPECT_THROW(start(Core::Way::in, core_.allocate("a", 1, 16, 256, 1), {8, 0, 16, 256}), Error);
  EXPECT_THROW(core_.allocate("b", 1, 4096, 256, 1), Error);
}

TEST_F(IronwoodCore, PoisonsWhatLiesBeyondAnEdge) {
  auto& buffer = core_.allocate("a", 1, 32, 256, 1);
  const auto bytes = start(Core::Way::in, buffer, {8, 0, 8, 256});
  EXPECT_EQ(bytes, 32u * 256) << "rounded up to the native tile of 32 rows";
  core_.wait(semaphore_, bytes);
  EXPECT_EQ(core_.readable(buffer, 0)[0], std::byte{0});
  EXPECT_EQ(core_.readable(buffer, 0)[8 * 256], std::byte{0xff});
}

}  // namespace
}  // namespace ironcl::ironwood
