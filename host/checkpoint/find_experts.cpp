// SPDX-License-Identifier: Apache-2.0
// Layers of experts out of single matrices.
#include "host/checkpoint/layer_builder.h"

#include "backends/words.h"
#include "host/checkpoint/block.h"

namespace ironcl::checkpoint {
namespace {

/// What a matrix is to its expert.
enum class Role { gate, up, gate_up, down };

constexpr std::array kRoles = {
    std::pair{std::string_view("gate_proj"), Role::gate}, std::pair{std::string_view("up_proj"), Role::up},
    std::pair{std::string_view("gate_up_proj"), Role::gate_up}, std::pair{std::string_view("down_proj"), Role::down},
    // Mixtral, MiniMax-M2.
    std::pair{std::string_view("w1"), Role::gate}, std::pair{std::string_view("w3"), Role::up},
    std::pair{std::string_view("w2"), Role::down}};

template <class... Args>
[[noreturn]] void refuse(const LinearLayer& layer, fmt::format_string<Args...> why, Args&&... args) {
  throw Error(ErrorKind::unsupported, layer.weight, fmt::format(why, std::forward<Args>(args)...));
}

struct Module {
  std::string name;
  std::unordered_map<std::int64_t, std::map<Role, std::size_t>> experts;  ///< Each expert's matrices.
  bool mixtral_names = false;
};

class ExpertsBuilder {
 public:
  ExpertsBuilder(const Folder& folder, const std::vector<LinearLayer>& layers,
                 const std::unordered_map<std::string_view, std::size_t>& by_name, const Module& module,
                 const std::optional<Routing>& routing)
      : folder_(folder), layers_(layers), by_name_(by_name), module_(module), said_(routing) {}

