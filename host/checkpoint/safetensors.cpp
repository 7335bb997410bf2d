// SPDX-License-Identifier: Apache-2.0
// A safetensors file, mapped into memory. The header's rules are in safetensors_header.cpp.
#include "host/checkpoint/safetensors.h"

#include <algorithm>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>

#include "backends/words.h"
#include "host/checkpoint/names.h"

namespace ironcl::checkpoint {

namespace ipc = boost::interprocess;

struct SafetensorsFile::State {
  FileInfo info;
  mutable ipc::mapped_region region;  ///< Advice to the system does not change what it shows.
  std::vector<Tensor> tensors;
};

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  std::error_code ec;
  const std::filesystem::file_status status = std::filesystem::status(path, ec);
  if (status.type() == std::filesystem::file_type::not_found)
    throw Error(ErrorKind::not_found, path, "", "there is no such file");
  if (ec) throw Error(ErrorKind::io, path, "", "cannot be read: {}", ec.message());
  if (!std::filesystem::is_regular_file(status)) throw Error(ErrorKind::io, path, "", "is not a file");
  if (std::filesystem::is_empty(path, ec)) throw Error(ErrorKind::format, path, "", "is empty");

  const auto state = std::make_shared<State>();
  state->info.path = path;
  try {
    const ipc::file_mapping mapping(path.c_str(), ipc::read_only);
    state->region = ipc::mapped_region(mapping, ipc::read_only);
  } catch (const ipc::interprocess_exception& error) {
    throw Error(ErrorKind::io, path, "", "cannot be mapped into memory: {}", error.what());
  }
  if (const std::string other = other_format(path); !other.empty())
    throw Error(ErrorKind::unsupported, path, "", other);
  state->tensors = parse_safetensors(
      {static_cast<const std::byte*>(state->region.get_address()), state->region.get_size()}, state->info);
  return SafetensorsFile(state);
}

void SafetensorsFile::read_in_pieces(bool pieces) const {
  state_->region.advise(pieces ? ipc::mapped_region::advice_random : ipc::mapped_region::advice_normal);
}

const std::filesystem::path& SafetensorsFile::path() const noexcept { return state_->info.path; }
std::uint64_t SafetensorsFile::file_size() const noexcept { return state_->region.get_size(); }
const std::vector<Tensor>& SafetensorsFile::tensors() const noexcept { return state_->tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const noexcept { return state_->info.metadata; }

const Tensor* SafetensorsFile::find(std::string_view name) const noexcept {
  const std::vector<Tensor>& all = tensors();
  const auto at = std::ranges::lower_bound(all, name, {}, &Tensor::name);
  return at != all.end() && at->name == name ? &*at : nullptr;
}

const Tensor& SafetensorsFile::at(std::string_view name) const {
  if (const Tensor* tensor = find(name)) return *tensor;
  std::vector<std::string> names = words::each(tensors(), &Tensor::name);
  std::ranges::sort(names, natural_less);
  throw Error(ErrorKind::not_found, path(), std::string(name), "is not in the file; it has {}",
              list_names(names, 12));
}

}  // namespace ironcl::checkpoint
