// SPDX-License-Identifier: Apache-2.0
// The search space is every block size that splits a dimension into equal parts, and powers of two.
#include "backends/ironwood/search.h"

#include <boost/json.hpp>
#include <set>
#include <tuple>

#include "backends/ironwood/cost.h"
#include "backends/ironwood/model_report.h"
#include "backends/ironwood/program.h"

namespace ironcl::ironwood {
namespace {

constexpr std::int64_t kLargestBlock = 8192;
constexpr std::int64_t kMostParts = 12;
constexpr std::size_t kStepped = 24;          // candidates whose schedule is stepped through
constexpr std::int64_t kMostSteps = 100'000;  // longer grids keep their closed form

std::vector<std::int64_t> sizes_of(std::int64_t size, std::int64_t quantum) {
  std::set<std::int64_t> sizes;
  const std::int64_t covering = numerics::round_up(std::max<std::int64_t>(size, 1), quantum);
  for (std::int64_t block = quantum; block <= std::min(covering, kLargestBlock); block *= 2) sizes.insert(block);
  for (std::int64_t parts = 1; parts <= kMostParts; ++parts) {
    const std::int64_t block = numerics::round_up(numerics::ceil_div(covering, parts), quantum);
    if (block <= kLargestBlock) sizes.insert(block);
  }
  return {sizes.begin(), sizes.end()};
}

auto key_of(const Candidate& c) {
  return std::tuple(c.time_ns, c.footprint_bytes, c.plan.blocks.b, c.plan.blocks.o, c.plan.blocks.i);
}

void step_through(Candidate& candidate) {
  const std::int64_t m = std::max<std::int64_t>(candidate.plan.problem.m, 1);
  const Grid grid = candidate.plan.grid(m);
  if (grid[0] * grid[1] * grid[2] > kMostSteps) return;
  candidate.time_ns = run_program(candidate.plan, describe_operands(candidate.plan, m), nullptr, nullptr).core.end_ns;
  candidate.stepped = true;
}

/// Keeps what no smaller candidate beats; ascending footprint, descending time.
std::vector<Candidate> frontier_of(std::vector<Candidate> candidates) {
  std::ranges::sort(candidates, {}, [](const Candidate& c) { return std::tuple(c.footprint_bytes, key_of(c)); });
  std::vector<Candidate> frontier;
  for (Candidate& candidate : candidates) {
    if (frontier.empty() || candidate.time_ns < frontier.back().time_ns) frontier.push_back(std::move(candidate));
  }
  return frontier;
}

}  // namespace

std::optional<Refusal> search_blocks(const Problem& problem, const PlanRequest& request, SearchResult* result) {
  PlanRequest base = request;
  base.mode.reset();
  // By the closed form.
  const auto examine = [&](const KernelBlocks& blocks, Candidate& candidate) {
    base.blocks = blocks;
    auto refusal = make_plan(problem, base, &candidate.plan);
    if (refusal) return refusal;
    candidate.footprint_bytes = vmem_of(candidate.plan).footprint_bytes;
    candidate.time_ns = estimate_ns(candidate.plan, problem.m);
    return refusal;
  };
  Candidate smallest;
  if (auto refusal = examine(smallest_blocks(problem, base.machine), smallest)) return refusal;
  const KernelBlocks quantum = smallest.plan.blocks;

  *result = {};
  std::vector<Candidate> candidates;
  for (const std::int64_t b : sizes_of(problem.m, quantum.b)) {
    for (const std::int64_t o : sizes_of(problem.n, quantum.o)) {
      for (const std::int64_t i : sizes_of(problem.k, quantum.i)) {
        Candidate candidate;
        if (const auto refusal = examine({b, o, i}, candidate)) {
          result->over_limit += refusal->reason == backend::Reason::device_memory ? 1 : 0;
        } else {
          candidates.push_back(std::move(candidate));
        }
      }
    }
  }
  result->candidates = static_cast<std::int64_t>(candidates.size());

  // The closed form averages over steps; those that are nearly as good are stepped through.
  std::ranges::sort(candidates, {}, key_of);
  std::vector<Candidate> frontier = frontier_of(candidates);
  if (candidates.size() > kStepped) candidates.resize(kStepped);
  std::move(frontier.begin(), frontier.end(), std::back_inserter(candidates));
  for (Candidate& candidate : candidates) step_through(candidate);
  result->frontier = frontier_of(std::move(candidates));

  if (!examine(aligned_blocks(problem, base.machine), result->aligned)) step_through(result->aligned);
  return std::nullopt;
}

boost::json::object report_search(const SearchResult& result) {
  namespace json = boost::json;
  const auto row = [](const Candidate& c) {
    return json::object{{"kernel_blocks", {c.plan.blocks.b, c.plan.blocks.o, c.plan.blocks.i}},
                        {"time_us", c.time_ns * 1e-3},
                        {"footprint_bytes", c.footprint_bytes},
                        {"stepped", c.stepped}};
  };
  json::array frontier;
  for (const Candidate& candidate : result.frontier) frontier.push_back(row(candidate));
  json::object report{
      {"time_kind", "modelled"}, {"candidates", result.candidates}, {"over_limit", result.over_limit}};
  report["best"] = report_model(result.best().plan);
  report["frontier"] = std::move(frontier);
  if (result.aligned.time_ns > 0) {
    report["aligned"] = row(result.aligned);
    report["speedup_over_aligned"] = result.aligned.time_ns / result.best().time_ns;
  }
  return report;
}

}  // namespace ironcl::ironwood
