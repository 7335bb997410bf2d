// SPDX-License-Identifier: Apache-2.0
// A device that fails in the middle of a run, by an OpenCL that fails on command.
#include "tests/faulty_opencl/shim.h"
#include "tests/ranks/support.h"

namespace ironcl::ranks {
namespace {

TEST(RanksFaultyDevice, IsEveryRanksErrorAndTheGroupLivesOn) {
  if (devices().size() < 2) GTEST_SKIP() << "no OpenCL device";
  const Example example("--src=bf16 --dt=e4m3fn:e4m3fn:f32 --scale=1x128:128x128 4x256:256x384");
  for (const Split split : {Split::column, Split::row}) {
    for (const char* fault : {"fail=clEnqueueNDRangeKernel:1:-5", "later=clEnqueueNDRangeKernel:1:-5", "lose=1"}) {
      std::vector<std::string> errors(2);
      on_ranks(2, [&](Group& group) {
        const auto rank = static_cast<std::size_t>(group.rank());  // Only rank 1 has a device of OpenCL.
        Linear linear(group, devices()[rank], example.whole(), {.split = split, .chunks = 2});
        Bytes before(example.d_bytes()), after(before.size());
        linear.run(4, example.made.a, before);
        if (rank == 1) faulty::command(fault);
        errors[rank] = error_of([&] { linear.run(4, example.made.a, after); });
        if (rank == 1) faulty::command("");
        linear.run(4, example.made.a, after);
        EXPECT_TRUE(after == before) << fault;
      });
      EXPECT_EQ(errors[0], errors[1]) << fault;
      EXPECT_NE(errors[0].find(split == Split::row ? "sum of partial results: rank 1: " : "columns of D: rank 1: "),
                std::string::npos)
          << fault << ": " << errors[0];
    }
  }
}

}  // namespace
}  // namespace ironcl::ranks
