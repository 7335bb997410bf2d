// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file, checked against the format and against the file's size.
#include <boost/endian/conversion.hpp>
#include <fstream>

#include "host/checkpoint/json_input.h"
#include "host/checkpoint/safetensors.h"

namespace ironcl::checkpoint {
namespace {

namespace json = boost::json;

/// The longest header that the official library reads, bytes.
constexpr std::uint64_t kLongestHeader = 100'000'000;

/// A JSON number that is a whole one, at least 0 and below 2^63.
std::optional<std::int64_t> size_from(const json::value& value) {
  if (const std::int64_t* number = value.if_int64(); number != nullptr && *number >= 0) return *number;
  return std::nullopt;
}

template <class... Args>
[[noreturn]] void fail_entry(const Tensor& tensor, fmt::format_string<Args...> message, Args&&... args) {
  throw Error(ErrorKind::format, tensor, fmt::format(message, std::forward<Args>(args)...));
}

const json::value& member(const Tensor& tensor, const json::object& entry, std::string_view name) {
  const json::value* value = entry.if_contains(name);
  if (value == nullptr) fail_entry(tensor, "its entry has no '{}'", name);
  return *value;
}

const FileDType& read_dtype(const Tensor& tensor, const json::object& entry) {
  const json::string* name = member(tensor, entry, "dtype").if_string();
  if (name == nullptr) fail_entry(tensor, "dtype is not a string");
  const FileDType* type = find_file_dtype(*name);
  if (type == nullptr)
    fail_entry(tensor, "dtype '{}' is not one of the format (F8_E4M3, F8_E5M2, F8_E8M0, BF16, F16, F32, ...)",
               std::string_view(*name));
  return *type;
}

void read_shape(Tensor& tensor, const json::object& entry) {
  const json::value& value = member(tensor, entry, "shape");
  const json::array* dims = value.if_array();
  if (dims == nullptr) fail_entry(tensor, "shape is not an array");
  for (const json::value& dim : *dims) {
    const std::optional<std::int64_t> size = size_from(dim);
    if (!size)
      fail_entry(tensor, "shape {} has the dimension {}, expected a whole number of at least 0",
                 json::serialize(value), json::serialize(dim));
    tensor.shape.push_back(*size);
  }
}

std::int64_t bytes_of(const Tensor& tensor, const FileDType& type) {
  // A dimension of 0 makes the tensor empty, whatever the others are; their product must fit all the same.
  const auto bits = tensor.bits_in_all(type.bits);
  if (!bits) fail_entry(tensor, "shape {} of {} overflows 64 bits", tensor.shape_text(), type.name);
  if (*bits % 8 != 0)
    fail_entry(tensor, "{} {} is {} bits, no whole number of bytes", type.name, tensor.shape_text(), *bits);
  return *bits / 8;
}

/// Where the tensor begins and ends in `data`, the bytes of all tensors.
std::pair<std::int64_t, std::int64_t> read_offsets(const Tensor& tensor, const json::object& entry,
                                                   std::span<const std::byte> data) {
  const json::value& value = member(tensor, entry, "data_offsets");
  const json::array* pair = value.if_array();
  const auto begin = pair != nullptr && pair->size() == 2 ? size_from((*pair)[0]) : std::nullopt;
  const auto end = pair != nullptr && pair->size() == 2 ? size_from((*pair)[1]) : std::nullopt;
  if (!begin || !end || *begin > *end)
    fail_entry(tensor, "data_offsets are {}, expected [begin, end] with 0 <= begin <= end", json::serialize(value));
  if (*end > std::ssize(data))
    fail_entry(tensor,
               "data_offsets [{}, {}] reach beyond the file, which has {} bytes of tensor data; it is cut off (fetch "
               "it again) or its header is wrong",
               *begin, *end, data.size());
  return {*begin, *end};
}

/// The tensor of one entry of the header.
Tensor read_entry(std::string_view name, const json::value& value, std::span<const std::byte> data,
                  const FileInfo& info) {
  Tensor tensor{.name = std::string(name), .from = &info};
  const json::object* entry = value.if_object();
  if (entry == nullptr) fail_entry(tensor, "its entry is not an object with dtype, shape and data_offsets");
  const FileDType& type = read_dtype(tensor, *entry);
  tensor.dtype = type.dtype;
  tensor.dtype_name = type.name;
  read_shape(tensor, *entry);
  const std::int64_t bytes = bytes_of(tensor, type);
  const auto [begin, end] = read_offsets(tensor, *entry, data);
  if (end - begin != bytes)
    fail_entry(tensor, "data_offsets [{}, {}] are {} bytes, but {} {} needs {}", begin, end, end - begin, type.name,
               tensor.shape_text(), bytes);
  tensor.data = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
  return tensor;
}

std::uint64_t read_header_length(std::span<const std::byte> bytes, const std::filesystem::path& file) {
  const auto fail = [&](const std::string& message) { throw Error(ErrorKind::format, file, "", message); };
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("version https://git-lfs"))
    fail("is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`");
  if (bytes.size() < 8)
    fail(fmt::format("has {} bytes, too few for a safetensors file (8 bytes of header length come first)",
                     bytes.size()));
  const std::uint64_t length = boost::endian::load_little_u64(reinterpret_cast<const unsigned char*>(bytes.data()));
  if (length > kLongestHeader)
    fail(fmt::format("claims a header of {} bytes, the format allows {}; it is no safetensors file, or damaged",
                     length, kLongestHeader));
  if (length > bytes.size() - 8)
    fail(fmt::format(
        "claims a header of {} bytes, but only {} follow; it is cut off (fetch it again) or no safetensors file",
        length, bytes.size() - 8));
  return length;
}

void read_metadata(const json::value& value, FileInfo& info) {
  const json::object* object = value.if_object();
  if (object == nullptr) throw Error(ErrorKind::format, info.path, "", "__metadata__ is not an object");
  for (const auto& [key, text] : *object) {
    if (!text.is_string())
      throw Error(ErrorKind::format, info.path, "", "__metadata__ '{}' is {}, expected a string",
                  std::string_view(key), json::serialize(text));
    info.metadata.emplace(key, text.get_string());
  }
}

/// The tensors, in the order in which they lie, must cover the data without overlap, hole or rest.
void check_cover(const std::vector<Tensor>& tensors, std::span<const std::byte> data,
                 const std::filesystem::path& file) {
  const auto begin_of = [data](const Tensor& tensor) { return tensor.data.data() - data.data(); };
  std::int64_t end = 0;
  const Tensor* previous = nullptr;
  for (const Tensor& tensor : tensors) {
    const std::int64_t begin = begin_of(tensor), next_end = begin + std::ssize(tensor.data);
    if (begin < end)
      throw Error(ErrorKind::format, tensor, "data_offsets [{}, {}] overlap those of '{}' [{}, {}]", begin, next_end,
                  previous->name, begin_of(*previous), end);
    if (begin > end)
      throw Error(ErrorKind::format, tensor, "data_offsets [{}, {}] leave a hole: the tensor before ends at {}",
                  begin, next_end, end);
    end = next_end;
    previous = &tensor;
  }
  if (end != std::ssize(data))
    throw Error(ErrorKind::format, file, "", "has {} bytes after its last tensor, which ends at {} of {}",
                std::ssize(data) - end, end, data.size());
}

}  // namespace

