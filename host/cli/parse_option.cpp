// SPDX-License-Identifier: Apache-2.0
// Shared options, and option texts as values.
#include "host/cli/parse_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "backends/words.h"
#include "host/checkpoint/matrix.h"
#include "host/cli/command.h"
#include "host/report/problem.h"

namespace ironcl::cli {
namespace {

using numerics::DType;

CLI::Validator number_that(const char* complaint, bool (*is_right)(double)) {
  return CLI::Validator(
      [=](std::string& text) {
        const auto number = words::number<double>(text);
        return number && std::isfinite(*number) && is_right(*number) ? std::string()
                                                                     : fmt::format("'{}' {}", text, complaint);
      },
      "");
}

}  // namespace

CLI::Option* add_out_dtype(CLI::App& app, std::string& text) {
  return app.add_option("--out-dtype,--out", text, fmt::format("type of the result (default: {})", text))
      ->option_text("f32|bf16|f16");
}

CLI::Option* add_x_dtype(CLI::App& app, std::string& text, const std::string& what) {
  return app.add_option("--x-dtype", text, text.empty() ? what : fmt::format("{} (default: {})", what, text))
      ->option_text("DTYPE");
}

CLI::Option* add_block(CLI::App& app, std::string& text, const std::string& what) {
  return app.add_option("--block", text, text.empty() ? what : fmt::format("{} (default: {})", what, text))
      ->option_text("ROWSxCOLS");
}

CLI::Option* add_x_block(CLI::App& app, std::string& text, const std::string& what) {
  return app.add_option("--x-block", text, what)->option_text("ROWSxCOLS");
}

CLI::Option* add_backend_options(CLI::App& app, std::vector<std::string>& texts, const std::string& what) {
  return app.add_option("--opt", texts, what)->option_text("KEY=VALUE");
}

CLI::Option* add_accuracy(CLI::App& app, std::string& text, bool both) {
  return app
      .add_option("--accuracy", text,
                  std::string("weakest accuracy class of a device (default: f32); tensor14 also\n"
                              "allows hardware that accumulates in about 14 bits") +
                      (both ? "; both: one beside the other" : ""))
      ->option_text(both ? "f32|tensor14|both" : "f32|tensor14")
      ->envname("IRONCL_ACCURACY");
}

std::optional<numerics::ScaleGrid> parse_grid_option(const std::string& option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    return report::parse_grid(text);
  } catch (const report::ProblemError& error) {
    usage("{} {}: {}", option, text, error.what());
  }
}

DType parse_out_dtype(const std::string& text) {
  const auto type = numerics::parse_dtype(text);
  if (!type || !numerics::is_float(*type)) usage("--out-dtype {}: the result is f32, bf16 or f16", text);
  return *type;
}

DType parse_dtype_option(const std::string& option, const std::string& text, const std::vector<DType>& allowed) {
  const auto type = numerics::parse_dtype(text);
  if (type && std::find(allowed.begin(), allowed.end(), *type) != allowed.end()) return *type;
  std::vector<std::string_view> names;
  names.reserve(allowed.size());
  for (const DType one : allowed) names.push_back(numerics::name_of(one));
  usage("{} {}: write one of {}", option, text, fmt::join(names, ", "));
}

numerics::AccuracyClass parse_accuracy_option(const std::string& text) {
  const auto accuracy = numerics::parse_accuracy(text);
  if (!accuracy) usage("--accuracy {}: the classes are f32 and tensor14", text);
  return *accuracy;
}

std::vector<numerics::AccuracyClass> parse_accuracies_option(const std::string& text) {
  if (text == "both") return {numerics::AccuracyClass::f32, numerics::AccuracyClass::tensor14};
  return {parse_accuracy_option(text)};
}

KeyValues parse_key_values(const std::string& option, const std::vector<std::string>& texts) {
  KeyValues pairs;
  for (const std::string& text : texts) {
    const auto pair = words::key_value(text);
    if (!pair) usage("{} {}: write KEY=VALUE", option, text);
    pairs.emplace_back(*pair);
  }
  return pairs;
}

CLI::Validator above_zero() {
  return number_that("is not a number above 0", [](double number) { return number > 0; });
}

CLI::Validator not_negative() {
  return number_that("is not a number of at least 0", [](double number) { return number >= 0; });
}

void check_tensor_ref(const std::string& option, const std::string& text, std::size_t count) {
  if (text.empty()) return;
  try {
    checkpoint::parse_tensor_ref(text, count);
  } catch (const checkpoint::Error& error) {
    usage("{} {}", option, error.message());
  }
}

void refuse_options(const CLI::App& app, const std::string& text, std::initializer_list<const char*> options) {
  for (const char* option : options)
    if (app.count(option) != 0) usage("{}", fmt::format(fmt::runtime(text), option));
}

void add_json_option(CLI::App& app, std::string& json) {
  app.add_option("--json", json,
                 "as JSON, to FILE (a name that ends in .json, or --json=FILE) or the standard output")
      ->option_text("[FILE]")
      ->expected(0, 1)
      ->default_str("-");
}

}  // namespace ironcl::cli
