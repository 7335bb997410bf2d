// SPDX-License-Identifier: Apache-2.0
// How a test of the suite is written and how its outcome is judged: tests are functions of a Context, added to a
// Suite and registered with GoogleTest once for each device of the plugin. Next door: rig.h (runs one problem).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/conformance/suite/claims.h"
#include "tests/conformance/suite/handles.h"
#include "tests/conformance/suite/plugin.h"

namespace ironcl::conformance {

/// What the command line asks for.
struct Settings {
  std::filesystem::path plugin;
  Plugin::Options options;  ///< For load().
  int device = -1;          ///< -1: all devices.
  std::filesystem::path claims_file;
  bool heavy = false;  ///< Also the cases that take long.
};

/// Thrown by a test or by what it calls: the plugin did something wrong.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The plugin refuses the problem with a reason: fine unless the test belongs to the floor.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The device is not there (UNAVAILABLE).
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// What the test is about cannot be brought about on this plugin, by nobody's fault.
struct NotApplicable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a test receives.
struct Context {
  const Plugin& plugin;
  const ironcl_plugin& table;  ///< No slot is NULL.
  ironcl_device device;        ///< NULL in tests that are not about a device.
  std::string name;            ///< "Group.Name"
  std::uint64_t seed;          ///< Derived from the name.
};

/// Throws where `status` is not OK: Unavailable for UNAVAILABLE, else Failed with the call, the status and the text.
void require(ironcl_status status, const Error& error, const char* call);

struct TestCase {
  std::string group, name;
  Needs needs = Needs::gemm;
  bool floor = false;  ///< A plugin that claims what the test needs may not answer UNSUPPORTED.
  bool heavy = false;
  bool per_device = true;
  std::function<void(Context&)> body;
};

/// The list of tests.
class Suite {
 public:
  void add(TestCase test) { tests_.push_back(std::move(test)); }
  /// Adds a behaviour test: it belongs to the floor unless told otherwise.
  void add(std::string group, std::string name, Needs needs, std::function<void(Context&)> body, bool floor = true,
           bool heavy = false) {
    tests_.push_back({std::move(group), std::move(name), needs, floor, heavy, /*per_device=*/true, std::move(body)});
  }
  const std::vector<TestCase>& tests() const { return tests_; }

 private:
  std::vector<TestCase> tests_;
};

/// Fills `suite` with every group.
void add_all_groups(Suite& suite);

/// Registers the suite for the chosen devices of `plugin`; all arguments must live until the tests have run.
void register_suite(const Suite& suite, const Plugin& plugin, const Claims& claims, const Settings& settings);

/// How many tests ended how, and on what: one line a kind, unsupported ones with their reasons.
std::string summary();

/// The seed of a test: FNV-1a of its name, so that it depends on nothing else.
std::uint64_t seed_of(const std::string& name);

}  // namespace ironcl::conformance
