// SPDX-License-Identifier: Apache-2.0
// Reads the built-in table once.
#include <boost/describe.hpp>
#include <boost/json.hpp>
#include <map>

#include "backends/ironwood/plan.h"
#include "ironwood_tuned_table.h"

namespace ironcl::ironwood {
namespace {

/// An entry of the table.
struct TunedProblem {
  std::string tpu;
  std::int64_t n = 0, k = 0, q = 0;
  std::string x;
  bool quantize = false;
  std::map<std::string, std::array<std::int64_t, 3>> batches;  ///< From a batch to its blocks B, O, I.
};
BOOST_DESCRIBE_STRUCT(TunedProblem, (), (tpu, n, k, q, x, quantize, batches))

}  // namespace

std::optional<KernelBlocks> tuned_blocks(const Problem& problem, const Tpu& tpu) {
  // A table that does not parse is a defect of the build, which a test finds.
  static const auto table =
      boost::json::value_to<std::vector<TunedProblem>>(boost::json::parse(kTunedTable).at("entries"));
  // The table was made with e4m3fn; other codes have other rates.
  if (problem.family != Family::block || problem.w() != numerics::DType::e4m3fn ||
      (problem.quantizes_x() && problem.a != numerics::DType::e4m3fn)) {
    return std::nullopt;
  }
  const auto found = std::find_if(table.begin(), table.end(), [&](const TunedProblem& tuned) {
    return tuned.tpu == tpu.key && tuned.n == problem.n && tuned.k == problem.k && tuned.q == problem.q &&
           tuned.x == numerics::name_of(problem.x()) && tuned.quantize == problem.quantizes_x();
  });
  if (found == table.end() || found->batches.empty()) return std::nullopt;
  std::map<std::int64_t, KernelBlocks> batches;
  for (const auto& [batch, blocks] : found->batches) batches[std::stoll(batch)] = {blocks[0], blocks[1], blocks[2]};
  const auto batch = batches.lower_bound(problem.m);
  return batch != batches.end() ? batch->second : std::prev(batch)->second;
}

}  // namespace ironcl::ironwood
