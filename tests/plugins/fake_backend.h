// SPDX-License-Identifier: Apache-2.0
// A backend that does what a test tells it: it counts its calls, remembers what the adapter handed over, and throws
// on demand at any method. Next door: adapter_fixture.h (the C table over it).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/interface.h"

namespace ironcl::fake {

/// What the fake does and has seen; one for the whole process, reset by each test.
struct Script {
  std::map<std::string, std::function<void()>> before;  ///< Runs at the start of the method of that name.
  std::map<std::string, int> calls;
  int devices = 2;
  bool imports = false;         ///< Memory of somebody else's becomes a buffer.
  bool end_of_commands = true;  ///< False: events say timeout.
  backend::Support support;
  backend::GemmDesc gemm_desc;
  backend::WeightsDesc weights_desc;
  backend::GemmArgs gemm_args;
  backend::QuantizeDesc quantize_desc;
  backend::QuantizeArgs quantize_args;
  backend::RouteDesc route_desc;
  backend::RouteArgs route_args;
  backend::ActivateDesc activate_desc;
  backend::ActivateArgs activate_args;
  backend::CombineDesc combine_desc;
  backend::CombineArgs combine_args;
  backend::NativeDevice native;
  backend::Options load_options;
  std::string query_text = "{}";
  int live_objects = 0;
  backend::Log* log = nullptr;

  /// Counts a call and does what the test put before it.
  void enter(const std::string& method);
};

Script& script();
void reset_script();  ///< A new script: nothing seen, nothing to throw.

std::unique_ptr<backend::Backend> make_backend(const backend::Options& options, backend::Log* log);

}  // namespace ironcl::fake
