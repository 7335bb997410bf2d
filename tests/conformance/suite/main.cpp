// SPDX-License-Identifier: Apache-2.0
// ironcl_conformance: runs the suite on one plugin, ours or a stranger's, through the C ABI alone.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "backends/words.h"
#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {

void add_all_groups(Suite& suite) {
  add_plugin_tests(suite);
  add_struct_tests(suite);
  add_argument_tests(suite);
  add_exact_tests(suite);
  add_random_tests(suite);
  add_code_tests(suite);
  add_output_tests(suite);
  add_grid_tests(suite);
  add_ragged_tests(suite);
  add_memory_tests(suite);
  add_weights_tests(suite);
  add_repeat_tests(suite);
  add_async_tests(suite);
  add_host_tests(suite);
  add_dynamic_tests(suite);
  add_quantize_tests(suite);
  add_grouped_tests(suite);
  add_route_tests(suite);
  add_activate_tests(suite);
  add_combine_tests(suite);
  add_sequence_tests(suite);
}

namespace {

/// Takes the place of all device tests where there is no device to run them on.
void no_device(const Plugin& plugin) {
  class NoDevice : public testing::Test {
   public:
    NoDevice(ironcl_status status, std::string text) : status_(status), text_(std::move(text)) {}
    void TestBody() override {
      if (status_ == IRONCL_UNAVAILABLE || status_ == IRONCL_OK) {
        GTEST_SKIP() << "no device: " << status_name(status_) << " " << text_;
      }
      ADD_FAILURE() << "load or enumerate failed: " << status_name(status_) << ": " << text_;
    }

   private:
    ironcl_status status_;
    std::string text_;
  };
  const bool loaded = plugin.loaded == IRONCL_OK;
  const ironcl_status status = loaded ? plugin.enumerated : plugin.loaded;
  const std::string text = loaded ? plugin.enumerated_text : plugin.loaded_text;
  testing::RegisterTest("Device", "IsThere", nullptr, nullptr, __FILE__, __LINE__,
                        [status, text]() -> testing::Test* { return new NoDevice(status, text); });
}

constexpr int kBadUsage = 2, kNoDevice = 77;

int run_suite(int argc, char** argv) {
  Settings settings;
  std::string filter = "*";
  std::vector<std::string> options;
  bool list = false;
  CLI::App app{"Runs the conformance suite of IronCL on one plugin, through the C ABI of plugin.h alone."};
  app.add_option("--plugin", settings.plugin, "The plugin file, such as libironcl_opencl.so")
      ->envname("IRONCL_CONFORMANCE_PLUGIN")
      ->required();
  app.add_option("--device", settings.device, "Index of the device to test (default: all of the plugin's)");
  app.add_option("--claims", settings.claims_file, "JSON file of what the plugin claims, refuses and fails for now");
  app.add_option("--option", options, "key=value for the plugin's load(); may be repeated");
  app.add_option("--filter", filter, "Tests to run, as GoogleTest filters: Group.Name*, * and ? and : and -");
  app.add_flag("--heavy", settings.heavy, "Also run the cases that take long");
  app.add_flag("--list", list, "List the tests and run none");
  app.footer(
      "Exit status: 0 all passed or skipped with a reason, 1 failures, 2 usage or no such plugin, 77 no device.");
  app.allow_extras(false);
  CLI11_PARSE(app, argc, argv);
  Claims claims;
  try {
    for (const auto& option : options) {
      const auto pair = ironcl::words::key_value(option);
      if (!pair) throw std::runtime_error("--option " + option + ": expected key=value");
      settings.options.emplace_back(pair->first, pair->second);
    }
    if (!settings.claims_file.empty()) claims = read_claims(settings.claims_file);
    const Plugin plugin(settings.plugin, settings.options);
    if (settings.device >= static_cast<int>(plugin.devices().size())) {
      throw std::runtime_error("--device " + std::to_string(settings.device) + ": the plugin has " +
                               std::to_string(plugin.devices().size()) + " devices");
    }
    Suite suite;
    add_all_groups(suite);
    const bool without = plugin.devices().empty();
    if (without) {
      no_device(plugin);
    }
    register_suite(suite, plugin, claims, settings);
    testing::GTEST_FLAG(filter) = filter;
    testing::GTEST_FLAG(list_tests) = list;
    const int failed = RUN_ALL_TESTS();
    if (list) return failed;
    std::printf("%s", summary().c_str());
    if (failed == 0 && testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
      throw std::runtime_error("--filter " + filter + " matches no test");
    }
    if (failed != 0) return 1;
    return without ? kNoDevice : 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ironcl_conformance: %s\n", e.what());
    return kBadUsage;
  }
}

}  // namespace
}  // namespace ironcl::conformance

int main(int argc, char** argv) {
  int none = 1;
  testing::InitGoogleTest(&none, argv);
  return ironcl::conformance::run_suite(argc, argv);
}
