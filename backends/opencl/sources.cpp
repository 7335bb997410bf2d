// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/sources.h"

#include <fstream>
#include <set>
#include <sstream>

#include "backends/interface.h"

namespace ironcl::opencl {
namespace {

std::string raw_text(const std::string& kernel_dir, const std::string& file) {
  if (!kernel_dir.empty()) {
    std::ifstream in(kernel_dir + "/" + file, std::ios::binary);
    std::ostringstream text;
    if (!(text << in.rdbuf())) {
      throw backend::Error(
          backend::Status::invalid_argument,
          "kernel file " + kernel_dir + "/" + file +
              " cannot be read; name a folder that holds every file of cl/, or none for the embedded kernels");
    }
    return text.str();
  }
  for (const EmbeddedSource& source : embedded_sources()) {
    if (source.name != file) continue;
    std::string text;
    for (const char* piece : source.pieces) text += piece;
    return text;
  }
  throw backend::Error(backend::Status::invalid_argument, "there is no embedded kernel file " + file);
}

std::string resolve(const std::string& kernel_dir, const std::string& file, std::set<std::string>& seen) {
  constexpr std::string_view kInclude = "#include \"";
  std::istringstream lines(raw_text(kernel_dir, file));
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kInclude)) {
      const std::string name = line.substr(kInclude.size(), line.find('"', kInclude.size()) - kInclude.size());
      if (seen.insert(name).second) out += resolve(kernel_dir, name, seen);
    } else {
      out += line + "\n";
    }
  }
  return out;
}

}  // namespace

std::string kernel_source(const std::string& kernel_dir, const std::string& file) {
  std::set<std::string> seen{file};
  return resolve(kernel_dir, file, seen);
}

}  // namespace ironcl::opencl
