/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - the C ABI between a host and a compute backend (a plugin): ABI 2.0. Standalone: C11 or C++, no macro
 * that changes a layout. A host that opens a plugin with dlopen needs nothing else (host/examples/one_plugin.c).
 * Next door: plugin_ops.h (operations other than the GEMM), ironcl.h (finds plugins), docs/abi.md (reasons).
 *
 * Rules
 *  1. A struct that crosses starts with struct_size, set by whoever allocates it. Fields are only appended; nothing
 *     is moved, removed or retyped without a new IRONCL_ABI_MAJOR. The value structs inside others
 *     (ironcl_scale_desc, ironcl_quantizer_desc, ironcl_span, ironcl_key_value) never grow.
 *  2. In a struct that a function reads, a missing tail reads as zero, and zero means "as before". A tail, a
 *     `reserved` field, a flag bit or an enumerator that the callee does not know must be zero, else it answers
 *     UNIMPLEMENTED: nothing is ignored. A struct that a function fills: it writes min(struct_size, what it knows)
 *     bytes and leaves struct_size alone.
 *  3. Nothing is allocated on one side and freed on the other. Destroy functions take NULL, and may be called while
 *     work still uses the object: the plugin defers the release.
 *  4. No exception, abort, exit, signal or output to stdout/stderr leaves a plugin.
 *  5. A function that fails leaves its out parameters untouched. `error` may be NULL everywhere.
 *  6. Of the refusals, UNAVAILABLE is the only one on which a test may skip.
 *  7. A NULL slot in the table reads as a function that answers UNIMPLEMENTED (load: OK). Required of every plugin:
 *     enumerate and device_props.
 *  8. Text is UTF-8, NUL-terminated, cut to fit.
 *  9. A process forked after load() is no process of the plugin's: a plugin whose driver does not survive that
 *     answers UNAVAILABLE to everything there, and destroy functions and unload do nothing.
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

#define IRONCL_ABI_MAJOR 2u
#define IRONCL_ABI_MINOR 0u

#define IRONCL_EXPORT __attribute__((visibility("default")))

/*===--- Status and errors ------------------------------------------------------------------------===*/

typedef uint32_t ironcl_status;
enum {
  IRONCL_OK = 0,
  IRONCL_INVALID_ARGUMENT = 1, /* the caller broke a rule of this header */
  IRONCL_UNSUPPORTED = 2,      /* well formed, but this device will not run it */
  IRONCL_UNIMPLEMENTED = 3,    /* this plugin has no such function, field or extension */
  IRONCL_UNAVAILABLE = 4,      /* no driver or no device here */
  IRONCL_OUT_OF_HOST_MEMORY = 5,
  IRONCL_OUT_OF_DEVICE_MEMORY = 6,
  IRONCL_BUILD_FAILED = 7,  /* a kernel did not compile; its log went to host->log */
  IRONCL_DEVICE_LOST = 8,   /* every object of the device is dead; stays so */
  IRONCL_TIMEOUT = 9,       /* event_wait's time ran out; the event is as it was */
  IRONCL_INCOMPATIBLE = 10, /* ABI version, sanitizer or serialized data do not fit */
  IRONCL_INTERNAL = 11      /* a bug in the plugin, caught at its boundary */
};

/* Why a call failed. Allocated by the caller, filled by the callee on failure only. */
typedef struct ironcl_error {
  uint32_t struct_size;
  ironcl_status status;
  int32_t native_code; /* the driver's own code (cl_int), else 0 */
  uint32_t reserved;
  char message[496]; /* what is wrong, where, and what to do about it */
} ironcl_error;

/* Optional parts of a struct, linked through `next`; struct_size is that of the whole part. An unknown type is
 * ignored, or UNIMPLEMENTED where IRONCL_CHAIN_REQUIRED is set in it; a known one twice is INVALID_ARGUMENT. */
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

/* Which sanitizer a plugin was built with; a host built with another one refuses it. */
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

