// SPDX-License-Identifier: Apache-2.0
// What a kernel variant declares about itself. A variant is a file in cl/ and a file in variants/; docs/kernels.md
// has the steps. Next door: form.h (how operands lie), select.h (which variant a plan takes), steps/multiply.h (how
// its kernels are launched).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/opencl/elements.h"
#include "backends/opencl/form.h"
#include "backends/opencl/probe.h"
#include "backends/opencl/problem.h"
#include "backends/opencl/schedule.h"
#include "backends/opencl/toolchain.h"

namespace ironcl::opencl {

/// A compile-time parameter of a kernel: TILE_M in the .cl file, "tile_m" as an option.
struct Tunable {
  std::string name;         ///< Lower case.
  int fallback = 1;         ///< Of the row that the head shows, legal with those of the others.
  std::vector<int> values;  ///< Allowed, ascending.
  std::string meaning;
};

/// A rule between tunables, with the reason that its refusal gives.
struct Constraint {
  std::string why;
  bool (*holds)(const Tuning&, const Problem&);
};

/// Rows and columns of D.
struct Shape {
  std::int64_t rows = 1, columns = 1;
};

/// One kernel of a variant and how it is launched for m rows.
struct Pass {
  std::string kernel;
  std::array<std::int64_t, 2> work_groups = {1, 1};
  std::int64_t items = 1;  ///< Work-items per work-group, in dimension 0.
};

/// A problem so small that running it costs nothing: what a variant that must prove itself is tried with. Its
/// operands are small integers, of class f32 also a row of subnormal codes and a product as large as its sums must
/// hold beside small ones, with scales that are powers of two: D is exact in the variant's accuracy class.
struct Trial {
  std::int64_t m = 3, n = 40, k = 256;
  /// What differs from the rule of thumb, where a driver is known to get other tunables wrong.
  Tuning tunables = {};
  /// Whether a device needs the trial at all; null: each does.
  bool (*needs_trial)(const Features&) = nullptr;
  /// A wrong guess would end the process (an instruction that the CPU or the system refuses): tried in a child
  /// process first (trial.h).
  bool in_child = false;
  /// With in_child: a wrong guess costs a context, not the process. So where no child can be started, or its answer
  /// would not be kept for the next process, or a child does not find the device, the variant is tried here.
  bool or_here = false;
  /// What the system must grant a process before it runs the variant; asked in the child, and here once the child was
  /// right. Empty where it was granted. Null: nothing.
  std::string (*permission)() = nullptr;
};

/// Products of kernels that decode one-byte codes: fp8 by fp8 or i8 by i8, or unquantised activations.
std::vector<Products> codes_of_a_byte();
/// Those, and weights of four bits.
std::vector<Products> every_code();
/// Unquantised weights, for kernels that decode every type by its row of cl/fp8.cl.
Products unquantised();
/// Products whose two operands are codes: fp8 by fp8; and i8 by i8.
std::vector<Products> fp8_codes();
std::vector<Products> integer_codes();

/// Whether so many columns of totals hold whole scale groups of a quantised D.
bool holds_groups_of_d(const Problem& p, std::int64_t columns);
/// The narrowest of `widths` that does; the first where none does, or none need be held.
int width_for_d(const Problem& p, const std::vector<int>& widths);

/// Bytes in which work-items find what is largest in the scale groups of D in a tile (cl/totals_of_tile.cl).
inline std::int64_t magnitude_bytes(const Problem& p, std::int64_t rows, std::int64_t columns) {
  return p.quantizes_d() ? rows * numerics::ceil_div(columns, 32) * 4 : 0;
}

struct Variant {
  Variant() = default;
  Variant(std::string name, std::string summary) : name(std::move(name)), summary(std::move(summary)) {}

  std::string name;
  std::string file;  ///< In cl/; variants for other code types may share it; empty: NAME.cl.
  std::string summary;
  backend::AccuracyClass accuracy = backend::AccuracyClass::f32;
  std::vector<Tunable> tunables;
  std::vector<Constraint> constraints;

  // What it needs. A variant whose needs are not met is skipped with the reason.
  /// The types that it multiplies.
  std::vector<Products> products = codes_of_a_byte();
  /// Device features and shapes beyond what all variants take; null: nothing.
  std::optional<Refusal> (*needs)(const Features&, const Problem&) = nullptr;
  /// Set: the variant runs only where it was built, run and found right on this problem once (trial.h). For kernels
  /// of which no feature says whether they work.
  std::optional<Trial> trial;
  const Toolchain* toolchain = &kOpenclC;
  std::int64_t (*local_bytes)(const Tuning&, const Problem&) = nullptr;
  bool own_local = false;  ///< Those are arrays of the kernel's own: a device may have more for them.
  /// What the tunable "lanes" must be where the device's products say how many work-items have one together; null:
  /// they do not.
  int Features::*lanes = nullptr;

