// SPDX-License-Identifier: Apache-2.0
// The matrices of a layer of experts: as a checkpoint has them, and one after another.
#include "host/layer/experts_source.h"

#include "host/layer/layer_problem.h"

namespace ironcl::layer {
namespace {

using checkpoint::Checkpoint;
using checkpoint::ExpertsLayer;
using checkpoint::GatedMatrices;
using checkpoint::LinearLayer;
using numerics::DType;

/// Whether blocks of a matrix [2 I, H] are those of its halves.
bool halves_have_own_blocks(const GatedForm& gated) noexcept {
  const std::int64_t rows = gated.gate.scale.grid.group_rows;
  return gated.gate.scale.dtype == DType::none || (rows != 0 && gated.width % rows == 0);
}

MatrixForm form_of(const LinearLayer& layer) {
  return {layer.weight.dtype, layer.scales(), layer.bias ? layer.bias->dtype : DType::none};
}

/// [2 I, ...] whose even rows are the gate's and odd rows up's (gpt-oss) as the rows of one after those of the other.
void part_rows(std::vector<std::byte>& rows, std::int64_t count) {
  const auto size = static_cast<std::ptrdiff_t>(rows.size()) / count;
  std::vector<std::byte> parted;
  parted.reserve(rows.size());
  for (const std::int64_t first : {0, 1})
    for (std::int64_t row = first; row < count; row += 2)
      parted.insert(parted.end(), rows.begin() + row * size, rows.begin() + (row + 1) * size);
  rows = std::move(parted);
}

class CheckpointExperts final : public ExpertsSource {
 public:
  CheckpointExperts(const Checkpoint& checkpoint, const ExpertsLayer& layer, bool quantize)
      : layers_(checkpoint.layers()), layer_(layer) {
    layer.check();
    form_.name = layer.name;
    form_.hidden = layer.hidden;
    const checkpoint::Routing& routing = layer.routing;
    form_.routing = routing;
    form_.correction_bias = layer.correction_bias.has_value();
    form_.shared_gate = layer.shared_gate.has_value();
    form_.activation = routing.clamped_swiglu ? numerics::Activation::swiglu_oai : numerics::Activation::silu;
    form_.activation_limit = static_cast<float>(routing.activation_limit);
    // One product makes the router's logits and the gate's; f32 holds both where their types differ.
    form_.router.code = layer.router.dtype;
    if (layer.shared_gate && layer.shared_gate->dtype != form_.router.code) form_.router.code = DType::f32;
    if (layer.router_bias) form_.router.bias = layer.router_bias->dtype;
    form_.experts = gated_form(layer.experts, layer.width);
    if (layer.shared) form_.shared = gated_form(*layer.shared, layer.shared_width);
    const LinearLayer& down = layers_[layer.experts.down.front()];
    const LinearLayer& gate = layers_[(layer.experts.fused() ? layer.experts.gate_up : layer.experts.gate).front()];
    if (!quantize) return;
    form_.x = activations_of(gate);
    form_.between = activations_of(down);
  }

  const ExpertsForm& form() const override { return form_; }

  StackedMatrices matrix(bool shared, Projection projection, std::int64_t expert) const override {
    const GatedMatrices& gated = shared ? layer_.shared.value() : layer_.experts;
    const auto& indices = projection == Projection::gate      ? gated.gate
                          : projection == Projection::up      ? gated.up
                          : projection == Projection::gate_up ? gated.gate_up
                                                              : gated.down;
    const LinearLayer& layer = layers_[indices.at(static_cast<std::size_t>(expert))];
    LayerWeights weights = weights_of(layer);
    StackedMatrices one{
        layer.n, layer.k, {}, std::move(weights.scales), std::move(weights.global), std::move(weights.bias)};
    one.codes.assign(weights.codes.begin(), weights.codes.end());
    if (projection == Projection::gate_up && layer_.routing.interleaved)
      for (auto* rows : {&one.codes, &one.scales, &one.bias}) part_rows(*rows, layer.n);
    return one;
  }

  StackedMatrices router() const override {
    StackedMatrices all{form_.logits(), form_.hidden, in_router_type(layer_.router), {}};
    if (layer_.shared_gate) {
      const std::vector<std::byte> gate = in_router_type(*layer_.shared_gate);
      all.codes.insert(all.codes.end(), gate.begin(), gate.end());
    }
    if (layer_.router_bias) all.bias.assign(layer_.router_bias->data.begin(), layer_.router_bias->data.end());
    return all;
  }

