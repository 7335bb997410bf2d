// SPDX-License-Identifier: Apache-2.0
// What `ironcl model` asks the Ironwood model about: one product from options, the layers of a checkpoint
// (model_command.cpp); a layer of experts, by the two grouped kernels (gmm_v1, gmm_v2) with what XLA does between
// their products, and by the kernel that does it all, fused_moe (model_experts.cpp).
#pragma once

#include <boost/json/object.hpp>

#include "host/cli/parse_option.h"
#include "host/cli/shape_options.h"
#include "host/include/ironcl/ironcl.hpp"

namespace ironcl::cli {

struct ModelOptions {
  std::int64_t m = 0, n = 0, k = 0;
  std::optional<numerics::ScaleGrid> block = numerics::ScaleGrid{128, 128};  ///< Blocks of w.
  std::optional<numerics::ScaleGrid> x_block;  ///< None: w's where these are square, else one scale per token.
  numerics::DType x = numerics::DType::bf16, w = numerics::DType::e4m3fn, out = numerics::DType::bf16;
  std::optional<bool> quantize;  ///< None: on, or what a checkpoint's layer says.
  Options plan;                  ///< Options of the backend.
};

/// The problem of those options.
ironcl::GemmDesc model_problem(const ModelOptions& options);

/// The layers of a checkpoint that `glob` names, with the options' m, types and plan. Throws as layer::select_layers.
Measured model_layers(const std::filesystem::path& path, const std::string& glob, const ModelOptions& options);

struct ExpertOptions {
  std::int64_t experts = 0, top_k = 8, tokens = 0, hidden = 0, intermediate = 0;
  double skew = 0;  ///< 0: every expert is as likely; else the r-th most wanted is so by r^-skew.
  std::uint64_t seed = 1;
  std::string program;  ///< Empty: all of them.
};

/// Throws CommandError usage for what is missing or contradicts itself.
void check(const ExpertOptions& options);

/// What the device says of each program, as JSON: `programs`, each with its products and what lies between them.
/// `model` has block, types and the plan's options.
boost::json::object model_experts(const ironcl::Device& device, const ExpertOptions& options,
                                  const ModelOptions& model);

/// The answer as text: a line per program and product.
std::string experts_text(const boost::json::object& report);

/// The schedules of all of them in one Chrome trace, a process each; at most 20000 spans of each.
boost::json::object experts_trace(const ironcl::Device& device, const ExpertOptions& options,
                                  const ModelOptions& model);

}  // namespace ironcl::cli
