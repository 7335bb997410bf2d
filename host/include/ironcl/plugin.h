/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - the C ABI between a host and a compute backend (a plugin): ABI 1.1.
 *
 * Standalone: C11 or C++, no other project header, no macro that changes a layout. A host that wants
 * no registry opens one plugin with dlopen and needs nothing but this file (host/examples/one_plugin.c).
 * Next door: ironcl.h (what an application calls to find and choose plugins), docs/abi.md (reasons),
 * docs/abi-changelog.md (what came with which minor version).
 *
 * Rules
 *  1. A struct that crosses starts with struct_size, set by whoever allocates it. Fields are only ever
 *     appended; nothing is moved, removed or retyped without a new IRONCL_ABI_MAJOR. The small value structs
 *     inside others (ironcl_scale_desc, ironcl_quantizer_desc, ironcl_span, ironcl_key_value) never grow.
 *  2. In a struct that a function reads, a missing tail reads as zero, and zero means "as before". A tail
 *     that the callee does not know must be all zero, else it answers UNIMPLEMENTED: nothing is ignored. The
 *     same goes for a `reserved` field, a flag bit or an enumerator that the callee does not know.
 *     In a struct that a function fills, it writes min(struct_size, what it knows) bytes and leaves
 *     struct_size alone.
 *  3. Nothing is allocated on one side and freed on the other. Whoever makes an object destroys it through
 *     the same table. Destroy functions take NULL, and may be called while work still uses the object: the
 *     plugin defers the release.
 *  4. No exception, abort, exit, signal or output to stdout/stderr leaves a plugin.
 *  5. A function that fails leaves its out parameters untouched. `error` may be NULL everywhere.
 *  6. Three refusals differ: INVALID_ARGUMENT (the caller broke a rule of this header), UNSUPPORTED (well
 *     formed, this device will not run it), UNIMPLEMENTED (this plugin has no such function or field).
 *     UNAVAILABLE (no driver, no device) is the only one on which a test may skip.
 *  7. A NULL slot in the table means "not provided": a host treats it as a function that answers
 *     UNIMPLEMENTED (load: OK, there is nothing to load). Required of every plugin: enumerate and device_props.
 *  8. Text is UTF-8, NUL-terminated, cut to fit.
 *  9. A process that was forked after load() is no process of the plugin's: there a plugin whose driver does not
 *     survive that answers UNAVAILABLE to everything, and destroy functions and unload do nothing.
 */
#ifndef IRONCL_PLUGIN_H_
#define IRONCL_PLUGIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
static_assert(sizeof(void*) == 8, "the layouts of this header are those of 64-bit hosts");
#else
_Static_assert(sizeof(void*) == 8, "the layouts of this header are those of 64-bit hosts");
#endif

#define IRONCL_ABI_MAJOR 1u
#define IRONCL_ABI_MINOR 1u

#if defined(_WIN32)
#define IRONCL_EXPORT __declspec(dllexport)
#else
#define IRONCL_EXPORT __attribute__((visibility("default")))
#endif

/*===--- Status and errors ------------------------------------------------------------------------===*/

typedef uint32_t ironcl_status;
enum {
  IRONCL_OK = 0,
  IRONCL_INVALID_ARGUMENT = 1,     /* the caller broke a rule of this header */
  IRONCL_UNSUPPORTED = 2,          /* well formed, but this device will not run it */
  IRONCL_UNIMPLEMENTED = 3,        /* this plugin has no such function, field or extension */
  IRONCL_UNAVAILABLE = 4,          /* no driver or no device here; a test may skip */
  IRONCL_OUT_OF_HOST_MEMORY = 5,   /* malloc's refusal */
  IRONCL_OUT_OF_DEVICE_MEMORY = 6, /* the device's refusal */
  IRONCL_BUILD_FAILED = 7,         /* a kernel did not compile; its log went to host->log */
  IRONCL_DEVICE_LOST = 8,          /* every object of the device is dead; stays so */
  IRONCL_TIMEOUT = 9,              /* event_wait's time ran out; the event is as it was */
  IRONCL_INCOMPATIBLE = 10,        /* ABI version, sanitizer or serialized data do not fit */
  IRONCL_INTERNAL = 11             /* a bug in the plugin, caught at its boundary */
};

/* Why a call failed. Allocated by the caller, filled by the callee on failure only. */
typedef struct ironcl_error {
  uint32_t struct_size;
  ironcl_status status;
  int32_t native_code; /* the driver's own code (cl_int), else 0 */
  uint32_t reserved;
  char message[496]; /* what is wrong, where, and what to do about it */
} ironcl_error;

/*===--- Extension chain, key-value pairs, host services -------------------------------------------===*/

/* Optional parts of a struct, linked through `next`; struct_size is that of the whole part. The low 31 bits of
 * `type` say what it is. A type that the callee does not know is passed over, unless IRONCL_CHAIN_REQUIRED is
 * set in it: then the call answers UNIMPLEMENTED. A known type twice in one chain is INVALID_ARGUMENT. */
typedef struct ironcl_chain {
  uint32_t struct_size;
  uint32_t type;
  const struct ironcl_chain* next;
} ironcl_chain;
#define IRONCL_CHAIN_REQUIRED 0x80000000u

