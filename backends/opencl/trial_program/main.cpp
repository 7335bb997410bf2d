// SPDX-License-Identifier: Apache-2.0
// ironcl_opencl_trial VARIANT KERNEL IDENTITY CACHE_DIR KERNEL_DIR PTX: tries a kernel in a process that may end over
// it, and prints one line. Started by the OpenCL backend (child_trial.h), not by people.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "backends/opencl/trial.h"

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fputs("usage: ironcl_opencl_trial VARIANT KERNEL IDENTITY CACHE_DIR KERNEL_DIR PTX\n", stderr);
    return 2;
  }
  const rlimit no_core{0, 0};  // To end by a signal is one of the answers.
  setrlimit(RLIMIT_CORE, &no_core);
  ironcl::opencl::Config config{.cache_dir = argv[4], .kernel_dir = argv[5], .ptx = std::atoi(argv[6])};
  std::puts(ironcl::opencl::answer_of_child(argv[1], argv[2], argv[3], config).c_str());
  return 0;
}
