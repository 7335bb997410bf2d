// SPDX-License-Identifier: Apache-2.0
// Where plugins are looked for, and in which order. Next door: load_steps_test.cpp (what happens to a file).
#include <gmock/gmock.h>

#include "tests/registry/fakes.h"

namespace {

using fakes::Variable;
using ironcl::Registry;
using testing::HasSubstr;

Registry::Options listening() {
  auto options = fakes::alone();
  options.use_environment = true;
  return options;
}

std::string path_of(const Registry& registry, const std::string& plugin) {
  for (const auto& info : registry.plugins()) {
    if (info.name == plugin) return info.path;
  }
  return "";
}

TEST(Discovery, TakesFilesThenFoldersAndTheFirstOfANameWins) {
  const fakes::Scratch scratch;
  const std::string file = scratch.copy("fake", "files/some_name.so");
  const std::string first = scratch.copy("fake", "one/libironcl_fake.so");
  const std::string alpha = scratch.copy("alpha", "one/libironcl_alpha.so");
  const std::string second = scratch.copy("alpha", "two/libironcl_alpha.so");
  const Variable files("IRONCL_PLUGIN_FILES", file.c_str());
  const std::string list = (scratch.path() / "one").string() + ":" + (scratch.path() / "two").string();
  const Variable dirs("IRONCL_PLUGIN_DIRS", list.c_str());
  const Registry registry = Registry::discover(listening());
  EXPECT_EQ(path_of(registry, "fake"), file);
  EXPECT_EQ(path_of(registry, "alpha"), alpha);
  const auto report = fakes::report_of(registry);
  ASSERT_EQ(report.size(), 4u);
  EXPECT_EQ(report[0].path, file);
  EXPECT_EQ(report[1].path, alpha) << "files of a folder are sorted";
  EXPECT_EQ(report[2].path, first);
  EXPECT_STREQ(ironcl_outcome_name(report[2].outcome), "shadowed");
  EXPECT_EQ(report[3].path, second);
  EXPECT_STREQ(ironcl_outcome_name(report[3].outcome), "shadowed");
}

TEST(Discovery, PutsAFileLoadedByPathBeforeAllOthers) {
  const fakes::Scratch scratch;
  const std::string mine = scratch.copy("shadow", "mine.so");
  const Variable files("IRONCL_PLUGIN_FILES", fakes::path("fake").c_str());
  Registry registry(listening());
  registry.load_file(mine);
  registry.search();
  EXPECT_EQ(path_of(registry, "fake"), mine);
}

TEST(Discovery, PutsTheOptionsOfTheApplicationBeforeTheEnvironment) {
  const fakes::Scratch scratch;
  const std::string mine = scratch.copy("shadow", "mine.so");
  const Variable files("IRONCL_PLUGIN_FILES", fakes::path("fake").c_str());
  auto options = listening();
  options.plugin_files = mine;
  EXPECT_EQ(path_of(Registry::discover(options), "fake"), mine);
}

TEST(Discovery, LooksAtAFileOnceByWhateverPath) {
  const fakes::Scratch scratch;
  const std::string file = scratch.copy("fake", "libironcl_fake.so");
  const std::string link = scratch.path() / "libironcl_other.so";
  std::filesystem::create_symlink(file, link);
  std::filesystem::create_hard_link(file, scratch.path() / "libironcl_third.so");
  auto options = fakes::alone();
  options.plugin_dirs = scratch.path();
  const Registry registry = Registry::discover(options);
  const auto report = fakes::report_of(registry);
  ASSERT_EQ(report.size(), 3u);
  EXPECT_STREQ(ironcl_outcome_name(report[0].outcome), "taken");
  EXPECT_STREQ(ironcl_outcome_name(report[1].outcome), "duplicate");
  EXPECT_STREQ(ironcl_outcome_name(report[2].outcome), "duplicate");
}

TEST(Discovery, ReportsEveryFileOfAFolderAndOpensOnlyPlugins) {
  const fakes::Scratch scratch;
  scratch.copy("foreign", "a_foreign_library.so");
  scratch.copy("foreign", "libironcl_foreign.so");
  scratch.copy("major", "libironcl_major.so");
  scratch.copy("fake", "libironcl_fake.so");
  scratch.file("notes.txt", "hello");
  scratch.file("libironcl_text.so", "hello");
  auto options = fakes::alone();
  options.plugin_dirs = scratch.path();
  const Registry registry = Registry::discover(options);
  std::string steps;
  for (const auto& entry : fakes::report_of(registry)) {
    steps += entry.path.substr(scratch.path().string().size() + 1) + " " + ironcl_outcome_name(entry.outcome) + " " +
             ironcl_step_name(entry.step) + "\n";
  }
  EXPECT_EQ(steps,
            "a_foreign_library.so refused found\n"
            "libironcl_fake.so taken register\n"
            "libironcl_foreign.so refused preflight\n"
            "libironcl_major.so refused version\n"
            "libironcl_text.so refused preflight\n"
            "notes.txt refused found\n");
}

/// A plugin's own program is no plugin that was refused; one of another plugin is somebody's mistake.
TEST(Discovery, AProgramOfAPluginBesideItIsNotReported) {
  const fakes::Scratch scratch;
  scratch.copy("fake", "libironcl_fake.so");
  scratch.file("ironcl_fake_trial", "a program");
  scratch.file("ironcl_other_trial", "a program");
  auto options = fakes::alone();
  options.plugin_dirs = scratch.path();
  const auto report = fakes::report_of(Registry::discover(options));
  ASSERT_EQ(report.size(), 2u);
  EXPECT_TRUE(report[0].path.ends_with("/ironcl_other_trial")) << report[0].path;
  EXPECT_TRUE(report[1].path.ends_with("/libironcl_fake.so")) << report[1].path;
}

TEST(Discovery, SumsUpAFolderFullOfOtherFiles) {
  const fakes::Scratch scratch;
  for (int i = 10; i < 40; ++i) scratch.file("file" + std::to_string(i), "");
  auto options = fakes::alone();
  options.plugin_dirs = scratch.path();
  const Registry registry = Registry::discover(options);
  const auto report = fakes::report_of(registry);
  ASSERT_EQ(report.size(), 9u);
  EXPECT_THAT(report[8].reason, HasSubstr("22 more files"));
}

TEST(Discovery, RemarksOnAFolderThatIsNotThere) {
  auto options = fakes::alone();
  options.plugin_dirs = "/nowhere/at/all";
  const Registry registry = Registry::discover(options);
  ASSERT_EQ(fakes::report_of(registry).size(), 1u);
  const auto entry = fakes::report_of(registry)[0];
  EXPECT_STREQ(ironcl_outcome_name(entry.outcome), "remark");
  EXPECT_EQ(entry.path, "/nowhere/at/all");
}

TEST(Discovery, IgnoresEmptyPartsOfLists) {
  auto options = fakes::alone();
  options.plugin_files = "::" + fakes::path("fake") + ":";
  options.plugin_dirs = ":";
  const Registry registry = Registry::discover(options);
  EXPECT_EQ(fakes::report_of(registry).size(), 1u);
}

TEST(Discovery, IgnoresTheEnvironmentWhereAsked) {
  const Variable files("IRONCL_PLUGIN_FILES", fakes::path("fake").c_str());
  const Variable verbose("IRONCL_VERBOSE", "all");
  const Registry registry = Registry::discover(fakes::alone());
  EXPECT_TRUE(registry.plugins().empty());
}

TEST(Discovery, SkipsDisabledPluginsByName) {
  const std::string files = fakes::path("fake") + ":" + fakes::path("alpha") + ":" + fakes::path("beta");
  const Variable variable("IRONCL_PLUGIN_FILES", files.c_str());
  const Variable disable("IRONCL_DISABLE", "alpha,fake");
  Registry registry = Registry::discover(listening());
  ASSERT_EQ(registry.plugins().size(), 1u);
  EXPECT_EQ(registry.plugins()[0].name, "beta");
  for (const auto& entry : fakes::report_of(registry)) {
    EXPECT_STREQ(ironcl_outcome_name(entry.outcome), entry.plugin == "beta" ? "taken" : "disabled");
  }
  // "fake" hides in a file of another name: found out before it is loaded.
  const std::string text =
      fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { registry.load_file(fakes::path("shadow")); });
  EXPECT_THAT(text, HasSubstr("IRONCL_DISABLE"));
}

