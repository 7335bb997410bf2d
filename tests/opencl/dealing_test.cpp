// SPDX-License-Identifier: Apache-2.0
// How rows of a grouped problem are dealt to tiles: cl/schedule.cl by itself, and which tiles a kernel that deals
// evenly is given. How slots of tokens become rows: cl/sort_rows.cl by itself.
#include <numeric>

#include "backends/numerics/experts.h"
#include "backends/opencl/program.h"
#include "backends/opencl/schedule.h"
#include "backends/opencl/steps/steps.h"
#include "backends/opencl/variant.h"
#include "tests/opencl/grouped.h"

namespace ironcl::opencl::testing {
namespace {

using Counts = std::vector<std::int32_t>;

/// What schedule.cl leaves for contiguous matrices with `counts` rows.
struct Dealt {
  std::int32_t tiles = 0, blocks = 0;
  Counts first_rows, heights, tiles_of, blocks_of;  ///< Of each matrix.
  Counts matrix_of_tiles;
};

Dealt deal(const Context& on, const Counts& counts, const ScheduleShape& shape, std::size_t lanes) {
  const auto matrices = static_cast<std::int64_t>(counts.size());
  const std::int64_t m = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  Problem p;
  p.m = m;
  p.matrices = matrices;
  const ScheduleLists lists(p, m, shape);
  Defines defines = device_defines(on.features);
  defines["LANES"] = std::to_string(lanes);
  if (shape.even) defines["EVEN_TILES"] = "1";
  cl::Kernel kernel(on.builder->build("schedule.cl", defines), "schedule");
  const cl::CommandQueue queue(on.context, on.device);
  const std::size_t bytes = static_cast<std::size_t>(lists.elements) * 4;
  const cl::Buffer rows(on.context, CL_MEM_READ_ONLY, counts.size() * 4), out(on.context, CL_MEM_READ_WRITE, bytes);
  queue.enqueueWriteBuffer(rows, CL_TRUE, 0, counts.size() * 4, counts.data());
  set_args(kernel, 0, static_cast<cl_int>(m), static_cast<cl_int>(matrices), cl_int{0},
           static_cast<cl_int>(shape.tile_rows), static_cast<cl_int>(shape.block_tiles), rows, cl_ulong{0}, out,
           cl_ulong{0}, static_cast<cl_int>(lists.tiles_at), static_cast<cl_int>(lists.blocks_at));
  queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(lanes, 1), cl::NDRange(lanes, 1));
  Counts dealt(static_cast<std::size_t>(lists.elements));
  queue.enqueueReadBuffer(out, CL_TRUE, 0, bytes, dealt.data());
  Dealt result{dealt[0], dealt[1], {}, {}, {}, {}, {}};
  for (std::size_t g = 0; g < counts.size(); ++g) {
    const std::int32_t* const of = dealt.data() + 8 + 8 * g;
    result.first_rows.push_back(of[0]);
    result.tiles_of.push_back(of[3]);
    result.blocks_of.push_back(of[5]);
    result.heights.push_back(of[6]);
  }
  const auto list = dealt.begin() + lists.tiles_at;
  result.matrix_of_tiles.assign(list, list + result.tiles);
  return result;
}

TEST(OpenClDealing, EvenTilesAreAsManyAsFullOnesAndAsEqualAsCanBe) {
  const Counts counts{0, 1, 14, 15, 32, 17, 42, 43};
  on_every_context([&](const Context& on) {
    // A GPU deals with many work-items, which add up what those before them have.
    for (const std::size_t lanes : {1, 4, 64}) {
      const Dealt full = deal(on, counts, {14, 2}, lanes), even = deal(on, counts, {14, 2, true}, lanes);
      EXPECT_EQ(full.tiles_of, (Counts{0, 1, 1, 2, 3, 2, 3, 4}));
      EXPECT_EQ(full.blocks_of, (Counts{0, 1, 1, 1, 2, 1, 2, 2}));
      EXPECT_EQ(full.first_rows, (Counts{0, 0, 1, 15, 30, 62, 79, 121}));
      EXPECT_EQ(full.matrix_of_tiles, (Counts{1, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7}));
      EXPECT_EQ(even.matrix_of_tiles, full.matrix_of_tiles);
      EXPECT_EQ(even.tiles_of, full.tiles_of);
      EXPECT_EQ(even.blocks_of, full.blocks_of);
      EXPECT_EQ(even.tiles, full.tiles);
      EXPECT_EQ(even.blocks, full.blocks);
      EXPECT_EQ(full.heights, Counts(counts.size(), 14));
      EXPECT_EQ(even.heights, (Counts{0, 1, 14, 8, 11, 9, 14, 11}));
    }
  });
}

/// What sort_rows.cl leaves: rows of each expert, the token of each row, the row of each slot.
struct Sorted {
  Counts counts, token_of, row_of;
  bool operator==(const Sorted&) const = default;
};

constexpr int kTopK = 3, kFirst = 2, kExperts = 40;  // More than a warp has work-items.

Sorted room_for(const Counts& ids, const numerics::RowLayout& layout) {
  return {Counts(std::size_t(layout.local) + layout.shared_expert),
          Counts(2 * ids.size() + std::size_t(layout.local * layout.capacity), -1), Counts(ids.size())};
}

Sorted sort_by(cl::Kernel& kernel, const cl::Context& context, const cl::CommandQueue& queue, const Counts& ids,
               const numerics::RowLayout& layout, std::size_t lanes) {
  Sorted sorted = room_for(ids, layout);
  const auto upload = [&](const Counts& values) {
    cl::Buffer buffer(context, CL_MEM_READ_WRITE, values.size() * 4);
    queue.enqueueWriteBuffer(buffer, CL_TRUE, 0, values.size() * 4, values.data());
    return buffer;
  };
  const cl::Buffer in = upload(ids), counts = upload(sorted.counts), tokens = upload(sorted.token_of),
                   rows = upload(sorted.row_of);
  set_args(kernel, 0, cl_int{kTopK}, in, cl_ulong{0}, static_cast<cl_int>(ids.size()), cl_int{kFirst},
           cl_int{kExperts}, static_cast<cl_int>(layout.capacity), cl_int{layout.shared_expert}, counts, cl_ulong{0},
           tokens, cl_ulong{0}, rows, cl_ulong{0}, cl::Local(4 * kExperts * (1 + (lanes + 31) / 32)));
  queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(lanes, 1), cl::NDRange(lanes, 1));
  const auto fetch = [&](const cl::Buffer& from, Counts& to) {
    queue.enqueueReadBuffer(from, CL_TRUE, 0, to.size() * 4, to.data());
  };
  fetch(counts, sorted.counts);
  fetch(tokens, sorted.token_of);
  fetch(rows, sorted.row_of);
  return sorted;
}

