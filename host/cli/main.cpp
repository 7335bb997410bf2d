// SPDX-License-Identifier: Apache-2.0
// The ironcl command: parses, runs one subcommand, turns every failure into a message and an exit status.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "host/checkpoint/error.h"
#include "host/cli/command.h"
#include "host/cli/shrunk_file.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/report/file.h"
#include "host/report/print.h"
#include "host/report/visible.h"

namespace {

using ironcl::cli::Command;
using ironcl::cli::CommandError;
using ironcl::cli::ExitStatus;

constexpr const char* kFooter = R"(
First steps
  ironcl devices                                   what there is to compute on
  ironcl inspect CHECKPOINT                        the fp8 layers of a checkpoint
  ironcl compare CHECKPOINT                        run them on every device and prove that the results agree
  ironcl COMMAND --help                            options, defaults and examples of one command

Exit status
  0 done, everything within bounds   1 out of bounds, or a device failed   2 usage
  3 bad input (or a file that cannot be written)   4 no device that could do it
)";

/// `name` is the subcommand, or empty.
int fail(const std::string& name, ExitStatus status, const std::string& text) {
  std::fflush(stdout);
  ironcl::report::print_error("ironcl{}{}: {}\n", name.empty() ? "" : " ", name, text);
  return static_cast<int>(status);
}

/// The file first, as every other message has it; the standard library puts it last.
std::string text_of(const std::filesystem::filesystem_error& error) {
  const auto quoted = [](const std::filesystem::path& path) { return ironcl::report::visible(path.string()); };
  return fmt::format("{}{}: {}; check the path", quoted(error.path1()),
                     error.path2().empty() ? "" : " and " + quoted(error.path2()), error.code().message());
}

ExitStatus status_of(const ironcl::Error& error) {
  switch (error.status()) {
    case IRONCL_UNAVAILABLE:
    case IRONCL_UNSUPPORTED:
      return ExitStatus::no_device;
    default:
      return ExitStatus::out_of_bounds;
  }
}

int run(Command& command) {
  ironcl::cli::report_shrunk_files(command.name().c_str());
  try {
    const ExitStatus status = command.run();
    ironcl::report::flush_output();
    return static_cast<int>(status);
  } catch (const CommandError& error) {
    return fail(command.name(), error.status(), error.what());
  } catch (const ironcl::checkpoint::Error& error) {
    return fail(command.name(), ExitStatus::bad_input, error.what());
  } catch (const ironcl::Error& error) {
    return fail(command.name(), status_of(error), error.what());
  } catch (const ironcl::report::FileError& error) {
    return fail(command.name(), ExitStatus::bad_input, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(command.name(), ExitStatus::bad_input, text_of(error));
  } catch (const std::bad_alloc&) {
    return fail(command.name(), ExitStatus::out_of_bounds,
                "out of memory; try fewer rows (--m) or one layer (--layer)");
  } catch (const std::exception& error) {
    return fail(command.name(), ExitStatus::out_of_bounds, error.what());
  }
}

/// Takes the numbers of standard streams that are closed, so that no file of ours gets one and what is printed with
/// it. Writing there fails as before.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDONLY);
  }
}

/// The text of --help or --version.
int show(const CLI::App& app, const CLI::Success& wanted) {
  std::ostringstream text;
  app.exit(wanted, text, text);
  try {
    ironcl::report::print_text(text.str());
    ironcl::report::flush_output();
  } catch (const ironcl::report::FileError& error) {
    return fail({}, ExitStatus::bad_input, error.what());
  }
  return static_cast<int>(ExitStatus::ok);
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_streams();
  CLI::App app(
      "Block-scaled fp8 GEMM for every device that OpenCL reaches, checked against a model of the Ironwood TPU",
      "ironcl");
  app.set_version_flag("--version", std::string("ironcl ") + ironcl_build_id());
  app.require_subcommand(1);
  app.footer(kFooter);
  app.get_formatter()->column_width(34);

  const std::vector<std::unique_ptr<Command>> commands = ironcl::cli::all_commands();
  std::vector<CLI::App*> parsers;
  for (const auto& command : commands) {
    CLI::App* parser = app.add_subcommand(command->name(), command->summary());
    command->declare(*parser);
    parsers.push_back(parser);
  }
  if (argc < 2) {
    ironcl::report::print_error_text(app.help());
    return static_cast<int>(ExitStatus::usage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return show(app, wanted);
  } catch (const CLI::ParseError& error) {
    const auto entered = app.get_subcommands();
    const std::string name = entered.empty() ? std::string() : entered.front()->get_name();
    return fail(name, ExitStatus::usage,
                fmt::format("{}; see ironcl {}{}--help", error.what(), name, name.empty() ? "" : " "));
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (parsers[i]->parsed()) return run(*commands[i]);
  }
  return static_cast<int>(ExitStatus::usage);
}