/* The sanitizer of the code that includes this header. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IRONCL_THIS_SANITIZER IRONCL_SANITIZER_ADDRESS
#elif __has_feature(thread_sanitizer)
#define IRONCL_THIS_SANITIZER IRONCL_SANITIZER_THREAD
#elif __has_feature(memory_sanitizer)
#define IRONCL_THIS_SANITIZER IRONCL_SANITIZER_MEMORY
#endif
#endif
#if !defined(IRONCL_THIS_SANITIZER)
#if defined(__SANITIZE_ADDRESS__)
#define IRONCL_THIS_SANITIZER IRONCL_SANITIZER_ADDRESS
#elif defined(__SANITIZE_THREAD__)
#define IRONCL_THIS_SANITIZER IRONCL_SANITIZER_THREAD
#else
#define IRONCL_THIS_SANITIZER IRONCL_SANITIZER_NONE
#endif
#endif

/* A backend's own settings, such as {"variant", "gemm_panel"}; device_query("options") lists them. An unknown key or
 * a value out of range is INVALID_ARGUMENT, with those that exist. */
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
  /* One line of text, any thread; may be NULL. It must not call the plugin, which may hold a lock while it logs. */
  void (*log)(void* context, uint32_t level, const char* text);
} ironcl_host;

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
  IRONCL_F64 = 9, /* files and oracles only; no operand has it */
  /* OCP MX fp4: bias 1, largest 6, neither infinity nor NaN. Two codes share a byte, the one with the even column in
   * the low four bits; a row has an even number of columns and an even leading dimension. */
  IRONCL_F4_E2M1 = 10
};

/* The scales of an operand: one for each group_rows x group_cols block of it. Scales multiply; (i, j) is element
 * i * ld + j. A group of 0 spans the whole dimension: {1, 0} is per token or per channel, {0, 0} per tensor. The
 * last block of a row or column may be partial; so may the first, where the operand is a slice of a larger matrix:
 * row_origin is the place of its first row within its block, so that there are ceil((row_origin + rows) / group_rows)
 * rows of scales, and row r has number (row_origin + r) / group_rows. Columns likewise. */
typedef struct ironcl_scale_desc {
  ironcl_dtype dtype; /* F32, F16, BF16, F8_E8M0 or F8_E4M3FN; NONE: this operand has no scales */
  uint32_t group_rows;
  uint32_t group_cols;
  ironcl_dtype global_dtype; /* F32: one more factor for the whole operand (a matrix of a grouped B); NONE: none */
  int64_t ld;                /* elements from a row of scales to the next; 0: tight. Of b_scale: tight */
  uint32_t row_origin;       /* 0 to group_rows - 1; 0 where group_rows is 0 */
  uint32_t col_origin;       /* likewise */
} ironcl_scale_desc;

/* How a group of values becomes codes: amax = max(max|x|, amax_floor); s = amax / largest of the type, in f32,
 * correctly rounded; q = round to nearest even of x / s (divided), saturated. docs/numerics.md has the whole. With
 * scales GIVEN ("static") s is read, not made, and the two other fields are 0. */
enum {
  IRONCL_SCALE_EXACT = 0,       /* s as computed */
  IRONCL_SCALE_POWER_OF_TWO = 1 /* s = 2^ceil(log2 s): the "ue8m0" rule */
};
enum { IRONCL_SCALES_MADE = 0, IRONCL_SCALES_GIVEN = 1 };
typedef struct ironcl_quantizer_desc {
  uint32_t scale_rounding; /* IRONCL_SCALE_* */
  float amax_floor;        /* finite, not negative; 0: the default, 1e-10 */
  uint32_t scales;         /* IRONCL_SCALES_* */
  uint32_t reserved;
} ironcl_quantizer_desc;

/* What a kernel's arithmetic may be worth; selection never goes below what desc.weakest_accuracy allows. */
enum {
  IRONCL_ACCURACY_F32 = 0,     /* group sums and their addition in f32 or better */
  IRONCL_ACCURACY_TENSOR14 = 1 /* hardware that accumulates inside a group in about 14 bits */
};

typedef struct ironcl_device_t* ironcl_device;   /* owned by the plugin, lives until unload; thread safe */
typedef struct ironcl_queue_t* ironcl_queue;     /* commands run in order; one thread at a time */
typedef struct ironcl_buffer_t* ironcl_buffer;   /* bytes on one device; thread safe */
typedef struct ironcl_weights_t* ironcl_weights; /* B, prepared; immutable; thread safe */
typedef struct ironcl_op_t* ironcl_op;           /* an operation, compiled; one thread at a time */
typedef struct ironcl_event_t* ironcl_event;     /* completion and status of a command; thread safe */

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
  IRONCL_CAP_BITWISE_REPEATABLE = 1u << 3 /* every operation is repeatable, asked or not */
};

