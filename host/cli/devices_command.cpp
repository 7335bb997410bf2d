// SPDX-License-Identifier: Apache-2.0
// ironcl devices: what there is to compute on, and what each device says to a problem.

#include "backends/words.h"
#include "host/cli/command.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/layer/execution.h"
#include "host/report/json.h"
#include "host/report/problem.h"
#include "host/report/table.h"
#include "host/report/units.h"
#include "host/tuning/ceilings.h"

namespace ironcl::cli {
namespace {

/// M, N and K ("16,1024,3072" or "16x1024x3072") as a layer of a published fp8 checkpoint, or a problem line.
report::Problem problem_of(const std::string& text) {
  std::string line = text;
  if (text.find(':') == std::string::npos) {
    const auto parts = words::split(text, text.find('x') != std::string::npos ? 'x' : ',');
    const auto sizes = words::each(parts, [](auto part) { return words::number<std::int32_t>(part).value_or(-1); });
    if (sizes.size() != 3 || sizes[0] < 0 || sizes[1] < 1 || sizes[2] < 1)
      usage("--explain {}: write M,N,K such as 16,1024,3072 or 16x1024x3072, or a problem line", text);
    line = fmt::format("--src=bf16 --dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 {}x{}:{}x{}", sizes[0], sizes[2],
                       sizes[2], sizes[1]);
  }
  return or_usage("--explain", [&] { return report::parse_problem(line); });
}

std::string verdict_name(std::uint32_t verdict) {
  return verdict == IRONCL_VERDICT_CHOSEN ? "chosen" : verdict == IRONCL_VERDICT_USABLE ? "usable" : "refused";
}

/// The backend's kernels with their tunables; null where it lists none.
json::value variants_of(const ironcl::Device& device) {
  return tuning::answer_of(device, "variants", [](json::value answer) { return answer; }).value_or(nullptr);
}

report::Table devices_table(const std::vector<ironcl::Device>& devices, bool for_machines) {
  report::Table table;
  for (const ironcl::Device& device : devices) {
    const ironcl_device_props& props = device.props();
    const auto has = [&](std::uint32_t cap) { return (props.caps & cap) != 0; };
    table.add_fields({{{"uri", "device"}, device.uri()},
                      machine_field("plugin", device.plugin()),
                      {{"type", "type"}, ironcl_device_type_name(props.type)},
                      {{"memory_bytes", "memory", Kind::bytes}, props.memory_bytes},
                      {{"name", "name"}, props.name},
                      {{"driver", "driver"}, props.driver},
                      machine_field("stable_id", props.stable_id),
                      machine_field("vendor_id", props.vendor_id),
                      machine_field("max_buffer_bytes", props.max_buffer_bytes),
                      machine_field("buffer_alignment", props.buffer_alignment),
                      machine_field("import_host_pointer", has(IRONCL_CAP_IMPORT_HOST_POINTER)),
                      machine_field("import_cl_mem", has(IRONCL_CAP_IMPORT_CL_MEM)),
                      machine_field("event_profiling", has(IRONCL_CAP_EVENT_PROFILING)),
                      machine_field("bitwise_repeatable", has(IRONCL_CAP_BITWISE_REPEATABLE)),
                      machine_field("variants", for_machines ? variants_of(device) : nullptr)});
  }
  return table;
}

report::Table candidates_table(const ironcl::Selection& selection) {
  report::Table table;
  for (const ironcl::Candidate& candidate : selection.candidates) {
    const ironcl::Support support = candidate.support.value_or(ironcl::Support());
    const bool usable = candidate.support && candidate.reason == IRONCL_REASON_NONE;
    const bool timed = support.estimate_kind != IRONCL_TIME_NONE;
    const std::string kind = layer::time_kind_name(support.estimate_kind);
    table.add_fields(
        {{{"uri", "device"}, candidate.device.uri()},
         {{"verdict", "verdict"}, verdict_name(candidate.verdict)},
         {{"", "estimate"}, timed ? fmt::format("{} {}", report::human_time(support.estimate_ns), kind) : ""},
         {{"reason", "reason"}, ironcl_reason_name(candidate.reason)},
         {{"text", "in words"}, candidate.text},
         machine_field("accuracy_class",
                       or_null(usable, support.accuracy_class == IRONCL_ACCURACY_TENSOR14 ? "tensor14" : "f32")),
         machine_field("estimate_ns", or_null(usable && timed, support.estimate_ns)),
         machine_field("estimate_kind", or_null(usable && timed, kind))});
  }
  return table;
}

class DevicesCommand final : public Command {
 public:
  DevicesCommand()
      : Command("devices", "List devices, or explain what each says to a problem",
                R"(  ironcl devices                          the devices and their URIs, as --device takes them
  ironcl devices --explain 16,1024,3072   what each says to 16 x 1024 x 3072 (M,N,K or MxNxK), and what auto would choose
  ironcl devices --explain '--dt=e4m3fn:e4m3fn:bf16 --scale=1x64:64x64 16x3072:3072x1024'
)") {
    add_json_option(*this, json_);
    add_value(*this, "--explain M,N,K", explain_,
              "ask every device about that problem: bf16 activations, e4m3 weights\n"
              "in 128x128 blocks, bf16 out; or about any problem line");
  }

  ExitStatus run() override {
    std::optional<report::Problem> problem;
    if (!explain_.empty()) problem = problem_of(explain_);
    const ironcl::Registry registry = ironcl::Registry::discover();
    const std::vector<ironcl::Device> devices = registry.devices();
    if (problem) return explain(registry, *problem);
    const report::Table table = devices_table(devices, !json_.empty());
    deliver(json_, devices.empty() ? "" : report::to_text(table, report::terminal_width()),
            json::object{{"devices", report::to_json(table)}});
    if (devices.empty()) fail(ExitStatus::no_device, "{}", why_no_devices(registry));
    return ExitStatus::ok;
  }

 private:
  ExitStatus explain(const ironcl::Registry& registry, const report::Problem& problem) const {
    const ironcl::GemmDesc desc = report::to_gemm_desc(problem);
    const ironcl::Selection selection = registry.explain(&desc);
    const report::Table table = candidates_table(selection);
    const std::string line = report::to_line(problem);
    deliver(json_,
            fmt::format("problem: {}\n\n{}\n{}\n", line, report::to_text(table, report::terminal_width()),
                        selection.device ? fmt::format("auto chooses {}", selection.device->uri())
                                         : fmt::format("auto chooses nothing: {}", selection.error)),
            json::object{{"problem", line},
                         {"chosen", or_null(selection.device ? selection.device->uri() : "")},
                         {"error", or_null(!selection.device, selection.error)},
                         {"candidates", report::to_json(table)}});
    return selection.device ? ExitStatus::ok : ExitStatus::no_device;
  }

  std::string json_;  ///< A file, or -; empty: not wanted.
  std::string explain_;
};

}  // namespace

std::shared_ptr<Command> make_devices_command() { return std::make_shared<DevicesCommand>(); }

}  // namespace ironcl::cli
