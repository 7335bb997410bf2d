/* SPDX-License-Identifier: Apache-2.0
 *
 * one_plugin.c: a block-scaled fp8 GEMM on one plugin, opened by hand: plain C11, plugin.h, dlopen and nothing else.
 * Usage: one_plugin PATH/libironcl_NAME.so. Exit status 0: right; 1: wrong or failed; 4: the plugin has no device
 * here. Next door: stream_layer.cpp (a registry finds the plugin, C++, many batches).
 */
#include <dlfcn.h>
#include <ironcl/plugin.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 5, N = 192, K = 320, GROUP = 128, K_GROUPS = (K + GROUP - 1) / GROUP, N_GROUPS = (N + GROUP - 1) / GROUP };

static uint8_t a[M * K], b[N * K];
static float a_scale[M * K_GROUPS], b_scale[N_GROUPS * K_GROUPS], d[M * N];

/* e4m3fn: sign, 4 bits of exponent with bias 7, 3 bits of fraction. */
static double decode(uint8_t code) {
  const int exponent = (code >> 3) & 15, fraction = code & 7;
  const double size = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
  return code & 0x80 ? -size : size;
}

static uint32_t next_random(void) {
  static uint32_t state = 42;
  return state = state * 1664525u + 1013904223u;
}

static void make_problem(void) {
  for (int i = 0; i < M * K; ++i) a[i] = (uint8_t)((next_random() >> 24) & 0xf7); /* no NaN: 0x7f and 0xff */
  for (int i = 0; i < N * K; ++i) b[i] = (uint8_t)((next_random() >> 24) & 0xf7);
  for (int i = 0; i < M * K_GROUPS; ++i) a_scale[i] = ldexpf(1.0f, (int)(next_random() >> 29) - 4);
  for (int i = 0; i < N_GROUPS * K_GROUPS; ++i) b_scale[i] = ldexpf(1.0f, (int)(next_random() >> 29) - 8);
}

/* The largest error of d over what each element may have: docs/numerics.md. `length` products are summed at once. */
static double error_over_bound(int64_t length) {
  double worst = 0;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      double want = 0, magnitude = 0;
      for (int k = 0; k < K; ++k) {
        const double product = decode(a[m * K + k]) * decode(b[n * K + k]) * a_scale[m * K_GROUPS + k / GROUP] *
                               b_scale[n / GROUP * K_GROUPS + k / GROUP];
        want += product;
        magnitude += fabs(product);
      }
      const double unit = ldexp(1, -24), terms = (double)length + ceil((double)K / (double)length) + 3;
      const double ratio = fabs(d[m * N + n] - want) / (unit * fabs(want) + terms * unit * magnitude);
      if (!(ratio <= worst)) worst = ratio; /* so that NaN is worst, too */
    }
  }
  return worst;
}

/* Every call of the table answers with a status, and writes why into an error of ours. */
static ironcl_error error = {.struct_size = sizeof(ironcl_error)};
static void require(ironcl_status status, const char* call) {
  if (status == IRONCL_OK) return;
  fprintf(stderr, "%s: status %u: %s\n", call, status, error.message);
  exit(status == IRONCL_UNAVAILABLE ? 4 : 1);
}
#define CALL(function, ...) require(api->function(__VA_ARGS__, &error), #function)

static ironcl_buffer make_buffer(const ironcl_plugin* api, ironcl_device device, uint64_t size) {
  const ironcl_buffer_desc desc = {.struct_size = sizeof desc, .size = size};
  ironcl_buffer buffer = NULL;
  CALL(buffer_create, device, &desc, &buffer);
  return buffer;
}