  // What it is.
  std::function<Shape(const Tuning&)> tile;   ///< The part of D held in registers or local memory at once.
  std::function<Shape(const Tuning&)> block;  ///< The part of D that a work-group makes.
  WeightFormPtr (*weights)(const Tuning&, const Problem&) = nullptr;
  ActivationFormPtr (*activations)(const Tuning&, const Problem&) = nullptr;
  /// How a grouped problem's rows are scheduled for it; null: it takes neither grouped problems nor gathered rows.
  ScheduleShape (*schedule)(const Tuning&) = nullptr;
  /// Whether each of its work-groups schedules the rows of a grouped problem for itself, one tile per block
  /// (cl/schedule_rows.cl); null: none does.
  bool (*schedules)(const Tuning&, const Problem&) = nullptr;
  /// It has the rows of a dense plan's last tile as a literal, LAST_ROWS, where these are fewer than tile() says.
  bool last_rows = false;
  /// It makes the scales and codes of a quantised D itself (cl/codes_of_d.cl), where a scale group lies in the
  /// columns of block() and no other kernel adds parts of K.
  bool codes_of_d = false;
  /// Of a D that is activated (Problem::gate) the columns of gates, and then of ups, that lie together in the weights
  /// of a kernel that activates it by itself (cl/epilogue.cl); 0, or null: it does not.
  int (*gate_run)(const Tuning&, const Problem&) = nullptr;
  /// Each call has a unique number (cl/one_launch.cl).
  bool numbered_calls = false;
  /// Launches for m rows; for a grouped problem, for the most blocks that m rows can become (row_blocks).
  std::function<std::vector<Pass>(const Tuning&, const Problem&, const Features&, std::int64_t m)> passes;
  /// K groups of activations that persistent work-groups hold; they share the work by the plan's counter, which
  /// the kernel finds in place of the scratch (one_launch.h). 0, or null: work-groups are not persistent.
  int (*persistent_groups)(const Tuning&, const Problem&) = nullptr;
  numerics::Size (*scratch_bytes)(const Tuning&, const Problem&, const Features&) = nullptr;  ///< Null: none.

  /// A tuning that is valid on every device that refuse() accepts. Values need not be good, but must be legal.
  Tuning (*rule_of_thumb)(const Features&, const Problem&) = nullptr;
  /// About how long a call takes, in nanoseconds of a quiet device. Selection takes the least: what counts is the
  /// order of variants, so estimates share the rates of estimate.h.
  double (*estimate_ns)(const Tuning&, const Problem&, const Features&) = nullptr;
};

/// What Variant::needs answers of a device with a feature, or without: then the reason is `why`.
inline std::optional<Refusal> refuse_without(bool there, std::string why) {
  if (there) return std::nullopt;
  return Refusal{backend::Reason::device_feature, std::move(why)};
}

/// The same kernel for weights of four bits, as a variant that has a trial of its own.
Variant for_weights_of_four_bits(Variant v, std::string summary);

/// The variant's file of cl/.
inline std::string file_of(const Variant& variant) {
  return variant.file.empty() ? variant.name + ".cl" : variant.file;
}

/// All variants of this build, by name. The build lists the makers in variants/; nothing else knows them.
std::span<const Variant> variants();

/// The variant of that name among `all`, or null.
const Variant* find_variant(std::string_view name, std::span<const Variant> all = variants());

/// The tunable of that name, or null.
const Tunable* find_tunable(const Variant& variant, std::string_view name);

/// What `text` says, where it is one of the values allowed.
std::optional<int> value_of(const Tunable& tunable, std::string_view text);

/// Whether `variant` runs on such a device only after its trial went well.
inline bool must_be_tried(const Variant& variant, const Features& f) {
  return variant.trial && (variant.trial->needs_trial == nullptr || variant.trial->needs_trial(f));
}

/// Types of A and B that a trial multiplies: codes of one type where the variant takes such, else codes by four bits.
std::pair<backend::DType, backend::DType> trial_codes(const Variant& variant);

/// The first constraint that `tuning` breaks, or null.
const Constraint* broken_constraint(const Variant& variant, const Tuning& tuning, const Problem& problem);

/// Work-items of the largest work-group among the variant's kernels.
std::int64_t most_work_items(const Variant& variant, const Tuning& tuning, const Features& f, const Problem& problem);

/// Local memory that a work-group of `variant` may have.
inline std::int64_t most_local(const Variant& variant, const Features& f) {
  return variant.own_local ? f.own_local_bytes : f.local_bytes;
}

/// Whether the kernel makes the codes of a quantised D (Variant::codes_of_d).
bool makes_codes_of_d(const Variant& variant, const Tuning& tuning, const Problem& problem);

/// Of a D that the kernel activates, Variant::gate_run; 0 where it does not, or no whole runs are in a half of B.
/// Where codes of D need a step after the kernel anyhow, that step activates too.
int gate_run(const Variant& variant, const Tuning& tuning, const Problem& problem);

/// The form of the weights that a plan reads: that of the variant, its gates and ups in turns where it activates D.
WeightFormPtr weights_form(const Variant& variant, const Tuning& tuning, const Problem& problem);

/// Why `tuning` cannot run here; empty where it can. Builds nothing, and asks no trial.
std::optional<Refusal> refuse(const Variant& variant, const Tuning& tuning, const Features& features,
                              const Problem& problem);

/// The declarations as JSON.
std::string variants_json(std::span<const Variant> all = variants());

/// The tunable's name as the .cl files write it: "tile_m" is TILE_M.
std::string macro_name(const std::string& tunable);

}  // namespace ironcl::opencl
