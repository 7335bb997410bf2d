// SPDX-License-Identifier: Apache-2.0
// Timeline to Chrome trace events.
#include "backends/ironwood/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <numeric>
#include <vector>

#include "backends/ironwood/gemm.h"
#include "backends/ironwood/program.h"

namespace ironcl::ironwood {
namespace {

namespace json = boost::json;

/// Copies in first, then the units, then copies out: the way of the data.
int rank_of(const std::string& track) {
  if (track.rfind("DMA in", 0) == 0) return 0;
  return track == "MXU" ? 1 : track == "VPU" ? 2 : 3;
}

}  // namespace

json::object chrome_trace(const Timeline& timeline, const Machine& machine, const std::string& plan) {
  std::vector<int> order(timeline.tracks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return rank_of(timeline.tracks[static_cast<std::size_t>(a)]) <
           rank_of(timeline.tracks[static_cast<std::size_t>(b)]);
  });
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);

  json::array events;
  events.push_back({{"ph", "M"},
                    {"pid", 0},
                    {"name", "process_name"},
                    {"args", {{"name", fmt::format("{} TensorCore, modelled", machine.tpu->name)}}}});
  for (std::size_t i = 0; i < timeline.tracks.size(); ++i) {
    events.push_back({{"ph", "M"},
                      {"pid", 0},
                      {"tid", place[i]},
                      {"name", "thread_name"},
                      {"args", {{"name", timeline.tracks[i]}}}});
    events.push_back({{"ph", "M"},
                      {"pid", 0},
                      {"tid", place[i]},
                      {"name", "thread_sort_index"},
                      {"args", {{"sort_index", place[i]}}}});
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
  run_program(plan, m, describe_operands(plan, m), nullptr, &timeline);
  return chrome_trace(timeline, plan.machine, describe(plan));
}

}  // namespace ironcl::ironwood