std::string other_format(const std::filesystem::path& file) {
  using namespace std::string_view_literals;
  std::array<char, 9> bytes{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const std::string_view start(bytes.data(), static_cast<std::size_t>(stream.gcount()));
  constexpr const char* kTorch =
      "which is not read; save the weights with safetensors (model.save_pretrained in transformers does)";
  if (start.starts_with("GGUF"sv))
    return "is a GGUF file (llama.cpp), which is not read; take the safetensors files of the model";
  if (start.starts_with("PK\x03\x04"sv)) return std::string("is a zip archive, as torch.save writes, ") + kTorch;
  // A header of 640, 896 or 1152 bytes begins with the same two bytes; its JSON tells.
  if (start.ends_with('{') && start.size() == bytes.size()) return {};
  if (start.starts_with("\x80\x02"sv) || start.starts_with("\x80\x03"sv) || start.starts_with("\x80\x04"sv))
    return std::string("is a pickle, as older torch.save writes, ") + kTorch;
  if (start.starts_with("\x89HDF\r\n"sv))
    return "is an HDF5 file (Keras), which is not read; convert it to safetensors";
  if (start.starts_with("\x93NUMPY"sv)) return "is a NumPy array, which is not read; save it with safetensors";
  return {};
}

std::vector<Tensor> parse_safetensors(std::span<const std::byte> bytes, FileInfo& info) {
  const std::size_t length = read_header_length(bytes, info.path);
  const std::span<const std::byte> data = bytes.subspan(8 + length);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  const json::value root = parse_json(text, info.path, "the header");
  if (!root.is_object()) throw Error(ErrorKind::format, info.path, "", "the header is not a JSON object");

  std::vector<Tensor> tensors;
  for (const auto& [name, value] : root.get_object()) {
    if (std::string_view(name) == "__metadata__")
      read_metadata(value, info);
    else
      tensors.push_back(read_entry(name, value, data, info));
  }
  std::ranges::sort(tensors, {}, [](const Tensor& one) { return std::pair(one.data.data(), one.data.size()); });
  check_cover(tensors, data, info.path);
  std::ranges::sort(tensors, {}, &Tensor::name);
  return tensors;
}

}  // namespace ironcl::checkpoint
