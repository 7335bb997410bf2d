// SPDX-License-Identifier: Apache-2.0
// The list of subcommands: a new one is a file beside this one, its maker in command.h and a line here.
#include "host/cli/command.h"

namespace ironcl::cli {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_devices_command());
  commands.push_back(make_plugins_command());
  commands.push_back(make_inspect_command());
  commands.push_back(make_compare_command());
  commands.push_back(make_run_command());
  commands.push_back(make_model_command());
  commands.push_back(make_bench_command());
  commands.push_back(make_tune_command());
  commands.push_back(make_quantize_command());
  commands.push_back(make_accuracy_command());
  return commands;
}

}  // namespace ironcl::cli
