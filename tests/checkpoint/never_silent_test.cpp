// SPDX-License-Identifier: Apache-2.0
// Whatever is added beside a weight, and whatever a config says: a layer is refused, or its product stays the same.
// Over every readable folder of tests/data.
#include <boost/json.hpp>
#include <random>

#include "host/checkpoint/tensor_index.h"
#include "tests/checkpoint/products.h"

namespace ironcl::checkpoint {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
constexpr std::uint32_t kSeed = 20261124;

/// A copy of a readable folder, whose files are changed and put back.
struct Copy {
  TempDir dir;
  fs::path opened;                            ///< The copy, or the file in it that is opened.
  std::map<std::string, std::string> before;  ///< Product of each layer.

  explicit Copy(const fs::path& path) {
    const bool file = fs::is_regular_file(path);
    fs::copy(file ? path.parent_path() : path, dir.path(), fs::copy_options::recursive);
    opened = file ? dir.path() / path.filename() : dir.path();
    before = products();
  }

  /// For each usable layer everything that its product depends on; of a broken one nothing.
  std::map<std::string, std::string> products() const {
    std::map<std::string, std::string> result;
    const auto bytes = [](std::span<const std::byte> data) {
      return std::string(reinterpret_cast<const char*>(data.data()), data.size());
    };
    const Checkpoint checkpoint = Checkpoint::open(opened);
    for (const LinearLayer& layer : checkpoint.layers()) {
      if (layer.problem) continue;
      const layer::LayerWeights weights = layer::weights_of(layer);
      std::string& text = result[layer.name];
      // One scale is the same, whatever block it is of.
      const ScaleGrid grid = layer.scale.elements() == 1 ? ScaleGrid{} : layer.weight_grid;
      text =
          fmt::format("{} {} {} {} {}x{} {} {}x{} {} {}", layer.n, layer.k, numerics::name_of(layer.weight.dtype),
                      numerics::name_of(layer.scale.dtype), grid.group_rows, grid.group_cols,
                      name_of(layer.activations), layer.activation_grid.group_rows, layer.activation_grid.group_cols,
                      static_cast<int>(layer.activation_rounding), layer.activation_limit.value_or(0));
      text += bytes(weights.codes) + bytes(weights.scales) + bytes(weights.bias);
      if (layer.input_scale) text += bytes(layer.input_scale->data);
    }
    return result;
  }

