// SPDX-License-Identifier: Apache-2.0
// ironcl inspect: the linear layers of a checkpoint, and what in it is not quantised.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <string>

#include "host/checkpoint/model.h"
#include "host/cli/command.h"
#include "host/cli/inspect_report.h"
#include "host/cli/parse_option.h"
#include "host/cli/ranks_options.h"
#include "host/report/file.h"
#include "host/report/json.h"
#include "host/report/print.h"
#include "host/report/table.h"

namespace ironcl::cli {
namespace {

namespace json = boost::json;
using checkpoint::Checkpoint;

class InspectCommand final : public Command {
 private:
  static constexpr const char* kExamples =
      R"(  ironcl inspect model-fp8/                  a folder with config.json and safetensors files
  ironcl inspect model-fp8/ --summary        a line for each kind of layer, and bytes by kind
  ironcl inspect layer.safetensors --json    one file, as JSON
  ironcl inspect odd.safetensors --block 64  where neither the file nor its shapes say the block
)";

 public:
  InspectCommand() : Command("inspect", "The fp8 layers of a checkpoint: shapes, blocks, scales, bytes", kExamples) {}

  void declare(CLI::App& app) override {
    app.add_option("PATH", path_, "checkpoint folder, or one safetensors file")->option_text(" ")->required();
    add_json_option(app, json_);
    app.add_flag("--summary", summary_, "layers by pattern, and bytes by kind")->excludes(app.get_option("--json"));
    app.add_option("--block", block_, "weight block where neither file nor shapes say it: 128, 128x128")
        ->option_text("ROWSxCOLS");
    app.add_option("--ranks", ranks_, "what each of so many ranks would hold")
        ->option_text("N")
        ->check(CLI::Range(1, 65536))
        ->excludes(app.get_option("--json"));
    app.add_flag("--ragged", ragged_, "with --ranks: even ranges, wherever blocks of scales begin")->needs("--ranks");
  }

  ExitStatus run() override {
    checkpoint::OpenOptions options{.block = parse_grid_option("--block", block_)};
    const Checkpoint checkpoint = Checkpoint::open(path_, options);
    report::check_outputs({json_}, checkpoint.sources());
    const std::size_t width = report::terminal_width();
    if (json_ != "-")
      report::print_text(ranks_ != 0 ? ranks_text(checkpoint, ranks_, ragged_, width)
                         : summary_  ? inspect_summary(checkpoint, width)
                                     : inspect_text(checkpoint, width));
    if (!json_.empty()) report::write_file(json_, report::to_text(json::value(inspect_json(checkpoint))));
    const std::string complaints = inspect_complaints(checkpoint);
    if (complaints.empty()) return ExitStatus::ok;
    report::flush_output();
    report::print_error("{}", complaints);
    return ExitStatus::bad_input;
  }

 private:
  std::string path_, block_;
  std::string json_;  ///< A file, or -; empty: not wanted.
  bool summary_ = false, ragged_ = false;
  int ranks_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command() { return std::make_unique<InspectCommand>(); }

}  // namespace ironcl::cli
