// SPDX-License-Identifier: Apache-2.0
// Which layers of a checkpoint are run; of the others, thousands that lack the same thing make one line.
#pragma once

#include <boost/json/array.hpp>

#include "host/checkpoint/model.h"

namespace ironcl::layer {

/// A layer that is not run, and why.
struct LeftOut {
  std::string layer;
  std::string reason;  ///< A sentence without the layer's name where that can be.
};

/// Layers of one pattern that are left out for one reason.
struct Complaint {
  std::size_t count = 0;
  std::string layers;  ///< "model.layers.*.mlp.experts.*.up_proj"; the name where it is one layer.
  std::string reason;  ///< The first layer's, its numbers replaced like those of its name.
  std::string first;   ///< The name of the first.
};

/// Records that `layer` is left out because of `error`; parts of names that differ between layers become a pattern.
LeftOut left_out(const checkpoint::LinearLayer& layer, const checkpoint::Error& error);

struct Selection {
  std::vector<const checkpoint::LinearLayer*> layers;  ///< Usable; they live in the checkpoint.
  std::vector<LeftOut> left_out;                       ///< Match too, and are not usable.
};

/// The layers of `checkpoint` that a glob of fnmatch(3) names. Throws checkpoint::Error: not_found (with names that
/// are near); where none that matches is usable, all complaints in one error.
Selection select_layers(const checkpoint::Checkpoint& checkpoint, const std::string& glob);

/// The layers of experts that a glob names, whole ones and broken ones.
std::vector<const checkpoint::ExpertsLayer*> match_experts(const checkpoint::Checkpoint& checkpoint,
                                                           const std::string& glob);

/// "model.layers.*.mlp.down_proj" of "model.layers.17.mlp.down_proj": parts that are numbers become *.
std::string pattern_of(std::string_view layer);

/// What is left out, by pattern and reason, in the order of the first of each.
std::vector<Complaint> fold(const std::vector<LeftOut>& left_out);

/// "12 layers like model.layers.*.mlp.experts.*: scale missing", a line each, at most `most` and one that counts the
/// rest.
std::string to_text(const std::vector<Complaint>& complaints, std::size_t most = 20);

/// The same for programs: [{"count", "layers" (a pattern), "first" (a name), "reason"}, ...]
boost::json::array to_json(const std::vector<Complaint>& complaints);

/// What to throw where no layer is usable: the complaints, a line each.
checkpoint::Error none_usable(const std::filesystem::path& path, const std::vector<LeftOut>& left_out);

}  // namespace ironcl::layer
