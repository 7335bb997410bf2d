// SPDX-License-Identifier: Apache-2.0
// Folders with files that are no plugins, devices that do not exist: what the command says, and its exit status.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/cli/scratch.h"
#include "tests/cli/shell.h"

namespace {

using namespace ironcl::cli_test;
namespace fs = std::filesystem;
namespace json = boost::json;

/// A folder with a text file, a foreign library, a plugin of the next major version, and the toy.
class PluginZoo : public ::testing::Test {
 protected:
  PluginZoo() {
    for (const char* folder : {ZOO_PLUGIN_DIR, TOY_PLUGIN_DIR}) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        fs::copy_file(entry.path(), scratch_.path(entry.path().filename().string()));
      }
    }
    scratch_.file("notes.txt", "not a plugin\n");
    scratch_.file("libironcl_notes.so", "a text file with the name of a plugin\n");
    environment_ = {{"IRONCL_PLUGIN_DIRS", scratch_.path("")}};
  }
  Scratch scratch_;
  std::map<std::string, std::string> environment_;
};

TEST_F(PluginZoo, PluginsSaysOfEveryFileWhyItWasNotTaken) {
  prints(ironcl_command({"plugins"}, Plugins::toy, environment_), 0,
         {"libironcl_cli_toy.so: taken at step register", "libironcl_cli_foreign.so: refused at step preflight",
          "libironcl_notes.so: refused at step preflight", "libironcl_cli_next_major.so: refused at step version"});
}

TEST_F(PluginZoo, PluginsJsonHasTheReport) {
  const json::value report = ironcl_command({"plugins", "--json"}, Plugins::toy, environment_).json();
  expect_members(report.at("plugins").at(0), {{"name", "toy"}, {"devices", 8}, {"enumerate_reason", nullptr}});
  int refused = 0;
  for (const json::value& entry : report.at("report").as_array()) {
    for (const auto& [key, value] : entry.as_object())  // what there is not is null
      EXPECT_FALSE(value.is_string() && value.get_string().empty()) << key << " of " << json::serialize(entry);
    if (entry.at("outcome").as_string() != "refused") continue;
    ++refused;
    EXPECT_FALSE(entry.at("reason").as_string().empty()) << json::serialize(entry);
    EXPECT_FALSE(entry.at("step").as_string().empty()) << json::serialize(entry);
  }
  EXPECT_GE(refused, 3);
}

TEST_F(PluginZoo, BadFilesHideNoGoodOne) {
  prints(ironcl_command({"compare", kLayer, "--device", "toy:0"}, Plugins::toy, environment_), 0, {});
}

TEST(Devices, WhoseAnswersAreNotWhatTheyMustBeAreNamedWithTheirPlugin) {
  complains(ironcl_command({"devices", "--json"}, Plugins::toy, {{"TOY_ANSWER", "[1"}}), 1,
            {"toy:0: plugin toy answers the query \"variants\" with \"[1\"", "IRONCL_DISABLE=toy"});
  complains(ironcl_command({"bench", "--device", "toy:0", "--shape", "64x256"}, Plugins::toy,
                           {{"TOY_ANSWER", R"({"fma_flops": "many"})"}}),
            1, {"answers the query \"ceilings\" with \"{\"fma_flops\": \"many\"}\""});
}

TEST(Devices, ThatDoNotExistAreNamedWithThoseThatDo) {
  complains(ironcl_command({"compare", kLayer, "--device", "toy:9"}), 4,
            {"ironcl compare: --device: UNAVAILABLE: toy:9: ", "toy:0"});
  EXPECT_EQ(ironcl_command({"compare", kLayer, "--device", "nobody:0"}).status, 4);
  complains(ironcl_command({"compare", kLayer, "--device", "toy:first:gpu:1"}), 2, {"PLUGIN:INDEX"});
}

TEST(Devices, NoneAtAllIsStatus4WithWhatToDo) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"compare", kLayer}, {"devices"}, {"devices", "--json"}}) {
    complains(ironcl_command(words, Plugins::none), 4, {"there is no device", "IRONCL_PLUGIN_DIRS"});
  }
  EXPECT_EQ(ironcl_command({"devices", "--json"}, Plugins::none).json().at("devices").as_array().size(), 0u);
}

}  // namespace
