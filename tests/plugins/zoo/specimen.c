/* SPDX-License-Identifier: Apache-2.0
 *
 * The bad plugins of the zoo, all from this file: a macro ZOO_... given by CMakeLists.txt turns one thing wrong (or
 * only unusual) in a plugin that is otherwise in order. README.md lists them. Without a macro: the good one.
 */
#define _POSIX_C_SOURCE 200112L /* setenv */
#include <ironcl/plugin.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(ZOO_MISSING_SYMBOL)
extern int ironcl_zoo_nobody_defines_this(void);
int (*const ironcl_zoo_reference)(void) = ironcl_zoo_nobody_defines_this;
#endif
#if defined(ZOO_MISSING_LIBRARY)
extern int ironcl_zoo_absent(void);
int (*const ironcl_zoo_reference)(void) = ironcl_zoo_absent;
#endif

/* Runs when the library is opened: a host that looks before it opens never sets it. */
__attribute__((constructor)) static void opened(void) { setenv("IRONCL_ZOO_OPENED", ZOO_NAME, 1); }

#if !defined(ZOO_NO_SYMBOL)

struct ironcl_device_t {
  int index;
};
static struct ironcl_device_t devices[2] = {{0}, {1}};

static ironcl_status fail(ironcl_error* error, ironcl_status status, const char* text) {
  if (error != NULL && error->struct_size >= sizeof *error) {
    error->status = status;
    snprintf(error->message, sizeof error->message, "%s", text);
  }
  return status;
}

static ironcl_status load(const ironcl_host* host, const ironcl_key_value* options, uint32_t count,
                          ironcl_error* error) {
  (void)host, (void)options, (void)count;
#if defined(ZOO_LOAD_FAILS)
  return fail(error, IRONCL_INTERNAL, "load: the zoo's plugin fails on purpose");
#elif defined(ZOO_LOAD_UNAVAILABLE)
  return fail(error, IRONCL_UNAVAILABLE, "load: no driver of the zoo is installed");
#else
  (void)error;
  return IRONCL_OK;
#endif
}

static void unload(void) {}

static ironcl_status enumerate(ironcl_device* out, uint32_t capacity, uint32_t* out_count, ironcl_error* error) {
  uint32_t count = 1;
#if defined(ZOO_ENUMERATE_FAILS)
  (void)out, (void)capacity, (void)out_count, (void)count;
  return fail(error, IRONCL_INTERNAL, "enumerate: the zoo's plugin fails on purpose");
#elif defined(ZOO_ENUMERATE_UNAVAILABLE)
  (void)out, (void)capacity, (void)out_count, (void)count;
  return fail(error, IRONCL_UNAVAILABLE, "enumerate: no device of the zoo is plugged in");
#else
  (void)error;
#if defined(ZOO_ZERO_DEVICES)
  count = 0;
#elif defined(ZOO_LYING_COUNT)
  static uint32_t calls = 0;
  count = 1 + calls++; /* another number in every call, and far more than it writes */
  *out_count = count + 1000;
  if (capacity > 0) out[0] = &devices[0];
  return IRONCL_OK;
#elif defined(ZOO_NULL_DEVICE)
  if (capacity > 0) out[0] = NULL;
  *out_count = count;
  return IRONCL_OK;
#endif
  for (uint32_t i = 0; i < count && i < capacity; ++i) out[i] = &devices[i];
  *out_count = count;
  return IRONCL_OK;
#endif
}

static ironcl_status device_props(ironcl_device device, ironcl_device_props* out, ironcl_error* error) {
#if defined(ZOO_PROPS_FAIL)
  (void)device, (void)out;
  return fail(error, IRONCL_DEVICE_LOST, "device_props: the zoo's device fell off the bus");
#else
  ironcl_device_props props;
  uint32_t size = out->struct_size;
  (void)error;
  memset(&props, 0, sizeof props);
  props.struct_size = size;
  props.type = IRONCL_DEVICE_MODEL;
  props.buffer_alignment = 1;
  snprintf(props.name, sizeof props.name, "zoo %s %d", ZOO_NAME, device->index);
#if defined(ZOO_UNTERMINATED_TEXT)
  memset(props.name, 'x', sizeof props.name);
  memset(props.driver, 'y', sizeof props.driver);
  memset(props.stable_id, 'z', sizeof props.stable_id);
#endif
  memcpy(out, &props, size < sizeof props ? size : sizeof props);
  return IRONCL_OK;
#endif
}

#if defined(ZOO_OTHER_SANITIZER)
static const ironcl_sanitizer sanitizer = {
    {sizeof(ironcl_sanitizer), IRONCL_CHAIN_SANITIZER, NULL}, IRONCL_SANITIZER_MEMORY, 0};
#endif
#if defined(ZOO_REQUIRED_EXTENSION)
static const ironcl_chain required = {sizeof(ironcl_chain), 4711 | IRONCL_CHAIN_REQUIRED, NULL};
#endif
#if defined(ZOO_ENDLESS_CHAIN)
static const ironcl_chain endless = {sizeof(ironcl_chain), 4711, &endless};
#endif

/* A table of a later minor version: one slot more than this header knows. */
typedef struct later_table {
  ironcl_plugin known;
  void (*appended)(void);
} later_table;

static const later_table table = {
    .known =
        {
#if defined(ZOO_SHORT_TABLE)
            .struct_size = offsetof(ironcl_plugin, enumerate),
#elif defined(ZOO_TINY_TABLE)
            .struct_size = 12,
#elif defined(ZOO_FUTURE_MINOR)
            .struct_size = sizeof(later_table),
#else
            .struct_size = sizeof(ironcl_plugin),
#endif
#if defined(ZOO_WRONG_MAJOR)
            .abi_major = IRONCL_ABI_MAJOR + 1,
#else
            .abi_major = IRONCL_ABI_MAJOR,
#endif
#if defined(ZOO_FUTURE_MINOR)
            .abi_minor = IRONCL_ABI_MINOR + 7,
#else
            .abi_minor = IRONCL_ABI_MINOR,
#endif
#if defined(ZOO_BAD_NAME)
            .name = "Not a Name!",
#elif defined(ZOO_NULL_NAME)
            .name = NULL,
#elif defined(ZOO_TWIN)
            .name = "twin",
#else
            .name = ZOO_NAME,
#endif
            .build_id = "zoo",
#if defined(ZOO_OTHER_SANITIZER)
            .extensions = &sanitizer.chain,
#elif defined(ZOO_REQUIRED_EXTENSION)
            .extensions = &required,
#elif defined(ZOO_ENDLESS_CHAIN)
            .extensions = &endless,
#endif
#if !defined(ZOO_NULL_SLOTS)
            .load = load,
            .unload = unload,
#endif
#if !defined(ZOO_NO_ENUMERATE)
            .enumerate = enumerate,
#endif
            .device_props = device_props,
        },
    .appended = unload,
};

IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor);
const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor) {
  (void)host_major, (void)host_minor;
#if defined(ZOO_NULL_QUERY)
  return NULL;
#else
  return &table.known;
#endif
}

#endif
