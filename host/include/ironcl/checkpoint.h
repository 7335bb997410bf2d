/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.h - the quantised linear layers of a checkpoint, as problems and weights for a device: the C API.
 *
 * Opens a folder or a safetensors file, lists its layers, and says of each what a plan and prepared weights need; but
 * for ironcl_experts_*, which runs a layer of experts, no call here touches a device. Next door: ironcl.h (devices),
 * plugin.h (every struct of a problem), checkpoint.hpp (the same in C++), host/examples/run_checkpoint.cpp,
 * docs/checkpoints.md (which checkpoints are read).
 *
 *   ironcl_checkpoint_open -> ironcl_checkpoint_find_layer -> ironcl_layer_problem -> api->op_create
 *                                                          -> ironcl_layer_weights -> api->weights_prepare
 *   where the layer's activations have a static scale: input_scale in gemm_args.a_scale
 *
 * Rules: those of ironcl.h. A checkpoint may be used from any thread. Layers and every pointer that is filled in are
 * borrowed from it and stay valid until ironcl_checkpoint_close. Files are mapped and must not shrink while open.
 * Errors: UNAVAILABLE (no such file, tensor or layer; a file that cannot be read), UNSUPPORTED (well formed, but a
 * way of quantising that is not read), INVALID_ARGUMENT (a damaged file, a caller's mistake), OUT_OF_HOST_MEMORY; the
 * message says what, where and what to do.
 */
#ifndef IRONCL_CHECKPOINT_H_
#define IRONCL_CHECKPOINT_H_

#include "ironcl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ironcl_checkpoint_t* ironcl_checkpoint;
typedef const struct ironcl_layer_t* ironcl_layer;

/* A zeroed struct with struct_size set is a good default, and so is NULL. */
typedef struct ironcl_checkpoint_options {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  /* The weight block of layers for which neither config.json nor the file says one; 0, 0: by the shapes. */
  uint32_t block_rows;
  uint32_t block_cols;
} ironcl_checkpoint_options;

/* Opens a checkpoint folder or one safetensors file. An error in one layer is that layer's `problem`, not one
 * of this call. Ownership: the caller closes *out_checkpoint. */
IRONCL_API ironcl_status ironcl_checkpoint_open(const char* path, const ironcl_checkpoint_options* options,
                                                ironcl_checkpoint* out_checkpoint, ironcl_error* error);

/* NULL is fine. Weights that were prepared stay; layers and their pointers do not. */
IRONCL_API void ironcl_checkpoint_close(ironcl_checkpoint checkpoint);

/* Quantised layers, unusable ones included, in the order of a reader ("layers.2" before "layers.10"). */
IRONCL_API uint32_t ironcl_checkpoint_layer_count(ironcl_checkpoint checkpoint);
IRONCL_API ironcl_status ironcl_checkpoint_layer(ironcl_checkpoint checkpoint, uint32_t index,
                                                 ironcl_layer* out_layer, ironcl_error* error);
/* By its whole name, such as "model.layers.0.mlp.down_proj". The error names layers that are near. */
IRONCL_API ironcl_status ironcl_checkpoint_find_layer(ironcl_checkpoint checkpoint, const char* name,
                                                      ironcl_layer* out_layer, ironcl_error* error);

/* How a layer's activations are quantised. */
enum {
  IRONCL_ACTIVATIONS_NONE = 0,    /* not at all: weight-only */
  IRONCL_ACTIVATIONS_DYNAMIC = 1, /* by the plan, from each call's values */
  IRONCL_ACTIVATIONS_STATIC = 2   /* by the plan, with the scale of the checkpoint: gemm_args.a_scale */
};

typedef struct ironcl_layer_info {
  uint32_t struct_size;
  uint32_t activations; /* IRONCL_ACTIVATIONS_* */
  int64_t n, k;         /* the weight is [n, k]; 0 where the layer is unusable and they are not known */
  const char* name;
  const char* problem;            /* why the layer cannot be used; "" where it can */
  ironcl_dtype weight_dtype;      /* of B as ironcl_layer_weights gives it: bf16 where int8 codes have zero points */
  ironcl_dtype bias_dtype;        /* NONE: no bias */
  ironcl_scale_desc weight_scale; /* over n x k */
  ironcl_scale_desc activation_scale; /* over m x k; dtype NONE where activations is NONE */
  float input_scale;                  /* where activations is STATIC; 0 else */
  /* Where activations is DYNAMIC: the checkpoint's scheme clips larger magnitudes (activation_scale_ub), and no plan
   * does: the caller keeps values below. 0: it clips nothing. */
  float activation_limit;
  const void* bias; /* [n] of bias_dtype, aligned for it; NULL: none. Goes into gemm_args.bias by way of a buffer */
  uint64_t bias_bytes;
  uint64_t bytes; /* of the layer in the file: weight, scales and bias */
} ironcl_layer_info;

IRONCL_API ironcl_status ironcl_layer_get_info(ironcl_layer layer, ironcl_layer_info* out_info, ironcl_error* error);

/* The caller's choices for a layer's problem. Zero means: BF16 for both types, F32 accuracy. */
typedef struct ironcl_layer_choices {
  uint32_t struct_size;
  ironcl_dtype x_dtype; /* what activations come in: F32, F16 or BF16 */
  ironcl_dtype d_dtype; /* of the result: F32, F16 or BF16 */
  uint32_t weakest_accuracy;
  int64_t m; /* the most rows that a call will bring */
} ironcl_layer_choices;

/* The problem of a layer: everything but options and leading dimensions is filled, for op_create and
 * ironcl_registry_select. Fails with the layer's `problem` where it is unusable. */
IRONCL_API ironcl_status ironcl_layer_problem(ironcl_layer layer, const ironcl_layer_choices* choices,
                                              ironcl_gemm_desc* out_desc, ironcl_error* error);

/* The layer's weights for weights_prepare; out_desc->plan is NULL, for the caller to set. Codes lie in the mapped
 * file, and are read when they are prepared; those of a layer that lies transposed, and all scales, are copies. */
IRONCL_API ironcl_status ironcl_layer_weights(ironcl_layer layer, ironcl_weights_desc* out_desc, ironcl_error* error);

/* Releases what one successful ironcl_layer_weights gave, once the weights are prepared: after as many calls as
 * there were of that, its pointers end and the copies are freed. Without it they live until the checkpoint is closed,
 * a whole model twice in memory where layers lie transposed. Any thread. NULL: nothing happens. */
IRONCL_API void ironcl_layer_release_weights(ironcl_layer layer);

/*===--- Layers of experts -----------------------------------------------------------------------===*/

/* The matrices of a mixture of experts, with router and shared expert, as one thing that runs on a device:
 * y[t] = sum over j of weights[t, j] * expert ids[t, j] of x[t] (+ the shared expert). docs/checkpoints.md says which
 * models are read; every matrix is a layer of its own, too. */
typedef struct ironcl_experts_t* ironcl_experts; /* on a device; one thread at a time */

typedef struct ironcl_experts_info {
  uint32_t struct_size;
  uint32_t top_k;      /* experts of a token */
  uint32_t experts;    /* E; 0 where the layer cannot be run as a whole and it is not known */
  uint32_t shared;     /* 1: there is a shared expert */
  int64_t hidden;      /* H: columns of x and y */
  int64_t width;       /* I: of an expert */
  const char* name;    /* "model.layers.3.mlp" */
  const char* problem; /* why it cannot be run as a whole; "" where it can */
  uint64_t bytes;      /* of all its tensors in the files */
} ironcl_experts_info;

IRONCL_API uint32_t ironcl_checkpoint_experts_count(ironcl_checkpoint checkpoint);
/* In the order of a reader. Errors: INVALID_ARGUMENT (there is none with that index). */
IRONCL_API ironcl_status ironcl_checkpoint_experts_info(ironcl_checkpoint checkpoint, uint32_t index,
                                                        ironcl_experts_info* out_info, ironcl_error* error);

enum { IRONCL_EXPERTS_WEIGHT_ONLY = 1u << 0 }; /* activations stay unquantised, whatever the checkpoint says */

/* Zero means: BF16 for both types, F32 accuracy. */
typedef struct ironcl_experts_choices {
  uint32_t struct_size;
  uint32_t flags;       /* IRONCL_EXPERTS_* */
  ironcl_dtype x_dtype; /* of x: F32, F16 or BF16 */
  ironcl_dtype y_dtype; /* of y: F32, F16 or BF16 */
  uint32_t weakest_accuracy;
  uint32_t reserved;
  int64_t tokens; /* T: the most that a call will bring, at least 1 */
  /* Of a layer that is spread over devices, the experts that are here: slots of others add nothing to y, and the
   * shared expert belongs to the part with expert 0. The parts' y together are the layer's. local_experts 0: all of
   * them. */
  uint32_t first_expert;
  uint32_t local_experts;
} ironcl_experts_choices;

/* Plans, prepared weights and workspace of the layer `name` on a device, through its table: a registry's, or a
 * plugin's own, whose slots may be NULL. The checkpoint may be closed afterwards; `device` outlives the layer.
 * Errors: INCOMPATIBLE (a table of another ABI); as the layer's problem says; UNSUPPORTED with the device's reason;
 * INVALID_ARGUMENT for sizes. */
IRONCL_API ironcl_status ironcl_experts_create(ironcl_checkpoint checkpoint, const char* name,
                                               const ironcl_plugin* api, ironcl_device device,
                                               const ironcl_experts_choices* choices, ironcl_experts* out_experts,
                                               ironcl_error* error);
/* NULL is fine. Work that was enqueued is finished first by its queue. */
IRONCL_API void ironcl_experts_destroy(ironcl_experts experts);

enum {
  IRONCL_ROUTED_BY_ROUTER = 0, /* ids and weights are made from x */
  IRONCL_ROUTED_BY_LOGITS = 1, /* from `logits` */
  IRONCL_ROUTED_BY_CALLER = 2  /* ids and weights are the caller's */
};

/* Spans are tight and may be larger than needed. */
typedef struct ironcl_experts_args {
  uint32_t struct_size;
  uint32_t wait_count;
  const ironcl_event* wait;
  const ironcl_chain* next; /* NULL */
  int64_t tokens;           /* 0 to choices.tokens */
  uint32_t routed;          /* IRONCL_ROUTED_BY_* */
  uint32_t reserved;
  ironcl_span x; /* [tokens, H] */
  ironcl_span
      logits;      /* f32 [tokens, E], with the gate of a shared expert [tokens, E + 1]; absent but for BY_LOGITS */
  ironcl_span ids; /* s32 [tokens, k]: read BY_CALLER, else made; may then be absent */
  ironcl_span weights; /* f32 [tokens, k]: likewise */
  ironcl_span y;       /* [tokens, H] */
} ironcl_experts_args;

/* Enqueues one call as a sequence of commands, with no wait of the host in between. Buffers between the steps are the
 * layer's own: its calls go to one queue, or wait for one another. *out_event (may be NULL) is that of the last
 * command and released by the caller with the table's event_destroy. */
IRONCL_API ironcl_status ironcl_experts_enqueue(ironcl_experts experts, ironcl_queue queue,
                                                const ironcl_experts_args* args, ironcl_event* out_event,
                                                ironcl_error* error);

/* The same call recorded: an IRONCL_OP_SEQUENCE with what that promises (ironcl/plugin_ops.h), for op_enqueue on a
 * queue of the device; for calls that come again with the same buffers, since a device may run them as one launch.
 * `args` has no wait and at least one token. The layer outlives the work. Released by the caller with op_destroy. */
IRONCL_API ironcl_status ironcl_experts_record(ironcl_experts experts, const ironcl_experts_args* args,
                                               ironcl_op* out_op, ironcl_error* error);

#ifdef __cplusplus
}
#endif
#endif /* IRONCL_CHECKPOINT_H_ */