  /// After a change: each layer's product is as it was, or the layer, or the folder, is refused.
  void expect_no_other_number(const std::string& change) const {
    try {
      for (const auto& [layer, product] : products())
        EXPECT_TRUE(before.contains(layer) && before.at(layer) == product) << change << ": layer " << layer;
      const Checkpoint checkpoint = Checkpoint::open(opened);
      for (const auto& [name, product] : before)
        EXPECT_TRUE(checkpoint.problem() ||
                    std::any_of(checkpoint.layers().begin(), checkpoint.layers().end(),
                                [&name = name](const LinearLayer& layer) { return layer.name == name; }))
            << change << ": layer " << name << " is gone without a word";
    } catch (const Error&) {  // refused as a whole
    }
  }
};

std::vector<fs::path> readable_folders() {
  const fs::path data = IRONCL_TESTS_DATA;
  std::vector<fs::path> result = {data / "tiny-qwen3-fp8", data / "tiny-deepseek-fp8",
                                  data / "tiny-compressed-tensors"};
  for (const fs::directory_entry& entry : fs::directory_iterator(data / "interop"))
    if (entry.is_directory() && fs::exists(entry.path().string() + ".expect.safetensors"))
      result.push_back(entry.path());
  const json::value foreign = json::parse(read_file(data / "foreign" / "folders.json"));
  for (const json::value& row : foreign.as_array())
    if (row.at("supported").as_bool())
      result.push_back(data / "foreign" /
                       json::value_to<std::string>(row.at(row.as_object().contains("path") ? "path" : "name")));
  return result;
}

/// A file with another header, which `edit` gets, and with more bytes at its end.
std::string with_header(const std::string& file, const std::function<void(json::object&)>& edit,
                        const std::string& more = "") {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  json::value header = json::parse(file.substr(8, length));
  edit(header.as_object());
  const std::string text = json::serialize(header);
  std::string result(8, '\0');
  const std::uint64_t size = text.size();
  std::memcpy(result.data(), &size, sizeof size);
  return result + text + file.substr(8 + length) + more;
}

TEST(NeverSilent, ATensorBesideAWeightRefusesItsLayerOrIsKnown) {
  std::mt19937 random(kSeed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto random_name = [&] {
    std::string name;
    for (std::size_t i = 0, size = 1 + below(12); i < size; ++i)
      name += "abcdefghijklmnopqrstuvwxyz_0123456789"[below(37)];
    return name;
  };
  const std::vector<std::pair<const char*, std::size_t>> dtypes = {
      {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8},  {"I8", 1},
      {"U8", 1},  {"I32", 4}, {"I64", 8},  {"BOOL", 1}, {"F8_E4M3", 1}};
  int added = 0;
  for (const fs::path& path : readable_folders()) {
    SCOPED_TRACE(path.string());
    const Copy copy(path);
    const Checkpoint checkpoint = Checkpoint::open(copy.opened);
    std::vector<std::string> leaves = {"left_trans", "svd_up", "alpha", "clip_ratio", "weights_scaling_factor"};
    for (int i = 0; i < 5; ++i) leaves.push_back(random_name());
    for (const std::string& leaf : leaves) {
      const auto& [dtype, width] = dtypes[below(dtypes.size())];
      const LinearLayer& layer = checkpoint.layers()[below(checkpoint.layers().size())];
      const std::string name = layer.weight.name.substr(0, leaf_of(layer.weight.name)) + leaf;
      const fs::path file = copy.dir.path() / layer.weight.file().filename();
      const std::string good = read_file(file);
      const std::size_t at = [&] {
        std::uint64_t length = 0;
        std::memcpy(&length, good.data(), sizeof length);
        return good.size() - 8 - length;
      }();
      write_file(file, with_header(
                           good,
                           [&, &dtype = dtype, &width = width](json::object& header) {
                             header[name] = {{"dtype", dtype}, {"shape", {1}}, {"data_offsets", {at, at + width}}};
                           },
                           std::string(width, '\x3c')));
      if (part_of(leaf).part == Part::none || part_of(leaf).part == Part::refused) {
        const auto after = copy.products();
        EXPECT_FALSE(after.contains(layer.name)) << name << " of " << dtype << " changes nothing, seed " << kSeed;
      }
      copy.expect_no_other_number(name);
      write_file(file, good);
      ++added;
    }
  }
  EXPECT_GT(added, 300);
}

/// Calls `look` after each member below `object` was set to each value that no tool writes, and puts it back.
void distort(json::object& object, const std::string& where, const std::function<void(const std::string&)>& look) {
  static const json::array kValues = {"no-such-value", -7, json::array(), json::object()};
  for (std::size_t i = 0; i < object.size(); ++i) {
    json::value& value = (object.begin() + i)->value();
    const std::string name = where + "." + std::string((object.begin() + i)->key());
    const json::value good = value;
    for (const json::value& bad : kValues) {
      value = bad;
      look(name + " = " + json::serialize(bad));
    }
    value = good;
    if (value.is_object()) distort(value.get_object(), name, look);
  }
}

TEST(NeverSilent, AConfigsMemberWithAValueThatNoToolWritesChangesNoProduct) {
  int changed = 0;
  for (const fs::path& path : readable_folders()) {
    SCOPED_TRACE(path.string());
    const Copy copy(path);
    for (const char* name :
         {"config.json", "hf_quant_config.json", "quant_model_description.json", "params.json", "quanto_qmap.json"}) {
      const fs::path file = copy.dir / name;
      if (!fs::exists(file)) continue;
      const std::string good = read_file(file);
      json::value root = json::parse(good);
      const auto look = [&](const std::string& change) {
        write_file(file, json::serialize(root));
        copy.expect_no_other_number(change);
        ++changed;
      };
      for (const char* member : {"quantization_config", "compression_config", "quantization"})
        if (json::value* said = root.as_object().if_contains(member); said != nullptr && said->is_object())
          distort(said->get_object(), member, look);
      if (std::string_view(name).starts_with("quan")) distort(root.as_object(), name, look);
      write_file(file, good);
    }
  }
  EXPECT_GT(changed, 500);
}

TEST(NeverSilent, AFilesMetadataWithAValueThatNoToolWritesChangesNoProduct) {
  const Copy copy(fs::path(IRONCL_TESTS_DATA) / "interop" / "ao-fp8-row");
  const fs::path file = copy.dir / "model.safetensors";
  const std::string good = read_file(file);
  json::object metadata;
  with_header(good, [&](json::object& header) { metadata = header.at("__metadata__").as_object(); });
  int changed = 0;
  for (auto& [key, text] : metadata) {
    boost::system::error_code none;
    json::value said = json::parse(text.as_string(), none);
    if (none || !said.is_object() || changed > 200) continue;
    distort(said.get_object(), std::string(key), [&, &key = key](const std::string& change) {
      write_file(file, with_header(good, [&](json::object& header) {
                   header.at("__metadata__").as_object()[key] = json::serialize(said);
                 }));
      copy.expect_no_other_number(change);
      ++changed;
    });
  }
  EXPECT_GT(changed, 20);
}

}  // namespace
}  // namespace ironcl::checkpoint
