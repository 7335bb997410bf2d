// SPDX-License-Identifier: Apache-2.0
// The devices of the plugins in one folder, whatever the environment says.
#pragma once

#include "host/include/ironcl/ironcl.hpp"

namespace ironcl::cli_test {

inline Registry registry_of(const char* folder, const char* disable = "") {
  Registry::Options options{.use_environment = false, .plugin_dirs = folder, .disable = disable};
  return Registry::discover(options);
}

inline Registry toys() { return registry_of(TOY_PLUGIN_DIR, "opencl,ironwood"); }
inline Registry real_plugins() { return registry_of(REAL_PLUGIN_DIR); }

}  // namespace ironcl::cli_test
