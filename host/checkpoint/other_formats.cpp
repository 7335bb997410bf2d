// SPDX-License-Identifier: Apache-2.0
// Files of weights that are no safetensors.
#include "host/checkpoint/other_formats.h"

#include <array>
#include <fstream>
#include <string_view>

namespace ironcl::checkpoint {

std::string other_format(const std::filesystem::path& file) {
  using namespace std::string_view_literals;
  std::array<char, 8> bytes{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const std::string_view start(bytes.data(), static_cast<std::size_t>(stream.gcount()));
  constexpr const char* kTorch =
      "which is not read; save the weights with safetensors (model.save_pretrained in transformers does)";
  if (start.starts_with("GGUF"sv))
    return "is a GGUF file (llama.cpp), which is not read; take the safetensors files of the model";
  if (start.starts_with("PK\x03\x04"sv)) return std::string("is a zip archive, as torch.save writes, ") + kTorch;
  if (start.starts_with("\x80\x02"sv) || start.starts_with("\x80\x03"sv) || start.starts_with("\x80\x04"sv))
    return std::string("is a pickle, as older torch.save writes, ") + kTorch;
  if (start.starts_with("\x89HDF\r\n"sv))
    return "is an HDF5 file (Keras), which is not read; convert it to safetensors";
  if (start.starts_with("\x93NUMPY"sv)) return "is a NumPy array, which is not read; save it with safetensors";
  return {};
}

}  // namespace ironcl::checkpoint