/* A MODEL device computes right results, but its times are modelled: it is never chosen automatically. */
typedef struct ironcl_device_props {
  uint32_t struct_size;
  uint32_t type;      /* IRONCL_DEVICE_* */
  uint32_t vendor_id; /* PCI vendor id where there is one */
  uint32_t caps;      /* IRONCL_CAP_* */
  uint64_t memory_bytes;
  uint64_t max_buffer_bytes;
  uint64_t buffer_alignment; /* of the span offsets of op_enqueue, bytes; a power of two */
  char name[128];            /* "NVIDIA H200" */
  char driver[128];          /* "NVIDIA CUDA, OpenCL 3.0 CUDA, 580.159.03" */
  char stable_id[64];        /* PCI address or UUID where there is one, else empty */
} ironcl_device_props;

/* A device and a context that the application opened, for a plugin to compute with. */
enum { IRONCL_NATIVE_OPENCL = 1 };
typedef struct ironcl_native_device {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_NATIVE_* */
  const ironcl_chain* next;
  void* device;  /* OPENCL: a cl_device_id ... */
  void* context; /* ... and a cl_context that has it; retained until unload */
} ironcl_native_device;

enum {
  IRONCL_HOST_COPIED_BEFORE_RETURN = 0, /* the caller may reuse the bytes when the call returns */
  IRONCL_HOST_STABLE_UNTIL_EVENT = 1    /* the caller keeps the bytes as they are until the command has completed */
};

/* Memory that the application owns; the plugin wraps it and never releases it. PINNED_HOST alone is memory that the
 * plugin allocates, for the host: `write` and `read` of this device copy it fastest. */
enum { IRONCL_MEMORY_HOST_POINTER = 1, IRONCL_MEMORY_CL_MEM = 2, IRONCL_MEMORY_PINNED_HOST = 3 };
typedef struct ironcl_native_memory {
  ironcl_chain chain; /* type IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED */
  uint32_t kind;      /* IRONCL_MEMORY_* */
  uint32_t reserved;
  /* The pointer, on a multiple of buffer_alignment; or the cl_mem, a buffer of CL_MEM_READ_WRITE in the context that
   * the device was imported with. It outlives the buffer and its commands; `read` it unless a CPU's or MODEL's.
   * PINNED_HOST: a void** where the address of buffer_desc.size bytes is written, which live as long as the buffer;
   * the buffer has no bytes for commands. UNIMPLEMENTED and UNSUPPORTED where there is none: ordinary memory does
   * too. */
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
  int64_t ld;        /* elements; 0: tight, k */
  uint32_t matrices; /* one after another; 0: one */
  uint32_t reserved;
  ironcl_scale_desc scale;
  const void* data;
  const void* scales;
  const float* global_scales; /* `matrices` of them where scale.global_dtype is F32, else NULL */
  uint64_t data_bytes;        /* at least those of matrices * n rows */
  uint64_t scale_bytes;       /* at least those of matrices * ceil((row_origin + n) / group_rows) rows */
  ironcl_op plan;             /* the GEMM whose form to prepare; NULL: the device's usual one */
} ironcl_weights_desc;

typedef struct ironcl_weights_info {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t device_bytes; /* values and scales as held on the device, padding included */
  uint64_t data_bytes;   /* what weights_export writes: tight values ... */
  uint64_t scale_bytes;  /* ... and tight scales. Global scales stay with the caller */
  char form[112];        /* how they lie on the device, such as "row_major" or "panel_n32_k128" */
} ironcl_weights_info;

typedef struct ironcl_event_profile {
  uint32_t struct_size;
  uint32_t time_kind;                   /* IRONCL_TIME_MEASURED or IRONCL_TIME_MODELLED */
  uint64_t queued_ns, start_ns, end_ns; /* on the device's clock; end - start is the command's time */
} ironcl_event_profile;

/*===--- Operations -------------------------------------------------------------------------------===*/

