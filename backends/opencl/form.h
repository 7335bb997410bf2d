// SPDX-License-Identifier: Apache-2.0
// How operands lie in memory, as objects: forms of packed weights and forms of activations. Next door:
// forms/forms.h (those there are). A kernel's declaration names the forms that it reads (variant.h).
#pragma once

#include <memory>
#include <string>

#include "backends/opencl/step.h"

namespace ironcl::opencl {

/// Sizes of packed weights.
struct WeightExtent {
  std::int64_t n_pad = 0, k_pad = 0;  ///< As kernels see them: padded with zero codes.
  numerics::Size code_bytes;
  numerics::Size scales;
};

/// How the codes of B and the scales of its columns lie. Immutable; two forms are the same if their names are.
class WeightForm {
 public:
  virtual ~WeightForm() = default;
  /// With every number in it that the form is made of: "panel_n32_k1_pad16".
  virtual std::string name() const = 0;
  /// Memory of n x k codes with `scale_groups` scale groups along k. Throws std::overflow_error.
  virtual WeightExtent extent(std::int64_t n, std::int64_t k, std::int64_t scale_groups) const = 0;
  /// codes [n, k], rows ld apart, into `packed` (extent().code_bytes of it); padding becomes zero codes.
  virtual void pack(std::int64_t n, std::int64_t k, const std::uint8_t* codes, std::int64_t ld,
                    std::uint8_t* packed) const = 0;
  /// The inverse of pack(), tight, bit for bit.
  virtual void unpack(std::int64_t n, std::int64_t k, const std::uint8_t* packed, std::uint8_t* codes) const = 0;
  /// Where the scale of column n and scale group g is. Padding has scale 0. By default columns lie side by side.
  virtual std::int64_t scale_at(const WeightExtent& extent, std::int64_t n, std::int64_t group) const {
    return group * extent.n_pad + n;
  }
  /// Whether a column with a NaN code has the scale NaN in that scale group, so that kernels need not look for such
  /// codes. False where kernels decode them to NaN by themselves.
  virtual bool marks_nan_codes() const { return true; }
  /// Whether scales of a byte are held as they are given (held_scales()); else all scales are f32.
  virtual bool keeps_scales() const { return false; }
};

/// How the scales of a matrix are held.
struct HeldScales {
  backend::DType type = backend::DType::f32;
  numerics::Size
      first;  ///< Bytes before the first: room for the global scale in f32, where scales are held as given.
  numerics::Size bytes;  ///< Bytes per matrix, a multiple of 4.
};

/// `given`: the type of the caller's scales, or none.
inline HeldScales held_scales(const WeightForm& form, const WeightExtent& extent, backend::DType given) {
  if (!form.keeps_scales() || numerics::bits_of(given) != 8) return {backend::DType::f32, 0, extent.scales * 4};
  return {given, 64, (extent.scales + numerics::Size(64)).padded_to(64)};
}

using WeightFormPtr = std::shared_ptr<const WeightForm>;

/// How A lies as a kernel reads it, and the steps that bring it there.
class ActivationForm {
 public:
  virtual ~ActivationForm() = default;
  /// With every number in it: "tiles_m12_k16_f32".
  virtual std::string name() const = 0;
  /// True where the kernel reads this operand as it is. By default nobody hands over what only a step makes.
  virtual bool takes(const Operand&, const PlanContext&) const { return false; }
  /// True where the kernel quantises these floats itself, as it reads them.
  virtual bool takes_floats(const Operand&, const PlanContext&) const { return false; }
  /// True where the step that fills this form schedules the rows of a grouped problem, too (cl/schedule_rows.cl).
  virtual bool schedules(const PlanContext&) const { return false; }
  /// The step that quantises `x` straight into this form; no step where there is none for these scale groups: then x
  /// is quantised to rows of codes, and those are packed.
  virtual StepResult quantize(const Operand& x, const PlanContext& plan) const = 0;
  /// The step that packs rows of codes with scales, or of floats, into this form.
  virtual StepResult pack(const Operand& a, const PlanContext& plan) const = 0;
};

/// Whether the scale groups of a quantised operand are K blocks of 128.
inline bool is_one_k_block(const numerics::ScaleGrid& grid, std::int64_t k) {
  return grid.group_cols == 128 || (k <= 128 && grid.group_cols == 0);
}

/// Whether they are that, each of one row.
inline bool is_row_by_k_block(const numerics::ScaleGrid& grid, std::int64_t k) {
  return grid.group_rows == 1 && is_one_k_block(grid, k);
}

using ActivationFormPtr = std::shared_ptr<const ActivationForm>;

}  // namespace ironcl::opencl
