/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin_ops.h - the operations other than the GEMM, their descriptions and arguments: quantize; what a layer of
 * experts needs beside its products: route, activate, combine; and sequence, calls of all of these. Part of the C ABI
 * of plugin.h, whose rules hold here.
 */
#ifndef IRONCL_PLUGIN_OPS_H_
#define IRONCL_PLUGIN_OPS_H_

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X [rows, cols] of F32, F16 or BF16 becomes codes of a quantised type and their scales, bit for bit as a plan that
 * quantises A makes them, on every device. Groups of several rows are the blocks of weights. */
typedef struct ironcl_quantize_desc {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_QUANTIZE */
  const ironcl_chain* next;
  uint32_t flags; /* 0 */
  uint32_t reserved;
  int64_t rows;          /* the most that a call will bring. 0 to 2^31 - 1 */
  int64_t cols;          /* 1 to 2^31 - 1 */
  int64_t x_ld, code_ld; /* elements from a row to the next; 0: tight, cols */
  ironcl_dtype x_dtype;
  ironcl_dtype code_dtype;
  ironcl_scale_desc scale; /* dtype F32; {rows, cols} over rows x cols */
  ironcl_quantizer_desc quantizer;
} ironcl_quantize_desc;

typedef struct ironcl_quantize_args {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_QUANTIZE */
  const ironcl_event* wait;
  const ironcl_chain* next;
  uint32_t wait_count;
  uint32_t reserved;
  int64_t rows;                 /* 0 to desc.rows */
  ironcl_span x, codes, scales; /* scales: written, or read where quantizer.scales is GIVEN */
  ironcl_span global;           /* f32 [1], read where scale.global_dtype is F32 */
} ironcl_quantize_args;

/* A layer of experts is route, [gemm, activate, gemm], combine; docs/experts.md has the formulas and their sources.
 *
 * route: from a router's logits to everything that the next steps need, without the host. Which experts each token
 * gets and with which weights, and the rows of all of them sorted by expert: within an expert in the order of tokens
 * and then of slots, so that nothing depends on chance. */
enum {
  IRONCL_SCORE_SOFTMAX = 1,      /* over all experts: Qwen3-MoE, DeepSeek-V2; with NORMALIZE Mixtral and gpt-oss */
  IRONCL_SCORE_SIGMOID = 2,      /* of each logit: DeepSeek-V3, GLM-4.5, MiniMax */
  IRONCL_SCORE_SQRT_SOFTPLUS = 3 /* sqrt(log(1 + exp(logit))): DeepSeek-V4 */
};
enum {
  /* ids are read, not made: score, scale, expert_groups, bias_dtype and the flags NORMALIZE and BEST_OF_TWO are 0,
   * and nothing is done with weights. No logits, unless SHARED_GATE is set: then the last is read. */
  IRONCL_ROUTE_GIVEN = 1u << 0,
  IRONCL_ROUTE_NORMALIZE = 1u << 1, /* a token's weights are divided by their sum, before `scale`; a sum of 0: not */
  IRONCL_ROUTE_SHARED_GATE = 1u << 2, /* a last logit more: shared_weights = its sigmoid (Qwen2-MoE, Qwen3-Next) */
  /* A group of experts (of two or more) is worth the sum of its two best (DeepSeek-V3), else its best. */
  IRONCL_ROUTE_BEST_OF_TWO = 1u << 3,
  /* Matrix 0 is that of a shared expert, with every token's row, in order: matrix_rows[0] is tokens, matrix 1 + g
   * expert first_expert + g, and the rows of slots begin behind row tokens - 1. Capacity is 0. */
  IRONCL_ROUTE_SHARED_EXPERT = 1u << 4
};
typedef struct ironcl_route_desc {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_ROUTE */
  const ironcl_chain* next;
  uint32_t flags;    /* IRONCL_ROUTE_* */
  uint32_t score;    /* IRONCL_SCORE_*; 0 where GIVEN */
  int64_t tokens;    /* T: the most that a call will bring. 0 to 2^31 - 1; T * top_k is at most 2^31 - 1 too */
  int64_t logits_ld; /* elements; 0: tight. 0 where there are no logits */
  /* 0: rows for GROUPING_CONTIGUOUS, T * top_k at most. Else for GROUPING_MASKED with m = capacity: expert g's rows
   * begin at row g * capacity, and those past its capacity are dropped. local_experts * capacity <= 2^31 - 1. */
  int64_t capacity;
  uint32_t experts; /* E: 1 to 65536; ids are 0 to E - 1 */
  uint32_t top_k;   /* k: 1 to E, at most 64 */
  /* The experts that are here, of a layer that is spread over devices: matrix g is expert first_expert + g, and slots
   * of other experts get row -1. local_experts 0: all of them, first_expert 0 then. */
  uint32_t first_expert;
  uint32_t local_experts;
  /* Number of equal groups of experts, of which the best `top_groups` stay; these have k experts or more.
   * 0: one group. */
  uint32_t expert_groups;
  uint32_t top_groups;       /* 1 to expert_groups; 0 where expert_groups is 0 */
  float scale;               /* a factor of all weights (routed_scaling_factor), finite; 0: 1 */
  ironcl_dtype logits_dtype; /* F32, F16, BF16; computed with in f32 */
  ironcl_dtype bias_dtype;   /* F32: added to the scores for choosing, not for weighing; NONE: no bias */
  uint32_t reserved;
} ironcl_route_desc;

