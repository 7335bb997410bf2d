// SPDX-License-Identifier: Apache-2.0
#include "host/tuning/product.h"

#include <cmath>

namespace ironcl::tuning {
std::vector<Product> products_of(const layer::ExpertsForm& form, std::int64_t tokens) {
  std::vector<Product> products;
  for (const layer::Operation& operation : layer::graph_of(form, {.tokens = tokens}).operations) {
    const auto* op = std::get_if<layer::ProductOp>(&operation.what);
    // Up by itself is tuned as gate is.
    if (op == nullptr || op->problem.grouping == Grouping::none || op->matrix == layer::Projection::up) continue;
    products.push_back({.problem = op->problem,
                        .entry = tokens,
                        .experts_width = form.experts.width,
                        .down = op->matrix == layer::Projection::down});
  }
  return products;
}

bool of_same_weights(const Product& a, const Product& b) {
  report::Problem one = a.problem, other = b.problem;
  one.m = other.m = 0;
  return report::to_line(one) == report::to_line(other);
}

double share_of(const report::Problem& problem) {
  constexpr double kFlopsAsLongAsABuild = 5e10;
  return 1 + flops_of(problem) / kFlopsAsLongAsABuild;
}

tuned::Key key_of(const Product& product, const Device& device, const Space& space) {
  const report::Problem& problem = product.problem;
  const std::string name = space.devices.empty() ? tuned::sanitize(device.name()) : space.devices.front();
  const std::string dtype = space.dtype.empty() ? tuned::Key().dtype : space.dtype;
  const numerics::ScaleGrid& grid = problem.b_scale.grid;
  const bool of_experts = product.experts_width != 0;
  return {of_experts ? product.experts_width : problem.b_rows(),
          of_experts ? 0 : problem.k,
          name,
          dtype,
          grid.group_rows,
          grid.group_cols,
          of_experts ? layer::matrices_of(problem) : 0,
          product.down};
}

boost::json::object member_of(const Product& product, const Device& device, const Space& space, const Found& found) {
  const report::Problem& problem = product.problem;
  boost::json::object member{{"variant", found.winner.variant},
                             {"options", options_of(found.winner)},
                             {"time_ns", std::llround(found.time.median)},
                             {"driver", device.props().driver},
                             {"build", device.api().build_id},
                             {"accuracy_class", numerics::name_of(found.winner.accuracy)},
                             {"checked", true},
                             {"problem", report::to_line(problem)}};
  if (product.experts_width != 0) {
    member["n"] = problem.b_rows();
    member["k"] = problem.k;
    member["rows_per_expert"] = tuned::rows_per_active_expert(problem.m, 1, layer::matrices_of(problem));
  }
  if (found.rule_of_thumb_time.count != 0) member["rule_of_thumb_ns"] = std::llround(found.rule_of_thumb_time.median);
  if (!found.beats_rule_of_thumb) member["is_rule_of_thumb"] = true;
  if (space.compute_units != 0) member["compute_units"] = space.compute_units;
  return member;
}

Configuration configuration_of(const boost::json::object& member) {
  tuned::Entry entry = tuned::entry_of({{"ironcl", member}});
  Configuration configuration;
  configuration.variant = std::move(entry.variant);
  configuration.options = std::move(entry.options);
  return configuration;
}

const boost::json::object* known(const tuned::Table& table, const Product& product, const Device& device) {
  const auto entry = table.entries().find(product.entry);
  if (entry == table.entries().end()) return nullptr;
  const auto* member = entry->second.if_contains("ironcl");
  if (member == nullptr || !member->is_object()) return nullptr;
  const boost::json::object& ours = member->as_object();
  const auto is = [&](const char* name, const boost::json::value& value) {
    const auto* found = ours.if_contains(name);
    return found != nullptr && *found == value;
  };
  const bool same = is("driver", boost::json::string(device.props().driver)) &&
                    is("build", boost::json::string(device.api().build_id)) && is("checked", true) &&
                    is("problem", boost::json::string(report::to_line(product.problem)));
  return same ? &ours : nullptr;
}

}  // namespace ironcl::tuning
