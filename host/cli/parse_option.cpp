// SPDX-License-Identifier: Apache-2.0
// Option texts as values.
#include "host/cli/parse_option.h"

#include <fmt/format.h>

#include "host/cli/exit_status.h"
#include "host/report/problem.h"

namespace ironcl::cli {

std::optional<numerics::ScaleGrid> parse_grid_option(const std::string& option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    return report::parse_grid(text);
  } catch (const report::ProblemError& error) {
    throw CommandError(ExitStatus::usage, fmt::format("{} {}: {}", option, text, error.what()));
  }
}

numerics::DType parse_out(const std::string& text) {
  const auto type = numerics::parse_dtype(text);
  if (!type || !numerics::is_float(*type)) {
    throw CommandError(ExitStatus::usage, fmt::format("--out {}: the result is f32, bf16 or f16", text));
  }
  return *type;
}

numerics::AccuracyClass parse_accuracy_option(const std::string& text) {
  if (text == "f32") return numerics::AccuracyClass::f32;
  if (text == "tensor14") return numerics::AccuracyClass::tensor14;
  throw CommandError(ExitStatus::usage, fmt::format("--accuracy {}: the classes are f32 and tensor14", text));
}

std::string footer(const std::string& examples, const std::string& exit_status) {
  return fmt::format("\nExamples\n{}\nExit status\n{}", examples, exit_status);
}

}  // namespace ironcl::cli