static void run(const ironcl_plugin* api, ironcl_device device) {
  const ironcl_gemm_desc desc = {.struct_size = sizeof desc,
                                 .kind = IRONCL_OP_GEMM,
                                 .m = M,
                                 .n = N,
                                 .k = K,
                                 .a_dtype = IRONCL_F8_E4M3FN,
                                 .b_dtype = IRONCL_F8_E4M3FN,
                                 .d_dtype = IRONCL_F32,
                                 .a_scale = {.dtype = IRONCL_F32, .group_rows = 1, .group_cols = GROUP},
                                 .b_scale = {.dtype = IRONCL_F32, .group_rows = GROUP, .group_cols = GROUP}};
  ironcl_op gemm = NULL; /* the plan: whatever has to be compiled is compiled here */
  CALL(op_create, device, &desc, &gemm);
  ironcl_op_info info = {.struct_size = sizeof info};
  CALL(op_info, gemm, &info);

  const ironcl_weights_desc layer = {.struct_size = sizeof layer,
                                     .dtype = IRONCL_F8_E4M3FN,
                                     .n = N,
                                     .k = K,
                                     .scale = desc.b_scale,
                                     .data = b,
                                     .scales = b_scale,
                                     .data_bytes = sizeof b,
                                     .scale_bytes = sizeof b_scale,
                                     .plan = gemm};
  ironcl_weights weights = NULL; /* packed for the device, once */
  CALL(weights_prepare, device, &layer, &weights);

  ironcl_queue queue = NULL;
  CALL(queue_create, device, 0, &queue);
  const ironcl_span a_span = {make_buffer(api, device, sizeof a), 0, sizeof a};
  const ironcl_span a_scale_span = {make_buffer(api, device, sizeof a_scale), 0, sizeof a_scale};
  const ironcl_span d_span = {make_buffer(api, device, sizeof d), 0, sizeof d};
  CALL(write, queue, a_span, a, IRONCL_HOST_COPIED_BEFORE_RETURN, NULL);
  CALL(write, queue, a_scale_span, a_scale, IRONCL_HOST_COPIED_BEFORE_RETURN, NULL);
  const ironcl_gemm_args args = {.struct_size = sizeof args,
                                 .kind = IRONCL_OP_GEMM,
                                 .m = M,
                                 .weights = weights,
                                 .a = a_span,
                                 .a_scale = a_scale_span,
                                 .d = d_span};
  CALL(op_enqueue, gemm, queue, &args, NULL);
  ironcl_event done = NULL;
  CALL(read, queue, d_span, d, &done);
  CALL(event_wait, done, UINT64_MAX);

  const double worst = error_over_bound(info.accumulation_length);
  printf("%s of %s: %dx%d:%dx%d by %s, largest error %.3f of the bound\n", info.variant, api->name, M, K, K, N,
         info.tuning, worst);
  api->event_destroy(done);
  api->buffer_destroy(a_span.buffer);
  api->buffer_destroy(a_scale_span.buffer);
  api->buffer_destroy(d_span.buffer);
  api->queue_destroy(queue);
  api->weights_destroy(weights);
  api->op_destroy(gemm);
  if (!(worst <= 1)) exit(1);
}

int main(int count, char** arguments) {
  if (count != 2) {
    fprintf(stderr, "usage: %s PATH/libironcl_NAME.so\n", arguments[0]);
    return 2;
  }
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  ironcl_plugin_query_fn query = NULL;
  *(void**)&query = dlsym(library, IRONCL_PLUGIN_QUERY_SYMBOL);
  const ironcl_plugin* api = query ? query(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR) : NULL;
  /* What is called below is of 2.0: a plugin whose table ends there will do. */
  const size_t needed = offsetof(ironcl_plugin, event_destroy) + sizeof(void (*)(ironcl_event));
  if (!api || api->abi_major != IRONCL_ABI_MAJOR || api->struct_size < needed) {
    fprintf(stderr, "%s: not a plugin with ABI %u.%u\n", arguments[1], IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
    return 1;
  }
  if (!api->op_create || !api->weights_prepare || !api->op_enqueue) { /* a NULL slot: it has no such function */
    fprintf(stderr, "%s: %s multiplies nothing\n", arguments[1], api->name);
    return 1;
  }

  if (api->load) CALL(load, NULL, NULL, 0);
  ironcl_device device = NULL;
  uint32_t devices = 0;
  CALL(enumerate, &device, 1, &devices);
  if (devices == 0) {
    fprintf(stderr, "%s: no device\n", api->name);
    return 4;
  }
  ironcl_device_props props = {.struct_size = sizeof props};
  CALL(device_props, device, &props);
  printf("%s %s: %u devices, the first is %s (%s)\n", api->name, api->build_id, devices, props.name, props.driver);
  make_problem();
  run(api, device);
  if (api->unload) api->unload(); /* the library stays open: a driver may have left threads in it */
  return 0;
}
