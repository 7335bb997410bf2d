// SPDX-License-Identifier: Apache-2.0
// `ironcl model --experts`: a layer of experts on a TPU, by the two grouped kernels (gmm_v1, gmm_v2) with what XLA
// does between their products, and by the kernel that does it all (fused_moe). Next door: model_problem.h (one
// product).
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "host/cli/model_problem.h"
#include "host/include/ironcl/ironcl.hpp"

namespace ironcl::cli {

struct ExpertOptions {
  std::int64_t experts = 0, top_k = 8, tokens = 0, hidden = 0, intermediate = 0;
  double skew = 0;  ///< 0: every expert is as likely; else the r-th most wanted is so by r^-skew.
  std::uint64_t seed = 1;
  std::string program;  ///< Empty: all of them.
};

/// Throws CommandError usage for what is missing or contradicts itself.
void check(const ExpertOptions& options);

/// `top_k` different experts for each token, [tokens, top_k]; the same for the same seed on every host.
std::vector<std::int32_t> make_ids(const ExpertOptions& options);

/// What the device says of each program, as JSON: `programs`, each with its products and what lies between them.
/// `model` has block, types and the plan's options.
boost::json::object model_experts(const ironcl::Device& device, const ExpertOptions& options,
                                  const ModelOptions& model);

/// That in words: a line a program and product.
std::string experts_text(const boost::json::object& report);

/// The schedules of all of them in one Chrome trace, a process each; at most `spans` spans of each.
boost::json::object experts_trace(const ironcl::Device& device, const ExpertOptions& options,
                                  const ModelOptions& model, std::size_t spans);

}  // namespace ironcl::cli
