// SPDX-License-Identifier: Apache-2.0
// What `ironcl model` is asked about: one problem from options, the layers of a checkpoint, or a list of shapes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/selection.h"

namespace ironcl::cli {

struct ModelOptions {
  std::int64_t m = 0, n = 0, k = 0;
  std::string block = "128";  ///< Of w: ROWSxCOLS, or one number where it is square.
  std::string x_block;        ///< Of x; empty: as w's blocks where they are square, else one scale a token.
  std::string x_dtype = "bf16", w_dtype = "e4m3fn", out_dtype = "bf16";
  std::string quantize = "auto";                          ///< on, off; auto: on, or what a checkpoint's layer says.
  std::vector<std::pair<std::string, std::string>> plan;  ///< Options of the backend.
};

/// The problem of those options. Throws CommandError usage.
ironcl::GemmDesc model_problem(const ModelOptions& options);

/// A layer of a checkpoint that the model takes.
struct ModelLayer {
  std::string name;
  ironcl::GemmDesc desc;
};

struct ModelLayers {
  std::vector<ModelLayer> layers;
  std::vector<layer::LeftOut> left_out;       ///< Cannot be used.
  std::vector<std::filesystem::path> inputs;  ///< Every file that was read.
};

/// The layers of a checkpoint that `glob` names, with the options' m, types and plan. Throws as layer::select_layers.
ModelLayers model_layers(const std::filesystem::path& path, const std::string& glob, const ModelOptions& options);

/// Searches blocks for every line "n k q" of the file `shapes` at every batch of `batches`, x in bf16 quantised in
/// the kernel, x in bf16 as it is, and x in e4m3fn; returns the tuned table as JSON text.
std::string tune_blocks(const ironcl::Device& device, const std::filesystem::path& shapes,
                        const std::vector<std::int64_t>& batches, const std::string& tpu);

}  // namespace ironcl::cli
