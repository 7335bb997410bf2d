// SPDX-License-Identifier: Apache-2.0
// A product to be tuned, and the entry of a tuned table that its configuration goes into. Next door: search.h (finds
// the configuration), tables.h (the files), winners.h (where the next search starts).
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "host/layer/graph.h"
#include "host/tuning/search.h"
#include "host/tuning/tables.h"

namespace ironcl::tuning {

struct Product {
  report::Problem problem;
  std::int64_t entry = 0;          ///< The entry of the table: rows, of a layer of experts tokens.
  std::int64_t experts_width = 0;  ///< Of a layer of experts, whose tables are named by it; else 0.
  bool down = false;
};

/// The two products of a layer of experts for some tokens, as the layer enqueues them: with codes of A, in f32.
std::vector<Product> products_of(const layer::ExpertsForm& form, std::int64_t tokens);

/// Whether two products differ in nothing but their rows.
bool of_same_weights(const Product& a, const Product& b);

/// How much of the time a problem is given, relative to others: building its kernels, and running them.
double share_of(const report::Problem& problem);

/// The product's table in a folder, and its entries merged over that: tables.h, with the names by which `space` says
/// that tables speak for the device.
std::optional<tuned::Table> read_table(const std::filesystem::path& folder, const Product& product,
                                       const Device& device, const Space& space);
void merge_into(const std::filesystem::path& folder, const Product& product, const Device& device, const Space& space,
                const tuned::Table& entries);

/// What an entry keeps of a search that found something: its member "ironcl".
boost::json::object member_of(const Product& product, const Device& device, const Space& space, const Found& found);

/// That member of the table's entry, where it was found with this driver and build for the same problem; else null.
/// Lives as long as the table.
const boost::json::object* known(const tuned::Table& table, const Product& product, const Device& device);

}  // namespace ironcl::tuning
