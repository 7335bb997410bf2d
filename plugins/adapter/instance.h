// SPDX-License-Identifier: Apache-2.0
// What a plugin brings: its name, how its backend is made, and the options and variables that it reads. Next door:
// instance.cpp (what a loaded plugin holds), plugin_definition.h.
#pragma once

#include <initializer_list>

#include "backends/interface.h"

namespace ironcl::adapter {

/// Makes the backend at load. `options` are those of load(); throws invalid_argument for one it does not know. `log`
/// outlives the backend and all its objects.
using MakeBackend = std::unique_ptr<backend::Backend> (*)(const backend::Options& options, backend::Log* log);

/// Throws invalid_argument where an option is not one of `known`, and names those.
void check_option_names(const backend::Options& options, std::initializer_list<std::string_view> known);

/// The value of an option, else of an environment variable (not read in a setuid program), else empty. An empty value
/// counts as unset.
std::optional<std::string> setting(const backend::Options& options, std::string_view option, const char* variable);

/// What IRONCL_DEFINE_PLUGIN says of this library.
struct Definition {
  const char* name;
  MakeBackend make;
};
extern const Definition plugin_definition;

}  // namespace ironcl::adapter
