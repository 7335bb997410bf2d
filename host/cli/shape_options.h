// SPDX-License-Identifier: Apache-2.0
// The options by which `bench` and `tune` are told what to measure: shapes by list, model or checkpoint, rows by list
// or range. Next door: host/tuning/shapes.h (known models), host/report/problem.h (the problem line).
#pragma once

#include "host/cli/command.h"
#include "host/layer/layer_problem.h"
#include "host/layer/selection.h"
#include "host/report/problem.h"
#include "host/tuning/shapes.h"

namespace ironcl::cli {

/// A weight to measure: a layer's name and its problem, whose M is still to be set.
struct MeasuredLayer {
  std::string name;  ///< "q_b_proj", "model.layers.0.mlp.down_proj"; of a plain shape "4096x7168".
  report::Problem problem;
};

struct Measured {
  std::vector<MeasuredLayer> layers;
  std::vector<layer::LeftOut> left_out;       ///< Layers of a checkpoint that cannot be used.
  std::vector<std::filesystem::path> inputs;  ///< Every file that was read: of a checkpoint, a config.json.
};

/// The layers of a checkpoint that a glob names, for activations that come in choices.x: codes come quantised where a
/// layer quantises. Throws checkpoint::Error as layer::select_layers.
Measured layers_of_checkpoint(const std::filesystem::path& path, const checkpoint::OpenOptions& options,
                              const std::string& glob, layer::ProblemChoices choices);

class ShapeOptions {
 public:
  /// Adds the options to a subcommand's parser. `of_tokens` says what --tokens is about; `rows`: the default of --m.
  ShapeOptions(CLI::App& app, const std::string& of_tokens, std::set<std::int64_t> rows = {1, 16, 128, 1024});

  /// Whether any option names weights.
  bool given() const;
  /// --tokens: empty where single products are meant. Throws CommandError usage where --experts is given without.
  const std::vector<std::int64_t>& tokens() const;
  /// The layer of experts of --model with as many as --experts says. It comes with sizes, types and blocks of its
  /// own: throws CommandError usage where an option says others, which would be ignored.
  layer::ExpertsForm experts() const;
  /// Where none of these options names weights: throws CommandError usage where another one was given all the same,
  /// which would be ignored; `why` says what is measured instead.
  void check_unused(const std::string& why) const;
  /// The weights to measure, each problem once: those of a checkpoint as the checkpoint has them, others as a
  /// checkpoint's layer of these options. Throws CommandError usage or bad_input, checkpoint::Error.
  Measured layers() const;
  /// The numbers of rows, ascending, each once.
  const std::set<std::int64_t>& rows() const noexcept { return rows_; }

 private:
  report::Problem problem(std::int64_t n, std::int64_t k) const;

  const CLI::App& app_;
  std::vector<std::string> shapes_;
  std::vector<std::int64_t> n_, k_, tokens_;
  std::set<std::int64_t> rows_;
  std::int64_t experts_ = 0;  ///< 0: as many as the model has.
  std::string model_, checkpoint_;
  std::int64_t tp_size_ = 1;
  std::optional<numerics::ScaleGrid> block_, x_block_;
  numerics::DType x_ = numerics::DType::bf16, w_ = numerics::DType::e4m3fn, out_ = numerics::DType::bf16,
                  scale_ = numerics::DType::f32;
};

}  // namespace ironcl::cli