enum {
  IRONCL_CHAIN_SANITIZER = 1,    /* on ironcl_plugin.extensions: ironcl_sanitizer */
  IRONCL_CHAIN_OPTIONS = 2,      /* on ironcl_gemm_desc.next: ironcl_options */
  IRONCL_CHAIN_NATIVE_MEMORY = 3 /* on ironcl_buffer_desc.next: ironcl_native_memory */
};

typedef struct ironcl_key_value {
  const char* key;
  const char* value;
} ironcl_key_value;

/* Which sanitizer a plugin was built with. A host built with another one refuses it by name. */
enum {
  IRONCL_SANITIZER_NONE = 0,
  IRONCL_SANITIZER_ADDRESS = 1,
  IRONCL_SANITIZER_THREAD = 2,
  IRONCL_SANITIZER_MEMORY = 3
};
typedef struct ironcl_sanitizer {
  ironcl_chain chain; /* type IRONCL_CHAIN_SANITIZER */
  uint32_t kind;      /* IRONCL_SANITIZER_* */
  uint32_t reserved;
} ironcl_sanitizer;

/* Options of a plan that are a backend's own, such as {"variant", "gemm_panel"}, {"tile_m", "14"} (opencl) or
 * {"kernel_blocks", "1024,2048,512"}, {"buffers", "2"} (ironwood). device_query("options") lists them. An
 * unknown key or a value out of range is INVALID_ARGUMENT, with the keys or values that exist. */
typedef struct ironcl_options {
  ironcl_chain chain; /* type IRONCL_CHAIN_OPTIONS */
  uint32_t count;
  uint32_t reserved;
  const ironcl_key_value* items; /* `count` pairs, read before the call returns */
} ironcl_options;

enum { IRONCL_LOG_ERROR = 0, IRONCL_LOG_WARN = 1, IRONCL_LOG_INFO = 2, IRONCL_LOG_TRACE = 3 };

/* Services that the host lends to a plugin, valid from load() until unload() returns. */
typedef struct ironcl_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;
  void* context;
  /* One line of text, any thread; `context` is the field above. May be NULL. It must not call the plugin, which may
   * hold a lock of its own while it logs. */
  void (*log)(void* context, uint32_t level, const char* text);
} ironcl_host;

/*===--- The problem ------------------------------------------------------------------------------===*/

typedef uint32_t ironcl_dtype;
enum {
  IRONCL_DTYPE_NONE = 0,
  IRONCL_F32 = 1,
  IRONCL_F16 = 2,
  IRONCL_BF16 = 3,
  IRONCL_F8_E4M3FN = 4, /* OCP OFP8 e4m3: bias 7, largest 448, NaN 0x7f and 0xff, no infinity */
  IRONCL_F8_E5M2 = 5,   /* OCP OFP8 e5m2: bias 15, largest 57344, infinities and NaNs as IEEE */
  IRONCL_F8_E8M0 = 6,   /* OCP MX scale: 2^(code - 127), 0xff is NaN; scales only */
  IRONCL_I8 = 7,        /* two's complement, symmetric: -127 to 127 */
  IRONCL_S32 = 8,
  IRONCL_F64 = 9 /* files and oracles only; no operand has it */
};

/* The scales of an operand: one for each group_rows x group_cols block of it. Dimensions are ceil-divided;
 * the last block of a row or column may be partial. Scale (i, j) is element i * ld + j. Scales multiply.
 * A group of 0 spans the whole dimension: {1, 0} is per token or per channel, {0, 0} per tensor. */
typedef struct ironcl_scale_desc {
  ironcl_dtype dtype; /* F32, F16, BF16 or F8_E8M0; NONE: this operand has no scales */
  uint32_t group_rows;
  uint32_t group_cols;
  uint32_t reserved;
  int64_t ld; /* elements from a row of scales to the next; 0: tight, ceil(cols / group_cols). b_scale of a
                 plan: 0 or tight, since prepared weights have no leading dimension any more */
} ironcl_scale_desc;

/* How a group of values becomes codes: amax = max(max|x|, amax_floor); s = amax / largest of the type, in f32,
 * correctly rounded; q = round to nearest even of x / s (divided), saturated. docs/numerics.md has the whole. */
enum {
  IRONCL_SCALE_EXACT = 0,       /* s as computed */
  IRONCL_SCALE_POWER_OF_TWO = 1 /* s = 2^ceil(log2 s): the "ue8m0" rule */
};
typedef struct ironcl_quantizer_desc {
  uint32_t scale_rounding; /* IRONCL_SCALE_* */
  float amax_floor;        /* finite, not negative; 0: the default, 1e-10 */
} ironcl_quantizer_desc;

/* What a kernel's arithmetic may be worth; selection never goes below what desc.weakest_accuracy allows. */
enum {
  IRONCL_ACCURACY_F32 = 0,     /* group sums and their addition in f32 or better */
  IRONCL_ACCURACY_TENSOR14 = 1 /* hardware that accumulates inside a group in about 14 bits */
};

/* Grouped problems: many matrices B, an expert each, in one enqueue. B and b_scale then hold group_count matrices one
 * after another, n x k each; the grid of b_scale starts anew with each matrix. group_sizes[g] (s32, on the device,
 * read there when the call runs) is the number of rows that matrix g multiplies. It is never trusted: a negative one
 * counts as 0, and rows past the last that the layout has are cut off. Only rows of D and d_scale that a matrix
 * multiplies are written (of a_quantized they alone have a meaning). In one plan, how it sums a row does not depend
 * on the others. A row has its own scales: group_rows of a_scale and d_scale is 1 where they have a dtype. */