  ExpertsLayer build() {
    layer_.name = module_.name;
    for (const auto& [expert, found] : module_.experts)
      for (const auto& [role, index] : found) layer_.bytes += layers_[index].bytes;
    note_problem(layer_.problem, [this] { fill(); });
    return std::move(layer_);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(ErrorKind kind, const std::string& tensor, fmt::format_string<Args...> message,
                         Args&&... args) const {
    throw Error(kind, folder_.files.front().path().parent_path(), tensor,
                fmt::format(message, std::forward<Args>(args)...));
  }

  void fill() {
    // What is known of its size first: a reader sees it beside the problem.
    take_any_shape();
    if (!said_)
      fail(ErrorKind::config, module_.name,
           "has experts, but there is no config.json that says how tokens choose among them (num_experts_per_tok, "
           "model_type)");
    layer_.routing = *said_;
    if (!said_->unsupported.empty())
      throw Error(ErrorKind::unsupported, folder_.config, module_.name, "cannot be run as a whole: {}",
                  said_->unsupported);
    take_experts();
    layer_.hidden = layer_.width = 0;
    for (const std::size_t index : layer_.experts.gate_up)
      if (layer_.routing.interleaved && layers_[index].weight_grid.group_rows != 1)
        refuse(layers_[index], "has scales {}, of which one covers interleaved rows of gate and up",
               grid_text(layers_[index].weight_grid));
    check_gated(layer_.experts, layer_.hidden, layer_.width);
    take_router();
    take_shared();
  }

  void take_any_shape() {
    for (const auto& [expert, found] : module_.experts) {
      const auto down = found.find(Role::down);
      if (down == found.end() || layers_[down->second].n == 0) continue;
      layer_.hidden = layers_[down->second].n;
      layer_.width = layers_[down->second].k;
      return;
    }
  }

  /// The name that a missing matrix should have.
  std::string expected_name(std::int64_t expert, Role role) const {
    const auto is = [&](const auto& entry) {
      return entry.second == role && (entry.first.front() == 'w') == (module_.mixtral_names && role != Role::gate_up);
    };
    const std::string_view name = std::ranges::find_if(kRoles, is)->first;
    return fmt::format("{}.experts.{}.{}", module_.name, expert, name);
  }

  void take_experts() {
    const std::int64_t count = layer_.routing.experts;
    const bool fused =
        std::ranges::any_of(module_.experts, [](const auto& entry) { return entry.second.contains(Role::gate_up); });
    for (const auto& [expert, found] : module_.experts)
      if (expert >= count)
        fail(ErrorKind::config, fmt::format("{}.experts.{}", module_.name, expert),
             "is there, but config.json says that there are {} experts", count);
    const auto take = [&](std::int64_t expert, Role role, std::vector<std::size_t>& into) {
      const auto at = module_.experts.find(expert);
      if (at == module_.experts.end() || !at->second.contains(role))
        fail(ErrorKind::not_found, expected_name(expert, role) + ".weight", "{}",
             at == module_.experts.end()
                 ? fmt::format("is missing, as all of expert {} is: {} of {} experts are there; is a shard missing?",
                               expert, module_.experts.size(), count)
                 : fmt::format("is missing: expert {} of {} is not whole; is a shard missing?", expert, count));
      into.push_back(at->second.at(role));
      layers_[into.back()].check();
    };
    for (std::int64_t expert = 0; expert < count; ++expert) {
      if (fused) {
        take(expert, Role::gate_up, layer_.experts.gate_up);
      } else {
        take(expert, Role::gate, layer_.experts.gate);
        take(expert, Role::up, layer_.experts.up);
      }
      take(expert, Role::down, layer_.experts.down);
    }
  }

  /// One plan runs all experts: they have one shape, one type, one grid and one way of quantising activations.
  void check_same(const LinearLayer& layer, const LinearLayer& first) const {
    const auto differ = [&](const std::string& what, const std::string& is, const std::string& other) {
      refuse(layer, "has {} {}, but '{}' has {}: the experts of a layer are alike", what, is, first.weight.name,
             other);
    };
    if (layer.n != first.n || layer.k != first.k)
      differ("the shape", fmt::format("[{}, {}]", layer.n, layer.k), fmt::format("[{}, {}]", first.n, first.k));
    if (layer.weight.dtype != first.weight.dtype)
      differ("codes of", std::string(layer.weight.dtype_name), std::string(first.weight.dtype_name));
    if (layer.scale.dtype != first.scale.dtype)
      differ("scales of", std::string(layer.scale.dtype_name), std::string(first.scale.dtype_name));
    if (layer.bias && layer.bias->dtype != first.bias->dtype)
      differ("a bias of", std::string(layer.bias->dtype_name), std::string(first.bias->dtype_name));
    if (layer.weight_grid != first.weight_grid)
      differ("scales", grid_text(layer.weight_grid), grid_text(first.weight_grid));
    check_activations(layer, first);
  }

  /// Biases belong to a model type, so that one that is absent is missed.
  void check_bias(const LinearLayer& layer) const {
    const bool wanted = said_->biases;
    if (layer.bias.has_value() == wanted) return;
    throw Error(wanted ? ErrorKind::not_found : ErrorKind::unsupported, layer.weight.file(),
                wanted ? layer.name + ".bias" : layer.bias->name,
                "is {} bias of an expert, which model type {} has{}", wanted ? "missing: the" : "a",
                said_->model_type, wanted ? "; is a shard missing?" : " not, and which is not added here");
  }

  static void check_activations(const LinearLayer& layer, const LinearLayer& first) {
    const bool same = layer.activations == first.activations && layer.activation_grid == first.activation_grid &&
                      layer.activation_rounding == first.activation_rounding &&
                      layer.activation_limit == first.activation_limit;
    if (!same)
      refuse(layer, "quantises its activations otherwise than '{}': the experts of a layer are alike",
             first.weight.name);
    if (layer.activations == ActivationScheme::fixed)
      refuse(layer,
             "has a static scale of its activations: x is quantised once for all experts, which only dynamic scales "
             "allow; run the experts' layers one by one");
    if (layer.activation_limit)
      refuse(layer,
             "clips its activations (activation_scale_ub), which is not computed between the two products; run the "
             "experts' layers one by one");
    if (layer.activations == ActivationScheme::dynamic && layer.activation_grid.group_rows != 1)
      refuse(layer, "quantises activations in blocks of {}; rows of different experts share no block",
             grid_text(layer.activation_grid));
    if (layer.zero_points)
      throw Error(ErrorKind::unsupported, *layer.zero_points,
                  "has zero points other than 0, which experts that run as a whole do not take; run the experts' "
                  "layers one by one");
  }

  /// Shapes of gate, up and down against each other; every entry like the first.
  void check_gated(const GatedMatrices& matrices, std::int64_t& hidden, std::int64_t& width) const {
    const LinearLayer& down = layers_[matrices.down.front()];
    if (hidden != 0 && down.n != hidden)
      fail(ErrorKind::shape, down.weight.name, "is [{}, {}], expected {} rows", down.n, down.k, hidden);
    hidden = down.n;
    width = down.k;
    for (const std::vector<std::size_t>* role : matrices.roles()) {
      if (role->empty()) continue;
      const LinearLayer& first = layers_[role->front()];
      const std::int64_t n = role == &matrices.down ? hidden : role == &matrices.gate_up ? 2 * width : width;
      const std::int64_t k = role == &matrices.down ? width : hidden;
      if (first.n != n || first.k != k)
        throw Error(ErrorKind::shape, first.weight, "is [{}, {}], expected [{}, {}] beside '{}' [{}, {}]", first.n,
                    first.k, n, k, down.weight.name, down.n, down.k);
      check_activations(first, down);
      for (const std::size_t index : *role) check_bias(layers_[index]);
      for (const std::size_t index : *role) check_same(layers_[index], first);
    }
    if (!matrices.fused()) check_same(layers_[matrices.up.front()], layers_[matrices.gate.front()]);
  }

  /// x is quantised once, for the experts and the shared one, and so is what lies between their products.
  void check_shared_activations(const LinearLayer& shared, const LinearLayer& routed) const {
    const auto in_i8 = [](const LinearLayer& layer) { return layer.weight.dtype == DType::i8; };
    bool same = shared.activations == routed.activations;
    if (same && shared.activations != ActivationScheme::none)
      same = shared.activation_grid == routed.activation_grid &&
             shared.activation_rounding == routed.activation_rounding && in_i8(shared) == in_i8(routed);
    if (same) return;
    refuse(shared,
           "quantises its activations otherwise than '{}', and x is quantised once for the experts and the shared "
           "one; run their layers one by one",
           routed.weight.name);
  }

  /// A tensor that stays unquantised.
  Tensor plain(const Tensor& tensor, const char* what, const std::vector<std::int64_t>& shape) {
    if (!numerics::is_float(tensor.dtype))
      throw Error(ErrorKind::unsupported, tensor,
                  "is {}: {} stays unquantised in every model that is known, F32, F16 or BF16", tensor.dtype_name,
                  what);
    if (tensor.shape != shape)
      throw Error(ErrorKind::shape, tensor, "is {}, expected [{}] for {}", tensor.shape_text(),
                  fmt::join(shape, ", "), what);
    layer_.bytes += tensor.data.size();
    return tensor;
  }

  template <class... Args>
  [[noreturn]] void missing(const std::string& tensor, fmt::format_string<Args...> what, Args&&... args) const {
    fail(ErrorKind::not_found, tensor, "is missing: {}; is a shard missing?",
         fmt::format(what, std::forward<Args>(args)...));
  }

  /// Takes the bias of that name, which the model type has or has not; `does`: what it does with it.
  void take_bias(const std::string& name, bool wanted, const char* does, const char* what,
                 std::optional<Tensor>& to) {
    const Tensor* found = folder_.find(name);
    if (wanted && found == nullptr) missing(name, "model type {} {}", layer_.routing.model_type, does);
    if (!wanted && found != nullptr)
      throw Error(ErrorKind::unsupported, *found, "is {}, which model type {} has not, and which is not added here",
                  what, layer_.routing.model_type);
    if (found != nullptr) to = plain(*found, what, {layer_.routing.experts});
  }

  void take_router() {
    const Routing& routing = layer_.routing;
    const std::string name = module_.name + (routing.biases ? ".router" : ".gate");
    const Tensor* router = folder_.find(name + ".weight");
    if (router == nullptr)
      missing(name + ".weight", "the router [{}, {}] of these experts", routing.experts, layer_.hidden);
    layer_.router = plain(*router, "a router", {routing.experts, layer_.hidden});
    take_bias(name + ".bias", routing.biases, "adds it to the logits", "a bias of a router", layer_.router_bias);
    const std::string beside = module_.name + ".e_score_correction_bias";
    take_bias(folder_.find(beside) != nullptr ? beside : module_.name + ".gate.e_score_correction_bias",
              routing.has_correction_bias, "chooses experts with it", "a correction bias of a router",
              layer_.correction_bias);
  }

  void take_shared() {
    for (const std::string_view part : {"shared_experts", "shared_expert"}) {
      const std::string prefix = fmt::format("{}.{}.", module_.name, part);
      std::vector<std::size_t> found;
      std::string absent;
      for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) {
        const auto at = by_name_.find(prefix + projection);
        if (at == by_name_.end())
          absent = prefix + projection + ".weight";
        else
          found.push_back(at->second);
      }
      if (found.empty()) {
        if (folder_.find(absent) == nullptr) continue;
        fail(ErrorKind::unsupported, absent,
             "is the shared expert of these experts and is not quantised, which is not run here");
      }
      if (!absent.empty()) missing(absent, "the shared expert is not whole");
      for (const std::size_t index : found) {
        layers_[index].check();
        layer_.bytes += layers_[index].bytes;
      }
      layer_.shared = GatedMatrices{{}, {found[0]}, {found[1]}, {found[2]}};
      std::int64_t hidden = layer_.hidden;
      check_gated(*layer_.shared, hidden, layer_.shared_width);
      const GatedMatrices& routed = layer_.experts;
      check_shared_activations(layers_[found[0]], layers_[(routed.fused() ? routed.gate_up : routed.gate).front()]);
      check_shared_activations(layers_[found[2]], layers_[routed.down.front()]);
    }
    const std::string shared = module_.name + ".shared_expert";
    if (layer_.routing.has_shared_expert && !layer_.shared)
      missing(shared + "(s).down_proj.weight", "config.json says that these experts have a shared one");
    const Tensor* gate = folder_.find(shared + "_gate.weight");
    if (gate == nullptr && layer_.shared && layer_.routing.has_shared_gate)
      missing(shared + "_gate.weight", "model type {} scales the shared expert by it", layer_.routing.model_type);
    if (gate == nullptr) return;
    if (!layer_.shared) missing(shared + ".down_proj.weight", "there is a gate of a shared expert");
    layer_.shared_gate = plain(*gate, "the gate of a shared expert", {1, layer_.hidden});
  }

