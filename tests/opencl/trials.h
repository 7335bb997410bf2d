// SPDX-License-Identifier: Apache-2.0
// What a device says of the trials of its variants, and which variant it takes: for the tests of instructions that
// only some processors have. Next door: harness.h.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "tests/opencl/harness.h"
#include "tests/temp_dir.h"

namespace ironcl::opencl::testing {

/// A folder with a program in it that is started in place of the real one.
class TrialPrograms : public ::testing::Test {
 protected:
  std::string program(const std::string& lines) const {
    const std::filesystem::path path = dir_.file("program", "#!/bin/sh\n" + lines + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  TempDir dir_;
};

/// "right", or why not.
inline std::string trial_of(backend::Device& device, std::string_view variant) {
  const auto features = boost::json::parse(device.query("features", nullptr)).as_object();
  return std::string(features.at("trials").at(variant).as_string());
}

/// The variant that a plan of this case takes.
inline std::string choice_of(backend::Device& device, const Case& c) {
  const backend::GemmDesc desc = c.desc();
  return std::string(boost::json::parse(device.query("choice", &desc)).at("variant").as_string());
}

/// The device works without the instructions of `variant`, and says why.
inline void expect_as_before(backend::Device& device, const char* variant, const std::string& why) {
  EXPECT_NE(trial_of(device, variant).find(why), std::string::npos) << trial_of(device, variant);
  Case c{70, 200, 300};
  EXPECT_NE(choice_of(device, c), variant);
  expect_right(run(device, c, make_data(c)), c, device.props().name);
  c.options = {{"variant", variant}};
  expect_lacks(device, c, why);
}

/// The first CPU; null where there is none.
inline std::shared_ptr<backend::Device> cpu_of(const std::vector<std::shared_ptr<backend::Device>>& devices) {
  for (const auto& device : devices)
    if (device->props().type == backend::DeviceType::cpu) return device;
  return nullptr;
}
inline std::shared_ptr<backend::Device> cpu_of(const Made& made) { return cpu_of(made.devices); }

}  // namespace ironcl::opencl::testing
