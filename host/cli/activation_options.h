// SPDX-License-Identifier: Apache-2.0
// The options that say what is multiplied, shared by compare and run.
#pragma once

#include "host/checkpoint/model.h"
#include "host/cli/command.h"
#include "host/layer/activations.h"

namespace ironcl::cli {

struct ActivationOptions {
  std::string path, routing;
  numerics::DType out = numerics::DType::f32;
  std::vector<numerics::AccuracyClass> accuracies = {numerics::AccuracyClass::f32};

  /// Adds to a subcommand's parser PATH, --block, --x-block, --x-dtype, --input, --input-q, --m, --out-dtype,
  /// --accuracy, --routing; with `may_make_up`, --seed, and both classes at once.
  ActivationOptions(CLI::App& app, bool may_make_up);

  const layer::ActivationSource& source() const;   ///< Throws CommandError usage.
  checkpoint::Checkpoint open_checkpoint() const;  ///< Throws checkpoint::Error.
  /// The files that a command reads: those of the checkpoint, of --input, --input-q and --routing, and of `named`
  /// (FILE:TENSORS).
  std::vector<std::filesystem::path> inputs(const checkpoint::Checkpoint& checkpoint,
                                            const std::vector<std::string>& named = {}) const;
  /// Throws CommandError usage where an option is not about layers of experts, of which `name` is one.
  void check_for_experts(const std::string& name) const;
  /// The options that were given, each behind a blank, for a command to be pasted; but for --layer and --json, and
  /// without `devices` --device.
  std::string command_tail(bool devices) const;

 private:
  const CLI::App& app_;
  layer::ActivationSource given_;
  std::optional<numerics::ScaleGrid> block_;  ///< Of the weights.
};

}  // namespace ironcl::cli
