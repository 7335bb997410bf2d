// SPDX-License-Identifier: Apache-2.0
// Registration and judgement: claims, floor, expected failures, the line that reproduces a failure, the summary.
#include "tests/conformance/suite/harness.h"

#include <fmt/format.h>
#include <gtest/gtest-spi.h>

#include <cstdio>
#include <map>

namespace ironcl::conformance {
namespace {

struct Outcome {
  enum class Kind { ran, unsupported, unavailable, not_applicable } kind = Kind::ran;
  std::string text;
};

struct Tally {
  int passed = 0, failed = 0, expected_failures = 0, not_claimed = 0, not_applicable = 0, unavailable = 0;
  std::map<std::string, int> unsupported;  // by reason
} tally;

Outcome run_body(const TestCase& test, Context& context) {
  try {
    test.body(context);
  } catch (const Unsupported& e) {
    return {Outcome::Kind::unsupported, e.what()};
  } catch (const Unavailable& e) {
    return {Outcome::Kind::unavailable, e.what()};
  } catch (const NotApplicable& e) {
    return {Outcome::Kind::not_applicable, e.what()};
  } catch (const Failed& e) {
    ADD_FAILURE() << e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "the suite itself failed: " << e.what();
  }
  return {};
}

class ConformanceTest : public testing::Test {
 public:
  ConformanceTest(const TestCase& test, const Plugin& plugin, const Claims& claims, const Settings& settings,
                  int index)
      : test_(test), plugin_(plugin), claims_(claims), settings_(settings), index_(index) {}

 private:
  void TestBody() override {
    const std::string name = test_.group + "." + test_.name;
    if (!claims_.has(test_.needs)) {
      ++tally.not_claimed;
      GTEST_SKIP() << "not claimed: " << claims_.reason;
    }
    Context context{plugin_, plugin_.table(),
                    index_ < 0 ? nullptr : plugin_.devices()[static_cast<std::size_t>(index_)], name, seed_of(name)};
    if (const auto* expected = find_entry(claims_.expected_failures, name)) {
      expect_failure(context, *expected);
    } else {
      judge(run_body(test_, context), name);
    }
    if (HasFailure()) {
      ++tally.failed;
      std::printf("reproduce: ironcl_conformance --plugin %s", settings_.plugin.c_str());
      for (const auto& [key, value] : settings_.options) std::printf(" --option %s=%s", key.c_str(), value.c_str());
      if (index_ >= 0) std::printf(" --device %d", index_);
      if (test_.heavy) std::printf(" --heavy");
      std::printf(" --filter '%s*'   (seed 0x%016llx)\n", name.c_str(),
                  static_cast<unsigned long long>(context.seed));
    } else if (!IsSkipped()) {
      ++tally.passed;
    }
  }

  void expect_failure(Context& context, const Claims::Entry& expected) {
    testing::TestPartResultArray results;
    {
      using Reporter = testing::ScopedFakeTestPartResultReporter;
      const Reporter reporter(Reporter::INTERCEPT_ALL_THREADS, &results);
      run_body(test_, context);
    }
    for (int i = 0; i < results.size(); ++i) {
      if (results.GetTestPartResult(i).failed()) {
        ++tally.expected_failures;
        GTEST_SKIP() << "expected failure: " << expected.reason;
      }
    }
    ADD_FAILURE() << "expected failure '" << expected.tests << "' (" << expected.reason
                  << ") no longer fails here: take it out of the claims file";
  }

  void judge(const Outcome& outcome, const std::string& name) {
    const auto* unsupported = find_entry(claims_.unsupported, name);
    switch (outcome.kind) {
      case Outcome::Kind::ran:
        if (unsupported != nullptr && !HasFailure()) {
          ADD_FAILURE() << "'" << unsupported->tests << "' is listed as unsupported (" << unsupported->reason
                        << ") but runs: take it out of the claims file";
        }
        return;
      case Outcome::Kind::unsupported:
        if (test_.floor) {
          ADD_FAILURE() << "belongs to the floor that a plugin which claims GEMM must support, but is refused: "
                        << outcome.text;
          return;
        }
        ++tally.unsupported[outcome.text];
        GTEST_SKIP() << "unsupported: " << outcome.text;
      case Outcome::Kind::unavailable:
        ++tally.unavailable;
        GTEST_SKIP() << "unavailable: " << outcome.text;
      case Outcome::Kind::not_applicable:
        ++tally.not_applicable;
        GTEST_SKIP() << "not applicable: " << outcome.text;
    }
  }

  const TestCase& test_;
  const Plugin& plugin_;
  const Claims& claims_;
  const Settings& settings_;
  int index_;
};

}  // namespace

void require(ironcl_status status, const Error& error, const char* call) {
  if (status == IRONCL_OK) return;
  const std::string text = fmt::format("{}: {}: {}", call, status_name(status), error.message);
  if (status == IRONCL_UNAVAILABLE) throw Unavailable(text);
  throw Failed(text);
}

void register_suite(const Suite& suite, const Plugin& plugin, const Claims& claims, const Settings& settings) {
  for (const auto& test : suite.tests()) {
    if (test.heavy && !settings.heavy) continue;
    const int count = test.per_device ? static_cast<int>(plugin.devices().size()) : 1;
    for (int index = 0; index < count; ++index) {
      if (test.per_device && settings.device >= 0 && settings.device != index) continue;
      const std::string name = test.per_device ? fmt::format("{}/{}", test.name, index) : test.name;
      const int device = test.per_device ? index : -1;
      testing::RegisterTest(test.group.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [&test, &plugin, &claims, &settings, device]() -> testing::Test* {
                              return new ConformanceTest(test, plugin, claims, settings, device);
                            });
    }
  }
}

std::string summary() {
  int unsupported = 0;
  for (const auto& [text, count] : tally.unsupported) unsupported += count;
  std::string out = fmt::format(
      "conformance: {} passed, {} failed, {} unsupported, {} expected failures, {} not claimed, {} not applicable, "
      "{} unavailable\n",
      tally.passed, tally.failed, unsupported, tally.expected_failures, tally.not_claimed, tally.not_applicable,
      tally.unavailable);
  for (const auto& [text, count] : tally.unsupported) out += fmt::format("  unsupported {:3} x  {}\n", count, text);
  return out;
}

std::uint64_t seed_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace ironcl::conformance
