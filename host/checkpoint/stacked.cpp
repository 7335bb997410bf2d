// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/stacked.h"

#include "host/checkpoint/block.h"

namespace ironcl::checkpoint {
namespace {

/// A three-dimensional tensor of quantised weights `<prefix><name>`, with the tensors that belong to it.
struct StackedWeight {
  std::string_view prefix;  ///< "model.layers.0.mlp.experts."
  std::string projection;   ///< "gate_up_proj", without ".weight".
  /// Weight [E, N, K], scale [E, ...], global [E] or of gate and up [E, 2], input_scale [E] or one value, bias [E,
  /// N]. Its problem is of the first tensor beside the weight that changes its product in a way that is not computed
  /// here, or that is there twice.
  LayerParts whole;
  std::vector<const Tensor*> tensors;         ///< All that belong to it, and those that `problem` is about.
  StackedForm form = StackedForm::unknown;    ///< As the model type says.
  StackedForm shapes = StackedForm::unknown;  ///< As the dimensions of gate_up and down together show.

  /// gpt-oss's MXFP4, which needs no config: codes [E, N, K / 32, 16].
  bool blocks() const noexcept { return whole.weight.shape.size() == 4; }
  bool transposed() const noexcept { return form == StackedForm::transposed; }
  std::int64_t experts() const { return whole.weight.shape[0]; }
};

/// What may follow the name of a projection, or stand in its place after "weight".
constexpr std::array<std::string_view, 4> kScales = {"_scale_inv", "_scale", "_weight_scale", "_scales"};
constexpr std::string_view kFourBitBlocks = "_blocks";  // gpt-oss
/// Parts that experts of one tensor have.
constexpr std::array kTaken = {Part::weight_scale, Part::global_scale, Part::input_scale, Part::bias,
                               Part::zero_point};
constexpr std::array<std::string_view, 2> kInputScales = {"_activation_scale", "_input_scale"};

const Tensor* find_suffixed(const TensorIndex& index, const std::string& base,
                            std::span<const std::string_view> suffixes) {
  for (const std::string_view suffix : suffixes)
    if (const Tensor* found = index.folder().find(base + std::string(suffix))) return found;
  return nullptr;
}

/// Three dimensions are a convolution's, too: what is stacked is called experts, or a mixture of them.
bool is_stacked_weight(const Tensor& tensor) {
  const bool called_so =
      tensor.name.find("expert") != std::string::npos || tensor.name.find("moe") != std::string::npos;
  const std::string_view leaf = std::string_view(tensor.name).substr(leaf_of(tensor.name));
  const bool four_bits = tensor.dtype_name == "U8";
  if (leaf.ends_with(kFourBitBlocks))
    return called_so && four_bits && tensor.shape.size() == 4 && tensor.shape[3] == 16;
  return called_so && tensor.shape.size() == 3 && (numerics::is_quantized(tensor.dtype) || four_bits) &&
         !speaks_of_scales(leaf);  // NVFP4's scales of groups are of F8_E4M3
}

/// "gate_up_proj" of "gate_up_proj_blocks".
std::string_view projection_of(std::string_view leaf) {
  if (leaf.ends_with(kFourBitBlocks)) leaf.remove_suffix(kFourBitBlocks.size());
  return leaf;
}

/// What a tensor is to the stacked weight whose name it has with that suffix.
PartName part_of_suffix(std::string_view suffix) {
  const auto is = [suffix](const auto& suffixes) { return std::ranges::find(suffixes, suffix) != suffixes.end(); };
  if (is(kScales)) return {Part::weight_scale, {}};
  if (is(kInputScales)) return {Part::input_scale, {}};
  return part_of(suffix.substr(1));
}

/// Puts a tensor in its place beside a stacked weight; one that has none there becomes the problem.
void take_beside(const Member& member, const PartName& name, StackedWeight& stacked) {
  const Part part = name.part;
  if (part == Part::weight || part == Part::shape || part == Part::aside) return;
  stacked.tensors.push_back(member.tensor);
  LayerParts& whole = stacked.whole;
  if (part == Part::refused && !whole.problem)
    whole.problem = Error(ErrorKind::unsupported, *member.tensor, std::string(name.why));
  else
    take_part(*member.tensor, std::ranges::find(kTaken, part) != kTaken.end() ? part : Part::none, whole);
}

/// Whether a tensor beside stacked weights is of another of them: "down_proj", "down_proj_scale_inv".
bool is_of_another(const std::vector<Member>& members, const Member& member) {
  return std::ranges::any_of(members, [&member](const Member& other) {
    const bool matrices = other.tensor->shape.size() >= 3 && !speaks_of_scales(other.leaf);
    const std::string_view projection = projection_of(other.leaf);
    return matrices && member.leaf.starts_with(projection) &&
           (member.leaf.size() == projection.size() || member.leaf[projection.size()] == '_');
  });
}

/// All of them that are called experts or moe, of a model whose type stores them as `form`.
std::vector<StackedWeight> find_stacked(const TensorIndex& index, StackedForm form) {
  std::vector<StackedWeight> result;
  for (const std::string_view prefix : index.prefixes()) {
    for (const Member& member : index.beside(prefix)) {
      if (!is_stacked_weight(*member.tensor)) continue;
      StackedWeight stacked;
      stacked.whole.weight = *member.tensor;
      stacked.whole.name = member.tensor->name;
      stacked.tensors.push_back(member.tensor);
      const bool by_itself = member.part.part == Part::weight;  // <...>.experts.gate_up_proj.weight
      const std::string_view module = by_itself ? prefix.substr(0, prefix.size() - 1) : prefix;
      stacked.prefix = module.substr(0, module.rfind('.') + 1);
      stacked.projection = by_itself ? module.substr(stacked.prefix.size()) : projection_of(member.leaf);
      if (by_itself && member.leaf != "weight")
        stacked.whole.problem =
            Error(ErrorKind::unsupported, *member.tensor,
                  "is a stack of weights of a tool whose stacks are not read; quantise to FP8 with llmcompressor");
      for (const Member& other : index.beside(prefix)) {
        if (other.tensor == member.tensor) continue;
        if (!by_itself && other.leaf.starts_with(stacked.projection + "_"))
          take_beside(other, part_of_suffix(other.leaf.substr(stacked.projection.size())), stacked);
        else if (by_itself || ((other.part.part == Part::none || other.part.part == Part::refused) &&
                               !is_of_another(index.beside(prefix), other)))
          take_beside(other, other.part, stacked);
      }
      // Codes of four bits lie in the order of their groups, whatever the model type does with floats.
      stacked.form = member.tensor->dtype_name == "U8" ? StackedForm::rows_first : form;
      stacked.shapes = form_of_shapes(index.folder(), stacked.prefix);
      result.push_back(stacked);
    }
  }
  return result;
}

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
  std::optional<ScaleGrid> grid = said_grid(parts);
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

StackedForm form_of_shapes(const Folder& folder, std::string_view prefix) {
  const auto shape = [&](std::string_view projection) -> const std::vector<std::int64_t>* {
    const std::string name = std::string(prefix) + std::string(projection);
    const Tensor* found = folder.find(name);
    if (found == nullptr) found = folder.find(name + ".weight");
    return found != nullptr && found->shape.size() == 3 ? &found->shape : nullptr;
  };
  const auto *up = shape("gate_up_proj"), *down = shape("down_proj");
  if (up == nullptr || down == nullptr) return StackedForm::unknown;
  if ((*up)[2] == (*down)[1] && (*up)[1] == 2 * (*down)[2]) return StackedForm::rows_first;
  return (*up)[1] == (*down)[2] && (*up)[2] != (*down)[1] ? StackedForm::transposed : StackedForm::unknown;
}

std::vector<LayerParts> stacked_layers(const TensorIndex& index, StackedForm form, const QuantizationConfig& config,
                                       const OpenOptions& options, std::unordered_set<const Tensor*>& used) {
  // How gpt-oss quantises, whose names need no config.
  static const QuantizationGroup gpt_oss{
      {.weight_dtype = DType::e2m1, .activations = ActivationScheme::none}, {}, "gpt-oss"};
  std::vector<LayerParts> layers;
  for (const StackedWeight& stacked : find_stacked(index, form)) {
    const Tensor& weight = stacked.whole.weight;
    const std::string why = why_not(stacked);
    used.insert(stacked.tensors.begin(), stacked.tensors.end());
    for (std::int64_t expert = 0; expert < std::max<std::int64_t>(stacked.experts(), 1); ++expert) {
      LayerParts parts = stacked.whole;
      parts.name = fmt::format("{}{}.{}", stacked.prefix, expert, stacked.projection);
      parts.expert = expert;
      parts.expected_scale = weight.name + "_scale_inv";
      parts.expected_input_scale = weight.name + "_activation_scale";
      parts.group = stacked.blocks() ? &gpt_oss : config.group_of(parts.name);
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
  }
  return layers;
}

Tensor slice_of(const Tensor& tensor, std::int64_t expert) {
  if (tensor.shape.empty() || tensor.elements() == 1) return tensor;
  if (expert >= tensor.shape[0])
    throw Error(ErrorKind::shape, tensor, "is {}, which has nothing for expert {}; is it of another model?",
                tensor.shape_text(), expert);
  Tensor slice = rows_of(tensor, expert, expert + 1);
  slice.shape.erase(slice.shape.begin());
  return slice;
}

Tensor rows_of(const Tensor& matrix, std::int64_t begin, std::int64_t end) {
  Tensor rows = matrix;
  const std::int64_t row = std::ssize(matrix.data) / matrix.shape[0];
  rows.shape[0] = end - begin;
  rows.data = matrix.bytes(begin * row, (end - begin) * row);
  return rows;
}

void share_scales(const TensorIndex& index, LayerParts& parts, std::unordered_set<const Tensor*>& used) {
  const auto name = split_expert(parts.name);
  if (!name) return;
  const auto take = [&](std::string_view of, std::int64_t part, std::int64_t count) {
    const std::string base = std::string(name->stem) + std::string(of);
    const Tensor* scale = find_suffixed(index, base, kScales);
    if (scale == nullptr || scale->shape.empty() || name->expert >= scale->shape[0]) return false;
    used.insert(scale);
    parts.scale = slice_of(*scale, name->expert);
    parts.part = part;
    parts.parts = count;
    const Tensor* input_scale = find_suffixed(index, base, kInputScales);
    if (input_scale == nullptr || parts.input_scale) return true;
    used.insert(input_scale);
    parts.input_scale = slice_of(*input_scale, name->expert);
    return true;
  };
  const bool up = name->projection == "up_proj";
  if (!take(name->projection, 0, 1) && (up || name->projection == "gate_proj")) take("gate_up_proj", up ? 1 : 0, 2);
}

}  // namespace ironcl::checkpoint