TEST(Discovery, LetsOneBadPluginHideNoOther) {
  std::string files;
  for (const char* fake : {"sanitized", "unresolved", "query_throws", "query_null", "major", "short", "bad_name",
                           "no_enumerate", "other_sanitizer", "required", "foreign", "nowhere", "fake"})
    files += fakes::path(fake) + ":";
  auto options = fakes::alone();
  options.plugin_files = files;
  const Registry registry = Registry::discover(options);
  EXPECT_EQ(registry.devices().size(), 1u);
  EXPECT_EQ(fakes::report_of(registry).size(), 13u);
}

TEST(Discovery, TriesTheNextOfANameWhenTheFirstFails) {
  const fakes::Scratch scratch;
  const std::string broken = scratch.file("libironcl_fake.so", "broken");
  auto options = fakes::alone();
  options.plugin_files = broken + ":" + fakes::path("fake");
  EXPECT_EQ(path_of(Registry::discover(options), "fake"), fakes::path("fake"));
}

// A copy of libironcl with a folder beside it, looked at by a process that starts elsewhere.
class BesideTheLibrary : public testing::Test {
 protected:
  void SetUp() override {
    library_ = scratch_.path() / "lib";
    std::filesystem::create_directories(library_);
    std::filesystem::copy_file(IRONCL_LIBRARY_FILE, library_ / IRONCL_LIBRARY_SONAME);
  }
  ironcl::Ran list(const std::string& from, const std::string& environment = "") const {
    return ironcl::run_command(
        "cd " + from + " && env -u IRONCL_PLUGIN_FILES -u IRONCL_PLUGIN_DIRS LD_LIBRARY_PATH=" + library_.string() +
        ":$LD_LIBRARY_PATH " + environment + " " IRONCL_LIST_PLUGINS);
  }
  fakes::Scratch scratch_;
  std::filesystem::path library_;
};