/* A token's slots are in falling order of what they were chosen by (score + bias); ties go to the smaller id, also
 * between groups of experts; a NaN is smaller than everything. A given id outside of 0 to E - 1 is no expert: its
 * slot gets row -1. Elements of a_index that belong to no row are not written. */
typedef struct ironcl_route_args {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_ROUTE */
  const ironcl_event* wait;
  const ironcl_chain* next;
  uint32_t wait_count;
  uint32_t reserved;
  int64_t tokens;          /* 0 (then every matrix has 0 rows) to desc.tokens */
  ironcl_span logits;      /* [tokens, E], or [tokens, E + 1] with SHARED_GATE */
  ironcl_span bias;        /* [E] */
  ironcl_span ids;         /* s32 [tokens, k]: made, or GIVEN */
  ironcl_span weights;     /* f32 [tokens, k]: made; may be absent where GIVEN */
  ironcl_span matrix_rows; /* s32 [local_experts]: rows of each expert; made. One more with SHARED_EXPERT */
  /* s32 [tokens * k], with SHARED_EXPERT [tokens * (k + 1)], MASKED [local_experts, capacity]: the token of each row;
   * made */
  ironcl_span a_index;
  ironcl_span rows;           /* s32 [tokens, k]: the row of each slot, or -1; made */
  ironcl_span shared_weights; /* f32 [tokens] with SHARED_GATE, made; else absent */
} ironcl_route_args;

/* activate: Y = activation(gate, up), element by element in f32, rounded to y_dtype; or codes and scales of it, as
 * quantize makes them of the f32 values. Rows that no matrix has are neither read nor written. */
typedef struct ironcl_activate_desc {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_ACTIVATE */
  const ironcl_chain* next;
  uint32_t flags;      /* 0 */
  uint32_t activation; /* IRONCL_ACTIVATION_* */
  int64_t rows;        /* the most that a call will bring; of a masked problem those of each matrix. 0 to 2^31 - 1 */
  int64_t cols;        /* 1 to 2^31 - 1 */
  int64_t gate_ld, up_ld, y_ld; /* elements; 0: tight, cols */
  ironcl_dtype x_dtype;         /* of gate and up: F32, F16, BF16 */
  ironcl_dtype y_dtype;         /* F32, F16, BF16; or a quantised type, with `scale` */
  float limit;                  /* before all else gate is clamped to at most this, up to +-this; 0: no clamping */
  uint32_t grouping;            /* IRONCL_GROUPING_*: which rows there are, as of a plan */
  uint32_t matrices;            /* 0 where grouping is NONE */
  uint32_t reserved;
  ironcl_scale_desc scale; /* F32, {1, group_cols} over rows x cols; zero where y_dtype is a float type */
  ironcl_quantizer_desc quantizer;
} ironcl_activate_desc;

