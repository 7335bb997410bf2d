// SPDX-License-Identifier: Apache-2.0
// ranks.hpp, by ranks_experts.hpp alone.
#include <ironcl/ranks_experts.hpp>

ironcl::ranks::Partition ranks_hpp_alone();
ironcl::ranks::Partition ranks_hpp_alone() { return ironcl::ranks::Partition::even("n", 1536, 8, 128, 128); }
