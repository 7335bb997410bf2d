// SPDX-License-Identifier: Apache-2.0
// ironcl plugins: the load report, why each file was or was not taken.

#include "host/cli/command.h"
#include "host/cli/parse_option.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/report/json.h"
#include "host/report/table.h"

namespace ironcl::cli {
namespace {

std::string source_name(std::uint32_t source) {
  return source == IRONCL_SOURCE_FILES    ? "IRONCL_PLUGIN_FILES"
         : source == IRONCL_SOURCE_DIRS   ? "IRONCL_PLUGIN_DIRS"
         : source == IRONCL_SOURCE_BESIDE ? "beside the library"
                                          : "by name";
}

report::Table plugins_table(const ironcl::Registry& registry) {
  report::Table table;
  for (const ironcl::PluginInfo& plugin : registry.plugins())
    table.add_fields({{{"name", "plugin"}, plugin.name},
                      {{"devices", "devices", report::Kind::integer}, plugin.device_count},
                      {{"abi", "ABI"}, fmt::format("{}.{}", plugin.abi_major, plugin.abi_minor)},
                      {{"build_id", "build"}, or_null(plugin.build_id)},
                      {{"path", "file"}, plugin.path},
                      machine_field("enumerate_status", ironcl_status_name(plugin.enumerate_status)),
                      machine_field("enumerate_reason", or_null(plugin.enumerate_reason))});
  return table;
}

json::object to_json(const ironcl::Registry& registry) {
  json::array report;
  for (const ironcl::ReportEntry& entry : registry.report()) {
    report.push_back({{"path", entry.path},
                      {"outcome", ironcl_outcome_name(entry.outcome)},
                      {"step", ironcl_step_name(entry.step)},
                      {"status", ironcl_status_name(entry.status)},
                      {"source", source_name(entry.source)},
                      {"plugin", or_null(entry.plugin)},
                      {"build_id", or_null(entry.build_id)},
                      {"reason", or_null(entry.reason)}});
  }
  return {{"plugins", report::to_json(plugins_table(registry))}, {"report", std::move(report)}};
}

/// A line for each file, the reason below it: paths and sentences do not fit into columns.
std::string to_text(const ironcl::Registry& registry) {
  const report::Table table = plugins_table(registry);
  std::string text = table.empty() ? "" : report::to_text(table, report::terminal_width()) + "\n";
  text += "Files looked at, in this order:\n";
  const auto entries = registry.report();
  for (const ironcl::ReportEntry& entry : entries) {
    text += fmt::format("  {}: {} at step {} ({})\n", entry.path, ironcl_outcome_name(entry.outcome),
                        ironcl_step_name(entry.step), source_name(entry.source));
    if (!entry.reason.empty()) text += fmt::format("      {}\n", entry.reason);
  }
  if (entries.empty()) text += "  none; name a folder with IRONCL_PLUGIN_DIRS or a file with IRONCL_PLUGIN_FILES\n";
  return text;
}

class PluginsCommand final : public Command {
 public:
  PluginsCommand()
      : Command(
            "plugins", "The load report: which plugins were taken, and why others were not",
            R"(  ironcl plugins                                         every file that was looked at, and why it was not taken
  IRONCL_PLUGIN_DIRS=$HOME/plugins ironcl plugins        look there first
  IRONCL_PLUGIN_FILES=./libmine.so ironcl plugins --json one file, as JSON
)") {
    add_json_option(*this, json_);
  }

  ExitStatus run() override {
    const ironcl::Registry registry = ironcl::Registry::discover();
    deliver(json_, to_text(registry), to_json(registry));
    return ExitStatus::ok;
  }

 private:
  std::string json_;  ///< A file, or -; empty: not wanted.
};

}  // namespace

std::shared_ptr<Command> make_plugins_command() { return std::make_shared<PluginsCommand>(); }

}  // namespace ironcl::cli
