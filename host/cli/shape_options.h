// SPDX-License-Identifier: Apache-2.0
// The options by which `bench` and `tune` are told what to measure: shapes by list, model or checkpoint, rows by list
// or range. Next door: host/tuning/shapes.h (known models), host/report/problem.h (the problem line).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/report/problem.h"
#include "host/tuning/shapes.h"

namespace CLI {
class App;
}

namespace ironcl::cli {

class ShapeOptions {
 public:
  /// `rows`: the default of --m.
  explicit ShapeOptions(const std::string& rows = "1,16,128,1024") : rows_{rows} {}

  /// Adds the options to a subcommand's parser; this object outlives it.
  void declare(CLI::App& app);

  /// Whether any option names weights.
  bool given() const;
  /// The weights to measure, each shape once. Throws CommandError usage or bad_input.
  std::vector<tuning::LayerShape> layers() const;
  /// The numbers of rows, ascending, each once. Throws CommandError usage.
  std::vector<std::int64_t> rows() const;
  /// The problem of one of them: a checkpoint's layer as a decoder meets it. Throws CommandError usage.
  report::Problem problem(std::int64_t m, std::int64_t n, std::int64_t k) const;

 private:
  std::vector<std::string> shapes_;
  std::vector<std::int64_t> n_, k_;
  std::vector<std::string> rows_;
  std::string model_, checkpoint_;
  std::int64_t tp_size_ = 1;
  std::int64_t block_n_ = 128, block_k_ = 128;
  std::string input_type_ = "fp8", source_ = "bf16", out_ = "bf16", scale_type_ = "f32";
};

/// "64", "1,2,4", "16:1024:*2" (from, to, factor) or "64:256:64" (from, to, step), both ends included.
/// Throws CommandError usage naming `option`.
std::vector<std::int64_t> parse_sizes(const std::string& option, const std::string& text);

}  // namespace ironcl::cli
