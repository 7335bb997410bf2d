// SPDX-License-Identifier: Apache-2.0
// The one exception of host/checkpoint.
#include "host/checkpoint/error.h"

#include <utility>

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
  switch (kind) {
    case ErrorKind::io:
      return "io";
    case ErrorKind::format:
      return "format";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::shape:
      return "shape";
    case ErrorKind::dtype:
      return "dtype";
    case ErrorKind::value:
      return "value";
    case ErrorKind::ambiguous:
      return "ambiguous";
    case ErrorKind::config:
      return "config";
    case ErrorKind::unsupported:
      return "unsupported";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, std::filesystem::path file, std::string tensor, std::string message)
    : std::runtime_error(one_line(file, tensor, message)),
      kind_(kind),
      file_(std::move(file)),
      tensor_(std::move(tensor)),
      message_(std::move(message)) {}

}  // namespace ironcl::checkpoint
