// SPDX-License-Identifier: Apache-2.0
// ironcl compare on folders that the field's tools wrote: the whole way from the file to a device's result, against
// torch's float64. tests/checkpoint/foreign_test.cpp has all of them up to the operands.
#include <gtest/gtest.h>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;

class InteropCompare : public testing::TestWithParam<const char*> {};

TEST_P(InteropCompare, GivesTorchsNumbers) {
  const std::string folder = data_file(std::string("interop/") + GetParam()), expect = folder + ".expect.safetensors";
  const Outcome outcome =
      ironcl_command({"compare", folder, "--layer", "model.layers.0.self_attn.q_proj", "--device", "ironwood:0",
                      "--input", expect + ":x" + (folder.ends_with("experts-static") ? "0" : "1"), "--expect",
                      expect + ":y" + (folder.ends_with("experts-static") ? "0" : "1")},
                     Plugins::real);
  EXPECT_EQ(outcome.status, 0) << outcome.command << "\n" << outcome.out << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(Folders, InteropCompare,
                         testing::Values("tf-static", "tf-experts-static", "mo-fp8-kv", "ao-fp8-row", "quark-fp8"));

}  // namespace
