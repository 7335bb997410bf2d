// SPDX-License-Identifier: Apache-2.0
// arguments.cl: every kernel's arguments, each list once. A kernel's parameters are made of its list here, and so are the names by which
// the host binds them (backends/opencl/arguments.h includes this file). V(type, name): a value. B(type, name): a buffer. M(type, name, at):
// a buffer and the element of it where the operand begins. L(type, name): local memory. Lists after the first of a kernel are there or not.

// The kernels that multiply. m, n, k: the problem. a: in the form that the kernel's declaration names; lda as that form has it. sa: f32.
// b: packed weights of n_pad x k_pad codes. sb: f32, scale of column n and B's K group g at g * n_pad + n, NaN where the column has a NaN
// code in that group; or bytes (scales.cl). d: rows ldd apart. bias: [n]. scratch: f32.
#define GEMM_LIST(V, B, M, L)                                                                                          \
  V(int, m), V(int, n), V(int, k), V(int, n_pad), V(int, k_pad), M(const uchar, a, a_at), V(ulong, lda),               \
      M(const float, sa, sa_at), V(ulong, sa_ld), B(const uchar, b), B(const float, sb), M(uchar, d, d_at), V(ulong, ldd), \
      M(const uchar, bias, bias_at), M(float, scratch, scratch_at)
// Rows in tiles and blocks (scheduled.cl).
#define SCHEDULE_LIST(V, B, M, L) M(const int, schedule_memory, schedule_at)
// Matrices one after another: bytes of b, scales of sb from one to the next; biases are n apart.
#define MATRICES_LIST(V, B, M, L) V(ulong, b_stride), V(ulong, sb_stride)
// Rows of A through an index (scheduled.cl).
#define GATHER_LIST(V, B, M, L) M(const int, a_index, a_index_at), V(int, a_rows)
// The number of a call (one_launch.cl).
#define NUMBER_LIST(V, B, M, L) V(ulong, call)
// The scales of a D that leaves in codes, rows lds apart, one for d_rows rows by d_cols columns; d_floor: the bits of the floor of magnitudes.
#define D_SCALES_LIST(V, B, M, L) M(uchar, ds, ds_at), V(ulong, lds), V(int, d_rows), V(int, d_cols), V(uint, d_floor)

#define QUANTIZE_LIST(V, B, M, L)                                                                                      \
  V(int, m), V(int, k), V(int, k_fill), V(int, group_rows), V(int, group_cols), V(uint, floor_bits), M(const uchar, x, x_at), \
      V(ulong, ldx), M(uchar, q, q_at), V(ulong, ldq), M(uchar, scales, s_at), V(ulong, lds)
#define QUANTIZE_TILES_LIST(V, B, M, L)                                                                                \
  V(int, m), V(int, k), V(int, k_pad), V(int, groups), V(uint, floor_bits), M(const uchar, x, x_at), V(ulong, ldx),    \
      M(float, out, out_at), M(float, scales, scales_at)
#define QUANTIZE_TOKENS_LIST(V, B, M, L)                                                                               \
  V(int, m), V(int, k), V(int, blocks), V(uint, floor_bits), M(const uchar, x, x_at), V(ulong, ldx), M(uchar, out, out_at), \
      M(float, scales, scales_at)
#define PACK_LIST(V, B, M, L)                                                                                          \
  V(int, m), V(int, k), V(int, k_pad), V(int, groups), M(const uchar, a, a_at), V(ulong, lda), M(const uchar, sa, s_at), \
      V(ulong, lds), V(int, scale_rows), V(int, scale_cols), M(uchar, out, out_at), M(float, scales, scales_at)
#define PACK_TOKENS_LIST(V, B, M, L)                                                                                   \
  V(int, m), V(int, k), V(int, blocks), M(const uchar, a, a_at), V(ulong, lda), M(const uchar, sa, s_at), V(ulong, lds), \
      V(int, scale_rows), V(int, scale_cols), M(uchar, out, out_at), M(float, scales, scales_at)
#define SCHEDULE_ROWS_LIST(V, B, M, L)                                                                                          \
  V(int, m), V(int, matrices), V(int, masked), V(int, tile), V(int, block), M(const int, matrix_rows, rows_at),        \
      M(int, schedule_memory, schedule_at), V(int, tiles_at), V(int, blocks_at)
// Of a kernel that schedules before its own work (schedule_rows.cl).
#define SCHEDULE_FIRST_LIST(V, B, M, L)                                                                                         \
  M(int, schedule_memory, schedule_at), V(int, matrices), V(int, masked), M(const int, matrix_rows, rows_at), V(int, tiles_at), \
      V(int, blocks_at), L(int, table)

#define CHOOSE_LIST(V, B, M, L)                                                                                        \
  V(int, tokens), V(int, experts), V(int, top_k), V(int, groups), V(int, top_groups), V(float, factor),                \
      M(const uchar, logits, logits_at), V(ulong, ld), M(const float, bias, bias_at), M(int, ids, ids_at),             \
      M(float, weights, weights_at), M(float, shared_weights, shared_at), L(float, scores)
