// SPDX-License-Identifier: Apache-2.0
// An open checkpoint: its layers by name.
#include "host/checkpoint/model.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include "host/checkpoint/find_experts.h"
#include "host/checkpoint/folder.h"
#include "host/checkpoint/layers.h"
#include "host/checkpoint/names.h"

namespace ironcl::checkpoint {
namespace {

template <class Layer>
std::string names_of(const std::vector<Layer>& layers) {
  std::vector<std::string> names;
  names.reserve(layers.size());
  for (const Layer& layer : layers) names.push_back(layer.name);
  return list_names(names);
}

/// What is wrong with the routing is no business of layers that are no experts.
std::optional<Routing> routing_of(const Folder& folder) {
  if (folder.config.empty()) return std::nullopt;
  try {
    return read_routing(folder.config);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
    Routing wrong;
    wrong.unsupported = error.message();
    return wrong;
  }
}

}  // namespace

std::string_view name_of(BlockSource source) noexcept {
  switch (source) {
    case BlockSource::config:
      return "quantization_config";
    case BlockSource::metadata:
      return "metadata";
    case BlockSource::caller:
      return "--block";
    case BlockSource::shape:
      return "shape";
  }
  return "unknown";
}

std::string LinearLayer::format() const {
  const bool mx = weight_grid_known && weight_grid == ScaleGrid{1, 32} && scale.dtype == DType::e8m0;
  switch (weight.dtype) {
    case DType::e4m3fn:
      return mx ? "MXFP8" : "FP8 e4m3";
    case DType::e5m2:
      return mx ? "MXFP8 e5m2" : "FP8 e5m2";
    case DType::i8:
      return "INT8";
    default:
      return {};
  }
}

void LinearLayer::check() const {
  if (problem) throw *problem;
}

Checkpoint Checkpoint::open(const std::filesystem::path& path, const OpenOptions& options) {
  Folder folder = open_folder(path);
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  for (const std::filesystem::path& said : {folder.config, folder.quanto_map, folder.modelopt_config, folder.index})
    if (!said.empty()) checkpoint.sources_.push_back(said);
  for (const SafetensorsFile& file : folder.files) checkpoint.sources_.push_back(file.path());
  const std::optional<Routing> routing = routing_of(folder);
  if (!folder.config.empty()) checkpoint.config_ = read_quantization_config(folder.config);
  if (checkpoint.config_.method.empty() && !folder.modelopt_config.empty()) {
    checkpoint.config_ = read_modelopt_config(folder.modelopt_config);
    folder.config = folder.modelopt_config;
  }
  // The scales are read, and the weights between them are not.
  for (const SafetensorsFile& file : folder.files) file.read_in_pieces(true);
  LayerList list =
      find_layers(folder, checkpoint.config_, options, routing ? routing->stacked : StackedForm::unknown);
  checkpoint.layers_ = std::move(list.layers);
  checkpoint.unquantized_ = std::move(list.unquantized);
  checkpoint.experts_ = find_experts(folder, checkpoint.layers_, routing);
  checkpoint.files_ = std::move(folder.files);
  for (const SafetensorsFile& file : checkpoint.files_) file.read_in_pieces(false);
  return checkpoint;
}

std::vector<const LinearLayer*> Checkpoint::match(const std::string& glob) const {
  std::vector<const LinearLayer*> found;
  for (const LinearLayer& layer : layers_)
    if (fnmatch(glob.c_str(), layer.name.c_str(), 0) == 0) found.push_back(&layer);
  if (found.empty())
    throw Error(
        ErrorKind::not_found, path_, "",
        fmt::format("no quantised layer matches '{}'; there are {}: {}{}", glob, layers_.size(), names_of(layers_),
                    experts_.empty() ? "" : fmt::format("; layers of experts: {}", names_of(experts_))));
  return found;
}

const LinearLayer& Checkpoint::layer(std::string_view name) const {
  for (const LinearLayer& candidate : layers_) {
    if (candidate.name != name) continue;
    candidate.check();
    return candidate;
  }
  throw Error(ErrorKind::not_found, path_, "",
              fmt::format("has no quantised layer '{}'; it has {}: {}", name, layers_.size(), names_of(layers_)));
}

}  // namespace ironcl::checkpoint
