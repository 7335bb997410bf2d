// SPDX-License-Identifier: Apache-2.0
// Exit statuses by cause, from what each subcommand says of itself in its help. Next door: exit_status.h (the
// numbers).
#pragma once

#include <string>
#include <vector>

#include "host/cli/interface.h"

namespace ironcl::cli {

/// Markdown: a row for each subcommand, a column for each status; an empty cell where it cannot be.
std::string exit_status_table(const std::vector<CommandInterface>& commands);

}  // namespace ironcl::cli