enum {
  IRONCL_GROUPING_NONE = 0,
  /* Rows of A and D are sorted by matrix, without gaps and without alignment: matrix g has the rows from the sum of
   * the sizes before it. Where all sizes together are less than m, the rows after them are not touched. */
  IRONCL_GROUPING_CONTIGUOUS = 1,
  /* A is [group_count, m, k] and D [group_count, m, n], with m the plan's (and every call's) m; the first
   * group_sizes[g] rows of each are valid, and only these are written. a_scale and d_scale are group_count grids
   * likewise. */
  IRONCL_GROUPING_MASKED = 2
};

enum {
  IRONCL_GEMM_REPEATABLE = 1u << 0 /* the same bits from the same input, on every call and every queue */
};

/* D[m,n] = sum over k of (A[m,k] * sa) * (B[n,k] * sb) (+ bias[n]), everything row major, K contiguous in A and B.
 *
 * a_source_dtype  what the buffer A holds     a_dtype   what is multiplied    a_scale
 * NONE            a_dtype                     fp8, i8   given by the caller   the grid of the caller's scales
 * F32, F16, BF16  unquantised                 fp8, i8   quantised in the plan the grid that the plan makes (F32)
 * NONE            F32, F16, BF16              the same  weight-only           dtype NONE
 *
 * b_dtype is an fp8 type or I8 with its b_scale; or (since 1.1) F32, F16 or BF16 without scales, where A is of a
 * float type too: the few matrices of a model that stay unquantised, such as the router of a mixture of experts.
 *
 * The sum of each K group (where both scales are constant) is accumulated in at least f32 and never in half;
 * scales are applied to the group's sum in f32, then added in f32. d_dtype is F32, F16 or BF16 (round to nearest
 * even; overflow gives infinity), or an fp8 type with d_scale: quantised by d_quantizer on the way out. */
typedef struct ironcl_gemm_desc {
  uint32_t struct_size;
  uint32_t flags; /* IRONCL_GEMM_* */
  const ironcl_chain* next;
  int64_t m;        /* the most rows that a call will bring; a call may bring fewer. 0 to 2^31 - 1 */
  int64_t n, k;     /* 1 to 2^31 - 1 */
  int64_t lda, ldd; /* elements from a row to the next; 0: tight (k, n) */
  ironcl_dtype a_source_dtype;
  ironcl_dtype a_dtype;
  ironcl_dtype b_dtype;
  ironcl_dtype d_dtype;
  ironcl_dtype bias_dtype;   /* NONE: no bias */
  uint32_t weakest_accuracy; /* IRONCL_ACCURACY_*; 0 allows f32 only */
  uint32_t grouping;         /* IRONCL_GROUPING_* */
  uint32_t group_count;      /* 0 where grouping is NONE */
  ironcl_scale_desc a_scale; /* of A as multiplied: {rows, cols} over m x k */
  ironcl_scale_desc b_scale; /* of B: over n x k */
  ironcl_scale_desc d_scale; /* of a quantised D: over m x n; dtype NONE else */
  ironcl_quantizer_desc a_quantizer;
  ironcl_quantizer_desc d_quantizer;
  /* (since 1.1) 0: A has a row for each row of the problem. 1 to 2^31 - 1: a gather, with or without a grouping: A
   * has at most so many rows, flat also where the grouping is MASKED, and the problem's row r is row a_index[r] of
   * them. A plan that quantises A does so once for each of these rows. group_rows of a_scale is 1 where it has a
   * dtype. */
  int64_t a_rows;
} ironcl_gemm_desc;

enum {
  IRONCL_REASON_NONE = 0,
  IRONCL_REASON_DTYPE = 1,
  IRONCL_REASON_SCALE_LAYOUT = 2,
  IRONCL_REASON_SHAPE = 3,
  IRONCL_REASON_ALIGNMENT = 4,
  IRONCL_REASON_DEVICE_FEATURE = 5,
  IRONCL_REASON_DEVICE_MEMORY = 6,
  IRONCL_REASON_ACCURACY = 7,
  IRONCL_REASON_GROUPING = 8,
  IRONCL_REASON_OPTION = 9
};
enum { IRONCL_TIME_NONE = 0, IRONCL_TIME_MEASURED = 1, IRONCL_TIME_MODELLED = 2 };

/* The answer of supports(): OK with reason 0 where the device will run the problem; OK with a reason where it
 * will not. gemm_create refuses exactly the same problems, with UNSUPPORTED and the same text. */
typedef struct ironcl_support {
  uint32_t struct_size;
  uint32_t reason;         /* IRONCL_REASON_* */
  uint32_t accuracy_class; /* IRONCL_ACCURACY_* of what would run */
  uint32_t estimate_kind;  /* IRONCL_TIME_*; a modelled time is never compared with a measured one */
  double estimate_ns;      /* of one call with desc.m rows; 0 where kind is NONE */
  uint64_t workspace_bytes;
  char text[224]; /* the reason in a sentence: what, and what would be accepted */
} ironcl_support;

/*===--- Objects ----------------------------------------------------------------------------------===*/

