// SPDX-License-Identifier: Apache-2.0
// gemm_wgmma_s8.cl: the kernel of gemm_wgmma_fp8.cl for int8 codes of both operands, by their own wgmma. Sums of 128 k stay below 2^22, so
// they are exact in 32 bits and as f32: class f32, at the rate of fp8.
//
// Tunable        default  values      meaning
// TILE_N         256      64 128 256  columns of D per work-group; its rows are 128
// SPLIT_K        1        1 to 16     parts of K that work-groups share
// SHARE          0        0 1         a last round that is half empty or more in parts of K, unless all tiles are
// ROWS_TOGETHER  8        4 to 32     tiles of rows that are walked together
// AHEAD          4        0 2 4       K blocks between asking the L2 for a tile and using it
// Set by the host: those of gemm_wgmma_fp8.cl, with A_TYPE and B_TYPE 7.
// A, B, local memory, origin: those of gemm_wgmma_fp8.cl.
#include "gemm_wgmma_fp8.cl"
