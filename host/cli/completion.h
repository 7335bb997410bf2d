// SPDX-License-Identifier: Apache-2.0
// Completion of the command line in shells, made of the command line as data. Next door: interface.h, man_page.h.
#pragma once

#include <string>
#include <vector>

#include "host/cli/interface.h"

namespace ironcl::cli {

/// A script for each shell: commands, options, the values that an option can have, files where it takes one.
std::string bash_completion(const std::vector<CommandInterface>& commands);
std::string zsh_completion(const std::vector<CommandInterface>& commands);
std::string fish_completion(const std::vector<CommandInterface>& commands);

}  // namespace ironcl::cli
