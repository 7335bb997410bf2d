// SPDX-License-Identifier: Apache-2.0
// Writes a safetensors file in pieces. How it gets into its place is host/report/file.h's subject.
#include "host/checkpoint/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "backends/numerics/checked.h"
#include "host/report/file.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

/// A tensor's place in the data, and how far it is written.
struct Place {
  TensorSpec spec;
  std::string_view type;
  std::uint32_t bits = 0;  ///< Of one element.
  std::int64_t begin = 0, end = 0, written = 0;
};

std::int64_t bytes_of(const std::filesystem::path& path, const TensorSpec& spec, std::uint32_t bits) {
  std::int64_t total = bits;
  try {
    for (const std::int64_t dim : spec.shape) {
      if (dim < 0) throw Error(ErrorKind::config, path, spec.name, "has the negative dimension {}", dim);
      total = numerics::checked_mul(total, dim);
    }
  } catch (const std::overflow_error&) {
    throw Error(ErrorKind::config, path, spec.name, "has a shape that overflows 64 bits");
  }
  return numerics::ceil_div(total, 8);
}

std::vector<Place> lay_out(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors) {
  std::vector<Place> places;
  for (const TensorSpec& spec : tensors) {
    const FileDType* type = spec.dtype_name.empty() ? file_dtype_of(spec.dtype) : find_file_dtype(spec.dtype_name);
    if (type == nullptr)
      throw Error(ErrorKind::config, path, spec.name, "has no element type that a safetensors file holds");
    if (spec.name == "__metadata__")
      throw Error(ErrorKind::config, path, spec.name, "is a name that the format reserves");
    places.push_back({spec, type->name, type->bits, 0, bytes_of(path, spec, type->bits), 0});
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return a.bits != b.bits ? a.bits > b.bits : a.spec.name < b.spec.name;
  });
  std::int64_t at = 0;
  for (Place& place : places) {
    place.begin = at;
    place.end = at = numerics::checked_add(at, place.end);
  }
  return places;
}

std::string header_of(const std::filesystem::path& path, const std::vector<Place>& places, const Metadata& metadata) {
  json::object header;
  if (!metadata.empty()) {
    json::object texts;
    for (const auto& [key, value] : metadata) texts[key] = value;
    header["__metadata__"] = std::move(texts);
  }
  for (const Place& place : places) {
    if (header.contains(place.spec.name)) throw Error(ErrorKind::config, path, place.spec.name, "occurs twice");
    json::array shape(place.spec.shape.begin(), place.spec.shape.end());
    header[place.spec.name] = {{"dtype", json::string_view(place.type.data(), place.type.size())},
                               {"shape", std::move(shape)},
                               {"data_offsets", {place.begin, place.end}}};
  }
  std::string text = json::serialize(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts aligned
  std::string result(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) result[i] = static_cast<char>(std::uint64_t{text.size()} >> (8 * i));
  return result + text;
}

}  // namespace

struct SafetensorsWriter::State {
  std::filesystem::path path;
  std::vector<Place> places;
  std::unordered_map<std::string_view, Place*> by_name;
  std::mutex mutex;             ///< Of how far places are written.
  std::int64_t data_begin = 0;  ///< Bytes before the first tensor.
  std::optional<report::OutputFile> file;

  /// step(), with what the file says as this folder's error.
  template <class Step>
  void attempt(Step step) const {
    try {
      step();
    } catch (const report::FileError& error) {
      throw Error(ErrorKind::io, error.path(), "", "cannot be written: {}", error.reason());
    }
  }
};

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, const std::vector<TensorSpec>& tensors,
                                     const Metadata& metadata)
    : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  state_->places = lay_out(state_->path, tensors);
  const std::string header = header_of(state_->path, state_->places, metadata);
  for (Place& place : state_->places) state_->by_name.emplace(place.spec.name, &place);
  state_->data_begin = static_cast<std::int64_t>(header.size());
  state_->attempt([&] {
    state_->file.emplace(state_->path);
    state_->file->write_at(0, header);
  });
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;
SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const auto found = state_->by_name.find(name);
  write_at(name, found == state_->by_name.end() ? 0 : found->second->written, bytes);
}

void SafetensorsWriter::write_at(std::string_view name, std::int64_t begin, std::span<const std::byte> bytes) {
  const auto found = state_->by_name.find(name);
  if (found == state_->by_name.end())
    throw Error(ErrorKind::not_found, state_->path, std::string(name), "was not declared when the writer was made");
  Place& place = *found->second;
  const std::int64_t room = place.end - place.begin - begin;
  if (static_cast<std::int64_t>(bytes.size()) > room)
    throw Error(ErrorKind::shape, state_->path, place.spec.name, "gets {} bytes, but has room for {} more of {}",
                bytes.size(), room, place.end - place.begin);
  state_->attempt([&] {
    state_->file->write_at(static_cast<std::uint64_t>(state_->data_begin + place.begin + begin),
                           {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
  const std::lock_guard lock(state_->mutex);
  place.written += static_cast<std::int64_t>(bytes.size());
}

void SafetensorsWriter::commit() {
  for (const Place& place : state_->places)
    if (place.begin + place.written != place.end)
      throw Error(ErrorKind::shape, state_->path, place.spec.name, "got {} bytes, expected {}", place.written,
                  place.end - place.begin);
  if (!state_->file) return;
  state_->attempt([&] { state_->file->commit(); });
  state_->file.reset();
}

void write_safetensors(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                       const Metadata& metadata) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const Tensor& tensor : tensors)
    specs.push_back({tensor.name, tensor.dtype, tensor.shape,
                     tensor.dtype == DType::none ? std::string(tensor.dtype_name) : std::string()});
  SafetensorsWriter writer(path, specs, metadata);
  for (const Tensor& tensor : tensors) writer.write(tensor.name, tensor.data);
  writer.commit();
}

}  // namespace ironcl::checkpoint
