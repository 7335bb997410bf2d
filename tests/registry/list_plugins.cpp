// SPDX-License-Identifier: Apache-2.0
// Prints what a registry finds, for tests that need a process of their own: list_plugins [leave | file PATH].
// "leave" ends the process with the registry and objects alive, as an application that forgets to clean up does.
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "host/include/ironcl/ironcl.hpp"

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  auto& registry = *new ironcl::Registry();
  try {
    if (mode == "file") {
      registry.load_file(arguments[2]);
    } else {
      registry.search();
    }
  } catch (const ironcl::Error& error) {
    std::printf("error %s\n", error.what());
  }
  for (const auto& entry : registry.report()) {
    std::printf("report %s %s %s %s %s\n", ironcl_outcome_name(entry.outcome), ironcl_step_name(entry.step),
                entry.plugin.c_str(), entry.path.c_str(), entry.reason.c_str());
  }
  for (const auto& device : registry.devices()) std::printf("device %s\n", device.uri().c_str());
  if (std::getenv("FOREIGN_LIBRARY_RAN")) std::printf("a foreign library ran\n");
  std::fflush(stdout);
  if (mode == "leave") return 0;
  delete &registry;
  return 0;
}
