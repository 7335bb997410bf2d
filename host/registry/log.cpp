// SPDX-License-Identifier: Apache-2.0
#include "host/registry/log.h"

#include <chrono>

#include "host/report/search.h"

namespace ironcl::registry {
namespace {

constexpr struct {
  const char* name;
  Kind kind;
} kKinds[] = {{"error", kError},   {"warn", kWarn}, {"load", kLoad},  {"dispatch", kDispatch},
              {"create", kCreate}, {"exec", kExec}, {"build", kBuild}};

const char* kind_name(Kind kind) {
  for (const auto& entry : kKinds) {
    if (entry.kind == kind) return entry.name;
  }
  return "unknown";
}

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
    const auto* known =
        std::ranges::find(kKinds, word, [](const auto& entry) { return std::string_view(entry.name); });
    if (word == "all") {
      result.kinds |= kAllKinds;
    } else if (known != std::end(kKinds)) {
      result.kinds |= known->kind;
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
    std::string line = fmt::format("ironcl,1,{},{},{}", now, kind_name(kind), fields);
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
    const std::string_view name = kind_name(named);
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
