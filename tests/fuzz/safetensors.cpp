// SPDX-License-Identifier: Apache-2.0
// A safetensors file in memory: an Error, or tensors that lie inside the file and cover it.
#include <span>

#include "host/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ironcl;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    std::size_t covered = 0;
    checkpoint::FileInfo file{"input", {}};
    for (const checkpoint::Tensor& tensor : checkpoint::parse_safetensors(bytes, file)) {
      fuzz::must(tensor.data.empty() || (tensor.data.data() >= bytes.data() &&
                                         tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size()),
                 "a tensor lies inside its file");
      covered += tensor.data.size();
    }
    fuzz::must(covered <= size, "tensors do not overlap");
  } catch (const checkpoint::Error& error) {
    fuzz::must(std::string_view(error.what()).find("input") != std::string_view::npos, "an error names the file");
  }
  return 0;
}
