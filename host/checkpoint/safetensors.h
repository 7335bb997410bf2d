// SPDX-License-Identifier: Apache-2.0
// Reads a safetensors file through a memory mapping. Next door: safetensors_writer.h, model.h (layers out of files).
//
// File: u64 little-endian header length, header (JSON: {"__metadata__": {text: text}, name: {"dtype", "shape",
// "data_offsets": [begin, end]}}), tensor bytes. Offsets count from the end of the header.
// Source: the format's description in github.com/huggingface/safetensors, README.md.
#pragma once

#include "host/checkpoint/error.h"
#include "host/checkpoint/tensor.h"

namespace ironcl::checkpoint {

/// The tensors of `bytes`, a whole file: header length, header, tensor bytes. Sorted by name; they view `bytes` and
/// are of the file `info`, which gets its metadata. Throws Error format.
std::vector<Tensor> parse_safetensors(std::span<const std::byte> bytes, FileInfo& info);

/// "is a GGUF file, ...; convert ..." where the file is of another format that its first bytes give away; empty for
/// all others, and where it cannot be opened.
std::string other_format(const std::filesystem::path& file);

/// An open, fully validated file. Copies share the mapping; tensors stay valid while a copy lives.
/// Threads: immutable, any thread.
class SafetensorsFile {
 public:
  /// Maps and validates `path`. The file must not shrink while it is open.
  /// Throws Error: not_found, io (cannot open or map), format (everything that contradicts the format).
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept;
  std::uint64_t file_size() const noexcept;  ///< Bytes.
  /// All tensors, sorted by name.
  const std::vector<Tensor>& tensors() const noexcept;
  /// nullptr where there is none.
  const Tensor* find(std::string_view name) const noexcept;
  /// Throws Error not_found, which lists tensors that are there.
  const Tensor& at(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const noexcept;

  /// Whether the system should read only what is touched, or ahead of it (false, and from the start).
  void read_in_pieces(bool pieces) const;

 private:
  struct State;
  explicit SafetensorsFile(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace ironcl::checkpoint