typedef struct ironcl_device_t* ironcl_device;     /* owned by the plugin, lives until unload; thread safe */
typedef struct ironcl_queue_t* ironcl_queue;       /* commands run in order; one thread at a time */
typedef struct ironcl_buffer_t* ironcl_buffer;     /* bytes on one device; thread safe */
typedef struct ironcl_weights_t* ironcl_weights;   /* B, prepared; immutable; thread safe */
typedef struct ironcl_gemm_t* ironcl_gemm;         /* a plan; one thread at a time */
typedef struct ironcl_event_t* ironcl_event;       /* completion and status of a command; thread safe */
typedef struct ironcl_quantize_t* ironcl_quantize; /* (since 1.1) a quantiser; one thread at a time */
/* (since 1.1) The steps of a layer of experts, one thread at a time each. */
typedef struct ironcl_route_t* ironcl_route;       /* which expert gets which token */
typedef struct ironcl_activate_t* ironcl_activate; /* gate and up become one matrix */
typedef struct ironcl_combine_t* ironcl_combine;   /* the experts' rows become a row for each token */

/* `size` bytes of a buffer from `offset`. A NULL buffer means "absent". */
typedef struct ironcl_span {
  ironcl_buffer buffer;
  uint64_t offset;
  uint64_t size;
} ironcl_span;

enum { IRONCL_DEVICE_CPU = 1, IRONCL_DEVICE_GPU = 2, IRONCL_DEVICE_ACCELERATOR = 3, IRONCL_DEVICE_MODEL = 4 };
enum {
  IRONCL_CAP_IMPORT_HOST_POINTER = 1u << 0,
  IRONCL_CAP_IMPORT_CL_MEM = 1u << 1, /* of a device that device_import made: cl_mems of its context */
  IRONCL_CAP_EVENT_PROFILING = 1u << 2,
  IRONCL_CAP_BITWISE_REPEATABLE = 1u << 3 /* every plan is repeatable, asked or not */
};

/* A MODEL device computes right results but its times are of a machine that is not there: it is never chosen
 * automatically. */
typedef struct ironcl_device_props {
  uint32_t struct_size;
  uint32_t type;      /* IRONCL_DEVICE_* */
  uint32_t vendor_id; /* PCI vendor id where there is one */
  uint32_t caps;      /* IRONCL_CAP_* */
  uint64_t memory_bytes;
  uint64_t max_buffer_bytes;
  uint64_t buffer_alignment; /* of the span offsets of gemm_enqueue, bytes; a power of two */
  char name[128];            /* "NVIDIA H200" */
  char driver[128];          /* "NVIDIA CUDA, OpenCL 3.0 CUDA, 580.159.03" */
  char stable_id[64];        /* PCI address or UUID where there is one, else empty */
} ironcl_device_props;

enum {
  IRONCL_HOST_COPIED_BEFORE_RETURN = 0, /* the caller may reuse the bytes when the call returns */
  IRONCL_HOST_STABLE_UNTIL_EVENT = 1    /* the caller keeps the bytes as they are until the command has completed */
};

/* Memory that somebody else owns, wrapped but never released by the plugin. */
enum { IRONCL_MEMORY_HOST_POINTER = 1, IRONCL_MEMORY_CL_MEM = 2 };
typedef struct ironcl_native_memory {
  ironcl_chain chain; /* type IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED */
  uint32_t kind;      /* IRONCL_MEMORY_* */
  uint32_t reserved;
  /* The pointer, on a multiple of the device's buffer_alignment (else INVALID_ARGUMENT); or the cl_mem, a buffer of
   * CL_MEM_READ_WRITE in the context that the device was imported with. It outlives the buffer and every command on
   * it. What commands wrote is there once their event has completed; host memory is read through `read`. */
  void* handle;
} ironcl_native_memory;

typedef struct ironcl_buffer_desc {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  const ironcl_chain* next;
  uint64_t size; /* bytes, at least 1 */
} ironcl_buffer_desc;

/* B in host memory, [n, k] row major with its scales; copied before weights_prepare returns. */
typedef struct ironcl_weights_desc {
  uint32_t struct_size;
  ironcl_dtype dtype;
  const ironcl_chain* next;
  int64_t n, k;
  int64_t ld;           /* elements; 0: tight, k */
  uint32_t group_count; /* matrices one after another; 0: one */
  uint32_t reserved;
  ironcl_scale_desc scale;
  const void* data;
  const void* scales;
  uint64_t data_bytes;  /* at least ((groups * n - 1) * ld + k) * element size */
  uint64_t scale_bytes; /* likewise, with groups * ceil(n / group_rows) rows of scales */
  ironcl_gemm plan;     /* the plan whose layout to prepare; NULL: the device's usual one; see gemm_args.weights */
} ironcl_weights_desc;

typedef struct ironcl_weights_info {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t device_bytes; /* values and scales as held on the device, padding included */
  uint64_t data_bytes;   /* what weights_export writes: tight values ... */
  uint64_t scale_bytes;  /* ... and tight scales */
  char layout[112];      /* name of the packing, such as "row_major" or "panel_n32_k128" */
} ironcl_weights_info;

typedef struct ironcl_gemm_info {
  uint32_t struct_size;
  uint32_t accuracy_class;     /* IRONCL_ACCURACY_* */
  int64_t accumulation_length; /* most products added before the sum is scaled and promoted: G of the bound */
  uint64_t workspace_bytes;    /* for args.workspace; 0 where none is needed */
  char variant[64];            /* the kernel, "gemm_tiled" */
  char config[416];            /* its tunables, "tile_m=64,tile_n=64,..." */
} ironcl_gemm_info;

