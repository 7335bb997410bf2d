// SPDX-License-Identifier: Apache-2.0
// The ironcl command: runs one subcommand, turns every failure into a message and an exit status. Next door:
// command_line.cpp (parses).
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>

#include "host/checkpoint/error.h"
#include "host/cli/command.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/report/file.h"
#include "host/report/print.h"
#include "host/report/visible.h"

namespace {

using ironcl::cli::ExitStatus;

/// The file first, as every other message has it; the standard library puts it last.
std::string text_of(const std::filesystem::filesystem_error& error) {
  const auto quoted = [](const std::filesystem::path& path) { return ironcl::report::visible(path.string()); };
  return fmt::format("{}{}: {}; check the path", quoted(error.path1()),
                     error.path2().empty() ? "" : " and " + quoted(error.path2()), error.code().message());
}

/// Runs the subcommand that the words name, or shows the text of --help or --version.
int run(ironcl::cli::CommandLine& line, const std::vector<std::string>& words) {
  const auto failed = [&line](ExitStatus status, const std::string& text) {
    std::fflush(stdout);
    const std::string name = line.entered();
    ironcl::report::print_error_text(fmt::format("ironcl{}{}: {}\n", name.empty() ? "" : " ", name, text));
    return static_cast<int>(status);
  };
  try {
    std::string text;
    ironcl::cli::Command* const command = line.parse(words, text);
    ironcl::report::print_text(text);
    const ExitStatus status = command == nullptr ? ExitStatus::ok : command->run();
    ironcl::report::flush_output();
    return static_cast<int>(status);
  } catch (const ironcl::cli::CommandError& error) {
    return failed(error.status(), error.what());
  } catch (const ironcl::checkpoint::Error& error) {
    return failed(ExitStatus::bad_input, error.what());
  } catch (const ironcl::Error& error) {
    const bool refused = error.status() == IRONCL_UNAVAILABLE || error.status() == IRONCL_UNSUPPORTED;
    return failed(refused ? ExitStatus::no_device : ExitStatus::out_of_bounds, error.what());
  } catch (const ironcl::report::FileError& error) {
    return failed(ExitStatus::bad_input, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return failed(ExitStatus::bad_input, text_of(error));
  } catch (const std::bad_alloc&) {
    return failed(ExitStatus::out_of_bounds, "out of memory; try fewer rows (--m) or one layer (--layer)");
  } catch (const std::exception& error) {
    return failed(ExitStatus::out_of_bounds, error.what());
  }
}

/// Takes the numbers of standard streams that are closed, so that no file of ours gets one and what is printed with
/// it. Writing there fails as before.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_streams();
  ironcl::cli::CommandLine line;
  if (argc < 2) {
    ironcl::report::print_error_text(line.help());
    return static_cast<int>(ExitStatus::usage);
  }
  return run(line, {argv + 1, argv + argc});
}
