// SPDX-License-Identifier: Apache-2.0
// Reads the built-in table once.
#include "backends/ironwood/plan.h"

#include <boost/json.hpp>
#include <map>
#include <string>
#include <tuple>

#include "ironwood_tuned_table.h"

namespace ironcl::ironwood {
namespace {

namespace json = boost::json;

using Key = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::string, bool>;
using Table = std::map<Key, std::map<std::int64_t, KernelBlocks>>;

/// A table that does not parse is a defect of the build; a test reads it, and a plan then falls back to aligned.
Table read_table(std::string_view text) {
  Table table;
  json::error_code error;
  const json::value root = json::parse(json::string_view(text.data(), text.size()), error);
  if (error || !root.is_object()) return table;
  for (const json::value& item : root.at("entries").as_array()) {
    const json::object& entry = item.as_object();
    const auto number = [&](const char* name) { return entry.at(name).to_number<std::int64_t>(); };
    const auto text_of = [&](const char* name) { return std::string(entry.at(name).as_string()); };
    auto& batches =
        table[{text_of("tpu"), number("n"), number("k"), number("q"), text_of("x"), entry.at("quantize").as_bool()}];
    for (const auto& [batch, blocks] : entry.at("batches").as_object()) {
      const json::array& parts = blocks.as_array();
      batches[std::stoll(std::string(batch))] = {parts.at(0).to_number<std::int64_t>(),
                                                 parts.at(1).to_number<std::int64_t>(),
                                                 parts.at(2).to_number<std::int64_t>()};
    }
  }
  return table;
}

}  // namespace

std::optional<KernelBlocks> tuned_blocks(const Problem& problem, const Tpu& tpu) {
  static const Table table = read_table(kTunedTable);
  // The table was made with e4m3fn; other codes have other rates.
  if (problem.family != Family::block || problem.w() != numerics::DType::e4m3fn ||
      (problem.quantizes_x() && problem.a != numerics::DType::e4m3fn)) {
    return std::nullopt;
  }
  const auto found = table.find({std::string(tpu.key), problem.n, problem.k, problem.q,
                                 std::string(numerics::name_of(problem.x())), problem.quantizes_x()});
  if (found == table.end() || found->second.empty()) return std::nullopt;
  const auto batch = found->second.lower_bound(problem.m);
  return batch != found->second.end() ? batch->second : std::prev(batch)->second;
}

}  // namespace ironcl::ironwood
