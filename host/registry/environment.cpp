// SPDX-License-Identifier: Apache-2.0
#include "host/registry/environment.h"

#include <cstdlib>

namespace ironcl::registry {
namespace {

std::string text_of(const char* name) {
  const char* value = ::secure_getenv(name);
  return value ? value : "";
}

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.plugin_files = text_of("IRONCL_PLUGIN_FILES");
  environment.plugin_dirs = text_of("IRONCL_PLUGIN_DIRS");
  environment.disable = text_of("IRONCL_DISABLE");
  environment.device = text_of("IRONCL_DEVICE");
  if (const std::string verbose = text_of("IRONCL_VERBOSE"); !verbose.empty()) environment.verbose = verbose;
  return environment;
}

}  // namespace ironcl::registry
