// SPDX-License-Identifier: Apache-2.0
// Options that several subcommands share: their spelling, once, and their texts as values. Failures are usage errors
// that name the option.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/numerics/bounds.h"
#include "backends/numerics/formats.h"
#include "backends/numerics/scale_grid.h"

namespace ironcl::cli {

/// A backend's own options, in the order given.
using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// A number within a range, whose default the help shows.
template <class T>
CLI::Option* add_number(CLI::App& app, const char* name, T& value, const CLI::Validator& range,
                        const std::string& what) {
  return app.add_option(name, value, what)->check(range)->capture_default_str();
}

/// --out-dtype, short --out. `text` holds the default.
CLI::Option* add_out_dtype(CLI::App& app, std::string& text);
/// --x-dtype: what activations come in; `what` says it for this command. `text` holds the default.
CLI::Option* add_x_dtype(CLI::App& app, std::string& text, const std::string& what);
/// --block ROWSxCOLS of the weights.
CLI::Option* add_block(CLI::App& app, std::string& text, const std::string& what);
/// --x-block ROWSxCOLS of the activations.
CLI::Option* add_x_block(CLI::App& app, std::string& text, const std::string& what);
/// --opt KEY=VALUE, which may be repeated.
CLI::Option* add_backend_options(CLI::App& app, std::vector<std::string>& texts, const std::string& what);

/// --accuracy f32|tensor14, with `both` also both; IRONCL_ACCURACY is its default.
CLI::Option* add_accuracy(CLI::App& app, std::string& text, bool both);

/// "128" (square) or "128x128" for `option`; empty text gives nothing. Throws CommandError usage.
std::optional<numerics::ScaleGrid> parse_grid_option(const std::string& option, const std::string& text);

/// f32, bf16 or f16 of --out-dtype. Throws CommandError usage.
numerics::DType parse_out_dtype(const std::string& text);

/// An element type of `option`, one of `allowed`. Throws CommandError usage.
numerics::DType parse_dtype_option(const std::string& option, const std::string& text,
                                   const std::vector<numerics::DType>& allowed);

/// f32 or tensor14. Throws CommandError usage.
numerics::AccuracyClass parse_accuracy_option(const std::string& text);

/// f32, tensor14, or both of them in this order ("both"). Throws CommandError usage.
std::vector<numerics::AccuracyClass> parse_accuracies_option(const std::string& text);

/// "KEY=VALUE" texts of `option`. Throws CommandError usage.
KeyValues parse_key_values(const std::string& option, const std::vector<std::string>& texts);

/// Throws CommandError usage where one of `options` was given, which would be ignored; `text` has a {} for its name.
void refuse_options(const CLI::App& app, const std::string& text, std::initializer_list<const char*> options);

/// --json [FILE], for a command whose only result is a report: without FILE, or with -, to the standard output.
void add_json_option(CLI::App& app, std::string& json);

/// Checks of an option's number: finite and above 0; finite and not negative. CLI11's own print the largest double.
CLI::Validator above_zero();
CLI::Validator not_negative();

/// Throws CommandError usage where `text` is neither empty nor FILE:TENSOR (FILE:VALUES,SCALES where `count` is 2).
void check_tensor_ref(const std::string& option, const std::string& text, std::size_t count);

}  // namespace ironcl::cli