/* One call of a plan. Spans: `a` [m, k]; `a_scale` the caller's scales (absent where the plan quantises A);
 * `d` [m, n]; `d_scale`, `bias` [n] (tight; of a grouped problem [group_count, n]), `group_sizes` [group_count] s32
 * where the plan has them; `workspace` at least gemm_info.workspace_bytes, or absent: then the plan uses its own, and
 * its calls wait for one another. `a_quantized` [m, k] tight and `a_quantized_scale` tight: absent, or both given on
 * a plan that quantises A; the plan also leaves the codes and scales there. Bytes of D outside [m, n] are never
 * written. A span may be larger than needed; one that is written overlaps no other. Offsets are multiples of the
 * device's buffer_alignment and of the element size. Where m is 0, spans may be absent. */
typedef struct ironcl_gemm_args {
  uint32_t struct_size;
  uint32_t wait_count;
  const ironcl_event* wait; /* `wait_count` events, retained by the call */
  const ironcl_chain* next;
  int64_t m;              /* 0 (no work: an event that completes in its turn) to the plan's m */
  ironcl_weights weights; /* those in another layout than the plan reads may be refused: prepare with the plan */
  ironcl_span a, a_scale, d, d_scale, bias, group_sizes, workspace, a_quantized, a_quantized_scale;
  /* (since 1.1) Of a plan with desc.a_rows: the rows that A has in this call, 1 to desc.a_rows (also 0 where m is 0);
   * then a, a_scale, a_quantized and a_quantized_scale have a_rows rows instead of m. Else 0. */
  int64_t a_rows;
  /* (since 1.1) s32, an element for each row of the problem: m, or group_count * m of a masked one. Read for rows
   * that are computed and no others. Never trusted: a negative index means row 0, one past the end the last row. */
  ironcl_span a_index;
} ironcl_gemm_args;

typedef struct ironcl_event_profile {
  uint32_t struct_size;
  uint32_t time_kind;                   /* IRONCL_TIME_MEASURED or IRONCL_TIME_MODELLED */
  uint64_t queued_ns, start_ns, end_ns; /* on the device's clock; end - start is the command's time */
} ironcl_event_profile;

/* (since 1.1) What an application has opened itself and wants a plugin to compute with. */
enum { IRONCL_NATIVE_OPENCL = 1 };
typedef struct ironcl_native_device {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_NATIVE_* */
  const ironcl_chain* next;
  void* device;  /* OPENCL: a cl_device_id ... */
  void* context; /* ... and a cl_context that has it; retained until unload */
} ironcl_native_device;

/* (since 1.1) X [rows, cols] of F32, F16 or BF16 becomes codes [rows, cols] of an fp8 type or I8, and their scales,
 * bit for bit as a plan that quantises A makes them, on every device. Groups of several rows are the blocks of
 * weights. */
typedef struct ironcl_quantize_desc {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  const ironcl_chain* next;
  int64_t rows;          /* the most that a call will bring; a call may bring fewer. 0 to 2^31 - 1 */
  int64_t cols;          /* 1 to 2^31 - 1 */
  int64_t x_ld, code_ld; /* elements from a row to the next; 0: tight, cols */
  ironcl_dtype x_dtype;
  ironcl_dtype code_dtype;
  ironcl_scale_desc scale; /* dtype F32; {rows, cols} over rows x cols */
  ironcl_quantizer_desc quantizer;
} ironcl_quantize_desc;

/* (since 1.1) One call: `x` [rows, cols], `codes` [rows, cols], `scales` as desc.scale over `rows` rows. Bytes
 * outside of them are never written. Otherwise as ironcl_gemm_args. */
typedef struct ironcl_quantize_args {
  uint32_t struct_size;
  uint32_t wait_count;
  const ironcl_event* wait;
  const ironcl_chain* next;
  int64_t rows; /* 0 (no work: an event that completes in its turn) to desc.rows */
  ironcl_span x, codes, scales;
} ironcl_quantize_args;

/*===--- (since 1.1) A layer of experts: route, [gemm, activate, gemm], combine ---------------------===*/

/* docs/experts.md has the formulas and their sources. What follows holds for all three steps as it does for plans: a
 * call may bring less than the description's most; one that brings nothing needs no spans and writes nothing, but for
 * route's group_sizes; a span may be larger than needed, and one that is written overlaps no other; offsets are
 * multiples of the device's buffer_alignment and of the element size; s32 numbers on the device are never trusted. */

/* route: from a router's logits to everything that the next steps need, without the host. Which experts each token
 * gets and with which weights, and the rows of all of them sorted by expert: within an expert in the order of tokens
 * and then of slots, so that nothing depends on chance. */
