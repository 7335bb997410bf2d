// SPDX-License-Identifier: Apache-2.0
// Layers by name, and those that are left out by what is wrong with them.
#include "host/layer/selection.h"

#include <fnmatch.h>

#include <boost/algorithm/string/replace.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <boost/json.hpp>
#include <boost/regex.hpp>

namespace ironcl::layer {

using checkpoint::Checkpoint;
using checkpoint::LinearLayer;

Selection select_layers(const Checkpoint& checkpoint, const std::string& glob) {
  checkpoint.check_any();
  if (glob.find_first_of("*?[") == std::string::npos) return {{&checkpoint.layer(glob)}, {}};
  Selection selection;
  for (const LinearLayer* layer : checkpoint.match(glob)) {
    if (layer->problem)
      selection.left_out.push_back(left_out(*layer, *layer->problem));
    else
      selection.layers.push_back(layer);
  }
  if (!selection.layers.empty()) return selection;
  if (selection.left_out.size() == 1) checkpoint.layer(selection.left_out.front().layer);
  throw none_usable(checkpoint.path(), selection.left_out);
}

std::vector<const checkpoint::ExpertsLayer*> match_experts(const Checkpoint& checkpoint, const std::string& glob) {
  std::vector<const checkpoint::ExpertsLayer*> found;
  for (const checkpoint::ExpertsLayer& layer : checkpoint.experts())
    if (layer.name == glob || fnmatch(glob.c_str(), layer.name.c_str(), 0) == 0) found.push_back(&layer);
  return found;
}

LeftOut left_out(const LinearLayer& layer, const checkpoint::Error& error) {
  std::string reason = error.message();
  if (!error.tensor().empty()) reason = fmt::format("'{}' {}", error.tensor(), reason);
  boost::replace_all(reason, layer.name, pattern_of(layer.name));
  return {layer.name, std::move(reason)};
}

std::string pattern_of(std::string_view layer) {
  static const boost::regex kWholePart("(?<![^.])[0-9]+(?![^.])");  // between dots or ends
  return boost::regex_replace(std::string(layer), kWholePart, "*");
}

std::vector<Complaint> fold(const std::vector<LeftOut>& left_out) {
  static const boost::regex kNumber("[0-9]+");  // two complaints may differ in them
  std::vector<Complaint> complaints;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (const LeftOut& one : left_out) {
    const std::string pattern = pattern_of(one.layer);
    const auto [at, is_new] =
        known.emplace(std::pair{pattern, boost::regex_replace(one.reason, kNumber, "#")}, complaints.size());
    if (is_new) complaints.push_back({0, pattern, one.reason, one.layer});
    ++complaints[at->second].count;
  }
  for (Complaint& complaint : complaints)
    if (complaint.count == 1) complaint.layers = complaint.first;
  return complaints;
}

std::string to_text(const std::vector<Complaint>& complaints, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, complaints.size()); ++i) {
    const Complaint& one = complaints[i];
    text += one.count == 1 ? fmt::format("{}: {}\n", one.layers, one.reason)
                           : fmt::format("{} layers like {}: {}\n", one.count, one.layers, one.reason);
  }
  if (complaints.size() <= most) return text;
  std::size_t layers = 0;
  for (std::size_t i = most; i < complaints.size(); ++i) layers += complaints[i].count;
  return text + fmt::format("and {} more layers for {} more reasons\n", layers, complaints.size() - most);
}

boost::json::array to_json(const std::vector<Complaint>& complaints) {
  boost::json::array all;
  for (const Complaint& one : complaints)
    all.push_back({{"count", one.count}, {"layers", one.layers}, {"first", one.first}, {"reason", one.reason}});
  return all;
}

checkpoint::Error none_usable(const std::filesystem::path& path, const std::vector<LeftOut>& left_out) {
  std::string complaints = to_text(fold(left_out));
  boost::trim_right(complaints);
  return {checkpoint::ErrorKind::unsupported,
          path,
          {},
          fmt::format("none of {} layers can be used\n{}", left_out.size(), complaints)};
}

}  // namespace ironcl::layer