typedef struct ironcl_activate_args {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_ACTIVATE */
  const ironcl_event* wait;
  const ironcl_chain* next;
  uint32_t wait_count;
  uint32_t reserved;
  int64_t rows;            /* 0 to desc.rows; of a masked problem desc.rows */
  ironcl_span gate, up;    /* [rows, cols], masked [matrices, rows, cols]; may be halves of the rows of one matrix */
  ironcl_span y;           /* likewise */
  ironcl_span scales;      /* likewise, where Y is quantised */
  ironcl_span global;      /* f32 [1], read where scale.global_dtype is F32 */
  ironcl_span matrix_rows; /* s32 [matrices] where there is a grouping */
} ironcl_activate_args;

/* combine: Y[t] = 0 + weights[t, 0] * X[rows[t, 0]] + ... + weights[t, k - 1] * X[rows[t, k - 1]] in this order, then
 * + add_weights[t] * add[t]. Each product and each sum is rounded to f32 and none are fused, so that the bits are the
 * same on every device (but for a NaN's, and results below 2^-126, which a device may flush); at the end Y is rounded
 * to y_dtype. A slot whose row is outside of X is left out: it is not read, and not multiplied by 0. */
typedef struct ironcl_combine_desc {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_COMBINE */
  const ironcl_chain* next;
  uint32_t flags; /* 0 */
  uint32_t top_k; /* 1 to 64 */
  int64_t tokens; /* T: the most that a call will bring. 0 to 2^31 - 1; T * top_k is at most 2^31 - 1 too */
  int64_t cols;   /* 1 to 2^31 - 1 */
  int64_t rows;   /* of X, all experts' together; of a masked problem matrices * m. 1 to 2^31 - 1 */
  int64_t x_ld, add_ld, y_ld; /* elements; 0: tight, cols */
  ironcl_dtype x_dtype;       /* F32, F16, BF16 */
  ironcl_dtype add_dtype;     /* F32, F16, BF16: what shared experts made; NONE: nothing is added */
  ironcl_dtype y_dtype;       /* F32, F16, BF16 */
  uint32_t reserved;
} ironcl_combine_desc;

typedef struct ironcl_combine_args {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_COMBINE */
  const ironcl_event* wait;
  const ironcl_chain* next;
  uint32_t wait_count;
  uint32_t reserved;
  int64_t tokens;          /* 0 to desc.tokens */
  ironcl_span x;           /* [desc.rows, cols] */
  ironcl_span rows;        /* s32 [tokens, k] */
  ironcl_span weights;     /* f32 [tokens, k] */
  ironcl_span add;         /* [tokens, cols] where there is an add_dtype */
  ironcl_span add_weights; /* f32 [tokens] where there is an add_dtype; absent: 1 */
  ironcl_span y;           /* [tokens, cols] */
} ironcl_combine_args;

/* sequence: calls with fixed arguments, recorded once and submitted by one call, in their order. It keeps their
 * operations, weights and buffers. A plugin may run several calls as one. All calls of the sequence read what they
 * would one by one; after it, of what one call writes and a later one reads, only what the last call writes is
 * certain to be in memory. A result of calls that run as one is within its bound, the same bits on every call.
 * op_info.variant: the kernel that runs several calls as one; empty: none. */
typedef struct ironcl_sequence_desc {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_SEQUENCE */
  const ironcl_chain* next;
  uint32_t flags;          /* 0 */
  uint32_t count;          /* of calls: 1 to 65536 */
  const ironcl_op* ops;    /* [count], of the device; a sequence too */
  const void* const* args; /* [count], as op_enqueue takes them, wait_count 0 */
} ironcl_sequence_desc;

typedef struct ironcl_sequence_args {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_SEQUENCE */
  const ironcl_event* wait;
  const ironcl_chain* next;
  uint32_t wait_count;
  uint32_t reserved;
} ironcl_sequence_args;

#ifdef __cplusplus
}
#endif
#endif /* IRONCL_PLUGIN_OPS_H_ */
