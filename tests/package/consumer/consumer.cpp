// SPDX-License-Identifier: Apache-2.0
// Finds the installed plugins and multiplies on the first device that will: consumer_cpp PLUGIN... names those that
// must have been found.
#include <algorithm>
#include <cstdio>
#include <ironcl/ironcl.hpp>

int main(int count, char** arguments) {
  ironcl::Registry registry = ironcl::Registry::discover();
  for (const auto& entry : registry.report())
    std::printf("%s %s %s %s\n", ironcl_outcome_name(entry.outcome), ironcl_step_name(entry.step), entry.path.c_str(),
                entry.reason.c_str());
  const auto plugins = registry.plugins();
  for (int i = 1; i < count; ++i) {
    if (std::ranges::none_of(plugins, [&](const auto& plugin) { return plugin.name == arguments[i]; })) {
      std::printf("the plugin %s was not found\n", arguments[i]);
      return 1;
    }
  }
  const ironcl::GemmDesc desc{.m = 1, .n = 128, .k = 128};
  const ironcl::Device device = registry.select(desc, "ironwood:0");
  std::printf("%s will run it with %s\n", device.uri().c_str(), ironcl::Gemm(device, desc).info().variant);
  return 0;
}
