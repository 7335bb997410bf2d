// SPDX-License-Identifier: Apache-2.0
// One table row an option: its key, what it takes, what it means and how it is read.
#include "backends/ironwood/plan.h"

#include <boost/json.hpp>

#include "backends/ironwood/program.h"
#include "backends/words.h"

namespace ironcl::ironwood {
namespace {

using backend::Error;
using backend::Status;

/// Reads a whole number in [low, high].
bool read_number(std::string_view text, std::int64_t low, std::int64_t high, std::int64_t* value) {
  const auto number = words::number<std::int64_t>(text);
  if (!number || *number < low || *number > high) return false;
  *value = *number;
  return true;
}

/// An assumption: a number of at least kLow; of an efficiency a share of the peak.
enum class Range { number, share };
template <double Assumptions::*kField, Range kRange = Range::number, int kLow = 0>
bool read_assumption(std::string_view text, PlanRequest* request) {
  const bool share = kRange == Range::share;
  const auto number = words::number<double>(text);
  if (!number || !(*number >= (share ? 1e-6 : kLow) && *number <= (share ? 1 : 1e18))) return false;
  request->machine.assume.*kField = *number;
  return true;
}

template <std::optional<bool> PlanRequest::*kField>
bool read_switch(std::string_view text, PlanRequest* request) {
  if (text != "on" && text != "off" && text != "auto") return false;
  request->*kField = text == "auto" ? std::nullopt : std::optional<bool>(text == "on");
  return true;
}

bool read_blocks(std::string_view text, PlanRequest* request) {
  if (text == "auto") {
    request->blocks.reset();
    return true;
  }
  KernelBlocks blocks;
  std::int64_t* const parts[] = {&blocks.b, &blocks.o, &blocks.i};
  const auto numbers = words::split(text, ',');
  if (numbers.size() != std::size(parts)) return false;
  for (std::size_t part = 0; part < numbers.size(); ++part)
    if (!read_number(numbers[part], 1, std::int64_t{1} << 30, parts[part])) return false;
  request->blocks = blocks;
  return true;
}

bool read_mode(std::string_view text, PlanRequest* request) {
  request->mode.reset();
  for (const Mode mode : {Mode::aligned, Mode::large})
    if (text == name_of(mode)) request->mode = mode;
  return request->mode || text == "auto";
}

/// Whole numbers with commas between them.
template <std::vector<std::int32_t> PlanRequest::*kField>
bool read_list(std::string_view text, PlanRequest* request) {
  std::vector<std::int32_t> counts;
  for (const std::string_view word : words::split(text, ',')) {
    const auto count = words::number<std::int32_t>(word);
    if (!count || *count < 0) return false;
    counts.push_back(*count);
  }
  request->*kField = std::move(counts);
  return true;
}

/// A whole number in [kLow, kHigh].
template <auto kField, int kLow, int kHigh>
bool read_size(std::string_view text, PlanRequest* request) {
  std::int64_t value = 0;
  if (!read_number(text, kLow, kHigh, &value)) return false;
  auto& field = request->*kField;
  field = static_cast<std::remove_reference_t<decltype(field)>>(value);
  return true;
}

struct Option {
  std::string_view key, values, fallback, meaning;
  bool (*read)(std::string_view, PlanRequest*);
};

constexpr std::array kOptions = {
    Option{"kernel_blocks", "B,O,I or auto", "auto", "rows of x, rows of w and depth of a grid step", read_blocks},
    Option{"mode", "auto, aligned or large", "auto", "one quantisation block per step, or several", read_mode},
    Option{"buffers", "1 to 8", "2", "buffers of each input; an output has at most 2",
           read_size<&PlanRequest::buffers, 1, 8>},
    Option{"program", "", "pipeline; gmm_v2",  // What it takes is the table of programs.
           "the grid pipeline, or the kernel's own copies; of a grouped problem which kernel",
           [](std::string_view text, PlanRequest* r) {
             r->program.reset();
             for (const ProgramEntry& entry : all_programs())
               if (text == entry.name) r->program = entry.program;
             return r->program.has_value();
           }},
    Option{"matrix_rows", "rows of each matrix, such as 3,0,17", "as even as can be",
           "of a grouped problem: the load that its model and its trace are for",
           read_list<&PlanRequest::matrix_rows>},
    Option{"ids", "an expert for each token and slot, such as 3,0,17,4", "spread evenly",
           "of a layer of experts: the load that the queries fused and fused_trace are for",
           read_list<&PlanRequest::ids>},
    Option{"save_x_q", "auto, on or off", "auto", "keep the quantised block of x between steps",
           read_switch<&PlanRequest::save_x_q>},
    Option{"save_acc", "auto, on or off", "auto", "keep the f32 accumulator in VMEM between steps",
           read_switch<&PlanRequest::save_acc>},
    Option{"vmem_limit_mib", "1 to 1024", "the TPU's VMEM", "VMEM that the kernel may use",
           [](std::string_view text, PlanRequest* r) {
             if (!read_size<&PlanRequest::vmem_limit, 1, 1024>(text, r)) return false;
             r->vmem_limit *= kMiB;
             return true;
           }},
    Option{"vmem_rule", "footprint or formula", "footprint",
           "what is held against the limit: true bytes, or the published formula",
           [](std::string_view text, PlanRequest* r) {
             r->vmem_rule = text == "formula" ? VmemRule::formula : VmemRule::footprint;
             return text == "formula" || text == "footprint";
           }},
    Option{"threads", "0 to 1024", "0", "threads of the host that compute; 0: all. The result does not depend on it",
           read_size<&PlanRequest::threads, 0, 1024>},
    Option{"trace_spans", "1 to 1000000", "50000", "spans that the query trace returns at most",
           read_size<&PlanRequest::trace_spans, 1, 1000000>},
    Option{"tpu", "a key of the table of TPUs", "7x", "the TPU whose time is modelled",
           [](std::string_view text, PlanRequest* r) {
             const Tpu* tpu = find_tpu(text);
             if (tpu != nullptr) r->machine.tpu = tpu;
             return tpu != nullptr;
           }},
    Option{"launch_ns", "0 or more", "1600", "assumption: from the call to the first copy, and back",
           read_assumption<&Assumptions::launch_ns>},
    Option{"mxu_efficiency", "above 0, at most 1", "0.82",
           "assumption: part of the MXU's peak that a long dot reaches",
           read_assumption<&Assumptions::mxu_efficiency, Range::share>},
    Option{"hbm_efficiency", "above 0, at most 1", "1", "assumption: part of the HBM's peak that copies reach",
           read_assumption<&Assumptions::hbm_efficiency, Range::share>},
    Option{"dma_latency_ns", "0 or more", "0", "assumption: from issue to first byte",
           read_assumption<&Assumptions::dma_latency_ns>},
    Option{"step_overhead_ns", "0 or more", "0", "assumption: scalar work of a grid step",
           read_assumption<&Assumptions::step_overhead_ns>},
    Option{"vpu_ops_per_s", "above 0", "9.01e12 on 7x",
           "assumption: element operations per second of the vector unit",
           read_assumption<&Assumptions::vpu_ops_per_s, Range::number, 1>},
};

/// What an option takes.
std::string values_of(const Option& option) {
  if (!option.values.empty()) return std::string(option.values);
  std::vector<std::string_view> of_one, of_many;
  for (const ProgramEntry& entry : all_programs()) (entry.grouped ? of_many : of_one).push_back(entry.name);
  return fmt::format("{}; {}", fmt::join(of_one, " or "), fmt::join(of_many, " or "));
}

std::string known_keys() { return fmt::format("{}", fmt::join(words::each(kOptions, &Option::key), ", ")); }

}  // namespace

PlanRequest read_options(const backend::Options& options) {
  PlanRequest request;
  for (const auto& [key, value] : options) {
    const Option* const found = std::ranges::find(kOptions, key, &Option::key);
    if (found == kOptions.end()) {
      throw Error(Status::invalid_argument, "ironwood: option {} does not exist; there are: {}", key, known_keys());
    }
    if (!found->read(value, &request)) {
      throw Error(Status::invalid_argument, "ironwood: option {} is \"{}\"; it takes {}", key, value,
                  values_of(*found));
    }
  }
  return request;
}

std::string describe_options() {
  boost::json::array rows;
  for (const Option& option : kOptions) {
    rows.push_back({{"key", option.key},
                    {"values", values_of(option)},
                    {"default", option.fallback},
                    {"meaning", option.meaning}});
  }
  return boost::json::serialize(rows);
}

}  // namespace ironcl::ironwood
