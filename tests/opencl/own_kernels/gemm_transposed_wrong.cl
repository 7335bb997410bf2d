// SPDX-License-Identifier: Apache-2.0
// gemm_transposed_wrong.cl: gemm_transposed.cl with one element that is wrong.
#define WRONG 1
#include "gemm_transposed.cl"
