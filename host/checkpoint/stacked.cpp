// SPDX-License-Identifier: Apache-2.0
// Experts in one tensor.
#include "host/checkpoint/stacked.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "backends/words.h"

namespace ironcl::checkpoint {
namespace {

/// What may follow the name of a projection, or stand in its place after "weight".
constexpr std::array<std::string_view, 4> kScales = {"_scale_inv", "_scale", "_weight_scale", "_scales"};
constexpr std::string_view kFourBitBlocks = "_blocks";  // gpt-oss
constexpr std::array<std::string_view, 2> kInputScales = {"_activation_scale", "_input_scale"};

template <std::size_t Count>
const Located* find_suffixed(const TensorIndex& index, const std::string& base,
                             const std::array<std::string_view, Count>& suffixes) {
  for (const std::string_view suffix : suffixes)
    if (const Located* found = index.find(base + std::string(suffix))) return found;
  return nullptr;
}

/// Three dimensions are a convolution's, too: what is stacked is called experts, or a mixture of them.
bool is_stacked_weight(const Located& located) {
  const Tensor& tensor = *located.tensor;
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
  const auto is = [suffix](const auto& suffixes) {
    return std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end();
  };
  if (is(kScales)) return {Part::weight_scale, {}};
  if (is(kInputScales)) return {Part::input_scale, {}};
  return part_of(suffix.substr(1));
}

/// Those of `members`, sorted by name, whose leaves begin so.
std::span<const Member> members_after(const std::vector<Member>& members, std::string_view start) {
  const auto first = std::lower_bound(members.begin(), members.end(), start,
                                      [](const Member& member, std::string_view text) { return member.leaf < text; });
  const auto last = std::find_if_not(first, members.end(),
                                     [start](const Member& member) { return member.leaf.starts_with(start); });
  return {first, last};
}

/// Puts a tensor in its place beside a stacked weight; one that has none there becomes the problem.
void take_beside(const TensorIndex& index, const Member& member, const PartName& part, StackedWeight& stacked) {
  const auto refuse = [&](ErrorKind kind, const std::string& why) {
    stacked.refused.push_back(member.located);
    if (stacked.problem) return;
    stacked.problem = Error(kind, index.path_of(*member.located), member.located->tensor->name, why);
  };
  const auto take = [&](const Located*& slot) {
    if (slot != nullptr)
      return refuse(ErrorKind::config, fmt::format("is beside '{}' and means the same of '{}'; one of them is wrong",
                                                   slot->tensor->name, stacked.weight->tensor->name));
    slot = member.located;
  };
  switch (part.part) {
    case Part::weight_scale:
      return take(stacked.scale);
    case Part::global_scale:
      return take(stacked.global);
    case Part::input_scale:
      return take(stacked.input_scale);
    case Part::bias:
      return take(stacked.bias);
    case Part::zero_point:
      return stacked.zero_points.push_back(member.located);
    case Part::refused:
      return refuse(ErrorKind::unsupported, std::string(part.why));
    case Part::weight:
    case Part::shape:
    case Part::aside:
      return;
    default:
      return refuse(
          ErrorKind::unsupported,
          fmt::format("belongs to the quantised experts '{}', and what it does to their product is not known "
                      "here; export the checkpoint without it, or say who wrote it in an issue",
                      stacked.weight->tensor->name));
  }
}

/// Whether a tensor beside stacked weights is of another of them: "down_proj", "down_proj_scale_inv".
bool is_of_another(const std::vector<Member>& members, const Member& member) {
  return std::any_of(members.begin(), members.end(), [&member](const Member& other) {
    const bool matrices = other.located->tensor->shape.size() >= 3 && !speaks_of_scales(other.leaf);
    const std::string_view projection = projection_of(other.leaf);
    return matrices && member.leaf.starts_with(projection) &&
           (member.leaf.size() == projection.size() || member.leaf[projection.size()] == '_');
  });
}

/// gate_up [E, A, B] and down [E, C, D]: B = C and A = 2 D where they are [E, N, K], A = D and B = 2 C where they are
/// [E, K, N]. Both cannot be.
StackedForm form_of_shapes(const TensorIndex& index, const StackedWeight& stacked) {
  const auto shape = [&](std::string_view projection) -> const std::vector<std::int64_t>* {
    const Located* found = index.find(std::string(stacked.prefix) + std::string(projection));
    if (found == nullptr) found = index.find(std::string(stacked.prefix) + std::string(projection) + ".weight");
    return found != nullptr && found->tensor->shape.size() == 3 ? &found->tensor->shape : nullptr;
  };
  const auto *up = shape("gate_up_proj"), *down = shape("down_proj");
  if (up == nullptr || down == nullptr) return StackedForm::unknown;
  if ((*up)[2] == (*down)[1] && (*up)[1] == 2 * (*down)[2]) return StackedForm::rows_first;
  return (*up)[1] == (*down)[2] && (*up)[2] != (*down)[1] ? StackedForm::transposed : StackedForm::unknown;
}

}  // namespace

std::string StackedWeight::layer_name(std::int64_t expert) const {
  return std::string(prefix) + std::to_string(expert) + "." + projection;
}

std::vector<StackedWeight> find_stacked(const TensorIndex& index, StackedForm form) {
  std::vector<StackedWeight> result;
  for (const std::string_view prefix : index.prefixes()) {
    for (const Member& member : index.beside(prefix)) {
      if (!is_stacked_weight(*member.located)) continue;
      StackedWeight stacked;
      stacked.weight = member.located;
      if (member.part.part == Part::weight) {  // <...>.experts.gate_up_proj.weight
        const std::string module = checkpoint::layer_name(prefix);
        const std::size_t dot = module.rfind('.');
        stacked.prefix = prefix.substr(0, dot == std::string::npos ? 0 : dot + 1);
        stacked.projection = module.substr(stacked.prefix.size());
        if (member.leaf != "weight")
          stacked.problem =
              Error(ErrorKind::unsupported, index.path_of(*member.located), member.located->tensor->name,
                    "is a stack of weights of a tool whose stacks are not read; quantise to FP8 with "
                    "llmcompressor");
        for (const Member& other : index.beside(prefix)) take_beside(index, other, other.part, stacked);
      } else {
        stacked.prefix = prefix;
        stacked.projection = projection_of(member.leaf);
        for (const Member& other : members_after(index.beside(prefix), stacked.projection + "_"))
          if (other.located != member.located)
            take_beside(index, other, part_of_suffix(other.leaf.substr(stacked.projection.size())), stacked);
        for (const Member& other : index.beside(prefix))
          if ((other.part.part == Part::none || other.part.part == Part::refused) &&
              !is_of_another(index.beside(prefix), other))
            take_beside(index, other, other.part, stacked);
      }
      // Codes of four bits lie in the order of their groups, whatever the model type does with floats.
      stacked.form = member.located->tensor->dtype_name == "U8" ? StackedForm::rows_first : form;
      stacked.shapes = form_of_shapes(index, stacked);
      result.push_back(stacked);
    }
  }
  return result;
}

Tensor slice_of(const Tensor& tensor, std::int64_t expert, const std::filesystem::path& file) {
  if (tensor.shape.empty() || tensor.elements() == 1) return tensor;
  if (expert >= tensor.shape[0])
    throw Error(ErrorKind::shape, file, tensor.name,
                "is {}, which has nothing for expert {}; is it of another model?", tensor.shape_text(), expert);
  Tensor slice = tensor;
  slice.shape.erase(slice.shape.begin());
  const std::size_t bytes = tensor.data.size() / static_cast<std::size_t>(tensor.shape[0]);
  slice.data = tensor.data.subspan(static_cast<std::size_t>(expert) * bytes, bytes);
  return slice;
}

Tensor turned(Tensor matrix) {
  if (matrix.shape.size() == 2) std::swap(matrix.shape[0], matrix.shape[1]);
  return matrix;
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
  const std::size_t last = layer.rfind('.');
  if (last == std::string_view::npos || last == 0) return std::nullopt;
  const std::size_t before = layer.rfind('.', last - 1);
  if (before == std::string_view::npos) return std::nullopt;
  const std::string_view number = layer.substr(before + 1, last - before - 1), projection = layer.substr(last + 1);
  const auto expert = words::number<std::int64_t>(number);
  if (!expert || *expert < 0) return std::nullopt;
  SharedScale shared;
  shared.expert = *expert;
  const auto look = [&](std::string_view name) {
    const std::string base = std::string(layer.substr(0, before + 1)) + std::string(name);
    shared.scale = find_suffixed(index, base, kScales);
    shared.input_scale = find_suffixed(index, base, kInputScales);
    return shared.scale != nullptr && !shared.scale->tensor->shape.empty() &&
           shared.expert < shared.scale->tensor->shape[0];
  };
  if (look(projection)) return shared;
  if (projection != "gate_proj" && projection != "up_proj") return std::nullopt;
  shared.part = projection == "up_proj" ? 1 : 0;
  shared.parts = 2;
  if (look("gate_up_proj")) return shared;
  return std::nullopt;
}

}  // namespace ironcl::checkpoint
