// SPDX-License-Identifier: Apache-2.0
// The JSON files of a checkpoint's folder, by the first byte: config.json, hf_quant_config.json, the index of shards,
// a model's sizes, or how its tokens choose experts. The shard that the index may name is one real file.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "host/checkpoint/error.h"
#include "host/checkpoint/folder.h"
#include "host/checkpoint/model.h"
#include "host/checkpoint/quantization_config.h"
#include "host/checkpoint/routing.h"
#include "tests/fuzz/fuzz.h"

namespace {

/// A folder of this process with one small shard, removed at the end.
struct TestFolder {
  std::filesystem::path path;
  TestFolder() : path(std::filesystem::temp_directory_path() / ("ironcl-fuzz-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
    const std::string header = R"({"a.weight":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]},)"
                               R"("a.weight_scale_inv":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}})";
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size());
    write("s.safetensors", bytes + header + std::string(8, '\0'));
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  void write(const char* name, std::string_view bytes) const {
    std::ofstream(path / name, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ironcl::checkpoint;
  static const TestFolder folder;
  ironcl::fuzz::Bytes bytes(data, size);
  const std::size_t kind = bytes.below(5);
  const std::string_view text = bytes.rest();
  std::error_code ignored;
  for (const char* name : {"config.json", "model.safetensors.index.json"})
    std::filesystem::remove(folder.path / name, ignored);
  try {
    if (kind == 0) {
      folder.write("config.json", text);
      (void)read_quantization_config(folder.path / "config.json").group_of("model.layers.0.mlp.up_proj");
    } else if (kind == 1) {
      folder.write("config.json", text);
      (void)read_modelopt_config(folder.path / "config.json");
    } else if (kind == 2) {
      folder.write("model.safetensors.index.json", text);
      (void)open_folder(folder.path);
    } else if (kind == 4) {
      folder.write("config.json", text);
      const auto routing = read_routing(folder.path / "config.json");
      ironcl::fuzz::must(!routing || !routing->unsupported.empty() ||
                             (routing->top_k >= 1 && routing->experts % routing->expert_groups == 0),
                         "a routing that is taken can be run");
    } else {
      folder.write("config.json", text);
      const Checkpoint checkpoint = Checkpoint::open(folder.path);
      for (const LinearLayer& layer : checkpoint.layers()) {
        ironcl::fuzz::must(layer.problem || layer.weight.data.size() == static_cast<std::size_t>(layer.n * layer.k),
                           "a layer without a problem has its weight");
      }
    }
  } catch (const Error& error) {
    ironcl::fuzz::must(*error.what() != '\0', "an error has a text");
  }
  return 0;
}
