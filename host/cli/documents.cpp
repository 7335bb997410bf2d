// SPDX-License-Identifier: Apache-2.0
// ironcl_documents: writes what the build installs beside the command: man pages and completions, made of the
// definitions that the command parses with.
//
//   ironcl_documents FOLDER            FOLDER/{ironcl.1,ironcl-COMMAND.1,ironcl.bash,_ironcl,ironcl.fish}
//   ironcl_documents --exit-status     the table of docs/command.md
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "host/cli/command_line.h"
#include "host/cli/documents.h"
#include "host/cli/interface.h"
#include "host/report/file.h"
#include "host/report/print.h"

int main(int argc, char** argv) try {
  using namespace ironcl;
  const cli::CommandLine line;
  const auto commands = cli::interfaces_of_subcommands(line.parser());
  const bool table = argc == 2 && std::string(argv[1]) == "--exit-status";
  if (argc != 2 || (argv[1][0] == '-' && !table)) {  // No option that it does not know becomes a folder's name.
    report::print_error("usage: ironcl_documents FOLDER | --exit-status\n");
    return 2;
  }
  if (table) {
    report::print_text(cli::exit_status_table(commands));
    report::flush_output();
    return 0;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  report::write_file(folder / "ironcl.1", cli::man_page(cli::interface_of(line.parser()), commands, IRONCL_VERSION));
  for (const cli::CommandInterface& command : commands)
    report::write_file(folder / ("ironcl-" + command.name + ".1"), cli::man_page(command, IRONCL_VERSION));
  report::write_file(folder / "ironcl.bash", cli::bash_completion(commands));
  report::write_file(folder / "_ironcl", cli::zsh_completion(commands));
  report::write_file(folder / "ironcl.fish", cli::fish_completion(commands));
  return 0;
} catch (const std::exception& error) {
  ironcl::report::print_error("ironcl_documents: {}\n", error.what());
  return 1;
}
