// SPDX-License-Identifier: Apache-2.0
#include "host/registry/log.h"

#include <bit>
#include <chrono>

#include "host/report/search.h"

namespace ironcl::registry {
namespace {

// In the order of the bits of Kind.
constexpr std::string_view kKinds[] = {"error", "warn", "load", "dispatch", "create", "exec", "build"};

std::string_view name_of(Kind kind) { return kKinds[std::countr_zero(static_cast<std::uint32_t>(kind))]; }

}  // namespace

Verbosity parse_verbosity(std::string_view text) {
  Verbosity result;
  for (const std::string_view word : words::split(text, ',')) {
    if (const auto pair = words::key_value(word); pair && pair->first == "filter") {
      // The last word: a regular expression may have commas.
      try {
        result.filter.emplace(pair->second.begin(), text.end());
      } catch (const std::runtime_error& error) {
        boundary::invalid("verbose: filter is not a regular expression: {}", error.what());
      }
      if (result.kinds == 0) result.kinds = kAllKinds;
      break;
    }
    const auto known = std::ranges::find(kKinds, word) - std::begin(kKinds);
    if (word == "all") {
      result.kinds |= kAllKinds;
    } else if (known != std::ssize(kKinds)) {
      result.kinds |= 1u << known;
    } else if (!word.empty() && word != "none") {
      boundary::invalid(
          "verbose: '{}' is none of error, warn, load, dispatch, create, exec, build, all, none, filter=REGEX", word);
    }
  }
  return result;
}

Logger::Logger(Verbosity verbosity, Sink sink, void* context)
    : verbosity_(std::move(verbosity)), sink_(sink), context_(context) {}

void Logger::write(Kind kind, std::string_view fields) noexcept {
  if (!wants(kind)) return;
  try {
    using namespace std::chrono;
    const auto now = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
    std::string line = fmt::format("ironcl,1,{},{},{}", now, name_of(kind), fields);
    // Where looking costs too much the line is written: one too many can be skipped, a missing one cannot be found.
    std::int64_t looks = report::looks_for(line.size());
    if (verbosity_.filter && !report::is_found(*verbosity_.filter, line, false, looks).value_or(true)) return;
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (sink_) {
      sink_(context_, line.c_str());
    } else {
      line += '\n';
      std::fwrite(line.data(), 1, line.size(), stderr);
    }
  } catch (...) {  // a line is lost rather than a program
  }
}

void Logger::write_of_plugin(std::string_view plugin, std::uint32_t level, std::string_view text) noexcept {
  constexpr Kind kByLevel[] = {kError, kWarn, kCreate, kExec};
  Kind kind = kByLevel[std::min<std::uint32_t>(level, IRONCL_LOG_TRACE)];
  for (const Kind named : {kCreate, kExec, kBuild}) {
    const std::string_view name = name_of(named);
    if (text.starts_with(name) && text.substr(name.size()).starts_with(": ")) {
      // A failed build is wanted by those who want errors, too.
      if (!(level <= IRONCL_LOG_WARN && !wants(named))) kind = named;
      text.remove_prefix(name.size() + 2);
      break;
    }
  }
  if (!wants(kind)) return;
  try {
    write(kind, fmt::format("{},{}", csv_field(plugin), csv_field(text)));
  } catch (...) {
  }
}

void Logger::close() noexcept {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace ironcl::registry
