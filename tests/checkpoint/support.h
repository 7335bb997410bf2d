// SPDX-License-Identifier: Apache-2.0
// Broken safetensors files, models in a folder, and one way to assert an Error. Next door: ../tensors.h.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "host/checkpoint/model.h"
#include "tests/tensors.h"

namespace ironcl::checkpoint {

inline std::filesystem::path write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

/// A safetensors file as the header claims it: no part is checked or made to fit.
inline std::string raw_safetensors(const std::string& header, std::size_t data_bytes) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i));
  return file + header + std::string(data_bytes, '\0');
}

/// Expects `error` to be of `kind`, about `file` and `tensor`, and its one line to have every one of `parts`.
inline void expect_error(const Error& error, ErrorKind kind, const std::filesystem::path& file,
                         const std::string& tensor, const std::vector<std::string>& parts) {
  const std::string text = error.what();
  EXPECT_EQ(name_of(error.kind()), name_of(kind)) << text;
  EXPECT_EQ(error.file(), file) << text;
  EXPECT_EQ(error.tensor(), tensor) << text;
  EXPECT_TRUE(text.starts_with(file.string())) << text;
  EXPECT_TRUE(tensor.empty() || text.find("tensor '" + tensor + "'") != std::string::npos) << text;
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
}

/// The same for the error that `action` throws.
inline void expect_throw(const std::function<void()>& action, ErrorKind kind, const std::filesystem::path& file,
                         const std::string& tensor, const std::vector<std::string>& parts) {
  try {
    action();
  } catch (const Error& error) {
    return expect_error(error, kind, file, tensor, parts);
  }
  ADD_FAILURE() << "nothing was thrown, expected " << name_of(kind) << " about " << file;
}

/// A folder with model.safetensors and, where it is not empty, config.json; `files` are more, with their text.
struct Model {
  TempDir dir;
  std::filesystem::path file;
  Model(const std::vector<OwnTensor>& tensors, const std::string& config, const Metadata& metadata = {},
        const std::map<std::string, std::string>& files = {}) {
    file = save(dir / "model.safetensors", tensors, metadata);
    if (!config.empty()) write_file(dir / "config.json", config);
    for (const auto& [name, text] : files) write_file(dir / name, text);
  }
  Checkpoint open(const OpenOptions& options = {}) const { return Checkpoint::open(dir.path(), options); }
  /// The only layer, which must be broken in this way.
  void expect_problem(ErrorKind kind, const std::string& tensor, const std::vector<std::string>& parts,
                      const OpenOptions& options = {}) const {
    const Checkpoint checkpoint = open(options);
    ASSERT_EQ(checkpoint.layers().size(), 1u);
    ASSERT_TRUE(checkpoint.layers()[0].problem.has_value());
    expect_error(*checkpoint.layers()[0].problem, kind, file, tensor, parts);
    EXPECT_THROW(checkpoint.layers()[0].check(), Error);
    EXPECT_THROW(checkpoint.layer(checkpoint.layers()[0].name), Error);
  }
};

}  // namespace ironcl::checkpoint
