// SPDX-License-Identifier: Apache-2.0
// Files that a test makes.
#include "tests/cli/scratch.h"

namespace ironcl::cli_test {

void write_layer(const std::string& path, const std::vector<float>& scales) {
  save(path, {OwnTensor("weight", kE4m3, {256, 256}, 0x38), OwnTensor("weight_scale_inv", {2, 2}, scales)});
}

std::string data_file(const std::string& name) { return (std::filesystem::path(TEST_DATA) / name).string(); }

}  // namespace ironcl::cli_test
