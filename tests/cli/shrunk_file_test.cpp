// SPDX-License-Identifier: Apache-2.0
// A checkpoint that gets shorter while the command reads it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;

TEST(ShrunkFile, IsNamedAndStatus3) {
  const Scratch scratch;
  const std::string path = scratch.path("shrinks \x1b[2J.safetensors"), out = scratch.path("out"),
                    err = scratch.path("err");
  std::vector<TestTensor> tensors;
  for (int layer = 0; layer < 12; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    tensors.push_back(e4m3_tensor(name + ".weight", {1024, 1024}, 0x38));
    tensors.push_back(f32_tensor(name + ".weight_scale_inv", {8, 8}, std::vector<float>(64, 1.0f)));
  }
  write_tensors(path, tensors, {{"weight_block", "128"}});
  // The first line is printed when the file is open and the layers are still to come.
  const std::string script =
      "unset IRONCL_PLUGIN_FILES IRONCL_DEVICE IRONCL_VERBOSE; IRONCL_PLUGIN_DIRS=" TOY_PLUGIN_DIR
      " IRONCL_DISABLE=opencl,ironwood " IRONCL_COMMAND " compare '" +
      path + "' --device toy:0 --m 64 >" + out + " 2>" + err + " </dev/null & for i in $(seq 500); do test -s " +
      out + " && break; sleep 0.01; done; truncate -s 4096 '" + path + "'; wait $!";
  const int code = std::system(script.c_str());
  ASSERT_TRUE(WIFEXITED(code));
  EXPECT_EQ(WEXITSTATUS(code), 3) << read_file(out) << read_file(err);
  EXPECT_TRUE(contains(read_file(err), "ironcl compare: " + scratch.path("shrinks \\x1b[2J.safetensors") +
                                           ": became shorter, or its disk failed, while it was read"));
}

}  // namespace
