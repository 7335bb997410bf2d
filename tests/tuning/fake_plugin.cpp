// SPDX-License-Identifier: Apache-2.0
// The fake device as a plugin: once linked into the test program, once as a library whose plans take 10 ms.
#include "plugins/adapter/plugin_definition.h"
#include "tests/tuning/fake_device.h"

#if defined(SLOW_PLANS)
namespace {
std::unique_ptr<ironcl::backend::Backend> make_slow(const ironcl::backend::Options& options,
                                                    ironcl::backend::Log* log) {
  ironcl::tuning_test::script().sleeps = true;
  ironcl::tuning_test::script().plan_seconds = 0.01;
  return ironcl::tuning_test::make_backend(options, log);
}
}  // namespace
IRONCL_DEFINE_PLUGIN("tuning_fake", make_slow);
#else
IRONCL_DEFINE_PLUGIN("tuning_fake", ironcl::tuning_test::make_backend);
#endif
