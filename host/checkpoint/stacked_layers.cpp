// SPDX-License-Identifier: Apache-2.0
// The experts of one tensor, a layer each.

#include "host/checkpoint/block.h"
#include "host/checkpoint/layer_builder.h"
#include "host/checkpoint/stacked.h"

namespace ironcl::checkpoint {
namespace {

/// Why no expert of the stack is read; empty where they are.
std::string why_not(const StackedWeight& stacked) {
  const Tensor& weight = stacked.whole.weight;
  if (stacked.experts() < 1) return fmt::format("is {}, expected at least one expert", weight.shape_text());
  if (stacked.form == StackedForm::unknown && stacked.shapes == StackedForm::transposed)
    return fmt::format(
        "is {}: experts stored as [E, K, N], which is not read where config.json has no model_type that is known to "
        "store them so, only [E, N, K]; save each expert's weight by itself",
        weight.shape_text());
  if (stacked.form != StackedForm::unknown && stacked.shapes != StackedForm::unknown &&
      stacked.form != stacked.shapes)
    return fmt::format("is {}: the model_type of config.json stores experts as {}, the shapes beside it say {}",
                       weight.shape_text(), stacked.transposed() ? "[E, K, N]" : "[E, N, K]",
                       stacked.transposed() ? "[E, N, K]" : "[E, K, N]");
  for (const Slot& slot : kSlots) {
    const std::optional<Tensor>& part = stacked.whole.*slot.of;
    if (part && part->elements() != 1 && (part->shape.empty() || part->shape[0] != stacked.experts()))
      return fmt::format("is {}, but '{}' is {}: both need the experts as first dimension", weight.shape_text(),
                         part->name, part->shape_text());
  }
  return {};
}

/// How gpt-oss quantises, whose names need no config.
const QuantizationGroup& gpt_oss() {
  static const QuantizationGroup all{
      {.weight_dtype = DType::e2m1, .activations = ActivationScheme::none}, {}, "gpt-oss"};
  return all;
}

/// Cuts the slices of one expert out of `parts`.
void cut(const StackedWeight& stacked, std::int64_t expert, LayerParts& parts) {
  parts.transposed = stacked.transposed();
  parts.weight = slice_of(parts.weight, expert);
  for (const Slot& slot : kSlots)
    if (std::optional<Tensor>& part = parts.*slot.of) part = slice_of(*part, expert);
  const auto turn = [](std::vector<std::int64_t>& shape) {
    if (shape.size() == 2) std::swap(shape[0], shape[1]);
  };
  if (parts.transposed) turn(parts.weight.shape);
  if (parts.transposed && parts.scale) turn(parts.scale->shape);
  if (std::vector<std::int64_t>& shape = parts.weight.shape; stacked.blocks()) shape = {shape[0], shape[1] * 16};
}

/// Whether the scales of gate and up [2 I, H] were made of both together, so that blocks count from row 0, or of
/// each alone and then joined: these have 2 ceil(I / rows) rows, with up's blocks beginning at row I. Where I is a
/// multiple of a block's rows the two are the same. NVFP4 may have a global scale of each.
bool joined_scales(const StackedWeight& stacked, const LayerParts& parts, const OpenOptions& options) {
  if (stacked.projection != "gate_up_proj" || !parts.scale) return false;
  const Tensor &weight = parts.weight, &scale = *parts.scale;
  if (weight.shape.size() != 2 || scale.shape.size() != 2) return false;
  if (parts.global && weight.shape[0] % 2 == 0 && parts.global->shape == std::vector<std::int64_t>{2}) return true;
  if (has_four_bits(parts) || parts.problem) return false;
  BlockSource source{};
  std::optional<ScaleGrid> grid = said_grid(parts, source);
  if (!grid) grid = options.block ? *options.block : grid_from_shape(scale, weight);
  if (grid->group_rows == 0) return false;
  const std::int64_t half = weight.shape[0] / 2;
  if (weight.shape[0] % 2 != 0 || half % grid->group_rows == 0) return false;
  const std::int64_t joined = 2 * grid->scale_rows(half), together = grid->scale_rows(2 * half);
  if (scale.shape[0] != joined) return false;
  if (joined == together)
    throw Error(ErrorKind::ambiguous, scale,
                "is {}: the scales of gate and up, {} rows each, were made either of both together or of each alone, "
                "and blocks of {} rows do not tell which; save gate and up by themselves",
                stacked.whole.scale->shape_text(), half, grid->group_rows);
  if (parts.transposed)
    throw Error(ErrorKind::unsupported, scale,
                "is {}: scales of gate and up that were joined in a tensor [E, K, N] are not read; save gate and up "
                "by themselves",
                stacked.whole.scale->shape_text());
  return true;
}

/// Gate and up as a layer each, out of rows that were joined.
std::array<LayerParts, 2> halves_of(const LayerParts& both) {
  std::array<LayerParts, 2> halves{both, both};
  const std::int64_t rows = both.weight.shape[0] / 2, scale_rows = both.scale->shape[0] / 2;
  for (const std::int64_t half : {0, 1}) {
    LayerParts& parts = halves.at(static_cast<std::size_t>(half));
    const std::size_t dot = both.name.rfind('.');
    parts.name = both.name.substr(0, dot) + (half == 0 ? ".gate_proj" : ".up_proj");
    parts.weight = rows_of(both.weight, half * rows, (half + 1) * rows);
    parts.scale = rows_of(*both.scale, half * scale_rows, (half + 1) * scale_rows);
    if (both.global) parts.global = rows_of(*both.global, half, half + 1);
    if (both.bias && both.bias->shape == std::vector{2 * rows})
      parts.bias = rows_of(*both.bias, half * rows, (half + 1) * rows);
    else if (both.bias)
      parts.problem =
          Error(ErrorKind::shape, *both.bias, "is {} for one expert, expected [{}], one for each row of '{}'",
                both.bias->shape_text(), 2 * rows, both.weight.name);
  }
  return halves;
}

}  // namespace

std::vector<LayerParts> layers_of(const StackedWeight& stacked, const QuantizationConfig& config,
                                  const OpenOptions& options) {
  const Tensor& weight = stacked.whole.weight;
  const std::string why = why_not(stacked);
  std::vector<LayerParts> layers;
  for (std::int64_t expert = 0; expert < std::max<std::int64_t>(stacked.experts(), 1); ++expert) {
    LayerParts parts = stacked.whole;
    parts.name = fmt::format("{}{}.{}", stacked.prefix, expert, stacked.projection);
    parts.expert = expert;
    parts.expected_scale = weight.name + "_scale_inv";
    parts.expected_input_scale = weight.name + "_activation_scale";
    parts.group = stacked.blocks() ? &gpt_oss() : config.group_of(parts.name);
    bool joined = false;
    note_problem(parts.problem, [&] {
      if (why.empty())
        cut(stacked, expert, parts);
      else if (!parts.problem)
        parts.problem = Error(ErrorKind::unsupported, weight, why);
      joined = joined_scales(stacked, parts, options);
    });
    if (!joined)
      layers.push_back(std::move(parts));
    else
      for (LayerParts& half : halves_of(parts)) layers.push_back(std::move(half));
  }
  return layers;
}

}  // namespace ironcl::checkpoint
