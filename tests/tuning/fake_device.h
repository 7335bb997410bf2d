// SPDX-License-Identifier: Apache-2.0
// A backend to be tuned, whose times are written here and whose clock only its own commands move. Next door:
// fake_plugin.cpp (the same as a plugin that the command loads).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backends/interface.h"

namespace ironcl::tuning_test {

/// What the fake does and has seen; one for the process.
struct Script {
  double seconds = 0;                ///< The clock.
  double plan_seconds = 0.1;         ///< What making a plan takes.
  bool sleeps = false;               ///< Plans also take that long on the wall.
  std::map<std::string, int> plans;  ///< Made, by configuration.
};
Script& script();

// The space, for every problem. Times in nanoseconds:
//   plain   tile 1 2 4 8, unroll 1 2 4: 8000 / tile + 500 * |log2(unroll) - 1|; tile=8,unroll=2 is best with 1000,
//   the
//           rule of thumb tile=1,unroll=1 takes 8500
//   planted tile 1: 10, and adds 1 to one element of D
//   flaky   tile 1: 20, and is right in its first three calls only
//   weak    tile 1: 5, right, of class tensor14
//   broken  tile 1: cannot be built
//   refused tile 1: UNSUPPORTED, though it is listed
std::unique_ptr<backend::Backend> make_backend(const backend::Options& options, backend::Log* log);

}  // namespace ironcl::tuning_test
