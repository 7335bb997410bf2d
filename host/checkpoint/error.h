// SPDX-License-Identifier: Apache-2.0
// The one exception of host/checkpoint: what is wrong with a file, where, and what to do about it.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace ironcl::checkpoint {

/// What kind of thing is wrong. All of them are bad input to a command (exit status 3).
enum class ErrorKind {
  io,           ///< A file cannot be opened, mapped, written or renamed.
  format,       ///< Not valid safetensors or not valid JSON: truncated, lying header, overlapping tensors, ...
  not_found,    ///< A file, tensor or layer that somebody named is not there.
  shape,        ///< A tensor has another shape than it should have.
  dtype,        ///< A tensor has an element type that cannot be used for its purpose.
  value,        ///< A scale is NaN, infinite or negative.
  ambiguous,    ///< Several block sizes fit the shapes: the caller must say which.
  config,       ///< quantization_config or metadata contradict themselves, the tensors or the caller.
  unsupported,  ///< Well formed, but a way of quantising that IronCL does not read (packed int4, FNUZ, ...).
};

/// The name of a kind as it stands in JSON: "io", "format", "not_found", ...
std::string_view name_of(ErrorKind kind) noexcept;

struct Tensor;

/// what() is one line: "FILE: tensor 'NAME': what is wrong (found, expected); what to do". Control characters of the
/// names are escaped there (host/report/visible.h), and nowhere else.
class Error : public std::runtime_error {
 public:
  /// `tensor` may be empty; `message` has neither file nor tensor in front.
  Error(ErrorKind kind, std::filesystem::path file, std::string tensor, std::string message);
  Error(ErrorKind kind, const Tensor& tensor, std::string message);
  /// The message as fmt::format makes it.
  template <class Arg, class... Args>
  Error(ErrorKind kind, std::filesystem::path file, std::string tensor, fmt::format_string<Arg, Args...> message,
        Arg&& arg, Args&&... args)
      : Error(kind, std::move(file), std::move(tensor),
              fmt::format(message, std::forward<Arg>(arg), std::forward<Args>(args)...)) {}
  template <class Arg, class... Args>
  Error(ErrorKind kind, const Tensor& tensor, fmt::format_string<Arg, Args...> message, Arg&& arg, Args&&... args)
      : Error(kind, tensor, fmt::format(message, std::forward<Arg>(arg), std::forward<Args>(args)...)) {}

  ErrorKind kind() const noexcept { return kind_; }
  const std::filesystem::path& file() const noexcept { return file_; }
  const std::string& tensor() const noexcept { return tensor_; }    ///< Empty where no one tensor is to blame.
  const std::string& message() const noexcept { return message_; }  ///< what() without file and tensor.

 private:
  ErrorKind kind_;
  std::filesystem::path file_;
  std::string tensor_;
  std::string message_;
};

/// Calls work(); an Error that it throws becomes the problem of what is being built.
template <class Work>
void note_problem(std::optional<Error>& problem, Work work) {
  try {
    work();
  } catch (const Error& error) {
    problem = error;
  }
}

}  // namespace ironcl::checkpoint
