// SPDX-License-Identifier: Apache-2.0
// Shared options, and option texts as values.
#include "host/cli/parse_option.h"

#include <cmath>

#include "backends/words.h"
#include "host/checkpoint/matrix.h"
#include "host/cli/command.h"
#include "host/report/file.h"
#include "host/report/print.h"
#include "host/report/problem.h"

namespace ironcl::cli {
namespace {

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

CLI::Option* add_out_dtype(CLI::App& app, DType& type) {
  const std::string what = fmt::format("type of the result (default: {})", numerics::name_of(type));
  return add_parsed(app, "--out-dtype,--out f32|bf16|f16", type, what, [](const std::string& text) {
    const auto parsed = numerics::parse_dtype(text);
    if (!parsed || !numerics::is_float(*parsed)) usage("--out-dtype {}: the result is f32, bf16 or f16", text);
    return *parsed;
  });
}

DType parse_dtype_option(const std::string& option, const std::string& text, const std::vector<DType>& allowed) {
  const auto type = numerics::parse_dtype(text);
  if (type && std::find(allowed.begin(), allowed.end(), *type) != allowed.end()) return *type;
  const auto names = words::each(allowed, [](DType one) { return numerics::name_of(one); });
  usage("{} {}: write one of {}", option, text, fmt::join(names, ", "));
}

CLI::Option* add_block(CLI::App& app, const std::string& option, std::optional<numerics::ScaleGrid>& grid,
                       const std::string& what) {
  return add_parsed(app, option + " ROWSxCOLS", grid, what, [option](const std::string& text) {
    return or_usage(fmt::format("{} {}", option, text), [&] { return report::parse_grid(text); });
  });
}

CLI::Option* add_key_values(CLI::App& app, const std::string& option, Options& pairs, const std::string& what) {
  using Texts = std::vector<std::string>;
  return add_parsed<Texts>(app, option + " KEY=VALUE", pairs, what, [option](const Texts& texts) {
    Options parsed;
    for (const std::string& text : texts) {
      const auto pair = words::key_value(text);
      if (!pair) usage("{} {}: write KEY=VALUE", option, text);
      parsed.emplace_back(*pair);
    }
    return parsed;
  });
}

CLI::Option* add_accuracy(CLI::App& app, std::vector<numerics::AccuracyClass>& classes, bool both) {
  const std::string what = fmt::format(
      "weakest accuracy class of a device (default: f32); tensor14 also\n"
      "allows hardware that accumulates in about 14 bits{}",
      both ? "; both: one beside the other" : "");
  const auto parse = [both](const std::string& text) -> std::vector<numerics::AccuracyClass> {
    if (text == "both" && both) return {numerics::AccuracyClass::f32, numerics::AccuracyClass::tensor14};
    if (text == "both")
      usage(
          "--accuracy both (or IRONCL_ACCURACY=both) is for compare and bench: run makes one result; "
          "give --accuracy f32 or tensor14");
    const auto accuracy = numerics::parse_accuracy(text);
    if (!accuracy) usage("--accuracy {}: the classes are f32 and tensor14", text);
    return {*accuracy};
  };
  const char* const spelling = both ? "--accuracy f32|tensor14|both" : "--accuracy f32|tensor14";
  return add_parsed(app, spelling, classes, what, parse)->envname("IRONCL_ACCURACY");
}

CLI::Validator above_zero() {
  return number_that("is not a number above 0", [](double number) { return number > 0; });
}

CLI::Validator not_negative() {
  return number_that("is not a number of at least 0", [](double number) { return number >= 0; });
}

void check_tensor_ref(const std::string& option, const std::string& text, std::size_t count) {
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

void deliver(const std::string& json, const std::string& text, const json::value& report) {
  if (json != "-") report::print_text(text);
  if (!json.empty()) report::write_file(json, report::to_text(report));
}

}  // namespace ironcl::cli
