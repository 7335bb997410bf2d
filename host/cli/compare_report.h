// SPDX-License-Identifier: Apache-2.0
// What compare found, as JSON and as text. Next door: host/layer/judge.h (the data).
#pragma once

#include "host/cli/command.h"
#include "host/layer/judge.h"
#include "host/layer/selection.h"
#include "host/report/table.h"

namespace ironcl::cli {

/// What a whole run comes to.
struct Conclusion {
  /// "pass": a device other than a model computed every layer, and everything is within bounds. "fail": an element is
  /// out of bounds, or a device failed, or a layer ran on no device. "model_only": everything is within bounds, but
  /// some layer ran on a model alone: that proves nothing.
  const char* verdict;
  ExitStatus status;
  std::string text;  ///< The last line of the output.
};

/// A whole run of compare.
struct CompareReport {
  std::string path;          ///< As the user gave it.
  std::string command_tail;  ///< The options that give the same activations and output type, ready to be pasted.
  std::vector<layer::CaseReport> cases;
  std::vector<layer::LeftOut> left_out;  ///< Layers that could not be run at all.
  bool asked_for_models = false;         ///< The caller named devices, and models only.
  std::string missing;                   ///< Why there is no device but models; empty where there is one.

  Conclusion conclusion() const;
};

/// {"verdict", "cases": [...], "left_out": [...]}; docs/command.md has every key.
boost::json::object to_json(const CompareReport& report);

/// The table of a layer; and one whose cells are as wide as those of a run on these devices, with the classes and
/// expected tensors of `settings`, are likely to be.
report::Table table_of(const layer::CaseReport& layer);
report::Table sample_of(const std::vector<ironcl::Device>& devices, const layer::JudgeSettings& settings);

/// The text below the table: the meaning of its columns, what is wrong, what was left out, the verdict.
std::string closing_text(const CompareReport& report);

/// `text` as one word of a shell command.
std::string shell_word(const std::string& text);

}  // namespace ironcl::cli