TEST(OpenClDealing, SlotsAreSortedByExpertInTheirOrderByAnyNumberOfWorkItems) {
  on_every_context([&](const Context& on) {
    const cl::CommandQueue queue(on.context, on.device);
    for (const std::size_t lanes : {1, 8, 64, 1024}) {
      Defines defines = device_defines(on.features);
      defines["LANES"] = std::to_string(lanes);
      cl::Kernel kernel(on.builder->build("sort_rows.cl", defines), "sort_rows");
      for (const std::size_t slots : {3, 96, 2049}) {
        Counts ids(slots);  // Two of them of no expert here.
        for (std::size_t i = 0; i < slots; ++i)
          ids[i] = kFirst - 1 + static_cast<std::int32_t>(i * i / 5 % (kExperts + 2));
        for (const auto& [capacity, shared] : {std::pair{0, false}, {20, false}, {0, true}}) {
          const numerics::RowLayout layout{kFirst, kExperts, capacity, shared};
          Sorted expected = room_for(ids, layout);
          numerics::sort_by_expert(ids, kTopK, layout, expected.counts, expected.token_of, expected.row_of);
          EXPECT_TRUE(sort_by(kernel, on.context, queue, ids, layout, lanes) == expected)
              << lanes << " work-items, " << slots << " slots, capacity " << capacity << ", shared " << shared;
        }
      }
    }
  });
}

/// A processor of two cores with vectors of 512 bits.
Features two_cores() {
  Features f;
  f.vector_width = 16;
  f.compute_units = 2;
  f.clock_hz = 3.7e9;
  f.local_bytes = f.cache_bytes = 1 << 20;
  return f;
}

TEST(OpenClDealing, TilesThatCostWhatTheirRowsDoAreHigh) {
  Features f = two_cores();
  f.dot_products_of_bf16 = 1;
  const Variant& variant = *find_variant("gemm_bf16");
  Problem p{512, 4096, 7168, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::bf16};
  p.matrices = 16;
  // 32 rows a matrix, more or fewer by chance: lower tiles would only be more.
  EXPECT_EQ(variant.rule_of_thumb(f, p.priced()).at("tile_m"), 14);
  EXPECT_TRUE(variant.schedule({{"tile_m", 14}, {"block_m", 2}}).even);
}

TEST(OpenClDealing, WorkGroupsOfAProcessorTakeSharesFromACounter) {
  Features f = two_cores();
  const Variant& panel = *find_variant("gemm_panel");
  Problem p{512, 4096, 7168, 128, backend::DType::e4m3fn, backend::DType::e4m3fn, backend::DType::bf16};
  const auto counted = [&](const Variant& v) { return takes_from_counter(v, v.rule_of_thumb(f, p.priced()), p, f); };
  EXPECT_FALSE(counted(panel));  // One matrix: as the driver deals.
  p.matrices = 16;
  EXPECT_TRUE(counted(panel));
  EXPECT_FALSE(counted(*find_variant("gemm_tiled")));  // Its work-items would have to agree on a share.
  f.type = backend::DeviceType::gpu;
  f.local_is_dedicated = true;
  EXPECT_FALSE(counted(panel));  // Not a processor: the hardware deals work-groups as it gets free.
}

TEST(OpenClDealing, ProductsFromACounterAreRight) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  int ran = 0;
  for (const char* variant : {"gemm_stream", "gemm_panel", "gemm_stream_bf16", "gemm_bf16", "gemm_amx"}) {
    ran += check_grouped({.m = 203,  // Three rows that nobody has.
                          .n = 514,
                          .k = 512,
                          .options = {{"variant", variant}},
                          .counts = {70, 0, 1, 129}});
  }
  EXPECT_GE(ran, 1 + devices_with_room_for_a_panel());
}

}  // namespace
}  // namespace ironcl::opencl::testing