  const Folder& folder_;
  const std::vector<LinearLayer>& layers_;
  const std::unordered_map<std::string_view, std::size_t>& by_name_;
  const Module& module_;
  const std::optional<Routing>& said_;
  ExpertsLayer layer_;
};

}  // namespace

std::vector<ExpertsLayer> find_experts(const Folder& folder, const std::vector<LinearLayer>& layers,
                                       const std::optional<Routing>& routing) {
  constexpr std::string_view kExperts = ".experts.";
  std::unordered_map<std::string_view, std::size_t> by_name;
  std::unordered_map<std::string_view, Module> modules;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string_view name = layers[i].name;
    const auto expert = split_expert(name);
    if (!expert || !expert->stem.ends_with(kExperts)) {
      by_name.emplace(name, i);
      continue;
    }
    const auto role = std::ranges::find(kRoles, expert->projection, &decltype(kRoles)::value_type::first);
    if (role == kRoles.end()) continue;
    const std::string_view module_name = expert->stem.substr(0, expert->stem.size() - kExperts.size());
    Module& module = modules[module_name];
    module.name = module_name;
    module.experts[expert->expert][role->second] = i;
    module.mixtral_names |= expert->projection.front() == 'w';
  }
  auto result = words::each(modules, [&](const auto& named) {
    return ExpertsBuilder(folder, layers, by_name, named.second, routing).build();
  });
  std::ranges::sort(result, natural_less, &ExpertsLayer::name);
  return result;
}

}  // namespace ironcl::checkpoint