/* An operation is described (ironcl_KIND_desc), created once and enqueued often (ironcl_KIND_args). Both structs
 * carry their kind; that of the arguments is the operation's, else INVALID_ARGUMENT. For all kinds: a call may bring
 * fewer rows or tokens than the description's most; one that brings none completes in its turn, needs no spans and
 * writes nothing (but for route's matrix_rows). A span may be larger than needed; one that is written overlaps no
 * other. Offsets are multiples of the device's buffer_alignment and of the element size. Bytes outside of what is
 * described are never written. s32 numbers on the device are read when the call runs and never trusted. */
enum {
  IRONCL_OP_GEMM = 1,
  IRONCL_OP_QUANTIZE = 2, /* from here on: plugin_ops.h */
  IRONCL_OP_ROUTE = 3,
  IRONCL_OP_ACTIVATE = 4,
  IRONCL_OP_COMBINE = 5,
  IRONCL_OP_SEQUENCE = 6
};

/* Grouped problems: many matrices B, an expert each, in one enqueue. B and b_scale then hold `matrices` of them one
 * after another; the grid of b_scale restarts with each. matrix_rows[g] is the number of rows that matrix g
 * multiplies: a negative one counts as 0, and rows past the last one are cut off. Only rows of D and
 * d_scale that a matrix multiplies are written. In one plan, how it sums a row does not depend on the others. A row
 * has its own scales: group_rows of a_scale and d_scale is 1. */
enum {
  IRONCL_GROUPING_NONE = 0,
  /* Rows of A and D are sorted by matrix, without gaps and without alignment. Rows after the last are not touched. */
  IRONCL_GROUPING_CONTIGUOUS = 1,
  /* A is [matrices, m, k] and D [matrices, m, n], with m the plan's (and every call's) m; the first matrix_rows[g]
   * rows of each are valid, and only these are written. a_scale and d_scale are `matrices` grids likewise. */
  IRONCL_GROUPING_MASKED = 2
};

/* How gate and up become one value, in f32. */
enum {
  IRONCL_ACTIVATION_SILU = 1,      /* gate * sigmoid(gate) * up: DeepSeek, Qwen, GLM */
  IRONCL_ACTIVATION_SWIGLU_OAI = 2 /* gate * sigmoid(1.702 * gate) * (up + 1): gpt-oss, with a limit of 7 */
};

enum { IRONCL_GEMM_REPEATABLE = 1u << 0 }; /* the same bits from the same input, on every call and every queue */

/* D[m,n] = sum over k of (A[m,k] * sa) * (B[n,k] * sb) (+ bias[n]), everything row major, K contiguous in A and B.
 * a_source_dtype  what the buffer A holds  a_dtype              what is multiplied    a_scale
 * NONE            a_dtype                  fp8, i8, e2m1        given by the caller   the grid of the caller's scales
 * F32, F16, BF16  unquantised              fp8, i8, e2m1        quantised in the plan the grid that the plan makes
 *                                                               (F32), or reads (a_quantizer.scales GIVEN)
 * NONE            F32, F16, BF16           the same             weight-only           dtype NONE
 *
 * b_dtype is a quantised type with its b_scale; or F32, F16 or BF16, scaled or not, where A is of a float type too.
 * The sum of each K group (where both scales are constant) is accumulated in at least f32 and never in half; scales
 * are applied to the group's sum in f32, then added in f32; global scales multiply the sum of all groups. d_dtype is
 * F32, F16 or BF16 (round to nearest even; overflow gives infinity), or a quantised type with d_scale: quantised by
 * d_quantizer on the way out.
 *
 * With an activation B has 2 n rows, the gates and then the ups of n columns of D, and bias has 2 n elements; each D
 * is activation(sum of n, sum of N + n), all in f32, before it is rounded or quantised. */
