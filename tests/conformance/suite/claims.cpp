// SPDX-License-Identifier: Apache-2.0
// Reading a claims file.
#include "tests/conformance/suite/claims.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace ironcl::conformance {
namespace {

std::vector<Claims::Entry> entries_of(const boost::json::value& value, const std::string& member) {
  std::vector<Claims::Entry> entries;
  for (const auto& item : value.as_array()) {
    const auto& object = item.as_object();
    Claims::Entry entry{std::string(object.at("tests").as_string()), std::string(object.at("reason").as_string())};
    if (entry.reason.empty()) throw std::runtime_error(fmt::format("{}: \"{}\" has no reason", member, entry.tests));
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

Claims read_claims(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error(fmt::format("{}: cannot be read", file.string()));
  std::ostringstream text;
  text << stream.rdbuf();
  Claims claims;
  try {
    const boost::json::value parsed = boost::json::parse(text.str());
    for (const auto& [key, value] : parsed.as_object()) {
      if (key == "claims") {
        claims.memory = claims.gemm = claims.quantize = claims.grouped = claims.experts = false;
        for (const auto& item : value.as_array()) {
          const std::string part(item.as_string());
          if (part == "memory") {
            claims.memory = true;
          } else if (part == "gemm") {
            claims.memory = claims.gemm = true;
          } else if (part == "quantize") {
            claims.memory = claims.quantize = true;
          } else if (part == "grouped") {
            claims.memory = claims.gemm = claims.grouped = true;
          } else if (part == "experts") {
            claims.memory = claims.experts = true;
          } else if (part != "devices") {
            throw std::runtime_error(
                fmt::format("claims: \"{}\" is none of devices, memory, gemm, quantize, grouped, experts", part));
          }
        }
      } else if (key == "reason") {
        claims.reason = std::string(value.as_string());
      } else if (key == "unsupported") {
        claims.unsupported = entries_of(value, "unsupported");
      } else if (key == "expected_failures") {
        claims.expected_failures = entries_of(value, "expected_failures");
      } else {
        throw std::runtime_error(fmt::format(
            "unknown member \"{}\"; known are claims, reason, unsupported, expected_failures", std::string(key)));
      }
    }
  } catch (const std::exception& e) {
    throw std::runtime_error(fmt::format("{}: {}", file.string(), e.what()));
  }
  return claims;
}

const Claims::Entry* find_entry(const std::vector<Claims::Entry>& entries, const std::string& test) {
  for (const auto& entry : entries) {
    if (matches(entry.tests, test)) return &entry;
  }
  return nullptr;
}

bool matches(const std::string& pattern, const std::string& text) {
  std::size_t p = 0, t = 0, star = std::string::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] == text[t] && pattern[p] != '*'))) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace ironcl::conformance
