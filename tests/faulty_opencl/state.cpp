// SPDX-License-Identifier: Apache-2.0
#include "tests/faulty_opencl/state.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string_view>

#include "tests/faulty_opencl/shim.h"

namespace ironcl::faulty {
namespace {

struct Strike {
  std::string call;
  long nth = 0;  ///< From 1; 0: every one.
  cl_int code = 0;
  bool later = false;
};

struct State {
  std::mutex mutex;
  Limits limits;
  std::vector<Strike> strikes;
  long lose = 0;  ///< From this call on; 0: never.
  long calls = 0;
  bool struck = false, recording = false;
  std::map<std::string, long> by_name;
  std::vector<std::string> log;
  std::array<long, static_cast<std::size_t>(Kind::none)> held{};
  std::uint64_t memory = 0;
};

constexpr std::array<const char*, static_cast<std::size_t>(Kind::none)> kKinds{
    "context", "queue", "buffer", "program", "kernel", "event", "device"};

[[noreturn]] void bad(std::string_view word) {
  throw std::invalid_argument("IRONCL_FAULTY_OPENCL: \"" + std::string(word) + "\" is no command; shim.h lists them");
}

template <class T>
T number(std::string_view text, std::string_view word) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) bad(word);
  return value;
}

Strike strike(std::string_view text, bool later, std::string_view word) {
  const auto first = text.find(':'), second = text.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) bad(word);
  return {std::string(text.substr(0, first)), number<long>(text.substr(first + 1, second - first - 1), word),
          number<cl_int>(text.substr(second + 1), word), later};
}

void obey(State& state, std::string_view word) {
  const auto equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
  Limits& l = state.limits;
  if (name == "fail" || name == "later") {
    state.strikes.push_back(strike(value, name == "later", word));
  } else if (name == "lose") {
    state.lose = number<long>(value, word);
  } else if (name == "memory") {
    l.memory = number<std::uint64_t>(value, word);
  } else if (name == "local") {
    l.local = number<std::uint64_t>(value, word);
  } else if (name == "group") {
    l.group = number<std::uint64_t>(value, word);
  } else if (name == "align") {
    l.align = number<std::uint64_t>(value, word);
  } else if (name == "width") {
    l.width = number<std::uint64_t>(value, word);
  } else if (word == "nohalf") {
    l.half = false;
  } else if (word == "nodivide") {
    l.divide = false;
  } else if (word == "nofma") {
    l.fma = false;
  } else if (word == "nobinaries") {
    l.binaries = false;
  } else if (word == "gpu") {
    l.gpu = true;
  } else if (word == "latewrites") {
    l.late_writes = true;
  } else if (word == "turns") {
    l.turns = true;
  } else {
    bad(word);
  }
}

void obey_all(State& state, std::string_view text) {
  state.limits = {};
  state.strikes.clear();
  state.by_name.clear();
  state.lose = state.calls = 0;
  state.struck = false;
  while (!text.empty()) {
    const auto end = text.find(';');
    if (end != 0) obey(state, text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
}

/// Never destroyed: drivers call back while a process ends.
State& state() {
  static State* const made = [] {
    auto* fresh = new State;
    if (const char* text = std::getenv("IRONCL_FAULTY_OPENCL"); text != nullptr) {
      try {
        obey_all(*fresh, text);
      } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "%s\n", error.what());
        std::abort();
      }
    }
    return fresh;
  }();
  return *made;
}

}  // namespace

void command(const std::string& text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  obey_all(s, text);
}

bool struck() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.struck;
}

void record() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.recording = true;
  s.log.clear();
}

std::vector<std::string> stop() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.recording = false;
  return std::move(s.log);
}

std::map<std::string, long> held() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::map<std::string, long> counts;
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (static_cast<Kind>(i) != Kind::device) counts[kKinds[i]] = s.held[i];  // Root devices have no count.
  }
  return counts;
}

Verdict judge(const char* name, bool always_passes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  ++s.calls;
  const long nth = ++s.by_name[name];
  if (s.recording) s.log.emplace_back(name);
  for (const Strike& strike : s.strikes) {
    if (strike.call == name && (strike.nth == 0 || strike.nth == nth)) {
      s.struck = true;
      return {strike.code, strike.later};
    }
  }
  if (s.lose != 0 && s.calls >= s.lose && !always_passes) {
    s.struck = true;
    return {CL_DEVICE_NOT_AVAILABLE, false};
  }
  return {};
}

void count(Kind kind, long change) {
  if (kind == Kind::none) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.held[static_cast<std::size_t>(kind)] += change;
}

bool take_memory(std::uint64_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.limits.memory && (bytes > *s.limits.memory || s.memory > *s.limits.memory - bytes)) return false;
  s.memory += bytes;
  return true;
}

void give_back_memory(std::uint64_t bytes) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.memory -= bytes;
}

Limits limits() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.limits;
}

}  // namespace ironcl::faulty
