// SPDX-License-Identifier: Apache-2.0
// --ranks, --split and --ragged, shared by compare, run and bench: layers over the processes that mpirun started, or
// over a thread for each --device.
#pragma once

#include "host/checkpoint/model.h"
#include "host/cli/command.h"
#include "host/ranks/spread.h"

namespace ironcl::cli {

class RanksOptions {
 public:
  void declare(CLI::App& app);
  bool on() const noexcept { return on_; }

  /// Joins the other processes, where there are any, and keeps all but the first from printing. Throws CommandError
  /// usage where --split or --ragged stand without --ranks.
  void start();
  /// Whether this process writes files.
  bool writes() const { return !launch_ || launch_->speaks(); }
  /// open() on every process: where it fails on one, or files differ, CommandError bad_input on all of them, the
  /// same.
  checkpoint::Checkpoint open(const std::function<checkpoint::Checkpoint()>& open);
  /// The device that represents the ranks: a process's own; with threads the first. `uris`: of each thread one, or
  /// of which processes take one in turn; commas separate them too.
  std::vector<ironcl::Device> devices(const ironcl::Registry& registry, const std::vector<std::string>& uris);
  /// The substitute that runs layers in place of a device; null without --ranks.
  ranks::SpreadLayers* substitute();
  ranks::Launch& launch() { return *launch_; }  ///< After devices().
  ranks::SpreadSettings settings() const;

 private:
  ranks::Group::Settings group_settings() const;

  bool on_ = false, ragged_ = false;
  double timeout_ = 300;  ///< Seconds.
  std::string split_ = "auto", digest_;
  std::unique_ptr<ranks::Launch> launch_;
  std::optional<ranks::SpreadLayers> spread_;
};

}  // namespace ironcl::cli
