// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/error.h"

#include <array>

#include "host/checkpoint/tensor.h"
#include "host/report/visible.h"

namespace ironcl::checkpoint {
namespace {

std::string one_line(const std::filesystem::path& file, const std::string& tensor, const std::string& message) {
  std::string text = report::visible(file.string());
  if (!text.empty()) text += ": ";
  if (!tensor.empty()) text += "tensor '" + report::visible(tensor) + "': ";
  return text + message;
}

}  // namespace

std::string_view name_of(ErrorKind kind) noexcept {
  constexpr std::array<std::string_view, 9> kNames = {"io",    "format",    "not_found", "shape",      "dtype",
                                                      "value", "ambiguous", "config",    "unsupported"};
  return kNames.at(static_cast<std::size_t>(kind));
}

Error::Error(ErrorKind kind, std::filesystem::path file, std::string tensor, std::string message)
    : std::runtime_error(one_line(file, tensor, message)),
      kind_(kind),
      file_(std::move(file)),
      tensor_(std::move(tensor)),
      message_(std::move(message)) {}

Error::Error(ErrorKind kind, const Tensor& tensor, std::string message)
    : Error(kind, tensor.file(), tensor.name, std::move(message)) {}

}  // namespace ironcl::checkpoint
