// SPDX-License-Identifier: Apache-2.0
// Folding complaints.
#include "host/layer/selection.h"

#include <gtest/gtest.h>

namespace {

using namespace ironcl::layer;

TEST(Selection, PatternsReplaceNumbersThatArePartsOfAName) {
  EXPECT_EQ(pattern_of("model.layers.17.mlp.experts.3.w1"), "model.layers.*.mlp.experts.*.w1");
  EXPECT_EQ(pattern_of("weight"), "weight");
  EXPECT_EQ(pattern_of(""), "");
}

TEST(Selection, ComplaintsOfOneKindAreOne) {
  const std::vector<LeftOut> left_out = {{"a.0.q", "is [3, 2], expected [2, 2]"},
                                         {"a.1.q", "is [5, 2], expected [4, 2]"},
                                         {"a.2.q", "is F64"},
                                         {"lm_head", "is F64"},
                                         {"a.3.q", "is F64"}};
  const std::vector<Complaint> complaints = fold(left_out);
  EXPECT_EQ(to_text(complaints),
            "2 layers like a.*.q: is [3, 2], expected [2, 2]\n2 layers like a.*.q: is F64\nlm_head: is F64\n");
  EXPECT_EQ(to_text(complaints, 1),
            "2 layers like a.*.q: is [3, 2], expected [2, 2]\nand 3 more layers for 2 more reasons\n");
  EXPECT_EQ(to_text({}), "");
}

}  // namespace
