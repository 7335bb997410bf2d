// SPDX-License-Identifier: Apache-2.0
// Man pages, made of the command line as data. Next door: interface.h, completion.h, documents.cpp (writes the
// files).
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

}  // namespace ironcl::cli