enum {
  IRONCL_SCORE_SOFTMAX = 1,      /* over all experts: Qwen3-MoE, DeepSeek-V2; with NORMALIZE Mixtral and gpt-oss */
  IRONCL_SCORE_SIGMOID = 2,      /* of each logit: DeepSeek-V3, GLM-4.5, MiniMax */
  IRONCL_SCORE_SQRT_SOFTPLUS = 3 /* sqrt(log(1 + exp(logit))): DeepSeek-V4 */
};
enum {
  /* ids are read, not made: score, scale, expert_groups, bias_dtype and the flags NORMALIZE and BEST_OF_TWO are 0,
   * and nothing is done with weights. No logits (logits_dtype NONE), unless SHARED_GATE is set: then the last is
   * read. */
  IRONCL_ROUTE_GIVEN = 1u << 0,
  IRONCL_ROUTE_NORMALIZE = 1u << 1, /* a token's weights are divided by their sum, before `scale`; a sum of 0: not */
  IRONCL_ROUTE_SHARED_GATE = 1u << 2, /* a last logit more: shared_weights = its sigmoid (Qwen2-MoE, Qwen3-Next) */
  /* A group of experts (of two or more) is worth the sum of its two best (DeepSeek-V3), else its best. */
  IRONCL_ROUTE_BEST_OF_TWO = 1u << 3
};
typedef struct ironcl_route_desc {
  uint32_t struct_size;
  uint32_t flags; /* IRONCL_ROUTE_* */
  const ironcl_chain* next;
  int64_t tokens;    /* T: the most that a call will bring. 0 to 2^31 - 1; T * top_k is at most 2^31 - 1 too */
  int64_t logits_ld; /* elements; 0: tight. 0 where there are no logits */
  /* 0: rows for GROUPING_CONTIGUOUS, T * top_k at most. Else for GROUPING_MASKED with m = capacity: expert g's rows
   * begin at row g * capacity, and those past its capacity are dropped. local_experts * capacity <= 2^31 - 1. */
  int64_t capacity;
  uint32_t experts; /* E: 1 to 65536; ids are 0 to E - 1 */
  uint32_t top_k;   /* k: 1 to E, at most 64 */
  /* The experts that are here, of a layer that is spread over devices: group g of the rows is expert first_expert +
   * g, and slots of other experts get row -1. local_experts 0: all of them, first_expert 0 then. */
  uint32_t first_expert;
  uint32_t local_experts;
  uint32_t score; /* IRONCL_SCORE_*; 0 where GIVEN */
  /* E is split into so many equal groups, of which the best `top_groups` stay; these have k experts or more.
   * 0: one group. */
  uint32_t expert_groups;
  uint32_t top_groups;       /* 1 to expert_groups; 0 where expert_groups is 0 */
  float scale;               /* a factor of all weights (routed_scaling_factor), finite; 0: 1 */
  ironcl_dtype logits_dtype; /* F32, F16, BF16; computed with in f32 */
  ironcl_dtype bias_dtype;   /* F32: added to the scores for choosing, not for weighing; NONE: no bias */
} ironcl_route_desc;

/* A token's slots are in falling order of what they were chosen by (score + bias); ties go to the smaller id, also
 * between groups of experts; a NaN is smaller than everything. A given id outside of 0 to E - 1 is nobody's: its slot
 * gets row -1. Elements of a_index that belong to no row are not written. */
typedef struct ironcl_route_args {
  uint32_t struct_size;
  uint32_t wait_count;
  const ironcl_event* wait;
  const ironcl_chain* next;
  int64_t tokens;             /* 0 (then every group size is 0) to desc.tokens */
  ironcl_span logits;         /* [tokens, E], or [tokens, E + 1] with SHARED_GATE */
  ironcl_span bias;           /* [E] */
  ironcl_span ids;            /* s32 [tokens, k]: made, or GIVEN */
  ironcl_span weights;        /* f32 [tokens, k]: made; may be absent where GIVEN */
  ironcl_span group_sizes;    /* s32 [local_experts]: rows of each expert, for gemm_args.group_sizes; made */
  ironcl_span a_index;        /* s32 [tokens * k], MASKED [local_experts, capacity]: the token of each row; made */
  ironcl_span rows;           /* s32 [tokens, k]: the row of each slot, or -1, for combine_args.rows; made */
  ironcl_span shared_weights; /* f32 [tokens] with SHARED_GATE, made; else absent */
} ironcl_route_args;

/* activate: Y = activation(gate, up), element by element in f32, rounded to y_dtype; or codes and scales of it, as
 * quantize_enqueue would make them of the f32 values. Rows that no expert has are neither read nor written. */
enum {
  IRONCL_ACTIVATION_SILU = 1,      /* gate * sigmoid(gate) * up: DeepSeek, Qwen, GLM */
  IRONCL_ACTIVATION_SWIGLU_OAI = 2 /* gate * sigmoid(1.702 * gate) * (up + 1): gpt-oss, with a limit of 7 */
};
typedef struct ironcl_activate_desc {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  const ironcl_chain* next;
  int64_t rows; /* the most that a call will bring; of a masked problem those of each matrix. 0 to 2^31 - 1 */
  int64_t cols; /* 1 to 2^31 - 1 */
  int64_t gate_ld, up_ld, y_ld; /* elements; 0: tight, cols */
  ironcl_dtype x_dtype;         /* of gate and up: F32, F16, BF16 */
  ironcl_dtype y_dtype;         /* F32, F16, BF16; or an fp8 type or I8, with `scale` */
  uint32_t activation;          /* IRONCL_ACTIVATION_* */
  float limit;                  /* before all else gate is clamped to at most this, up to +-this; 0: no clamping */
  uint32_t grouping;            /* IRONCL_GROUPING_*: which rows there are, by group_sizes, as of a plan */
  uint32_t group_count;         /* 0 where grouping is NONE */
  ironcl_scale_desc scale;      /* F32, {1, group_cols} over rows x cols; zero where y_dtype is a float type */
  ironcl_quantizer_desc quantizer;
} ironcl_activate_desc;

