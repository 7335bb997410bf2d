// SPDX-License-Identifier: Apache-2.0
// Declares cl/gemm_mma_stream.cl: class f32 on tensor cores of compute capability 8.0 and more, weights streamed once
// for few rows. On 9.0 wgmma does many rows of K groups of 128; elsewhere nothing else does, so this kernel takes
// all.
#include <cmath>

#include "backends/opencl/tensor_cores.h"

namespace ironcl::opencl {
namespace {

bool has_four_bits(const Problem& p) { return numerics::bits_of(p.b) < 8; }

constexpr std::int64_t kMostMatrices = 257;  ///< That work-groups schedule: 256 experts and a shared one.

/// Whether work-groups stay: STAYS of the kernel. Layers of Qwen3-30B-A3B take 171 us for 204 so at 16 tokens
/// (docs/performance/h200-grouped.md).
bool stays(const Tuning& t, const Problem& p) {
  return p.grouped() && p.matrices <= kMostMatrices && t["tile_m"] <= 8 && t["columns"] == 32 && t["warps"] == 4 &&
         t["lines"] == 0 && p.k_group == 128 && !has_four_bits(p);
}

std::vector<Pass> passes(const Tuning& t, const Problem& p, const Features& f, std::int64_t m) {
  constexpr std::int64_t kAtOnce = 4;  // Of a compute unit that has registers for 16 warps.
  // Columns of D lie in groups of eight of which two make 16 neighbours.
  const std::int64_t groups = numerics::ceil_div(p.n, 16) * 2;
  const std::int64_t width = numerics::ceil_div(groups, t["columns"] / 8), height = most_tiles(p, m, t["tile_m"]);
  if (stays(t, p))
    return {{"gemm_mma_stream", {std::min(width * height, kAtOnce * f.compute_units), 1}, t["warps"] * 32}};
  return {{"gemm_mma_stream", {width, height}, t["warps"] * 32}};
}

/// Scheduling takes each work-group about a microsecond, a kernel before it four and the host nine: it pays where
/// work-groups stay or are few rounds.
bool schedules(const Tuning& t, const Problem& p) {
  constexpr std::int64_t kMostGroups = 2048;
  if (stays(t, p)) return true;
  const auto [width, height] = passes(t, p, {}, p.m).front().work_groups;
  return p.matrices <= kMostMatrices && width * height <= kMostGroups;
}

std::int64_t local_bytes(const Tuning& t, const Problem& p) {
  const std::int64_t warps = t["warps"];
  const bool is_one_row =
      t["tile_m"] == 1 && t["columns"] == 16 && p.a_scale.dtype == backend::DType::none;  // ONE_ROW
  const std::int64_t beside = !has_four_bits(p) ? 0 : is_one_row ? 512 * (warps + 1) + 32 : 1024;
  const std::int64_t rows = std::max<std::int64_t>(8, t["tile_m"]);
  return beside + warps * t["columns"] * (rows + 1) * 4 + magnitude_bytes(p, rows, t["columns"]) +
         (p.grouped() && schedules(t, p) ? p.matrices * 32 + warps * 32 * 8 : 0);
}

/// Whether the kernel quantises A itself: each work-group does it anew, so only where that was seen to be cheaper
/// than a kernel of its own, which costs some 12 us on an H200 (docs/performance/h200-plans.md).
bool quantises(const Tuning& t, const Problem& p) {
  const std::int64_t rows = t["tile_m"];
  if (p.k_group != 128) return false;  // It makes codes of a K block at a time.
  // Its price grows with rows and K: 16 rows of K 12288 take 31.9 us, with a kernel before 26.2
  // (docs/performance/decode.md).
  return rows <= 4 || (rows <= 16 && p.priced().n * p.k <= 64 << 20 && rows * p.k <= 128 << 10);
}

/// Rows that a tile is made for: of many matrices most have fewer, and few a second tile. Where the kernel quantises
/// them, a lower tile costs less than the second ones.
std::int64_t rows_to_hold(const Problem& p) {
  if (p.mean_rows_per_expert == 0) return p.m;
  if (p.a_source != backend::DType::none && p.m <= 4) return p.m;
  const double mean = p.m;
  return static_cast<std::int64_t>(std::ceil(mean + std::sqrt(mean)));
}

constexpr int kMostRows = 32;  ///< Of a tile.

/// What the scheduled rows of a matrix cost in tiles of `height`, in times that its weights stream once: a further
/// tile finds them in the second cache. Fitted to layers of Qwen3-30B-A3B (docs/performance/h200-grouped.md).
double of_scheduled(const Problem& p, std::int64_t height) {
  constexpr double kFurther = 0.6, kHigh = 1.6;
  const double tiles = p.mean_over_rows([&](std::int64_t rows) { return numerics::ceil_div(rows, height); });
  return (height > 16 ? kHigh : 1) * (1 + kFurther * (tiles - 1));
}

/// More rows than a tile that no other kernel on tensor cores takes: K groups of 64 or 32, and what wgmma does not
/// do.
bool has_many_rows(const Problem& p) { return p.k_group != 128 && !p.grouped() && p.m > kMostRows; }
bool has_many_rows(const Features& f, const Problem& p) {
  return has_many_rows(p) || (!f.ptx_sm_90 && !p.grouped() && p.m > kMostRows);
}

/// Tiles that a problem which is not of many rows may have.
std::int64_t most_tiles(const Problem& p) { return p.a_source != backend::DType::none ? 2 : 1; }

std::optional<Refusal> needs(const Features& f, const Problem& p) {
  if (auto refusal = refuse_below_80(f)) return refusal;
  const Problem seen = p.selected();
  if (f.ptx_sm_90 && seen.k_group == 128 && !seen.grouped() && seen.m > most_tiles(seen) * kMostRows) {
    return Refusal(
        backend::Reason::shape,
        "of K groups of 128 this kernel takes few rows on compute capability 9.0, where others take many; m "
        "is {}",
        p.m);
  }
  if (!has_four_bits(seen)) return refuse_narrow_groups(p, 32);
  const backend::ScaleDesc& scale = seen.b_scale;
  if ((scale.dtype != backend::DType::e8m0 && scale.dtype != backend::DType::e4m3fn) ||
      (scale.grid.group_cols != 16 && scale.grid.group_cols != 32)) {
    return Refusal{
        backend::Reason::scale_layout,
        "scales of four-bit weights must be e8m0 or e4m3fn for 16 or 32 of k; portable kernels take others"};
  }
  return refuse_narrow_groups(p, 16);
}

/// As measured on an H200 (docs/performance/h200-few-rows.md).
Tuning rule_of_thumb(const Features& f, const Problem& p) {
  if (has_many_rows(f, p))
    return {{"tile_m", 32}, {"columns", has_four_bits(p) ? 64 : 32}, {"warps", 4}, {"depth", 1}, {"lines", 0}};
  Tuning t{{"tile_m", 32}, {"columns", 16}, {"warps", 8}, {"depth", 1}, {"lines", 0}};
  for (const int rows : {16, 8, 4, 2, 1})
    if (rows_to_hold(p) <= rows) t["tile_m"] = rows;
  if (p.scheduled && t["tile_m"] == 32 && of_scheduled(p, 16) < of_scheduled(p, 32)) t["tile_m"] = 16;
  if (has_four_bits(p)) {
    if (t["tile_m"] >= 8 && !p.scheduled) t["columns"] = 32;
    return t;
  }
  // Wider where that still makes work for every compute unit.
  const std::int64_t units = f.compute_units;
  const bool wide = p.n >= 48 * units, narrow = p.n < 24 * units, is_short = p.k < 2048;
  if (wide) t["columns"] = 32;
  // Of scheduled rows those that wait for the last of many warps are many: 32 matrices of 1536 x 2048, 20 with rows,
  // take 34.2 us with four warps where eight take 42.2.
  if (wide && (is_short || t["tile_m"] == 32 || (p.scheduled && p.k < 4096))) t["warps"] = 4;
  if (wide && p.k >= 4096 && t["tile_m"] <= 16) t["lines"] = 1;
  if (narrow && !is_short && t["tile_m"] <= 16 && !p.scheduled) t["warps"] = 16;
  if (p.k_group != 128) t["lines"] = 0;
  if (p.a_source == backend::DType::none || !quantises(t, p)) return t;
  // Quantising anew for every work-group weighs more than work for all, the more rows the more; and many warps share
  // it.
  t["lines"] = 0;  // Not measured with it.
  if (narrow) t["warps"] = 16;
  if (wide && is_short) t["columns"] = 56;
  if (p.m > 4) {
    const bool far = p.n >= 38 * units;
    t["columns"] = far ? 56 : 32;
    t["warps"] = !far ? 16 : is_short ? 4 : 8;
    if (narrow) t["tile_m"] = 8;  // Two tiles, each in a work-group of its own.
  }
  return t;
}

/// Multiply-adds a second of many rows on an H200, K groups of 64; of groups of 32, which take twice as many
/// instructions, half of that.
constexpr double kManyRows = 7e13;

/// Multiply-adds a clock of a compute unit other than 9.0's, K groups of 128, with integers and with
/// conversions. An H200 held to 8.0 and 8.9 has 243 and 364 (docs/performance/h200-mma.md), and smaller devices
/// multiply at half of its rate or less. Nobody has measured them.
constexpr double kOfUnit = 150, kOfUnitConverting = 220;

/// On devices whose rates nobody has measured: by what they say of themselves, as the portable kernels' estimates
/// are.
double estimate_by_features(const Tuning& t, const Problem& p, const Features& f) {
  const std::int64_t tiles =
      numerics::ceil_div(std::max<std::int64_t>(1, has_many_rows(f, p) ? p.m : rows_to_hold(p)), t["tile_m"]);
  const std::int64_t work_groups = tiles * numerics::ceil_div(p.n, t["columns"]);
  const double in_rounds = rounds(work_groups, f) * f.compute_units / work_groups;
  const double weights = 1.0 * p.n * p.k;
  const double narrow = has_four_bits(p) || p.k_group == 128 ? 1
                        : p.k_group == 32                    ? 2.6
                                                             : 1.25;  // Measured there, too.
  const double count = in_rounds * narrow * tiles * std::max<std::int64_t>(16, t["tile_m"]) * weights;
  return 1e9 * std::max(count / ((f.ptx_sm_89 ? kOfUnitConverting : kOfUnit) * f.clock_hz * f.compute_units),
                        memory_seconds(weights * numerics::bits_of(p.b) / 8, f));
}

double estimate_ns(const Tuning& t, const Problem& p, const Features& f) {
  if (!f.ptx_sm_90) return estimate_by_features(t, p, f);
  if (has_many_rows(p)) {
    const double products = 1.0 * p.m * p.n * p.k;
    return std::max(streaming_ns(p, 1.1, 1000),
                    1e9 * products / (kManyRows * (has_four_bits(p) ? 64 : p.k_group) / 64));
  }
  if (p.scheduled) return streaming_ns(p) * of_scheduled(p, t["tile_m"]);
  // Each further tile of rows reads the weights again, from the second cache.
  const std::int64_t tiles = numerics::ceil_div(std::max<std::int64_t>(1, rows_to_hold(p)), t["tile_m"]);
  return (t["tile_m"] <= 16 ? streaming_ns(p) : streaming_ns(p, 1.1, 1000)) * tiles;
}

}  // namespace

Variant gemm_mma_stream() {
  Variant v = variant_of_tensor_cores("gemm_mma_stream",
                                      "few rows on tensor cores from compute capability 8.0 on, many where no other "
                                      "kernel takes them: weights streamed "
                                      "once, decoded to f16 in registers, f32 sums",
                                      {5, 72, 1100});
  v.tunables = {
      {"tile_m", 8, {1, 2, 4, 8, 16, 32}, "rows of D per work-group"},
      {"columns", 16, {8, 16, 32, 56, 64}, "columns of D per work-group"},
      {"warps", 8, {4, 8, 12, 16}, "warps of a work-group"},
      {"depth", 1, {1, 2, 3, 4}, "K blocks that a warp has under way"},
      {"lines", 0, {0, 1}, "1: a load of a warp is of four whole lines of weights, not of halves of eight"}};
  v.constraints = {
      {"tile_m must hold all rows, or half of them where they are quantised too, since each tile reads all weights",
       [](const Tuning& t, const Problem& p) {
         return p.grouped() || has_many_rows(p) || t["tile_m"] == kMostRows || p.m <= most_tiles(p) * t["tile_m"];
       }},
      {"columns must be a multiple of 16 with four-bit weights, of which sixteen are an operand",
       [](const Tuning& t, const Problem& p) { return !has_four_bits(p) || t["columns"] % 16 == 0; }},
      {"lines is for K groups of 128",
       [](const Tuning& t, const Problem& p) { return t["lines"] == 0 || p.k_group == 128; }}};
  v.needs = needs;
  v.local_bytes = local_bytes;
  v.tile = v.block = [](const Tuning& t) { return Shape{t["tile_m"], t["columns"]}; };
  v.activations = [](const Tuning& t, const Problem& p) {
    return rows_form(128, quantises(t, p) ? RowsOfFloats::quantised : RowsOfFloats::none);
  };
  v.passes = passes;
  v.schedules = schedules;
  v.rule_of_thumb = rule_of_thumb;
  v.estimate_ns = estimate_ns;
  return v;
}

Variant gemm_mma_stream_fp4() {
  Variant v = for_weights_of_four_bits(
      gemm_mma_stream(),
      "any rows on tensor cores from compute capability 8.0 on: weights scaled to bf16 in registers, f32 sums");
  v.toolchain = &kPtxAtOnce;
  v.weights = [](const Tuning&, const Problem&) { return lines_form(); };
  v.activations = [](const Tuning&, const Problem&) {
    return rows_form(128, RowsOfFloats::none, backend::DType::bf16);
  };
  return v;
}

}  // namespace ironcl::opencl
