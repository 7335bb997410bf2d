// SPDX-License-Identifier: Apache-2.0
// The folder of IRONCL_TUNED_DIR, as the OpenCL plugin reads it when it is loaded.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>

#include "backends/tuned/tables.h"
#include "host/include/ironcl/ironcl.hpp"
#include "tests/cli/scratch.h"

namespace ironcl::tuning {
namespace {

const GemmDesc kProblem{.m = 64, .n = 4096, .k = 7168};

std::string plugin_file() { return std::string(REAL_PLUGIN_DIR) + "/libironcl_opencl.so"; }

/// The answer of opencl:0 to a query about kProblem, with that folder; null where there is no device.
boost::json::value ask(const char* key, const std::string& folder, bool by_environment) {
  Registry::Options options{.use_environment = false, .unload = true, .plugin_files = plugin_file()};
  // Without the units of some processors, whose trials take long and say nothing here.
  options.plugin_options = {{"opencl", "amx", "0"}, {"opencl", "avx512_bf16", "0"}};
  if (by_environment)
    ::setenv("IRONCL_TUNED_DIR", folder.c_str(), 1);
  else
    options.plugin_options.push_back({"opencl", "tuned_dir", folder});
  const Registry registry = Registry::discover(options);
  boost::json::value answer;
  if (const auto devices = registry.devices(); !devices.empty())
    answer = boost::json::parse(devices.front().query(key, kProblem));
  ::unsetenv("IRONCL_TUNED_DIR");
  return answer;
}

TEST(TunedOverlay, ComesBeforeTheTablesBuiltIn) {
  if (!std::filesystem::exists(plugin_file())) GTEST_SKIP() << "the OpenCL plugin is not built";
  const auto off = ask("choice", "off", false);
  if (off.is_null()) GTEST_SKIP() << "no OpenCL device";
  EXPECT_EQ(off.at("source").as_string(), "rule of thumb");

  const cli_test::Scratch scratch;
  const auto candidates = ask("candidates", "off", false);
  const std::string device = candidates.at("devices").at(0).as_string().c_str();
  const auto& any = candidates.at("candidates").at(0);
  boost::json::object entry{{"variant", any.at("variant")}, {"options", any.at("options")}};
  const boost::json::object table{{"64", boost::json::object{{"ironcl", entry}}}};
  const std::string name = tuned::file_name(tuned::Key{4096, 7168, device, "fp8_w8a8", 128, 128});
  scratch.file(name, boost::json::serialize(table));
  for (const bool by_environment : {false, true}) {
    const auto choice = ask("choice", scratch.path("."), by_environment);
    EXPECT_EQ(choice.at("source").as_string(), name + ": M=64");
    EXPECT_EQ(choice.at("variant"), any.at("variant"));
  }
}

/// URIs of the devices that the plugin lists with that folder, and what was said.
std::pair<std::vector<std::string>, std::string> load(const std::string& folder) {
  std::string said;
  Registry::Options options;
  options.use_environment = false;
  options.plugin_files = plugin_file();
  options.unload = true;
  options.verbose = "warn,error";
  options.log = [&said](std::string_view line) { said += std::string(line) + '\n'; };
  options.plugin_options = {{"opencl", "tuned_dir", folder}};
  const Registry registry = Registry::discover(options);
  std::vector<std::string> uris;
  for (const auto& device : registry.devices()) uris.push_back(device.uri());
  return {uris, said};
}

TEST(TunedOverlay, WhatIsNoTableNeitherStopsNorEndsThePlugin) {
  if (!std::filesystem::exists(plugin_file())) GTEST_SKIP() << "the OpenCL plugin is not built";
  const auto without = load("off").first;
  if (without.empty()) GTEST_SKIP() << "no OpenCL device";
  const cli_test::Scratch scratch;
  std::filesystem::create_directory(scratch.path("folder.json"));
  ASSERT_EQ(mkfifo(scratch.path("pipe.json").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", scratch.path("endless.json"));
  std::filesystem::create_symlink("nowhere", scratch.path("link.json"));
  scratch.file("huge.json", "{}");
  std::filesystem::resize_file(scratch.path("huge.json"), std::uintmax_t{1} << 40);
  const auto [devices, said] = load(scratch.path("."));
  EXPECT_EQ(devices, without);
  for (const char* name : {"folder.json", "pipe.json", "endless.json", "link.json", "huge.json"})
    EXPECT_NE(said.find(std::string(name) + " is not read"), std::string::npos) << name << " in\n" << said;
}

}  // namespace
}  // namespace ironcl::tuning
