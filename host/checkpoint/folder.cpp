// SPDX-License-Identifier: Apache-2.0
// Which files a checkpoint consists of: one file, or the shards that an index names.
#include "host/checkpoint/folder.h"

#include <boost/regex.hpp>

#include "host/checkpoint/json_input.h"
#include "host/checkpoint/names.h"

namespace ironcl::checkpoint {

namespace fs = std::filesystem;
namespace json = boost::json;

std::vector<std::string> files_ending(const fs::path& folder, std::string_view suffix) {
  std::vector<std::string> names;
  std::error_code ec;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(suffix) && !name.starts_with('.') && !at->is_directory()) names.push_back(name);
  }
  if (ec) throw Error(ErrorKind::io, folder, "", "cannot be listed: {}", ec.message());
  std::ranges::sort(names, natural_less);
  return names;
}

namespace {

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

void add_file(Folder& folder, const fs::path& path) {
  folder.files.push_back(SafetensorsFile::open(path));
  for (const Tensor& tensor : folder.files.back().tensors()) {
    // Names come sorted: those of the first file each belong at the end.
    const std::size_t before = folder.tensors.size();
    const auto at = folder.tensors.emplace_hint(folder.tensors.end(), tensor.name, &tensor);
    if (folder.tensors.size() == before)
      throw Error(ErrorKind::format, tensor, "is also in {}; a tensor belongs to one shard",
                  at->second->file().filename().string());
  }
}

/// Tensor name to shard, from the index.
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const json::value root = read_json(index);
  const json::object* object = root.if_object();
  const json::value* map = object != nullptr ? object->if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object())
    throw Error(ErrorKind::format, index, "", "has no object 'weight_map' of tensor names and file names");
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : map->get_object()) {
    const std::string tensor(key.data(), key.size());
    if (!value.is_string())
      throw Error(ErrorKind::format, index, tensor, "weight_map has {} for it, expected a file name",
                  json::serialize(value));
    std::string file = json::value_to<std::string>(value);
    // An index from outside must not reach files of other folders.
    if (file.empty() || file.find('/') != std::string::npos || file.find('\\') != std::string::npos || file == "..")
      throw Error(ErrorKind::format, index, tensor,
                  "weight_map has '{}' for it, expected the plain name of a file beside the index", file);
    result.emplace(tensor, std::move(file));
  }
  return result;
}

void add_shards(Folder& folder, const fs::path& index) {
  folder.index = index;
  const std::map<std::string, std::string> weight_map = read_weight_map(index);
  if (weight_map.empty())
    throw Error(ErrorKind::format, index, "", "weight_map names no tensor; fetch the checkpoint again");
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  const fs::path directory = index.parent_path();
  std::vector<std::string> missing;
  for (const std::string& name : names)
    if (!fs::exists(directory / name)) missing.push_back(name);
  if (!missing.empty())
    throw Error(ErrorKind::not_found, directory / missing.front(), "",
                "{} of the {} shards that {} names are not there ({}); fetch the checkpoint again", missing.size(),
                names.size(), index.filename().string(), list_names(missing));
  for (const std::string& name : names) add_file(folder, directory / name);
  for (const auto& [tensor, file] : weight_map) {
    const Tensor* found = folder.find(tensor);
    if (found == nullptr || found->file().filename() != file)
      throw Error(ErrorKind::format, directory / file, tensor, "is not in this shard, where {} says it is{}",
                  index.filename().string(),
                  found == nullptr ? std::string("; fetch the checkpoint again")
                                   : fmt::format(", but in {}", found->file().filename().string()));
  }
}

/// A folder of another format says which.
[[noreturn]] void refuse_without_files(const fs::path& folder) {
  for (const std::string_view suffix : {".gguf", ".bin", ".pt", ".pth", ".ckpt"})
    for (const std::string& name : files_ending(folder, suffix))
      if (const std::string other = other_format(folder / name); !other.empty())
        throw Error(ErrorKind::unsupported, folder / name, "", other);
  throw Error(ErrorKind::not_found, folder, "",
              "has no *.safetensors; a checkpoint folder or such a file is expected");
}

/// The name of one shard of several: what stands before the numbers, and how many there are.
struct ShardName {
  std::string stem, count;
};

