// SPDX-License-Identifier: Apache-2.0
// What a kernel variant declares about itself. A variant is a file in cl/ and a file in variants/; docs/kernels.md
// has the steps. Next door: pack.h (layouts of weights), gemm.h (the plan that uses a choice).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/interface.h"
#include "backends/numerics/size.h"
#include "backends/opencl/probe.h"

namespace ironcl::opencl {

/// A compile-time parameter of a kernel: TILE_M in the .cl file, "tile_m" as an option.
struct Tunable {
  std::string name;         ///< Lower case.
  int fallback = 1;         ///< The default of the .cl file.
  std::vector<int> values;  ///< Allowed, ascending.
  std::string meaning;
};

/// A value for each tunable, by name.
using Tuning = std::map<std::string, int>;

std::string to_string(const Tuning& tuning);  ///< "tile_k=16,tile_m=64"

/// What a kernel sees of a problem.
struct Problem {
  std::int64_t m = 0, n = 0, k = 0;
  int group = 128;  ///< The K group: divides the scale groups of both operands. G of the error bound.
  backend::DType a = backend::DType::none, b = backend::DType::none, d = backend::DType::none;

  std::int64_t groups() const noexcept { return numerics::ceil_div(k, group); }
};

/// Why a device, a problem and a tuning do not go together.
struct Refusal {
  backend::Reason reason = backend::Reason::none;
  std::string text;
};

/// A rule between tunables, with the reason that its refusal gives.
struct Constraint {
  std::string why;
  bool (*holds)(const Tuning&, const Problem&);
};

/// PANEL of cl/register_tile.cl: columns of packed weights whose codes of one k lie side by side.
constexpr std::int64_t kPanel = 32;

/// How packed weights lie: columns in blocks of n_block, then k in runs of k_run; inside a run the k of one column
/// are together. Code of (n, k): (((n / n_block) * (k_pad / k_run) + k / k_run) * n_block + n % n_block) * k_run + k
/// % k_run.
struct Layout {
  std::int64_t n_block = 1;  ///< 0: all columns are one block.
  std::int64_t k_run = 1;
  std::int64_t k_pad = 1;  ///< k is padded with zero codes to a multiple of this.

  std::string name() const;  ///< "panel_n32_k1"
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// The form in which a kernel reads A.
struct Activations {
  bool tiles = false;  ///< f32 tiles of `rows` rows (pack_tiles); else rows as they are, padded to k_pad (pack_rows).
  int rows = 1;
  int k_pad = 1;
};

/// One kernel of a variant and how it is launched for m rows.
struct Pass {
  std::string kernel;
  std::size_t global[2] = {1, 1};  ///< Work-groups.
  std::size_t local = 1;           ///< Work-items a work-group, in dimension 0.
};

struct Variant {
  std::string name;  ///< Also the file: cl/NAME.cl.
  std::string summary;
  backend::AccuracyClass accuracy = backend::AccuracyClass::f32;
  std::vector<Tunable> tunables;
  std::vector<Constraint> constraints;

  std::uint64_t (*local_bytes)(const Tuning&, const Problem&) = nullptr;
  std::uint64_t (*work_items)(const Tuning&) = nullptr;  ///< A work-group.
  Layout (*layout)(const Tuning&) = nullptr;
  Activations (*activations)(const Tuning&) = nullptr;
  std::vector<Pass> (*passes)(const Tuning&, const Problem&, std::int64_t m) = nullptr;
  numerics::Size (*scratch_bytes)(const Tuning&, const Problem&) = nullptr;  ///< Null: none.

  /// How well the variant suits, larger is better; 0: only when asked for by name.
  int (*preference)(const Features&, const Problem&) = nullptr;
  /// A tuning that is valid on every device that refuse() accepts. Values need not be good, but must be legal.
  Tuning (*rule_of_thumb)(const Features&, const Problem&) = nullptr;
};

/// All variants, by name. The build lists the files of variants/; nothing else knows them.
std::span<const Variant> variants();

/// The variant of that name, or null.
const Variant* find_variant(std::string_view name);

/// Why `tuning` cannot run here; empty where it can. Builds nothing.
std::optional<Refusal> refuse(const Variant& variant, const Tuning& tuning, const Features& features,
                              const Problem& problem);

/// The declarations as JSON.
std::string variants_json();

/// The tunable's name as the .cl files write it: "tile_m" is TILE_M.
std::string macro_name(const std::string& tunable);

}  // namespace ironcl::opencl
