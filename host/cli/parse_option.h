// SPDX-License-Identifier: Apache-2.0
// Options that several subcommands share: their spelling, once, and how their texts become values while the command
// line is parsed. What a text cannot be is a CommandError usage that names the option.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "backends/problem.h"
#include "host/report/json.h"
#include "host/report/table.h"

namespace ironcl::cli {

// Names that every subcommand uses.
namespace json = boost::json;
using numerics::DType;
using report::Kind;
using report::machine_field;
using report::or_null;

/// An option as the help spells it: "--device URI", its name and the word for its value.
template <class T>
CLI::Option* add_value(CLI::App& app, const std::string& spelling, T& value, const std::string& what) {
  const std::size_t blank = spelling.find(' ');
  return app.add_option(spelling.substr(0, blank), value, what)->option_text(spelling.substr(blank + 1));
}

/// A number within a range, whose default the help shows.
template <class T>
CLI::Option* add_number(CLI::App& app, const char* name, T& value, const CLI::Validator& range,
                        const std::string& what) {
  return app.add_option(name, value, what)->check(range)->capture_default_str();
}

/// An option, spelled as for add_value(), whose value is what `parse` makes of its Text, one or several.
template <class Text = std::string, class T, class Parse>
CLI::Option* add_parsed(CLI::App& app, const std::string& spelling, T& value, const std::string& what, Parse parse) {
  const std::size_t blank = spelling.find(' ');
  const std::function<void(const Text&)> take = [&value, parse](const Text& text) { value = parse(text); };
  return app.add_option_function(spelling.substr(0, blank), take, what)->option_text(spelling.substr(blank + 1));
}

/// --out-dtype, short --out: f32, bf16 or f16. `type` holds the default.
CLI::Option* add_out_dtype(CLI::App& app, DType& type);

/// An element type of `option`, one of `allowed`. Throws CommandError usage.
DType parse_dtype_option(const std::string& option, const std::string& text, const std::vector<DType>& allowed);
/// An option for that. `type`: a DType, whose value is the default that the help shows, or an optional one.
template <class T>
CLI::Option* add_dtype(CLI::App& app, const std::string& option, T& type, const std::vector<DType>& allowed,
                       std::string what) {
  if constexpr (std::is_same_v<T, DType>) what += fmt::format(" (default: {})", numerics::name_of(type));
  return add_parsed(app, option + " DTYPE", type, what,
                    [=](const std::string& text) { return parse_dtype_option(option, text, allowed); });
}

/// ROWSxCOLS, or one number for a square: --block of the weights, --x-block of the activations' scales.
CLI::Option* add_block(CLI::App& app, const std::string& option, std::optional<numerics::ScaleGrid>& grid,
                       const std::string& what);

/// KEY=VALUE texts, of an option that may be repeated: --opt, for a backend.
CLI::Option* add_key_values(CLI::App& app, const std::string& option, Options& pairs, const std::string& what);

/// --accuracy f32|tensor14, with `both` also both, which are f32 and tensor14 in this order. IRONCL_ACCURACY is its
/// default.
CLI::Option* add_accuracy(CLI::App& app, std::vector<numerics::AccuracyClass>& classes, bool both);

/// Throws CommandError usage where `text` is not FILE:TENSOR (FILE:VALUES,SCALES where `count` is 2).
void check_tensor_ref(const std::string& option, const std::string& text, std::size_t count);
/// An option for that, as add_option() has it; `refs` is one text or several.
template <class Refs>
CLI::Option* add_tensor_ref(CLI::App& app, const char* spelling, Refs& refs, std::size_t count,
                            const std::string& what) {
  CLI::Option* option = add_value(app, spelling, refs, what);
  return option->each([=](const std::string& text) { check_tensor_ref(option->get_name(), text, count); });
}

/// Throws CommandError usage where one of `options` was given, which would be ignored; `text` has a {} for its name.
void refuse_options(const CLI::App& app, const std::string& text, std::initializer_list<const char*> options);

/// --json [FILE], for a command whose only result is a report: without FILE, or with -, to the standard output.
void add_json_option(CLI::App& app, std::string& json);
/// Prints `text`, unless JSON goes to the standard output, and writes `report` where --json says, if it does.
void deliver(const std::string& json, const std::string& text, const json::value& report);

/// Checks of an option's number: finite and above 0; finite and not negative. CLI11's own print the largest double.
CLI::Validator above_zero();
CLI::Validator not_negative();

}  // namespace ironcl::cli