typedef struct ironcl_activate_args {
  uint32_t struct_size;
  uint32_t wait_count;
  const ironcl_event* wait;
  const ironcl_chain* next;
  int64_t rows; /* 0 to desc.rows; of a masked problem desc.rows */
  /* [rows, cols], of a masked problem [group_count, rows, cols]; they may be the halves of the rows of one matrix. */
  ironcl_span gate, up;
  ironcl_span y;           /* likewise */
  ironcl_span scales;      /* likewise, where Y is quantised */
  ironcl_span group_sizes; /* s32 [group_count] where there is a grouping */
} ironcl_activate_args;

/* combine: Y[t] = 0 + weights[t, 0] * X[rows[t, 0]] + ... + weights[t, k - 1] * X[rows[t, k - 1]] in this order, then
 * + add_weights[t] * add[t]. Each product and each sum is rounded to f32 and none are fused, so that the bits are the
 * same on every device (but for a NaN's, and results below 2^-126, which a device may flush); at the end Y is rounded
 * to y_dtype. A slot whose row is outside of X is left out: it is not read, and not multiplied by 0. */
typedef struct ironcl_combine_desc {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  const ironcl_chain* next;
  int64_t tokens; /* T: the most that a call will bring. 0 to 2^31 - 1; T * top_k is at most 2^31 - 1 too */
  int64_t cols;   /* 1 to 2^31 - 1 */
  int64_t rows;   /* of X, all experts' together; of a masked problem group_count * m. 1 to 2^31 - 1 */
  int64_t x_ld, add_ld, y_ld; /* elements; 0: tight, cols */
  uint32_t top_k;             /* 1 to 64 */
  ironcl_dtype x_dtype;       /* F32, F16, BF16 */
  ironcl_dtype add_dtype;     /* F32, F16, BF16: what shared experts made; NONE: nothing is added */
  ironcl_dtype y_dtype;       /* F32, F16, BF16 */
} ironcl_combine_desc;

typedef struct ironcl_combine_args {
  uint32_t struct_size;
  uint32_t wait_count;
  const ironcl_event* wait;
  const ironcl_chain* next;
  int64_t tokens;          /* 0 to desc.tokens */
  ironcl_span x;           /* [desc.rows, cols] */
  ironcl_span rows;        /* s32 [tokens, k] */
  ironcl_span weights;     /* f32 [tokens, k] */
  ironcl_span add;         /* [tokens, cols] where there is an add_dtype */
  ironcl_span add_weights; /* f32 [tokens] where there is an add_dtype; absent: 1 */
  ironcl_span y;           /* [tokens, cols] */
} ironcl_combine_args;

/*===--- The plugin's table -----------------------------------------------------------------------===*/

enum {
  IRONCL_PLUGIN_UNLOADABLE = 1u << 0 /* dlclose after unload() is safe */
};