/// "model-00002-of-00004.safetensors"; empty for a name that counts no shards, or one.
std::optional<ShardName> shard_name(const std::string& name) {
  static const boost::regex kShard("-0*([0-9]{1,9})-of-0*([0-9]{1,9})\\.safetensors$");
  boost::smatch parts;
  if (!boost::regex_search(name, parts, kShard) || parts[2] == "1") return std::nullopt;
  return ShardName{name.substr(0, static_cast<std::size_t>(parts.position())), parts[2].str()};
}

/// Shards without the index that names them: it never came, and the layers of absent shards would be missing without
/// a word.
void refuse_shards_without_index(const fs::path& folder, const std::vector<std::string>& files) {
  const auto shard = shard_name(files.front());
  if (!shard) return;
  throw Error(
      ErrorKind::not_found, folder / (shard->stem + std::string(kIndexSuffix)), "",
      files.size() == 1
          ? fmt::format("is not there, and {} is one of {} shards; fetch the checkpoint again, or name that file",
                        files.front(), shard->count)
          : fmt::format("is not there, and {} of {} shards are ({}); fetch the checkpoint again, or name one file",
                        files.size(), shard->count, list_names(files)));
}

/// The configs of a folder, which also hold for each of its files.
void add_configs(Folder& folder, const fs::path& path) {
  for (const std::string_view name : kQuantizationConfigs)
    if (fs::is_regular_file(path / name)) folder.configs.push_back(path / name);
  if (fs::is_regular_file(path / "config.json")) folder.config = path / "config.json";
  if (fs::is_regular_file(path / "quanto_qmap.json")) folder.quanto_map = path / "quanto_qmap.json";
}

/// A file by itself. What else there is of its model: an index beside it that names it, or the count in its name.
void add_lone_file(Folder& folder, const fs::path& path) {
  add_file(folder, path);
  folder.lone = true;
  const fs::path directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  add_configs(folder, directory);
  const std::string name = path.filename().string();
  folder.partial = shard_name(name).has_value();
  for (const std::string& index : files_ending(directory, kIndexSuffix)) {
    std::map<std::string, std::string> weight_map = read_weight_map(directory / index);
    const auto is_here = [&name](const auto& entry) { return entry.second == name; };
    if (std::ranges::none_of(weight_map, is_here)) continue;
    std::erase_if(weight_map, is_here);
    folder.index = directory / index;
    folder.partial = folder.partial || !weight_map.empty();
    folder.elsewhere.merge(weight_map);
  }
}

void add_directory(Folder& folder, const fs::path& path) {
  add_configs(folder, path);
  if (fs::exists(path / "model.safetensors")) return add_file(folder, path / "model.safetensors");
  std::vector<std::string> indices = files_ending(path, kIndexSuffix);
  if (fs::exists(path / "model.safetensors.index.json")) indices = {"model.safetensors.index.json"};
  if (indices.size() == 1) return add_shards(folder, path / indices.front());
  if (indices.size() > 1)
    throw Error(ErrorKind::config, path, "",
                "has {} indices ({}) and none is model.safetensors.index.json; keep one model to a folder",
                indices.size(), list_names(indices));
  const std::vector<std::string> files = files_ending(path, ".safetensors");
  if (files.empty()) refuse_without_files(path);
  refuse_shards_without_index(path, files);
  if (files.size() > 1)
    throw Error(ErrorKind::config, path, "",
                "has {} safetensors files ({}) and no model.safetensors.index.json; name one of the files",
                files.size(), list_names(files));
  add_file(folder, path / files.front());
}

}  // namespace

Folder open_folder(const fs::path& path) {
  Folder folder;
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  if (status.type() == fs::file_type::not_found)
    throw Error(ErrorKind::not_found, path, "", "there is no such file or folder");
  if (ec) throw Error(ErrorKind::io, path, "", "cannot be read: {}", ec.message());
  try {
    if (fs::is_directory(status)) {
      add_directory(folder, path);
    } else if (path.extension() == ".json") {
      throw Error(ErrorKind::config, path, "", "is JSON; name the folder that it is in, or a safetensors file");
    } else {
      add_lone_file(folder, path);
    }
  } catch (const fs::filesystem_error& error) {  // a link loop, a name that is too long, a folder that is closed
    throw Error(ErrorKind::io, error.path1(), "", "cannot be read: {}", error.code().message());
  }
  return folder;
}

}  // namespace ironcl::checkpoint
