// SPDX-License-Identifier: Apache-2.0
// The options that say what is multiplied, shared by compare and run.
#pragma once

#include <cstdint>
#include <string>

#include "host/checkpoint/model.h"
#include "host/layer/activation_files.h"

namespace CLI {
class App;
}

namespace ironcl::cli {

struct ActivationOptions {
  std::string path, block, x_block, x_dtype, out = "f32", accuracy = "f32";
  std::string input, input_q;
  bool weight_only = false;
  std::int64_t m = -1;    ///< -1: not given.
  std::int64_t seed = 1;  ///< Up to 2^53, which every JSON reader keeps.

  /// PATH, --block, --x-block, --x-dtype, --input, --input-q, --m, --out-dtype, --accuracy; with `may_make_up`,
  /// --seed, and both classes at once.
  void declare(CLI::App& app, bool may_make_up);

  layer::ActivationSource source() const;          ///< Throws CommandError usage.
  checkpoint::Checkpoint open_checkpoint() const;  ///< Throws CommandError usage and checkpoint::Error.
  /// The files that a command reads: those of the checkpoint, of --input and --input-q, and of `named` (FILE:TENSORS,
  /// or empty).
  std::vector<std::filesystem::path> inputs(const checkpoint::Checkpoint& checkpoint,
                                            const std::vector<std::string>& named) const;
  /// The options that were given, for a command to be pasted.
  std::string command_tail() const;
};

}  // namespace ironcl::cli
