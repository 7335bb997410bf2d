// SPDX-License-Identifier: Apache-2.0
// What is made of the command line as data: man pages, completion in shells, the table of exit statuses. Next door:
// interface.h (the data), documents.cpp (writes the files).
#pragma once

#include <string>
#include <vector>

#include "host/cli/interface.h"

namespace ironcl::cli {

/// ironcl(1): what `ironcl` is, its subcommands, its exit statuses.
std::string man_page(const CommandInterface& all, const std::vector<CommandInterface>& commands,
                     const std::string& version);
/// ironcl-COMMAND(1): every option, exit statuses, examples.
std::string man_page(const CommandInterface& command, const std::string& version);

/// A script for each shell: commands, options, the values that an option can have, files where it takes one.
std::string bash_completion(const std::vector<CommandInterface>& commands);
std::string zsh_completion(const std::vector<CommandInterface>& commands);
std::string fish_completion(const std::vector<CommandInterface>& commands);

/// Markdown: a row for each subcommand, a column for each status; an empty cell where it cannot be.
std::string exit_status_table(const std::vector<CommandInterface>& commands);

}  // namespace ironcl::cli
