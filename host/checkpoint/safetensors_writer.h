// SPDX-License-Identifier: Apache-2.0
// Writes a safetensors file in pieces; no reader sees half a file. Next door: host/report/file.h (how).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/checkpoint/error.h"
#include "host/checkpoint/tensor.h"

namespace ironcl::checkpoint {

/// A tensor that will be written.
struct TensorSpec {
  std::string name;
  DType dtype = DType::none;
  std::vector<std::int64_t> shape;
};

using Metadata = std::map<std::string, std::string>;

/// Writes the header at once and tensor bytes as they come, in any order of tensors.
/// Threads: one at a time.
class SafetensorsWriter {
 public:
  /// Begins the output (what `path` may be: host/report/file.h) and writes the header. Tensors are laid out by
  /// element size, widest first, then by name, so that each is aligned, as the official library does. Throws Error:
  /// io; config (a name twice, the name "__metadata__", a type that no file holds, a negative dimension).
  SafetensorsWriter(std::filesystem::path path, const std::vector<TensorSpec>& tensors,
                    const Metadata& metadata = {});
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  /// Leaves everything as it was if commit() was not reached.
  ~SafetensorsWriter();

  /// Appends `bytes` to tensor `name`. Throws Error: not_found (no such tensor), shape (more bytes than it has), io.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Puts the whole file into its place, over an older one. Throws Error: shape (a tensor lacks bytes), io.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes `tensors` (with their bytes) to `path` in one call. dtype decides; dtype_name is not read.
void write_safetensors(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                       const Metadata& metadata = {});

}  // namespace ironcl::checkpoint