#define SORT_LIST(V, B, M, L) V(int, top_k), M(const int, ids, ids_at)
// What sorting needs besides and leaves behind.
#define SORTED_LIST(V, B, M, L)                                                                                        \
  V(int, slots), V(int, first), V(int, local_experts), V(int, capacity), V(int, shared_expert),                        \
      M(int, counts_memory, counts_at), M(int, index_memory, index_at), M(int, rows_memory, rows_at), L(int, of_experts)
#define ACTIVATE_LIST(V, B, M, L)                                                                                      \
  V(int, rows), V(int, cols), V(int, matrices), V(float, limit), V(uint, floor_bits), M(const uchar, gate, gate_at),   \
      V(ulong, ld_gate), M(const uchar, up, up_at), V(ulong, ld_up), M(uchar, y, y_at), V(ulong, ldy), M(float, scales, scales_at), \
      V(ulong, lds), M(const int, counts, counts_at)
#define COMBINE_LIST(V, B, M, L)                                                                                       \
  V(int, tokens), V(int, cols), V(int, x_rows), V(int, top_k), M(const uchar, x, x_at), V(ulong, ldx), M(const int, rows, rows_at), \
      M(const float, weights, weights_at), M(const uchar, add, add_at), V(ulong, ld_add),                              \
      M(const float, add_weights, add_weights_at), M(uchar, y, y_at), V(ulong, ldy)

// A layer of experts in one launch (fused_experts.cl). up_at, up_sb_at: from a gate's column to its up's, bytes of B and scales; where they lie
// in turns 0 and 1. waits: looks for the others before a work-group gives up.
#define FUSED_EXPERTS_LIST(V, B, M, L)                                                                                 \
  V(int, tokens), V(int, top_k), V(int, first_expert), V(int, matrices), V(int, hidden), V(int, width), V(int, tile_rows), \
      M(const int, ids, ids_at), M(const float, weights, weights_at), M(const uchar, x, x_at), V(ulong, ldx),          \
      B(const uchar, up_b), B(const float, up_sb), V(ulong, up_stride),                                                \
      V(ulong, up_sb_stride), V(uint, up_at), V(uint, up_sb_at), B(const uchar, down_b), B(const float, down_sb),     \
      V(ulong, down_stride), V(ulong, down_sb_stride), M(uchar, y, y_at), V(ulong, ldy), B(uchar, workspace), V(int, waits), \
      L(uint4, memory)
// What is added to the sum, and its weights: lists of their own, since a buffer costs each launch 0.4 us on an H200.
#define FUSED_ADD_LIST(V, B, M, L) M(const uchar, add, add_at), V(ulong, ld_add)
#define FUSED_ADD_WEIGHTS_LIST(V, B, M, L) M(const float, add_weights, add_weights_at)
// Products one after another in one launch (fused_products.cl, fused_products_wgmma.cl), whose workspace says where they are: note_address puts an
// address there. For both sides: units of columns, warps that multiply; products of a launch, words of 64 bits of each, counters before them; of
// fused_products_wgmma.cl work-items, and bytes of two parts of tiles of 64 rows by 192 columns, of a work-group each.
#define FUSED_COLUMNS 32
#define FUSED_WARPS 8
#define FUSED_MOST_PRODUCTS 64
#define FUSED_PRODUCT_WORDS 9
#define FUSED_COUNTERS 128
#define FUSED_WGMMA_ITEMS 640
#define FUSED_PART_BYTES 98304
#define FUSED_PRODUCTS_LIST(V, B, M, L) V(int, count), V(int, waits), V(uint, made_bytes), B(uchar, workspace)
#define NOTE_ADDRESS_LIST(V, B, M, L) M(const uchar, memory, memory_at), B(ulong, words), V(uint, place)

// What measures and probes a device (ceilings.cl, probe.cl).
#define MULTIPLY_ADD_LIST(V, B, M, L) B(float, out), V(float, x), V(float, y), V(int, steps)
#define COPY_LIST(V, B, M, L) B(const uint4, from), B(uint4, to), V(ulong, per_item), V(ulong, stride), V(ulong, item_step)
#define PROBE_LIST(V, B, M, L) B(const float, x), B(const float, y), B(float, out), V(int, count)

#ifndef __cplusplus
#define VALUE_PARAMETER(type, name) type name
#define BUFFER_PARAMETER(type, name) __global type *name
#define MEMORY_PARAMETER(type, name, at) __global type *name, ulong at
#define LOCAL_PARAMETER(type, name) __local type *name
#define PARAMETERS(LIST) LIST(VALUE_PARAMETER, BUFFER_PARAMETER, MEMORY_PARAMETER, LOCAL_PARAMETER)
#endif
