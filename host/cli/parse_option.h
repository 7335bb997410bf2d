// SPDX-License-Identifier: Apache-2.0
// Option texts that several subcommands share, as values. Failures are usage errors that name the option.
#pragma once

#include <optional>
#include <string>

#include "backends/numerics/bounds.h"
#include "backends/numerics/formats.h"
#include "backends/numerics/scale_grid.h"

namespace CLI {
class App;
}

namespace ironcl::cli {

/// "128" (square) or "128x128" for `option`; empty text gives nothing. Throws CommandError usage.
std::optional<numerics::ScaleGrid> parse_grid_option(const std::string& option, const std::string& text);

/// f32, bf16 or f16. Throws CommandError usage.
numerics::DType parse_out(const std::string& text);

/// f32 or tensor14. Throws CommandError usage.
numerics::AccuracyClass parse_accuracy_option(const std::string& text);

/// Examples and what the exit status means, below the options of a subcommand.
std::string footer(const std::string& examples, const std::string& exit_status);

}  // namespace ironcl::cli
