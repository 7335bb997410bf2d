// SPDX-License-Identifier: Apache-2.0
// What a plugin says of itself, in a JSON file: which parts it claims, what it will never run, what is broken for
// now.
//
//   {"claims": ["memory", "gemm", "quantize", "grouped", "experts"],      absent: everything; "devices" is always
//   claimed
//    "reason": "...",                               why the rest is not claimed
//    "unsupported": [{"tests": "Grid.*e8m0*", "reason": "..."}],
//    "expected_failures": [{"tests": "Async.X", "reason": "... and what would mend it"}]}
//
// `tests` is a pattern with * and ? over Group.Name, without the device. Both lists are verified: an unsupported test
// that runs, and an expected failure that passes, are red.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ironcl::conformance {

/// What a test needs a plugin to claim.
enum class Needs { devices, memory, gemm, quantize, grouped, experts };

struct Claims {
  struct Entry {
    std::string tests;
    std::string reason;
  };
  bool memory = true;
  bool gemm = true;
  bool quantize = true;
  bool grouped = true;  ///< Grouped problems and gathered rows of A.
  bool experts = true;  ///< route, activate and combine.
  std::string reason;
  std::vector<Entry> unsupported;
  std::vector<Entry> expected_failures;

  bool has(Needs needs) const {
    return needs == Needs::devices || (needs == Needs::memory && memory) || (needs == Needs::gemm && gemm) ||
           (needs == Needs::quantize && quantize) || (needs == Needs::grouped && grouped) ||
           (needs == Needs::experts && experts);
  }
};

/// Throws std::runtime_error naming the file and the member that is wrong.
Claims read_claims(const std::filesystem::path& file);

/// The entry whose pattern matches `test` ("Group.Name"), or null.
const Claims::Entry* find_entry(const std::vector<Claims::Entry>& entries, const std::string& test);

/// True where `text` matches `pattern` with * (any run) and ? (one character).
bool matches(const std::string& pattern, const std::string& text);

}  // namespace ironcl::conformance
