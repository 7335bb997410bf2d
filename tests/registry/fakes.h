// SPDX-License-Identifier: Apache-2.0
// What the tests of the registry share: paths of the fake plugins, registries that see nothing else, a scratch
// folder. Next door: plugins/fake_plugin.cpp.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "host/include/ironcl/ironcl.hpp"
#include "tests/run_command.h"
#include "tests/temp_dir.h"

namespace fakes {

namespace fs = std::filesystem;

/// "fake" -> .../libironcl_fake.so
inline std::string path(const std::string& name) { return IRONCL_FAKES_DIRECTORY "/libironcl_" + name + ".so"; }

/// Options of a registry that neither the environment nor the plugins of this build can disturb.
inline ironcl::Registry::Options alone() {
  ironcl::Registry::Options options;
  options.use_environment = false;
  options.disable = "opencl,ironwood,skeleton";
  return options;
}

/// Options with devices for a fake plugin.
inline ironcl::Registry::Options with(const std::string& plugin, const std::string& key, const std::string& value) {
  auto options = alone();
  options.plugin_options = {{plugin, key, value}};
  return options;
}

/// The report without remarks about plugins that are disabled here.
inline std::vector<ironcl::ReportEntry> report_of(const ironcl::Registry& registry) {
  std::vector<ironcl::ReportEntry> entries;
  for (auto& entry : registry.report()) {
    if (entry.source != IRONCL_SOURCE_BESIDE) entries.push_back(entry);
  }
  return entries;
}

/// function() must throw ironcl::Error of `status`; gives its text.
template <class Function>
std::string error_of(ironcl_status status, Function&& function) {
  try {
    function();
  } catch (const ironcl::Error& error) {
    EXPECT_STREQ(ironcl_status_name(error.status()), ironcl_status_name(status)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown; expected " << ironcl_status_name(status);
  return {};
}

/// A fresh folder.
class Scratch : public ironcl::TempDir {
 public:
  /// Puts a copy of a fake plugin here under another file name.
  std::string copy(const std::string& fake, const std::string& name) const {
    fs::create_directories((*this / name).parent_path());
    fs::copy_file(fakes::path(fake), *this / name);
    return *this / name;
  }
};

/// Sets a variable for the life of a test; NULL unsets.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = ::getenv(name)) old_ = old, had_ = true;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { had_ ? ::setenv(name_, old_.c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

}  // namespace fakes
