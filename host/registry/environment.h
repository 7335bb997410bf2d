// SPDX-License-Identifier: Apache-2.0
// The IRONCL_* variables that the registry reads, each in one place. Next door: docs/environment.md lists them all.
#pragma once

#include <optional>
#include <string>

namespace ironcl::registry {

/// What the environment said when the registry was made; later changes of the environment are not seen.
struct Environment {
  std::string plugin_files;            ///< IRONCL_PLUGIN_FILES: ':'-separated paths of plugins
  std::string plugin_dirs;             ///< IRONCL_PLUGIN_DIRS: ':'-separated folders of plugins
  std::string disable;                 ///< IRONCL_DISABLE: ','-separated names of plugins
  std::string device;                  ///< IRONCL_DEVICE: ','-separated URIs, the best first
  std::optional<std::string> verbose;  ///< IRONCL_VERBOSE: see log.h
};

/// Reads them with secure_getenv: a set-user-id program sees none.
Environment read_environment();

}  // namespace ironcl::registry
