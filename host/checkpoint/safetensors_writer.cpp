// SPDX-License-Identifier: Apache-2.0
// Writes a safetensors file in pieces. How it gets into its place is host/report/file.h's subject.
#include "host/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <boost/json.hpp>

#include "backends/numerics/checked.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

/// A tensor among those of the file.
struct Laid {
  const Tensor* tensor;
  const FileDType* type;
  std::int64_t bytes;
};

std::int64_t bytes_of(const std::filesystem::path& path, const Tensor& tensor, std::uint32_t bits) {
  for (const std::int64_t dim : tensor.shape)
    if (dim < 0) throw Error(ErrorKind::config, path, tensor.name, "has the negative dimension {}", dim);
  const auto all = tensor.bits_in_all(bits);
  if (!all) throw Error(ErrorKind::config, path, tensor.name, "has a shape that overflows 64 bits");
  return numerics::ceil_div(*all, 8);
}

/// The tensors in the order in which they lie.
std::vector<Laid> lay_out(const std::filesystem::path& path, const std::vector<Tensor>& tensors) {
  std::vector<Laid> laid;
  for (const Tensor& tensor : tensors) {
    const FileDType* type =
        find_file_dtype(tensor.dtype != DType::none ? numerics::file_name_of(tensor.dtype) : tensor.dtype_name);
    if (type == nullptr)
      throw Error(ErrorKind::config, path, tensor.name, "has no element type that a safetensors file holds");
    if (tensor.name == "__metadata__")
      throw Error(ErrorKind::config, path, tensor.name, "is a name that the format reserves");
    laid.push_back({&tensor, type, bytes_of(path, tensor, type->bits)});
  }
  std::ranges::sort(laid, [](const Laid& a, const Laid& b) {
    return a.type->bits != b.type->bits ? a.type->bits > b.type->bits : a.tensor->name < b.tensor->name;
  });
  return laid;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, const std::vector<Tensor>& tensors,
                                     const Metadata& metadata)
    : path_(std::move(path)) {
  json::object header;
  if (!metadata.empty()) header["__metadata__"] = json::value_from(metadata);
  std::int64_t at = 0;
  for (const auto& [tensor, type, bytes] : lay_out(path_, tensors)) {
    const std::int64_t end = numerics::checked_add(at, bytes);
    if (!places_.try_emplace(tensor->name, Place{at, end}).second)
      throw Error(ErrorKind::config, path_, tensor->name, "occurs twice");
    header[tensor->name] = {
        {"dtype", type->name}, {"shape", json::value_from(tensor->shape)}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = json::serialize(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts aligned
  std::string begin(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) begin[i] = static_cast<char>(std::uint64_t{text.size()} >> (8 * i));
  for (auto& [name, place] : places_)
    for (std::int64_t* byte : {&place.begin, &place.end}) *byte += std::ssize(begin) + std::ssize(text);
  with_file_errors([&] {
    file_.emplace(path_);
    file_->write_at(0, begin + text);
  });
}

void SafetensorsWriter::write_at(std::string_view name, std::int64_t begin, std::span<const std::byte> bytes) {
  const auto found = places_.find(name);
  if (found == places_.end())
    throw Error(ErrorKind::not_found, path_, std::string(name), "was not declared when the writer was made");
  Place& place = found->second;
  const std::int64_t size = place.end - place.begin, room = size - begin;
  if (std::ssize(bytes) > room)
    throw Error(ErrorKind::shape, path_, found->first, "gets {} bytes, but has room for {} more of {}", bytes.size(),
                room, size);
  with_file_errors([&] {
    file_->write_at(static_cast<std::uint64_t>(place.begin + begin),
                    {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
  const std::lock_guard lock(mutex_);
  place.written += std::ssize(bytes);
}

void SafetensorsWriter::commit() {
  for (const auto& [name, place] : places_)
    if (place.begin + place.written != place.end)
      throw Error(ErrorKind::shape, path_, name, "got {} bytes, expected {}", place.written, place.end - place.begin);
  with_file_errors([this] { file_->commit(); });
}

void write_safetensors(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                       const Metadata& metadata) {
  SafetensorsWriter writer(path, tensors, metadata);
  for (const Tensor& tensor : tensors) writer.write_at(tensor.name, 0, tensor.data);
  writer.commit();
}

}  // namespace ironcl::checkpoint
