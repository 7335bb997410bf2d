// SPDX-License-Identifier: Apache-2.0
// Experts in one tensor.
#include "host/checkpoint/stacked.h"

#include "host/checkpoint/names.h"

namespace ironcl::checkpoint {
namespace {

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
    if (const Tensor* found = index.find(base + std::string(suffix))) return found;
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

/// gate_up [E, A, B] and down [E, C, D]: B = C and A = 2 D where they are [E, N, K], A = D and B = 2 C where they are
/// [E, K, N]. Both cannot be.
StackedForm form_of_shapes(const TensorIndex& index, const StackedWeight& stacked) {
  const auto shape = [&](std::string_view projection) -> const std::vector<std::int64_t>* {
    const Tensor* found = index.find(std::string(stacked.prefix) + std::string(projection));
    if (found == nullptr) found = index.find(std::string(stacked.prefix) + std::string(projection) + ".weight");
    return found != nullptr && found->shape.size() == 3 ? &found->shape : nullptr;
  };
  const auto *up = shape("gate_up_proj"), *down = shape("down_proj");
  if (up == nullptr || down == nullptr) return StackedForm::unknown;
  if ((*up)[2] == (*down)[1] && (*up)[1] == 2 * (*down)[2]) return StackedForm::rows_first;
  return (*up)[1] == (*down)[2] && (*up)[2] != (*down)[1] ? StackedForm::transposed : StackedForm::unknown;
}

}  // namespace

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
      stacked.shapes = form_of_shapes(index, stacked);
      result.push_back(stacked);
    }
  }
  return result;
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
  const std::size_t bytes = matrix.data.size() / static_cast<std::size_t>(matrix.shape[0]);
  rows.shape[0] = end - begin;
  rows.data =
      matrix.data.subspan(static_cast<std::size_t>(begin) * bytes, static_cast<std::size_t>(end - begin) * bytes);
  return rows;
}

std::optional<SharedScale> find_shared_scale(const TensorIndex& index, std::string_view layer) {
  const auto name = split_expert(layer);
  if (!name) return std::nullopt;
  const std::string_view projection = name->projection;
  SharedScale shared;
  shared.expert = name->expert;
  const auto look = [&](std::string_view of) {
    const std::string base = std::string(name->stem) + std::string(of);
    shared.scale = find_suffixed(index, base, kScales);
    shared.input_scale = find_suffixed(index, base, kInputScales);
    return shared.scale != nullptr && !shared.scale->shape.empty() && shared.expert < shared.scale->shape[0];
  };
  if (look(projection)) return shared;
  if (projection != "gate_proj" && projection != "up_proj") return std::nullopt;
  shared.part = projection == "up_proj" ? 1 : 0;
  shared.parts = 2;
  if (look("gate_up_proj")) return shared;
  return std::nullopt;
}

}  // namespace ironcl::checkpoint
