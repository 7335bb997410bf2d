// SPDX-License-Identifier: Apache-2.0
// Which tensors of a checkpoint are quantised, which stay, and what the tensors of the result are called.
// Next door: convert.h (does it).
#pragma once

#include "host/checkpoint/model.h"
#include "host/checkpoint/safetensors_writer.h"
#include "host/quantize/scheme.h"

namespace ironcl::quantize {

/// A weight [n, k] as the input has it: floats, or codes of a layer.
struct Weight {
  checkpoint::Tensor tensor;                       ///< Floats.
  const checkpoint::LinearLayer* layer = nullptr;  ///< Codes, and then `tensor` is not read.
  std::int64_t n = 0, k = 0;
  std::int64_t begin = 0;  ///< The layer's row that is row 0 here.

  /// Rows [first, first + rows) as f32; a code times its scale is rounded to f32 once.
  void read(std::int64_t first, std::int64_t rows, std::span<float> x) const;
  std::uint64_t row_bytes() const;  ///< Of a row of input.
};

/// A weight that is written again.
struct Item {
  std::string name;  ///< The module, "model.layers.0.mlp.down_proj".
  Weight weight;
  std::shared_ptr<const Format> format;  ///< The plan's, or its plain one.
  std::string fused;     ///< Weights of one name share a global scale, since engines make one matrix of them.
  float input_clip = 0;  ///< Calibrated; 0: no static scale.

  TensorNames names() const { return format->names_of(name); }
  /// Its tensors in the result, without their bytes.
  std::vector<checkpoint::Tensor> specs() const;
};

/// A file of the input, and of the result under the same name.
struct Shard {
  const checkpoint::SafetensorsFile* file = nullptr;
  std::vector<const checkpoint::Tensor*> copies;  ///< Tensors copied unchanged.
  std::vector<Item> items;
};

/// A matrix of floats that stays as it is.
struct Kept {
  std::string name, why;
};

struct Plan {
  std::shared_ptr<const Format> format, plain;  ///< plain: unquantised, for quantised layers that are to be kept.
  std::vector<Shard> shards;
  std::vector<Kept> kept;
  std::vector<std::string> unmatched;  ///< Entries of `keep` that no matrix has.
  std::vector<std::string> ignored;    ///< Modules that the result's config lists as not quantised.
  bool converts = false;               ///< The input has quantised layers.

  std::size_t items() const;
};

/// Of a module's inputs [..., k]: the largest magnitude that their static scale does not clip.
struct InputClip {
  float largest = 0;
  std::int64_t k = 0;
  bool operator==(const InputClip&) const = default;
};
using InputClips = std::map<std::string, InputClip, std::less<>>;

/// Plans `checkpoint`, which must outlive the plan. `keep`: modules that stay besides embeddings, norms, routers,
/// heads and vision parts (names as checkpoint::ModuleNames has them). Throws checkpoint::Error: a layer that cannot
/// be read, nothing to do, a clip for a module that is not there or of another k, or none for one that is.
Plan make_plan(const checkpoint::Checkpoint& checkpoint, const Format& format, const std::vector<std::string>& keep,
               const InputClips& clips);

}  // namespace ironcl::quantize
