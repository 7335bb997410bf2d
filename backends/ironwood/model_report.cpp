// SPDX-License-Identifier: Apache-2.0
// JSON of a modelled run, and its timeline as Chrome trace events.
#include "backends/ironwood/model_report.h"

#include <boost/describe.hpp>
#include <boost/json.hpp>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/operations.h"

namespace ironcl::ironwood {

BOOST_DESCRIBE_STRUCT(Tpu, (),
                      (key, name, generation, cores_per_chip, mxu_size, mxus, lanes, sublanes, vmem_bytes, hbm_bytes,
                       hbm_bytes_per_s, bf16_flops, int8_ops, fp8_flops, source))
BOOST_DESCRIBE_STRUCT(Assumptions, (),
                      (launch_ns, mxu_efficiency, hbm_efficiency, dma_latency_ns, step_overhead_ns, vpu_ops_per_s,
                       vpu_ops_per_quantised_element, vpu_ops_per_widened_element, vpu_ops_per_stored_element))
BOOST_DESCRIBE_STRUCT(VmemPart, (), (name, slots, rows, cols, element_bytes, bytes))
namespace {

namespace json = boost::json;
using numerics::DType;

json::object assumptions_of(const Machine& machine) {
  Assumptions assume = machine.assume;
  assume.vpu_ops_per_s = machine.vpu_ops_per_s();
  json::object shown = json::value_from(assume).as_object();
  shown["clock_hz"] = machine.clock_hz();
  return shown;
}

json::object vmem_json(const Plan& plan) {
  const VmemUse use = vmem_of(plan);
  const auto fits = [&](std::int64_t limit) {
    return json::object{
        {"limit_bytes", limit}, {"footprint", use.footprint_bytes <= limit}, {"formula", use.formula_bytes <= limit}};
  };
  return {{"formula_bytes", use.formula_bytes},
          {"footprint_bytes", use.footprint_bytes},
          {"limit_bytes", plan.vmem_limit},
          {"against",
           {{"physical", fits(plan.machine.tpu->vmem_bytes)},
            {"upstream_cap", fits(kUpstreamVmemCap)},
            {"default_scoped", fits(kScopedVmemDefault)}}},
          {"parts", json::value_from(use.parts)}};
}

/// Rules of the published stack that this plan would meet there and not here.
json::array notes_of(const Plan& plan) {
  json::array notes;
  const VmemUse use = vmem_of(plan);
  if (use.formula_bytes > plan.vmem_limit) {
    notes.emplace_back(fmt::format(
        "the published formula asks for {} bytes, over the limit of {}: there it is clamped silently; the true "
        "footprint is {}",
        use.formula_bytes, plan.vmem_limit, use.footprint_bytes));
  }
  const auto check = [&](const char* name, const ScaleLayout& layout) {
    const bool rows = layout.block_rows % 8 == 0 || layout.block_rows >= layout.rows;
    const bool cols = layout.block_cols % 128 == 0 || layout.block_cols >= layout.cols;
    if (rows && cols) return;
    notes.emplace_back(fmt::format(
        "{} blocks of {}x{} break Mosaic's rule for the last two dimensions (multiples of 8 and 128, or the "
        "whole array, {}x{}); here each takes whole tiles of VMEM",
        name, layout.block_rows, layout.block_cols, layout.rows, layout.cols));
  };
  if (plan.problem.scaled_x()) check("x_scale", plan.x_scales(std::max<std::int64_t>(plan.problem.rows(), 1)));
  if (plan.problem.scaled_w()) check("w_scale", plan.w_scales());
  return notes;
}

std::string text_of(const numerics::ScaleGrid& grid) {
  return fmt::format("{}x{}", grid.group_rows, grid.group_cols);
}

json::object problem_json(const Problem& p) {
  return {{"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"x_dtype", numerics::name_of(p.x())},
          {"w_dtype", numerics::name_of(p.w())},
          {"out_dtype", numerics::name_of(p.d)},
          {"quantize_activations", p.quantizes_x()},
          {"x_block", p.scaled_x() ? json::value(text_of(p.a_scale.grid)) : json::value(nullptr)},
          {"w_block", p.scaled_w() ? json::value(text_of(p.b_scale.grid)) : json::value(nullptr)},
          {"k_group", p.group},
          {"kernel", name_of(p.family)}};
}

json::object grouped_json(const Problem& p, const PipelineTotals& totals) {
  std::uint64_t weight_bytes = 0;
  for (const WindowTotals& window : totals.windows) {
    if (window.name == "w" || window.name == "w_scale") weight_bytes += window.bytes;
  }
  const VisitTotals& visits = totals.visits;
  return {{"grouping", p.grouping == backend::Grouping::masked ? "masked" : "contiguous"},
          {"matrices", p.matrices},
          {"matrices_with_rows", visits.matrices},
          {"visits", visits.visits},
          {"rows", visits.rows},
          {"rows_moved", visits.rows_moved},
          {"rows_multiplied", visits.rows_multiplied},
          {"weight_bytes", weight_bytes}};
}

/// Copies in first, then the units, then copies out: the way of the data.
int rank_of(const std::string& track) {
  if (track.rfind("DMA in", 0) == 0) return 0;
  return track == "MXU" ? 1 : track == "VPU" ? 2 : 3;
}

}  // namespace

json::object report_core(const Machine& machine, DType left, DType right, double flops, const CoreTotals& core) {
  Machine peak = machine;
  peak.assume.mxu_efficiency = 1;
  const DType type = mxu_type(peak, left, right);  // a TPU without an int8 rate multiplies int8 as bf16
  const double peak_flops = peak.rows_per_s(type) * 2.0 * peak.tpu->mxu_size * peak.tpu->mxu_size;
  return {{"time_kind", "modelled"},
          {"time_us", core.end_ns * 1e-3},
          {"bound", core.transfer_ns > core.compute_ns ? "memory" : "compute"},
          {"hbm_bytes", core.bytes_in + core.bytes_out},
          {"mxu_utilisation", flops / peak_flops / (core.end_ns * 1e-9)},
          {"busy_us",
           {{"mxu", core.mxu_ns * 1e-3},
            {"vpu", core.vpu_ns * 1e-3},
            {"compute", core.compute_ns * 1e-3},
            {"hbm", core.transfer_ns * 1e-3}}}};
}

json::object report_model(const Plan& plan) {
  const Problem& p = plan.problem;
  const std::int64_t rows = std::max<std::int64_t>(p.rows(), 1);
  const RunTotals totals = run_program(plan, describe_operands(plan, rows), nullptr, nullptr);
  const VisitTotals& visits = totals.copies.visits;
  const Grid blocks = plan.grid(rows);
  const Grid grid = p.grouped() ? Grid{blocks[1], visits.visits, blocks[2]} : blocks;
  const CoreTotals& core = totals.core;
  json::object fetches, writes;
  for (const char* name : {"x", "w", "x_scale", "w_scale"}) fetches[name] = 0;
  for (const WindowTotals& window : totals.copies.windows) {
    (window.output ? writes : fetches)[window.name] = window.copies;
  }
  const double hbm_bytes = static_cast<double>(core.bytes_in + core.bytes_out);
  const double flops = 2.0 * (p.grouped() ? visits.rows : p.m) * p.n * p.k;

  json::object report = report_core(plan.machine, p.a, p.w(), flops, core);
  report["compute_us"] = core.mxu_ns * plan.machine.assume.mxu_efficiency * 1e-3;
  report["hbm_us"] = hbm_bytes / plan.machine.tpu->hbm_bytes_per_s * 1e6;
  report["steps"] = totals.copies.steps;
  report["fetches"] = std::move(fetches);
  report["writes"] = std::move(writes);
  report["vmem"] = vmem_json(plan);
  report["tpu"] = plan.machine.tpu->key;
  report["tpu_name"] = plan.machine.tpu->name;
  report["problem"] = problem_json(p);
  report["kernel_blocks"] = {plan.blocks.b, plan.blocks.o, plan.blocks.i};
  report["blocks_from"] = plan.source;
  report["grid"] = {grid[0], grid[1], grid[2]};
  if (p.grouped()) report["grouped"] = grouped_json(p, totals.copies);
  report["mode"] = name_of(plan.mode);
  report["program"] = name_of(plan.program);
  report["buffers"] = plan.buffers;
  report["w_buffers"] = plan.w_buffers;
  report["save_x_q"] = plan.save_x_q;
  report["save_acc"] = plan.save_acc;
  report["assumptions"] = assumptions_of(plan.machine);
  report["notes"] = notes_of(plan);
  return report;
}

json::object report_machines() {
  return {
      {"unit", "one TensorCore"}, {"tpus", json::value_from(all_tpus())}, {"assumptions", assumptions_of(Machine{})}};
}

json::object chrome_trace(const Timeline& timeline, const Machine& machine, const std::string& plan) {
  std::vector<int> order(timeline.tracks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [&](int track) { return rank_of(timeline.tracks[static_cast<std::size_t>(track)]); });
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);

