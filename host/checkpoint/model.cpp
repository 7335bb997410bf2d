// SPDX-License-Identifier: Apache-2.0
// An open checkpoint: its layers by name.
#include "host/checkpoint/model.h"

#include <fnmatch.h>

#include "backends/words.h"
#include "host/checkpoint/layer_builder.h"
#include "host/report/suggest.h"

namespace ironcl::checkpoint {
namespace {

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

/// What the first file that says something says about quantisation.
QuantizationConfig config_of(const Folder& folder) {
  QuantizationConfig config;
  for (const std::filesystem::path& file : folder.configs) {
    const bool lists_layers = config.mixed && file.filename() == "hf_quant_config.json";
    if (!config.method.empty() && !lists_layers) continue;
    QuantizationConfig said = read_quantization_config(file);
    if (!lists_layers)
      config = std::move(said);
    else if (!said.groups.empty())
      config.groups = std::move(said.groups);
  }
  return config;
}

/// A way of quantising is named, and no layer is of it. A lone file may be the shard without one.
std::optional<Error> nothing_found(const QuantizationConfig& config, const Folder& folder, const LayerList& list) {
  if (config.method.empty() || folder.lone || !list.layers.empty()) return std::nullopt;
  const auto odd = std::ranges::find_if(list.unquantized, [](const Unquantized& rest) {
    return rest.shape.size() >= 2 && !numerics::is_float(rest.dtype);
  });
  const bool codes = odd != list.unquantized.end();
  const bool refused = !config.groups.empty() && !config.groups.front().unsupported.empty();
  return Error(ErrorKind::unsupported, config.file, codes ? odd->name : "",
               "{}no quantised layer is found, though {} names quant_method '{}'; {}",
               codes ? fmt::format("is {}, and ", odd->dtype_name) : "", config.file.filename().string(),
               config.method,
               refused ? "the model " + config.groups.front().unsupported
                       : std::string("fetch the quantised weights, or drop that member where they were dequantised"));
}

}  // namespace

std::string_view name_of(BlockSource source) noexcept {
  constexpr std::array<std::string_view, 4> kNames = {"quantization_config", "metadata", "--block", "shape"};
  return kNames.at(static_cast<std::size_t>(source));
}

std::string LinearLayer::format() const {
  const bool mx = weight_grid_known && weight_grid == ScaleGrid{1, 32} && scale.dtype == DType::e8m0;
  switch (weight.dtype) {
    case DType::e4m3fn:
      return mx ? "MXFP8" : cast ? "FP8 e4m3 (cast)" : "FP8 e4m3";
    case DType::e5m2:
      return mx ? "MXFP8 e5m2" : cast ? "FP8 e5m2 (cast)" : "FP8 e5m2";
    case DType::i8:
      return zero_points ? "INT8 (asymmetric)" : "INT8";
    case DType::e2m1:
      return global ? "NVFP4" : "MXFP4";
    default:
      return {};
  }
}

Checkpoint Checkpoint::open(const std::filesystem::path& path, const OpenOptions& options) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  const Folder& folder = checkpoint.folder_ = open_folder(path);
  const std::optional<Routing> routing = routing_of(folder);
  checkpoint.config_ = config_of(folder);
  // The scales are read, and the weights between them are not.
  for (const SafetensorsFile& file : folder.files) file.read_in_pieces(true);
  LayerList list =
      find_layers(folder, checkpoint.config_, options, routing ? routing->stacked : StackedForm::unknown);
  checkpoint.problem_ = nothing_found(checkpoint.config_, folder, list);
  checkpoint.layers_ = std::move(list.layers);
  checkpoint.unquantized_ = std::move(list.unquantized);
  checkpoint.experts_ = find_experts(folder, checkpoint.layers_, routing);
  for (const SafetensorsFile& file : folder.files) file.read_in_pieces(false);
  return checkpoint;
}

std::vector<std::filesystem::path> Checkpoint::sources() const {
  std::vector<std::filesystem::path> all = folder_.configs;
  for (const std::filesystem::path& said : {folder_.quanto_map, folder_.index})
    if (!said.empty()) all.push_back(said);
  for (const SafetensorsFile& file : folder_.files) all.push_back(file.path());
  return all;
}

std::vector<const LinearLayer*> Checkpoint::match(const std::string& glob) const {
  std::vector<const LinearLayer*> found;
  for (const LinearLayer& layer : layers_)
    if (fnmatch(glob.c_str(), layer.name.c_str(), 0) == 0) found.push_back(&layer);
  if (found.empty())
    throw Error(
        ErrorKind::not_found, path_, "", "no quantised layer matches '{}'; there are {}: {}{}", glob, layers_.size(),
        list_names(words::each(layers_, &LinearLayer::name)),
        experts_.empty() ? "" : "; layers of experts: " + list_names(words::each(experts_, &ExpertsLayer::name)));
  return found;
}

const LinearLayer& Checkpoint::layer(const std::string& name) const {
  const LinearLayer& found = layer_named(name);
  found.check();
  return found;
}

void Checkpoint::check_any() const {
  if (!layers_.empty()) return;
  if (problem_) throw Error(*problem_);
  throw Error(ErrorKind::not_found, path_, "",
              "there is no quantised linear layer; `ironcl inspect` lists what is there");
}

template <class Layer>
const Layer& Checkpoint::named(const std::vector<Layer>& layers, const std::string& name) const {
  check_any();
  const auto found = std::ranges::find(layers, name, &Layer::name);
  if (found != layers.end()) return *found;
  std::vector<std::string> known, near;
  for (const LinearLayer& layer : layers_) known.push_back(layer.name);
  for (const ExpertsLayer& layer : experts_) known.push_back(layer.name);
  for (const std::string& other : known)
    if (!name.empty() && near.size() < 3 && other.find(name) != std::string::npos) near.push_back(other);
  if (near.empty()) near = report::near_names(name, known);
  const std::string hint = near.empty() ? fmt::format("the first of {} is '{}'", known.size(), known.front())
                                        : fmt::format("did you mean '{}'?", fmt::join(near, "' or '"));
  throw Error(ErrorKind::not_found, path_, "", "has no quantised layer '{}'; {} (`ironcl inspect` lists them)", name,
              hint);
}

template const LinearLayer& Checkpoint::named(const std::vector<LinearLayer>&, const std::string&) const;
template const ExpertsLayer& Checkpoint::named(const std::vector<ExpertsLayer>&, const std::string&) const;

}  // namespace ironcl::checkpoint