TEST_F(BesideTheLibrary, ThePluginsFolderIsSearched) {
  scratch_.copy("fake", "lib/ironcl-plugins/libironcl_fake.so");
  const ironcl::Ran ran = list("/");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("device fake:0"));
}

TEST_F(BesideTheLibrary, NoFolderIsNoError) {
  const ironcl::Ran ran = list("/");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_EQ(ran.output, "");
}

TEST_F(BesideTheLibrary, TheWorkingDirectoryIsNotSearched) {
  scratch_.copy("fake", "cwd/libironcl_fake.so");
  scratch_.copy("fake", "cwd/ironcl-plugins/libironcl_fake.so");
  const ironcl::Ran ran = list((scratch_.path() / "cwd").string(), "IRONCL_PLUGIN_DIRS=: IRONCL_PLUGIN_FILES=:");
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.output, "");
}

TEST_F(BesideTheLibrary, TheEnvironmentComesFirst) {
  scratch_.copy("fake", "lib/ironcl-plugins/libironcl_fake.so");
  const ironcl::Ran ran = list("/", "IRONCL_PLUGIN_FILES=" + fakes::path("shadow"));
  EXPECT_THAT(ran.output, HasSubstr("report taken register fake " + fakes::path("shadow")));
  EXPECT_THAT(ran.output, HasSubstr("report shadowed"));
}

}  // namespace
