// SPDX-License-Identifier: Apache-2.0
// Verbose lines: which are wanted (IRONCL_VERBOSE), how they look, where they go. Next door: docs/environment.md.
//
//   ironcl,1,<unix ms>,<kind>,<fields>      comma-separated values; 1 is the version of this form
#pragma once

#include <atomic>
#include <boost/regex.hpp>
#include <mutex>

#include "host/registry/text.h"

namespace ironcl::registry {

/// Kinds of lines, as bits of a mask.
enum Kind : std::uint32_t {
  kError = 1u << 0,     // something failed
  kWarn = 1u << 1,      // something is odd
  kLoad = 1u << 2,      // a step of loading a plugin
  kDispatch = 1u << 3,  // why a device was or was not chosen
  kCreate = 1u << 4,    // a plan or prepared weights were made (from plugins)
  kExec = 1u << 5,      // a command ran (from plugins)
  kBuild = 1u << 6,     // a kernel was compiled (from plugins)
  kAllKinds = (1u << 7) - 1
};

/// "error,warn,load,dispatch,create,exec,build", "all" or "none", with ",filter=REGEX" last (it may hold commas).
struct Verbosity {
  std::uint32_t kinds = 0;
  /// A line is written where this is found in it. Not std::regex, whose matcher calls itself for each character and
  /// overflows the stack on a long line; Boost's keeps its state on the heap (host/report/search.h).
  std::optional<boost::regex> filter{};
};

/// Throws Refused INVALID_ARGUMENT with the words that exist, or with what is wrong about the regular expression.
Verbosity parse_verbosity(std::string_view text);

/// Writes lines to the application's callback, or to stderr where there is none. Thread safe.
class Logger {
 public:
  using Sink = void (*)(void* context, const char* line);
  Logger(Verbosity verbosity, Sink sink, void* context);

  bool wants(Kind kind) const { return (verbosity_.kinds & kind) != 0 && !closed_.load(std::memory_order_relaxed); }
  bool wants_any() const { return verbosity_.kinds != 0; }
  /// One line; `fields` are comma-separated already.
  void write(Kind kind, std::string_view fields) noexcept;
  /// A plugin's line: "build: text" and the like name their kind, else the level does.
  void write_of_plugin(std::string_view plugin, std::uint32_t level, std::string_view text) noexcept;
  /// After it returns, no line is written any more.
  void close() noexcept;

 private:
  const Verbosity verbosity_;
  const Sink sink_;
  void* const context_;
  std::atomic<bool> closed_{false};
  std::mutex mutex_;  // held while the sink runs, so that close() means what it says
};

}  // namespace ironcl::registry