  json::array events;
  events.push_back({{"ph", "M"},
                    {"pid", 0},
                    {"name", "process_name"},
                    {"args", {{"name", fmt::format("{} TensorCore, modelled", machine.tpu->name)}}}});
  const auto say_of_thread = [&](int thread, const char* name, json::object args) {
    events.push_back({{"ph", "M"}, {"pid", 0}, {"tid", thread}, {"name", name}, {"args", std::move(args)}});
  };
  for (std::size_t i = 0; i < timeline.tracks.size(); ++i) {
    say_of_thread(place[i], "thread_name", {{"name", timeline.tracks[i]}});
    say_of_thread(place[i], "thread_sort_index", {{"sort_index", place[i]}});
  }
  for (const TimelineSpan& span : timeline.spans) {
    json::object args{{"step", span.step}};
    if (span.bytes != 0) args["bytes"] = span.bytes;
    events.push_back({{"ph", "X"},
                      {"pid", 0},
                      {"tid", place[static_cast<std::size_t>(span.track)]},
                      {"name", span.label},
                      {"ts", span.start_ns * 1e-3},
                      {"dur", span.duration_ns * 1e-3},
                      {"args", std::move(args)}});
  }
  return {{"displayTimeUnit", "ns"},
          {"otherData", {{"time_kind", "modelled"}, {"plan", plan}, {"spans_left_out", timeline.dropped}}},
          {"traceEvents", std::move(events)}};
}

json::object trace_of(const Plan& plan, std::size_t spans) {
  Timeline timeline;
  timeline.capacity = spans;
  const std::int64_t m = std::max<std::int64_t>(plan.problem.rows(), 1);
  run_program(plan, describe_operands(plan, m), nullptr, &timeline);
  return chrome_trace(timeline, plan.machine, describe(plan));
}

}  // namespace ironcl::ironwood
