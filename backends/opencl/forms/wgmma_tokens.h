// SPDX-License-Identifier: Apache-2.0
// Activations as the tensor-core kernels of compute capability 9.0 read them, in tiles of 64 rows by K blocks of 128.
// Next door: swizzled.h (the weights beside them), steps/wgmma_tokens.h (who fills them).
#pragma once

#include "backends/opencl/form.h"

namespace ironcl::opencl {

/// Counters of 32 bits that lie before the scales of both forms; what fills a form sets them to zero, kernels that
/// share K count with them and leave them at zero.
constexpr std::int64_t kPartCounters = 1024;

/// Rows to which both forms are padded, in memory only: past m nothing is written, and kernels store nothing of it.
constexpr std::int64_t kTokenUnit = 256;

/// f16 values of codes for the ring of gemm_wgmma_f16, 16 KiB a tile and K block: two halves of 64 k, each 64 lines
/// of 128 bytes. Piece c of a line holds, for t = 0 to 3, the two k of its half from 16 t + 2 c on, which is the
/// order in which a work-item has the weights' codes; it lies at c ^ (line & 7). Scales: 64 f32 a tile and K block.
ActivationFormPtr tokens_f16_form();

/// Codes for the stages of gemm_wgmma_fp8, 8 KiB a tile and K block: 64 lines of 128 bytes, all k of a row; the
/// 16-byte piece c of line r lies at c ^ (r & 7), which is wgmma's swizzle of 128 bytes, as in swizzled.h. Scales: of
/// each 128 rows and K block 128 f32 as [warp 8][g 8][row 16 warp + g, row 16 warp + g + 8].
ActivationFormPtr tokens_fp8_form();

}  // namespace ironcl::opencl
