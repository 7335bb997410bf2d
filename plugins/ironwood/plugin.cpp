// SPDX-License-Identifier: Apache-2.0
// libironcl_ironwood.so: the Ironwood model behind the C ABI. It has no options and reads no environment.
#include "backends/ironwood/backend.h"
#include "plugins/adapter/plugin_definition.h"

namespace {

std::unique_ptr<ironcl::backend::Backend> make_backend(const ironcl::backend::Options& options,
                                                       ironcl::backend::Log* log) {
  ironcl::adapter::check_option_names(options, {});
  return ironcl::ironwood::make_backend(log);
}

}  // namespace

IRONCL_DEFINE_PLUGIN("ironwood", make_backend);
