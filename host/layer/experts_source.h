// SPDX-License-Identifier: Apache-2.0
// A layer of experts in host memory, out of a checkpoint or random. Next door: graph.h (as a list of operations),
// experts.h (on a device).
#pragma once

#include "host/checkpoint/model.h"
#include "host/report/problem.h"

namespace ironcl::layer {

/// The matrices of a gated MLP: down( activation(gate x) * up x ); the router's; the matrix of a layer that is one.
enum class Projection { gate, up, gate_up, down, router, whole };

/// What all matrices of one projection have in common.
struct MatrixForm {
  numerics::DType code = numerics::DType::none;
  report::Scales scale;                          ///< Scales of one matrix; the grid restarts with each.
  numerics::DType bias = numerics::DType::none;  ///< Added to its product; none: there is none.

  bool operator==(const MatrixForm&) const = default;
};

/// A gated MLP, as many of one shape as there are experts.
struct GatedForm {
  std::int64_t count = 1;
  std::int64_t width = 0;     ///< I
  MatrixForm gate, down;      ///< up is as gate.
  bool stored_fused = false;  ///< Gate and up are one matrix [2 I, H], gate's rows first.
  bool own_globals = false;   ///< Global scales of an expert's gate and up differ.

  /// Whether gate and up may be taken as one matrix, and whether they may be taken as two.
  bool may_fuse() const noexcept;
  bool may_split() const noexcept;
};

/// How activations enter a product.
struct ExpertsActivations {
  numerics::DType code = numerics::DType::none;  ///< none: unquantised.
  numerics::ScaleGrid grid;                      ///< {1, columns}
  numerics::Quantizer quantizer;
};

/// Everything of a layer of experts but its numbers.
struct ExpertsForm {
  std::string name;
  std::int64_t hidden = 0;  ///< H
  numerics::Routing routing;
  /// Of a layer that is spread over devices: experts.count of them are here, from this one on. Unset: all are.
  std::optional<std::int64_t> first_expert;
  bool correction_bias = false;
  bool shared_gate = false;
  MatrixForm router{numerics::DType::bf16, {}};
  numerics::Activation activation = numerics::Activation::silu;
  float activation_limit = 0;
  GatedForm experts;
  std::optional<GatedForm> shared;
  ExpertsActivations x, between;  ///< Those of gate and up; those of down.

  /// Columns of the router's logits: E, and the shared expert's gate.
  std::int64_t logits() const noexcept { return routing.experts + (shared_gate ? 1 : 0); }
};

/// Matrices [n, k] one after another, with their scales.
struct StackedMatrices {
  std::int64_t n = 0, k = 0;
  std::vector<std::byte> codes, scales;
  std::vector<float> globals{};   ///< One of each; empty where there are none.
  std::vector<std::byte> bias{};  ///< [n] of each; likewise.
};

/// The numbers of a layer of experts. Any thread; each call makes or reads the matrices again.
class ExpertsSource {
 public:
  virtual ~ExpertsSource() = default;

  virtual const ExpertsForm& form() const = 0;
  /// One matrix of one expert, or of the shared one. `projection` is as it is stored: gate_up, or gate and up.
  virtual StackedMatrices matrix(bool shared, Projection projection, std::int64_t expert) const = 0;
  /// [logits(), H] as form().router: the router's rows, then the shared expert's gate.
  virtual StackedMatrices router() const = 0;
  virtual std::vector<float> correction_bias() const = 0;  ///< [E]; empty where there is none.
};

/// `count` experts of a layer from `first` on, with the shared expert or without; all of them are no part of it.
/// Borrows the whole.
class LocalExperts final : public ExpertsSource {
 public:
  LocalExperts(const ExpertsSource& whole, std::int64_t first, std::int64_t count, bool with_shared)
      : whole_(whole), form_(whole.form()) {
    if (count != form_.routing.experts) form_.first_expert = first;
    form_.experts.count = count;
    if (!with_shared) form_.shared.reset();
  }
  const ExpertsForm& form() const override { return form_; }
  StackedMatrices matrix(bool shared, Projection projection, std::int64_t expert) const override {
    return whole_.matrix(shared, projection, shared ? expert : form_.first_expert.value_or(0) + expert);
  }
  StackedMatrices router() const override { return whole_.router(); }
  std::vector<float> correction_bias() const override { return whole_.correction_bias(); }

 private:
  const ExpertsSource& whole_;
  ExpertsForm form_;
};

/// One expert's matrix of a projection, fused or split as asked, or the router's.
StackedMatrices matrix_of(const ExpertsSource& source, bool shared, Projection projection, std::int64_t expert);

/// Adds the matrices of `one` behind those of `all`.
void append(StackedMatrices& all, const StackedMatrices& one);

/// n and k of a projection.
std::pair<std::int64_t, std::int64_t> shape_of(const ExpertsForm& form, const GatedForm& gated,
                                               Projection projection) noexcept;

/// A matrix as the oracle takes it, borrowed: a global scale goes into the others, which become f64.
numerics::Operand operand_of(const MatrixForm& form, StackedMatrices& matrix);

/// A layer of a checkpoint, which outlives it. `quantize` false: its activations stay unquantised, whatever the
/// checkpoint says. Throws the layer's problem.
std::unique_ptr<ExpertsSource> source_of(const checkpoint::Checkpoint& checkpoint,
                                         const checkpoint::ExpertsLayer& layer, bool quantize = true);

}  // namespace ironcl::layer
