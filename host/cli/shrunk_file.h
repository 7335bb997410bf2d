// SPDX-License-Identifier: Apache-2.0
// A checkpoint is mapped into memory; a file that gets shorter while it is read ends a process by SIGBUS. The command
// says which file it was and exits. A library must not: the signal belongs to the application (docs/checkpoints.md).
#pragma once

namespace ironcl::cli {

/// From now on such a file ends the process with exit status 3 and a message of the subcommand `command`, of which at
/// most 63 characters are kept. Other SIGBUS end it as ever.
void report_shrunk_files(const char* command);

}  // namespace ironcl::cli
