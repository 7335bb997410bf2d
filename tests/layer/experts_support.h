// SPDX-License-Identifier: Apache-2.0
// Layers of experts for tests: those of tests/data/experts, and one with a planted wrong scale.
#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backends/numerics/casts.h"
#include "host/checkpoint/matrix.h"
#include "host/checkpoint/model.h"
#include "host/layer/experts_input.h"
#include "host/layer/experts_source.h"

namespace ironcl::layer {

/// The values of a layer with an input whose routing is given, for exact sums in class f32.
struct Evaluated {
  Graph graph;
  Values values;
  const Bounded& at(const char* name) const { return values.at(graph.find(name)); }
  const Bounded& y() const { return at("y"); }
};
inline Evaluated evaluate(const ExpertsSource& source, const ExpertsInput& input, numerics::DType out) {
  ExpertsChoices choices{.tokens = std::max<std::int64_t>(input.tokens, 1), .x = input.x_dtype, .out = out};
  Evaluated evaluated{graph_of(source.form(), choices), {}};
  evaluated.values = oracle_of(source, input).evaluate(evaluated.graph);
  return evaluated;
}

inline std::string name_of(Projection projection) {
  return projection == Projection::gate ? "gate" : projection == Projection::up ? "up" : "down";
}

/// A checkpoint of tests/data/experts with its x, and the routing and result of transformers' block.
struct Example {
  Example(const std::string& name, bool quantize)
      : checkpoint(checkpoint::Checkpoint::open(std::filesystem::path(TEST_DATA) / "experts" / name)),
        source(source_of(checkpoint, checkpoint.experts().at(0), quantize)) {
    const std::string file = std::string(TEST_DATA) + "/experts/" + name + ".expect.safetensors";
    ActivationSource x;
    x.input = file + ":x";
    input = load_experts_input(x, file + ":ids,weights", source->form());
    y = checkpoint::load_matrix(file, "y").to_f64();
  }
  Evaluated oracle() const { return evaluate(*source, input, numerics::DType::f32); }

  checkpoint::Checkpoint checkpoint;
  std::unique_ptr<ExpertsSource> source;
  ExpertsInput input;
  std::vector<double> y;
};

/// Another source with one scale of one expert times `factor`; scales are f32.
class WrongScale final : public ExpertsSource {
 public:
  WrongScale(const ExpertsSource& of, std::int64_t expert, Projection projection, std::int64_t row, std::int64_t col,
             float factor)
      : of_(of), expert_(expert), projection_(projection), row_(row), col_(col), factor_(factor) {}

  const ExpertsForm& form() const override { return of_.form(); }
  StackedMatrices matrix(bool shared, Projection projection, std::int64_t expert) const override {
    StackedMatrices one = of_.matrix(shared, projection, expert);
    if (shared || projection != projection_ || expert != expert_) return one;
    const MatrixForm& matrix = projection == Projection::down ? form().experts.down : form().experts.gate;
    const auto at = static_cast<std::size_t>(row_ * matrix.scale.grid.scale_cols(one.k) + col_) * sizeof(float);
    float scale = 0;
    std::memcpy(&scale, one.scales.data() + at, sizeof scale);
    scale *= factor_;
    std::memcpy(one.scales.data() + at, &scale, sizeof scale);
    return one;
  }
  StackedMatrices router() const override { return of_.router(); }
  std::vector<float> correction_bias() const override { return of_.correction_bias(); }

 private:
  const ExpertsSource& of_;
  std::int64_t expert_;
  Projection projection_;
  std::int64_t row_, col_;
  float factor_;
};

}  // namespace ironcl::layer
