// SPDX-License-Identifier: Apache-2.0
// The forms of weights and of activations, a file each.
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// PANEL of cl/register_tile.cl: columns of packed weights whose codes of one k lie side by side.
constexpr std::int64_t kPanel = 32;

/// Weights in blocks of columns and runs of k: panels of 32 columns for the vector kernels, all columns at once for
/// the tiled one. Columns in blocks of n_block (0: all columns are one block), then k in runs of k_run; inside a run
/// the k of one column are together. Code of (n, k):
/// (((n / n_block) * (k_pad / k_run) + k / k_run) * n_block + n % n_block) * k_run + k % k_run.
/// k is padded with zero codes to a multiple of k_unit. Unquantised weights lie the same way, an element of `type`
/// for each code; so do codes of four bits, two per byte, the first in its lower half.
WeightFormPtr blocked_form(std::int64_t n_block, std::int64_t k_run, std::int64_t k_unit,
                           numerics::DType type = numerics::DType::none);

/// The panels of the vector kernels: of four bits a word holds eight k of a column (K_TOGETHER of
/// cl/register_tile.cl), so that one shift brings a code of 16 columns to its place.
inline WeightFormPtr panel_form(numerics::DType type = numerics::DType::none) {
  return blocked_form(kPanel, numerics::is_quantized(type) && numerics::bits_of(type) < 8 ? 8 : 1, 16, type);
}

/// Weights as tensor cores of compute capability 9.0 want them in local memory, so that plain bulk copies fetch them;
/// the same bytes serve as a register operand and stream well. Slots of 64 columns of B by a K block of 128, 8 KiB
/// each, K blocks of the same columns one after another. A slot is 64 lines of 128 bytes, all k of a column; the
/// 16-byte piece c of line r lies at c ^ (r & 7), which is wgmma's swizzle of 128 bytes. Line 16 i + 8 a + 2 t + e of
/// a slot is column 16 i + 4 t + 2 a + e, so that what a work-item has of D lies side by side. Columns are padded to
/// 128 and k to 256 with zero codes. Scales: for each 128 columns and scale group, 128 f32.
WeightFormPtr swizzled_form();

/// Weights of four bits for mma.sync, in groups of 16 columns by K blocks of 128, 1 KiB each, K blocks of the same
/// columns one after another. In a K block work-item 4 g + t of a warp has the 32 k from 32 t on of column g, 16
/// bytes, and 512 bytes later those of column g + 8. Bits of 16 codes lie where few instructions make bf16 of them
/// (lines.cpp). Scales stay bytes, those of a work-item side by side; of groups that hold all k, as of groups of 32.
WeightFormPtr lines_form();

/// `form` of weights of `type` that are `half` rows of gates and as many of ups: `run` of the one, which divides
/// `half`, lie before as many of the other, in turns.
WeightFormPtr interleaved_form(WeightFormPtr form, std::int64_t half, std::int64_t run, numerics::DType type);

/// An operand in `form`, with a scale for each row and K group; its place is booked, and `more` bytes after the
/// scales.
inline Operand book_packed(std::string form, numerics::DType element, numerics::Size rows, numerics::Size k,
                           const PlanContext& plan, std::int64_t more = 0) {
  Operand out;
  out.form = std::move(form);
  out.element = element;
  out.ld = k.value();
  out.scale = {numerics::DType::f32, {1, plan.problem.k_group}, plan.problem.k_groups()};
  out.data = plan.booking.book(rows * k * numerics::size_of(element));
  out.scales = plan.booking.book(rows * out.scale.ld * 4 + more);
  return out;
}

/// What a kernel that reads rows of activations takes of floats as the caller has them.
enum class RowsOfFloats {
  none,
  quantised,   ///< The kernel quantises them in groups of one row by 128, where the device's quotients are exact.
  multiplied,  ///< The kernel multiplies them, where no row needs padding.
};

/// Activations as rows, k padded with zeros to a multiple of `k_unit`: codes stay codes and floats become f32, or all
/// become `element`, bf16, which holds both but f32 and f16.
ActivationFormPtr rows_form(std::int64_t k_unit, RowsOfFloats floats = RowsOfFloats::none,
                            backend::DType element = backend::DType::none);

/// Activations as f32 tiles of `rows` rows, for register tiles; in a tile, each 16 k of a row lie side by side
/// (cl/pack_a.cl). k is padded to 16. Codes are multiplied with the unit of the weights' decoding. With `floats` the
/// kernel itself quantises floats whose scale groups are its K groups.
ActivationFormPtr tiles_form(std::int64_t rows, bool floats = false);

/// Activations as tiles of `rows` rows; those of one K group lie together (cl/a_tiles.cl). `element` is bf16, which
/// holds fp8 codes exactly, or i8. k is padded to whole K groups. `floats`: rows of floats whose scale groups are K
/// groups are taken as they are, for a kernel that makes tiles of them itself.
ActivationFormPtr group_tiles_form(std::int64_t rows, backend::DType element, int k_group, bool floats = false);

/// Counters of 32 bits that lie before the scales of tokens; what fills the form sets them to zero, kernels that
/// share K count with them and leave them at zero.
constexpr std::int64_t kPartCounters = 1024;

/// Activations as the kernels of compute capability 9.0 read them, in tiles of 64 rows by K blocks of 128. Rows are
/// padded to 256, in memory only: past m nothing is written, and kernels store nothing of it.
///
/// f16: values of codes for the ring of gemm_wgmma_f16, 16 KiB a tile and K block: two halves of 64 k, each 64 lines
/// of 128 bytes. Piece c of a line holds, for t = 0 to 3, the two k of its half from 16 t + 2 c on, which is the
/// order in which a work-item has the weights' codes; it lies at c ^ (line & 7). Scales: 64 f32 a tile and K block.
///
/// Else: codes for the stages of gemm_wgmma_fp8, 8 KiB a tile and K block: 64 lines of 128 bytes, all k of a row; the
/// 16-byte piece c of line r lies at c ^ (r & 7), which is wgmma's swizzle of 128 bytes, as in swizzled_form().
/// Scales: of each 128 rows and K block 128 f32 as [warp 8][g 8][row 16 warp + g, row 16 warp + g + 8].
ActivationFormPtr tokens_form(bool f16);

}  // namespace ironcl::opencl
