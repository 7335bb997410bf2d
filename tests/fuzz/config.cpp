// SPDX-License-Identifier: Apache-2.0
// The JSON files of a checkpoint's folder, by the first byte: config.json, hf_quant_config.json, the index of shards,
// a model's sizes, or how its tokens choose experts. The shard that the index may name is one real file.
#include <filesystem>

#include "host/checkpoint/error.h"
#include "host/checkpoint/folder.h"
#include "host/checkpoint/model.h"
#include "host/checkpoint/quantization_config.h"
#include "host/checkpoint/routing.h"
#include "tests/fuzz/fuzz.h"
#include "tests/temp_dir.h"

namespace {

/// A folder of this process with one small shard.
struct TestFolder : ironcl::TempDir {
  TestFolder() {
    const std::string header = R"({"a.weight":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,4]},)"
                               R"("a.weight_scale_inv":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}})";
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size());
    file("s.safetensors", bytes + header + std::string(8, '\0'));
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
  for (const char* name : {"config.json", "hf_quant_config.json", "model.safetensors.index.json"})
    std::filesystem::remove(folder / name, ignored);
  try {
    if (kind == 0) {
      folder.file("config.json", std::string(text));
      (void)read_quantization_config(folder / "config.json").group_of("model.layers.0.mlp.up_proj");
    } else if (kind == 1) {
      folder.file("hf_quant_config.json", std::string(text));
      (void)read_quantization_config(folder / "hf_quant_config.json");
    } else if (kind == 2) {
      folder.file("model.safetensors.index.json", std::string(text));
      (void)open_folder(folder.path());
    } else if (kind == 4) {
      folder.file("config.json", std::string(text));
      const auto routing = read_routing(folder / "config.json");
      ironcl::fuzz::must(!routing || !routing->unsupported.empty() ||
                             (routing->top_k >= 1 && routing->experts % routing->expert_groups == 0),
                         "a routing that is taken can be run");
    } else {
      folder.file("config.json", std::string(text));
      const Checkpoint checkpoint = Checkpoint::open(folder.path());
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
