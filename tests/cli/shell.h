// SPDX-License-Identifier: Apache-2.0
// Runs the ironcl command as a user does and keeps what it printed. Next door: scratch.h (files to run it on).
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <map>
#include <string>
#include <vector>

namespace ironcl::cli_test {

/// What a run of the command left.
struct Outcome {
  std::string command;  ///< Can be pasted into a shell.
  int status = -1;      ///< Exit status; 128 + signal where a signal ended it.
  std::string out, err;

  /// The standard output, or the file `path` where it is not empty, as JSON; records a test failure where it is none.
  boost::json::value json(const std::string& path = {}) const;
};

#ifdef WITH_OPENCL_PLUGIN
inline constexpr bool kWithOpenCl = true;
#else
inline constexpr bool kWithOpenCl = false;  ///< This build leaves the plugin out: the model is all that is real.
#endif

/// Which plugins the command sees.
enum class Plugins { none, toy, real };

/// Runs ironcl with `words`, in a clean IRONCL_* environment plus `environment`. `redirect`: what a shell is told of
/// the standard output (">/dev/full") instead of keeping it.
Outcome ironcl_command(const std::vector<std::string>& words, Plugins plugins = Plugins::toy,
                       const std::map<std::string, std::string>& environment = {}, const std::string& redirect = {});

/// `text` contains `part`, else a message with the whole of it.
::testing::AssertionResult contains(const std::string& text, const std::string& part);

/// The command has ended with `status`, and the standard output has each of `texts`; the same of the standard error.
Outcome prints(Outcome outcome, int status, const std::vector<std::string>& texts);
Outcome complains(Outcome outcome, int status, const std::vector<std::string>& texts);

/// The object has these members, with these values.
void expect_members(const boost::json::value& object, const boost::json::object& wanted);

/// The words, with more behind them.
std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more);

/// The words between blanks.
std::vector<std::string> split_words(const std::string& text);

}  // namespace ironcl::cli_test