/* Every function may be called from any thread, subject to the objects' rules above. */
typedef struct ironcl_plugin {
  /* These six fields never move, in any major version: a misfit can be named. */
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t flags;       /* IRONCL_PLUGIN_* */
  const char* name;     /* "opencl", "ironwood": [a-z0-9_]+ */
  const char* build_id; /* version and commit, for reports only */

  const ironcl_chain* extensions;

  /* Called once before anything else, and unload() once after everything is destroyed; then load may be called
   * again. A second load before that is INVALID_ARGUMENT, and so is every call before load. `host` may be NULL.
   * Unknown options are INVALID_ARGUMENT. A load that failed has loaded nothing. */
  ironcl_status (*load)(const ironcl_host* host, const ironcl_key_value* options, uint32_t option_count,
                        ironcl_error* error);
  void (*unload)(void);

  /* Writes up to `capacity` devices and always their whole number; capacity 0 with out_devices NULL counts.
   * UNAVAILABLE (no driver) and OK with none are both fine. The order is the same in every process, and the handles
   * are the same in every call. */
  ironcl_status (*enumerate)(ironcl_device* out_devices, uint32_t capacity, uint32_t* out_count, ironcl_error* error);
  ironcl_status (*device_props)(ironcl_device device, ironcl_device_props* out_props, ironcl_error* error);
  ironcl_status (*supports)(ironcl_device device, const ironcl_gemm_desc* desc, ironcl_support* out_support,
                            ironcl_error* error);
  /* Facts as text (JSON unless docs/abi.md says otherwise): "features", "options", "variants", and a backend's own
   * keys, such as ironwood's "model" and "trace". `desc` is NULL where the key needs no problem. Writes up to
   * `capacity` bytes, NUL included (cut to fit), and always the whole size, NUL included, to *out_size. capacity 0
   * with out_text NULL asks for the size. An unknown key is UNIMPLEMENTED. */
  ironcl_status (*device_query)(ironcl_device device, const char* key, const ironcl_gemm_desc* desc, char* out_text,
                                uint64_t capacity, uint64_t* out_size, ironcl_error* error);

  /* flags: 0. */
  ironcl_status (*queue_create)(ironcl_device device, uint32_t flags, ironcl_queue* out_queue, ironcl_error* error);
  ironcl_status (*queue_finish)(ironcl_queue queue, ironcl_error* error);
  /* Commands enqueued later on `queue` run after `event`, which may be another queue's. */
  ironcl_status (*queue_wait)(ironcl_queue queue, ironcl_event event, ironcl_error* error);
  void (*queue_destroy)(ironcl_queue queue);

  ironcl_status (*buffer_create)(ironcl_device device, const ironcl_buffer_desc* desc, ironcl_buffer* out_buffer,
                                 ironcl_error* error);
  void (*buffer_destroy)(ironcl_buffer buffer);

  /* span.size bytes, at least 1. out_event may be NULL. read: `dst` is filled when the event completes. */
  ironcl_status (*write)(ironcl_queue queue, ironcl_span dst, const void* src, uint32_t host_semantics,
                         ironcl_event* out_event, ironcl_error* error);
  ironcl_status (*read)(ironcl_queue queue, ironcl_span src, void* dst, ironcl_event* out_event, ironcl_error* error);

  ironcl_status (*weights_prepare)(ironcl_device device, const ironcl_weights_desc* desc, ironcl_weights* out_weights,
                                   ironcl_error* error);
  /* The bytes that weights_prepare was given, tight (ld = k), bit for bit. */
  ironcl_status (*weights_export)(ironcl_weights weights, void* data, uint64_t data_bytes, void* scales,
                                  uint64_t scale_bytes, ironcl_error* error);
  ironcl_status (*weights_info)(ironcl_weights weights, ironcl_weights_info* out_info, ironcl_error* error);
  void (*weights_destroy)(ironcl_weights weights);

  /* All compiling and looking up happens in gemm_create; gemm_enqueue does none. */
  ironcl_status (*gemm_create)(ironcl_device device, const ironcl_gemm_desc* desc, ironcl_gemm* out_gemm,
                               ironcl_error* error);
  ironcl_status (*gemm_info)(ironcl_gemm gemm, ironcl_gemm_info* out_info, ironcl_error* error);
  ironcl_status (*gemm_enqueue)(ironcl_gemm gemm, ironcl_queue queue, const ironcl_gemm_args* args,
                                ironcl_event* out_event, ironcl_error* error);
  void (*gemm_destroy)(ironcl_gemm gemm);

  /* OK when the command succeeded, its own status when it failed, TIMEOUT when it has not ended. A timeout of 0
   * asks; UINT64_MAX waits for ever. A command that waited for a failed event fails with that event's status. */
  ironcl_status (*event_wait)(ironcl_event event, uint64_t timeout_ns, ironcl_error* error);
  /* Of a command that has succeeded; INVALID_ARGUMENT before. UNIMPLEMENTED where the device cannot say. */
  ironcl_status (*event_profile)(ironcl_event event, ironcl_event_profile* out_profile, ironcl_error* error);
  void (*event_destroy)(ironcl_event event);

  /* (since 1.1) A device over objects of the application's own, beside those of enumerate: it lives until unload, and
   * the same objects give the same handle. UNSUPPORTED where the plugin would not list such a device either. */
  ironcl_status (*device_import)(const ironcl_native_device* desc, ironcl_device* out_device, ironcl_error* error);

  /* (since 1.1) UNSUPPORTED, with what would be accepted, where the device will not run it. */
  ironcl_status (*quantize_create)(ironcl_device device, const ironcl_quantize_desc* desc,
                                   ironcl_quantize* out_quantize, ironcl_error* error);
  ironcl_status (*quantize_enqueue)(ironcl_quantize quantize, ironcl_queue queue, const ironcl_quantize_args* args,
                                    ironcl_event* out_event, ironcl_error* error);
  void (*quantize_destroy)(ironcl_quantize quantize);

  /* (since 1.1) The steps of a layer of experts. create: UNSUPPORTED, with what would be accepted, where the device
   * will not run it. */
  ironcl_status (*route_create)(ironcl_device device, const ironcl_route_desc* desc, ironcl_route* out_route,
                                ironcl_error* error);
  ironcl_status (*route_enqueue)(ironcl_route route, ironcl_queue queue, const ironcl_route_args* args,
                                 ironcl_event* out_event, ironcl_error* error);
  void (*route_destroy)(ironcl_route route);
  ironcl_status (*activate_create)(ironcl_device device, const ironcl_activate_desc* desc,
                                   ironcl_activate* out_activate, ironcl_error* error);
  ironcl_status (*activate_enqueue)(ironcl_activate activate, ironcl_queue queue, const ironcl_activate_args* args,
                                    ironcl_event* out_event, ironcl_error* error);
  void (*activate_destroy)(ironcl_activate activate);
  ironcl_status (*combine_create)(ironcl_device device, const ironcl_combine_desc* desc, ironcl_combine* out_combine,
                                  ironcl_error* error);
  ironcl_status (*combine_enqueue)(ironcl_combine combine, ironcl_queue queue, const ironcl_combine_args* args,
                                   ironcl_event* out_event, ironcl_error* error);
  void (*combine_destroy)(ironcl_combine combine);
} ironcl_plugin;

/* The only symbol that a plugin exports. A pure query: no driver is opened, no thread started, nothing allocated.
 * Returns a constant table that lives as long as the library, also where the host's major version differs (the six
 * leading fields then say so), or NULL where the plugin cannot serve the host at all. */
typedef const ironcl_plugin* (*ironcl_plugin_query_fn)(uint32_t host_major, uint32_t host_minor);
#define IRONCL_PLUGIN_QUERY_SYMBOL "ironcl_plugin_query"

#ifdef __cplusplus
}
#endif
#endif /* IRONCL_PLUGIN_H_ */
