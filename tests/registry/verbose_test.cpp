// SPDX-License-Identifier: Apache-2.0
// Verbose lines: who gets them, which, and what they look like.
#include <gmock/gmock.h>

#include <regex>

#include "tests/registry/fakes.h"

namespace {

using ironcl::Registry;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// What a registry with this verbosity logs while it loads `plugin`, chooses a device and shuts down.
std::vector<std::string> lines_of(std::optional<std::string> verbose, const std::string& plugin,
                                  const std::string& key = "devices", const std::string& value = "cpu/1,model/1") {
  std::vector<std::string> lines;
  auto options = fakes::with(plugin, key, value);
  options.verbose = std::move(verbose);
  options.log = [&](std::string_view line) { lines.emplace_back(line); };
  Registry registry(options);
  try {
    registry.load_file(fakes::path(plugin));
    registry.select({.m = 16, .n = 256, .k = 512});
  } catch (const ironcl::Error&) {
  }
  registry.shutdown();
  return lines;
}

TEST(Verbose, LinesHaveTheMarkerTheVersionTheTimeAndTheKind) {
  const auto lines = lines_of("all", "fake");
  ASSERT_THAT(lines, Not(IsEmpty()));
  for (const std::string& line : lines)
    EXPECT_TRUE(
        std::regex_search(line, std::regex("^ironcl,1,[0-9]{13},(error|warn|load|dispatch|create|exec|build),")))
        << line;
}

TEST(Verbose, LoadHasALineForEachStep) {
  const auto lines = lines_of("load", "fake");
  for (const char* step : {"found", "preflight", "open", "query", "version", "sanitizer", "load", "enumerate"})
    EXPECT_THAT(lines, Contains(HasSubstr(std::string(",load,passed,") + step + ",OK,fake,")));
  EXPECT_THAT(lines, Contains(HasSubstr(",load,taken,register,OK,fake,")));
  EXPECT_THAT(lines, Contains(HasSubstr(",load,unloaded,shutdown,OK,fake,")));
  EXPECT_THAT(lines_of("load", "major"), Contains(HasSubstr(",load,refused,version,INCOMPATIBLE,major,")));
}

TEST(Verbose, DispatchHasALineForEachDeviceWithTheProblem) {
  const auto lines = lines_of("dispatch", "fake");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr(",dispatch,chosen,fake:0,none,,"));
  EXPECT_THAT(lines[0], HasSubstr("16x512:512x256"));
  EXPECT_THAT(lines[1], HasSubstr(",dispatch,refused,fake:1,model_device,"));
}

TEST(Verbose, PluginsLinesAreOfTheKindThatTheyNameOrOfTheirLevels) {
  EXPECT_THAT(lines_of("error", "fake", "log", "0it broke"), Contains(HasSubstr(",error,fake,it broke")));
  EXPECT_THAT(lines_of("warn", "fake", "log", "1it is odd"), Contains(HasSubstr(",warn,fake,it is odd")));
  EXPECT_THAT(lines_of("create", "fake", "log", "2a plan"), Contains(HasSubstr(",create,fake,a plan")));
  EXPECT_THAT(lines_of("exec", "fake", "log", "3ran, twice"), Contains(HasSubstr(",exec,fake,\"ran, twice\"")));
  EXPECT_THAT(lines_of("build", "fake", "log", "2build: compiled"), Contains(HasSubstr(",build,fake,compiled")));
  EXPECT_THAT(lines_of("error", "fake", "log", "0build: no such type"),
              Contains(HasSubstr(",error,fake,no such type")));
  EXPECT_THAT(lines_of("exec", "fake", "log", "2build: compiled"), IsEmpty());
}

TEST(Verbose, AFilterKeepsTheLinesInWhichItIsFound) {
  EXPECT_THAT(lines_of("load,filter=passed,(open|query)", "fake"), testing::SizeIs(2));
  EXPECT_THAT(lines_of("filter=refused", "fake"), Each(HasSubstr("refused")));
}

TEST(Verbose, AFilterTakesALineOfAnyLength) {
  // The log of a compiler can be as long. A matcher that calls itself for each character overflows the stack here.
  const std::string line = "2build: " + std::string(4 << 20, 'x') + "end";
  EXPECT_THAT(lines_of("build,filter=.*", "fake", "log", line), testing::SizeIs(1));
  EXPECT_THAT(lines_of("build,filter=x(x|y)*end", "fake", "log", line), testing::SizeIs(1));
  EXPECT_THAT(lines_of("build,filter=^y", "fake", "log", line), IsEmpty());
  EXPECT_THAT(lines_of("build,filter=(x+x+)+y", "fake", "log", line), testing::SizeIs(1)) << "too costly, so written";
  // The longer the expression, the later Boost's own limit.
  std::string filter = "build,filter=(b*x*z)";
  for (int i = 0; i < 40; ++i) filter += "x*,";
  EXPECT_THAT(lines_of(filter, "fake", "log", "2build: " + std::string(1000, 'x')), testing::SizeIs(testing::Le(1)));
}

TEST(Verbose, ControlCharactersAreEscaped) {
  EXPECT_THAT(lines_of("create", "fake", "log", "2a \x1b[2Jplan\n\u202ex"),
              Contains(HasSubstr(",create,fake,\"a \\x1b[2Jplan \\u202ex\"")));
}

TEST(Verbose, IsSilentForNoneAndForNothing) {
  EXPECT_THAT(lines_of("none", "fake"), IsEmpty());
  EXPECT_THAT(lines_of("", "fake"), IsEmpty());
}

TEST(Verbose, GivesACallbackErrorsAndWarningsByDefault) {
  EXPECT_THAT(lines_of(std::nullopt, "fake", "log", "1odd"), Contains(HasSubstr(",warn,fake,odd")));
}

TEST(Verbose, RefusesAnUnknownWordAndABadExpression) {
  auto options = fakes::alone();
  options.verbose = "load,loud";
  EXPECT_THAT(fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { Registry registry(options); }),
              HasSubstr("'loud' is none of"));
  options.verbose = "load,filter=(";
  EXPECT_THAT(fakes::error_of(IRONCL_INVALID_ARGUMENT, [&] { Registry registry(options); }), HasSubstr("filter"));
}

TEST(Verbose, GoesToStderrWhereTheVariableIsSetAndNobodyListens) {
  const auto stderr_of = [](const std::string& environment) {
    return ironcl::run_command("(env " + environment +
                               " IRONCL_DISABLE=opencl,ironwood,skeleton " IRONCL_LIST_PLUGINS " file " +
                               fakes::path("fake") + " 2>&1 >/dev/null)")
        .output;
  };
  EXPECT_THAT(stderr_of("-u IRONCL_VERBOSE"), IsEmpty());
  EXPECT_THAT(stderr_of("IRONCL_VERBOSE=load"), HasSubstr(",load,taken,register,OK,fake,"));
  EXPECT_THAT(stderr_of("IRONCL_VERBOSE=loda"), HasSubstr("IRONCL_VERBOSE: verbose: 'loda' is none of"));
}

TEST(Verbose, SaysNothingAfterDestroy) {
  static int lines = 0;
  auto options = fakes::alone();
  options.verbose = "all";
  options.log = [](std::string_view) { ++lines; };
  ironcl::Device device;
  {
    Registry registry(options);
    registry.load_file(fakes::path("fake"));
  }
  const int before = lines;
  Registry quiet(fakes::with("fake", "log", "0hello"));
  quiet.load_file(fakes::path("fake"));
  EXPECT_EQ(lines, before);
}

}  // namespace
