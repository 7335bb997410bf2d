// SPDX-License-Identifier: Apache-2.0
// gemm_wave_s8.cl: the kernel of gemm_wave.cl for int8 codes of both operands, by their own products: the sums of a K group are s32, exact.
//
// Tunable   default  values                meaning
// TILE_M    64       16 32 64 128          rows of D per work-group; with 64 lanes 32 or more
// WORK_N    1        1 2 4                 blocks of columns per wave: of 32 with 64 lanes, of 16 with 32
// WAVES     4        1 2 4 8               waves per work-group, side by side in columns
// LANES     64       32 64                 work-items of a wave: as many as the device has
// TILE_K    32       32 64                 step in k; divides GROUP
// SPLIT_K   1        1 2 3 4 6 8 12 16     parts of k
// Set by the host: those of gemm_wave.cl, with A_TYPE and B_TYPE 7.
// A, B, local memory, origin: those of gemm_wave.cl.
#include "gemm_wave.cl"