  std::vector<float> correction_bias() const override {
    if (!layer_.correction_bias) return {};
    return values_of<float>(layer_.correction_bias->dtype, layer_.correction_bias->data);
  }

 private:
  GatedForm gated_form(const GatedMatrices& gated, std::int64_t width) const {
    GatedForm form;
    form.count = static_cast<std::int64_t>(gated.down.size());
    form.width = width;
    form.stored_fused = gated.fused();
    form.gate = form_of(layers_[(gated.fused() ? gated.gate_up : gated.gate).front()]);
    form.down = form_of(layers_[gated.down.front()]);
    for (std::size_t i = 0; i < gated.gate.size(); ++i)
      form.own_globals |= layers_[gated.gate[i]].global != layers_[gated.up[i]].global;
    return form;
  }

  std::vector<std::byte> in_router_type(const checkpoint::Tensor& tensor) const {
    if (tensor.dtype == form_.router.code) return {tensor.data.begin(), tensor.data.end()};
    return bytes_of(values_of<float>(tensor.dtype, tensor.data));
  }

  static ExpertsActivations activations_of(const LinearLayer& layer) {
    const report::Problem problem = describe(layer, {});
    if (problem.a_source == DType::none) return {};
    return {problem.a, problem.a_scale.grid, problem.a_quantizer};
  }

  const std::vector<LinearLayer>& layers_;
  const ExpertsLayer& layer_;
  ExpertsForm form_;
};

/// Rows [half * n / 2, ...) of a matrix whose halves have their own blocks.
StackedMatrices half_of(const StackedMatrices& both, std::size_t half) {
  const auto take = [half](const std::vector<std::byte>& all) {
    const auto size = static_cast<std::ptrdiff_t>(all.size() / 2);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(half) * size;
    return std::vector<std::byte>(begin, begin + size);
  };
  return {both.n / 2, both.k, take(both.codes), take(both.scales), both.globals, take(both.bias)};
}

}  // namespace

bool GatedForm::may_fuse() const noexcept { return stored_fused || (!own_globals && halves_have_own_blocks(*this)); }
bool GatedForm::may_split() const noexcept { return !stored_fused || halves_have_own_blocks(*this); }

void append(StackedMatrices& all, const StackedMatrices& one) {
  const auto add = [](auto& to, const auto& more) { to.insert(to.end(), more.begin(), more.end()); };
  add(all.codes, one.codes);
  add(all.scales, one.scales);
  add(all.globals, one.globals);
  add(all.bias, one.bias);
}

std::pair<std::int64_t, std::int64_t> shape_of(const ExpertsForm& form, const GatedForm& gated,
                                               Projection projection) noexcept {
  if (projection == Projection::down) return {form.hidden, gated.width};
  return {projection == Projection::gate_up ? 2 * gated.width : gated.width, form.hidden};
}

StackedMatrices matrix_of(const ExpertsSource& source, bool shared, Projection projection, std::int64_t expert) {
  const ExpertsForm& form = source.form();
  if (projection == Projection::router) return source.router();
  const GatedForm& gated = shared ? form.shared.value() : form.experts;
  if (projection == Projection::down || gated.stored_fused == (projection == Projection::gate_up))
    return source.matrix(shared, projection, expert);
  if (projection != Projection::gate_up)
    return half_of(source.matrix(shared, Projection::gate_up, expert), projection == Projection::up ? 1 : 0);
  StackedMatrices both = source.matrix(shared, Projection::gate, expert);
  append(both, source.matrix(shared, Projection::up, expert));
  if (!both.globals.empty()) both.globals.pop_back();  // the same of both
  both.n *= 2;
  return both;
}

numerics::Operand operand_of(const MatrixForm& form, StackedMatrices& matrix) {
  report::Scales scale = form.scale;
  if (!matrix.globals.empty()) {
    std::vector<double> scales = values_of<double>(scale.dtype, matrix.scales);
    for (double& one : scales) one *= static_cast<double>(matrix.globals.front());
    matrix.scales = bytes_of(scales);
    scale.dtype = DType::f64;
  }
  return operand_of(form.code, matrix.codes.data(), matrix.n, matrix.k, scale, matrix.scales.data());
}

std::unique_ptr<ExpertsSource> source_of(const Checkpoint& checkpoint, const ExpertsLayer& layer, bool quantize) {
  return std::make_unique<CheckpointExperts>(checkpoint, layer, quantize);
}

}  // namespace ironcl::layer
