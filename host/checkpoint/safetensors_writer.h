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
  std::string dtype_name = {};  ///< The file's type where it is not dtype's: "U8", "I64".
};

using Metadata = std::map<std::string, std::string>;

/// Writes the header at once and tensor bytes as they come, in any order of tensors.
/// Threads: one at a time; write_at() of a regular file any, each its own bytes.
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
  /// Writes `bytes` of tensor `name` from its byte `begin` on; each byte once. Throws Error as write().
  void write_at(std::string_view name, std::int64_t begin, std::span<const std::byte> bytes);
  /// Puts the whole file into its place, over an older one. Throws Error: shape (a tensor lacks bytes), io.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes `tensors` (with their bytes) to `path` in one call. dtype decides, and dtype_name where that is none.
void write_safetensors(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                       const Metadata& metadata = {});

}  // namespace ironcl::checkpoint