typedef struct ironcl_gemm_desc {
  uint32_t struct_size;
  uint32_t kind; /* IRONCL_OP_GEMM */
  const ironcl_chain* next;
  uint32_t flags;            /* IRONCL_GEMM_* */
  uint32_t weakest_accuracy; /* IRONCL_ACCURACY_*; 0 allows f32 only */
  int64_t m;                 /* the most rows that a call will bring. 0 to 2^31 - 1 */
  int64_t n, k;              /* 1 to 2^31 - 1 */
  int64_t lda, ldd;          /* elements from a row to the next; 0: tight (k, n) */
  /* 0: A has a row for each row of the problem. Else a gather: A has at most this many rows, flat also where the
   * grouping is MASKED, and the problem's row r is row a_index[r] of them (a negative index: row 0; one past the end:
   * the last). A plan that quantises A does so once for each of these rows. group_rows of a_scale is 1 then. */
  int64_t a_rows;
  ironcl_dtype a_source_dtype;
  ironcl_dtype a_dtype;
  ironcl_dtype b_dtype;
  ironcl_dtype d_dtype;
  ironcl_dtype bias_dtype;   /* NONE: no bias */
  uint32_t grouping;         /* IRONCL_GROUPING_* */
  uint32_t matrices;         /* of B; 0 where grouping is NONE */
  uint32_t activation;       /* IRONCL_ACTIVATION_*; 0: none */
  ironcl_scale_desc a_scale; /* of A as multiplied: {rows, cols} over m x k */
  ironcl_scale_desc b_scale; /* of B: over its rows x k */
  ironcl_scale_desc d_scale; /* of a quantised D: over m x n; dtype NONE else */
  ironcl_quantizer_desc a_quantizer;
  ironcl_quantizer_desc d_quantizer;
  float activation_limit; /* before it gate is clamped to at most this, up to +-this; 0: no clamping */
  uint32_t reserved;
} ironcl_gemm_desc;

typedef struct ironcl_gemm_args {
  uint32_t struct_size;
  uint32_t kind;            /* IRONCL_OP_GEMM */
  const ironcl_event* wait; /* `wait_count` events, retained by the call */
  const ironcl_chain* next;
  uint32_t wait_count;
  uint32_t reserved;
  int64_t m;               /* 0 to the plan's m */
  int64_t a_rows;          /* of a plan that gathers: rows of A in this call, 1 to desc.a_rows; else 0 */
  ironcl_weights weights;  /* those in another form than the plan reads may be refused: prepare with the plan */
  ironcl_span a;           /* [m, k], or [a_rows, k] */
  ironcl_span a_scale;     /* the caller's scales; absent where the plan makes them */
  ironcl_span a_global;    /* f32 [1] */
  ironcl_span d;           /* [m, n] */
  ironcl_span d_scale;     /* of a quantised D: written, or read where d_quantizer.scales is GIVEN */
  ironcl_span d_global;    /* f32 [1]: D = codes * d_scale * d_global; read */
  ironcl_span bias;        /* one for each row of B, of a grouped problem [matrices, rows]; tight */
  ironcl_span matrix_rows; /* s32 [matrices] */
  ironcl_span a_index;     /* s32, one for each row of the problem: m, or matrices * m of a masked one */
  /* At least op_info.workspace_bytes; absent: the plan uses its own, and its calls wait for one another. */
  ironcl_span workspace;
  /* Absent, or both given on a plan that quantises A: the codes [m, k] and scales, tight, are left there as well. */
  ironcl_span a_quantized, a_quantized_scale;
} ironcl_gemm_args;

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

/* The answer of supports(): OK with reason 0 where the device will run the operation; OK with a reason where it will
 * not. op_create refuses exactly the same ones, with UNSUPPORTED and the same text. */
typedef struct ironcl_support {
  uint32_t struct_size;
  uint32_t reason;         /* IRONCL_REASON_* */
  uint32_t accuracy_class; /* IRONCL_ACCURACY_* of what would run */
  uint32_t estimate_kind;  /* IRONCL_TIME_*; a modelled time is never compared with a measured one */
  double estimate_ns;      /* of one call with desc.m rows; 0 where kind is NONE */
  uint64_t workspace_bytes;
  char text[224]; /* the reason in a sentence: what, and what would be accepted */
} ironcl_support;

typedef struct ironcl_op_info {
  uint32_t struct_size;
  uint32_t kind;           /* IRONCL_OP_* */
  uint32_t accuracy_class; /* IRONCL_ACCURACY_*; of a GEMM, as the three fields below */
  uint32_t reserved;
  int64_t accumulation_length; /* most products added before the sum is scaled and promoted: G of the bound */
  uint64_t workspace_bytes;    /* for args.workspace; 0 where none is needed */
  char variant[64];            /* the kernel, "gemm_tiled"; empty where there is no choice */
  char tuning[416];            /* its tunables, "tile_m=64,tile_n=64,..." */
  char form[112];              /* of a GEMM: that of the weights that it reads (weights_info.form); empty: any */
} ironcl_op_info;

