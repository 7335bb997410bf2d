// SPDX-License-Identifier: Apache-2.0
// What somebody who mistyped a name may have meant.
#include "host/report/suggest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using ironcl::report::did_you_mean;
using ironcl::report::near_names;

const std::vector<std::string> kCommands = {"devices", "plugins", "inspect", "compare",
                                            "run",     "model",   "bench",   "tune"};

TEST(Suggest, FindsEverySlip) {
  for (const std::string word : {"devces", "devicess", "devoces", "dveices", "device", "dev"})
    EXPECT_EQ(near_names(word, kCommands), std::vector<std::string>{"devices"}) << word;
  EXPECT_EQ(near_names("rnu", kCommands).front(), "run");
  EXPECT_EQ(near_names("--jsn", {"--json", "--input"}), std::vector<std::string>{"--json"});
  EXPECT_EQ(near_names("-json", {"--json", "--input"}), std::vector<std::string>{"--json"});
}

TEST(Suggest, SaysNothingWhereNothingIsNear) {
  for (const std::string word : {"frobnicate", "xyz", "", "-", "z"})
    EXPECT_EQ(did_you_mean(word, kCommands), "") << word;
  EXPECT_EQ(did_you_mean(std::string(100000, 'x'), {std::string(100000, 'y')}), "");
}

TEST(Suggest, ReadsAsASentence) {
  EXPECT_EQ(did_you_mean("devces", kCommands), "; did you mean devices?");
  EXPECT_EQ(did_you_mean("q_prok", {"q_proj", "k_proj", "lm_head"}), "; did you mean q_proj or k_proj?");
  EXPECT_EQ(did_you_mean("layer", {"layer1", "layer2", "layer3", "layer4"}),
            "; did you mean layer1, layer2 or layer3?");
}

}  // namespace