/*===--- The plugin's table -----------------------------------------------------------------------===*/

enum { IRONCL_PLUGIN_UNLOADABLE = 1u << 0 }; /* dlclose after unload() is safe */
/* Every function may be called from any thread, subject to the objects' rules above. */
typedef struct ironcl_plugin {
  /* These six fields never move, in any major version, so that a misfit can be named. */
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

  /* Writes up to `capacity` devices and always their whole number; capacity 0 with out_devices NULL only counts.
   * UNAVAILABLE (no driver) and OK with none are both fine. The order is the same in every process, and the handles
   * are the same in every call. */
  ironcl_status (*enumerate)(ironcl_device* out_devices, uint32_t capacity, uint32_t* out_count, ironcl_error* error);
  ironcl_status (*device_props)(ironcl_device device, ironcl_device_props* out_props, ironcl_error* error);
  /* A device over objects of the application's own, beside those of enumerate: it lives until unload, and the same
   * objects give the same handle. UNSUPPORTED where the plugin would not list such a device either. */
  ironcl_status (*device_import)(const ironcl_native_device* desc, ironcl_device* out_device, ironcl_error* error);
  /* Facts as text (JSON unless docs/abi.md says otherwise). `desc` is an ironcl_gemm_desc, or NULL where the key
   * needs no problem. Writes up to `capacity` bytes, NUL included (cut to fit), and always the whole size, NUL
   * included, to *out_size. capacity 0 with out_text NULL asks for the size. An unknown key is UNIMPLEMENTED. */
  ironcl_status (*device_query)(ironcl_device device, const char* key, const void* desc, char* out_text,
                                uint64_t capacity, uint64_t* out_size, ironcl_error* error);

  /* flags: 0 */
  ironcl_status (*queue_create)(ironcl_device device, uint32_t flags, ironcl_queue* out_queue, ironcl_error* error);
  ironcl_status (*queue_finish)(ironcl_queue queue, ironcl_error* error);
  /* Commands enqueued later on `queue` run after `event`, which may be another queue's. */
  ironcl_status (*queue_wait)(ironcl_queue queue, ironcl_event event, ironcl_error* error);
  void (*queue_destroy)(ironcl_queue queue);

  ironcl_status (*buffer_create)(ironcl_device device, const ironcl_buffer_desc* desc, ironcl_buffer* out_buffer,
                                 ironcl_error* error);
  void (*buffer_destroy)(ironcl_buffer buffer);
  /* span.size bytes, at least 1. read: `dst` is filled when the event completes. Here and in op_enqueue out_event may
   * be NULL: then no event is made. */
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

  /* `desc` is an ironcl_gemm_desc, ironcl_quantize_desc, ...: its kind says which. All compiling and looking up
   * happens in op_create; op_enqueue does none. The first question about a kernel that a device has to be tried with
   * may take as long as that trial (docs/abi.md). */
  ironcl_status (*supports)(ironcl_device device, const void* desc, ironcl_support* out_support, ironcl_error* error);
  ironcl_status (*op_create)(ironcl_device device, const void* desc, ironcl_op* out_op, ironcl_error* error);
  ironcl_status (*op_info)(ironcl_op op, ironcl_op_info* out_info, ironcl_error* error);
  /* `args` is an ironcl_gemm_args, ...: of the operation's kind. */
  ironcl_status (*op_enqueue)(ironcl_op op, ironcl_queue queue, const void* args, ironcl_event* out_event,
                              ironcl_error* error);
  void (*op_destroy)(ironcl_op op);

  /* OK when the command succeeded, its own status when it failed, TIMEOUT when it has not ended. A timeout of 0
   * asks; UINT64_MAX waits for ever. A command that waited for a failed event fails with that event's status. */
  ironcl_status (*event_wait)(ironcl_event event, uint64_t timeout_ns, ironcl_error* error);
  /* Of a command that has succeeded; INVALID_ARGUMENT before. UNIMPLEMENTED where the device cannot say. */
  ironcl_status (*event_profile)(ironcl_event event, ironcl_event_profile* out_profile, ironcl_error* error);
  void (*event_destroy)(ironcl_event event);
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
