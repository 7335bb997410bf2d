/* SPDX-License-Identifier: Apache-2.0
 *
 * skeleton: a plugin to clone, written against ironcl/plugin.h and nothing else. It has one device whose memory is
 * the host's, queues, buffers and events that work, and no multiplication yet: supports() says so and op_create
 * refuses. Commands run before their call returns; a real device would queue them. README.md lists what to rename.
 */
#include <ironcl/plugin.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*===--- Objects: define the structs that plugin.h declares ------------------------------------===*/

struct ironcl_device_t {
  int index;
};
struct ironcl_queue_t {
  ironcl_device device;
};
struct ironcl_buffer_t {
  uint64_t size;
  unsigned char bytes[];
};
struct ironcl_event_t {
  ironcl_status status; /* of the command; here it has always ended */
};

static struct ironcl_device_t the_device = {0};
static int loaded = 0;
static ironcl_host host; /* a copy; host.log is NULL while not loaded */

static const char kNoGemm[] = "skeleton multiplies nothing yet; write supports, op_create and op_enqueue";

/*===--- Errors and structs of any length --------------------------------------------------------===*/

/* Fills *error (may be NULL) up to its struct_size and returns `status`. */
static ironcl_status fail(ironcl_error* error, ironcl_status status, const char* format, ...) {
  ironcl_error full = {0};
  size_t size;
  va_list args;
  if (error == NULL || error->struct_size < sizeof(uint32_t)) return status;
  size = error->struct_size < sizeof full ? error->struct_size : sizeof full;
  full.struct_size = error->struct_size;
  full.status = status;
  if (size > offsetof(ironcl_error, message)) {
    va_start(args, format);
    vsnprintf(full.message, size - offsetof(ironcl_error, message), format, args);
    va_end(args);
  }
  memcpy(error, &full, size);
  return status;
}

static ironcl_status invalid(ironcl_error* error, const char* text) {
  return fail(error, IRONCL_INVALID_ARGUMENT, "%s", text);
}

/* Copies a struct that the caller allocated: a missing tail reads as zero, an unknown tail must be zero. */
static ironcl_status read_struct(void* known, size_t known_size, const void* in, const char* name,
                                 ironcl_error* error) {
  uint32_t size;
  size_t i;
  if (in == NULL) return fail(error, IRONCL_INVALID_ARGUMENT, "%s is NULL", name);
  memcpy(&size, in, sizeof size);
  if (size < sizeof size || size > 65536) {
    return fail(error, IRONCL_INVALID_ARGUMENT, "%s.struct_size is %u, expected sizeof of the struct", name, size);
  }
  for (i = known_size; i < size; ++i) {
    if (((const unsigned char*)in)[i] != 0) {
      return fail(error, IRONCL_UNIMPLEMENTED, "%s: the byte at offset %zu is newer than this plugin; leave it 0",
                  name, i);
    }
  }
  memset(known, 0, known_size);
  memcpy(known, in, size < known_size ? size : known_size);
  return IRONCL_OK;
}

/* Writes a struct that the caller allocated, up to its struct_size, which stays as it is. */
static ironcl_status write_struct(void* out, const void* full, size_t full_size, const char* name,
                                  ironcl_error* error) {
  uint32_t size;
  if (out == NULL) return fail(error, IRONCL_INVALID_ARGUMENT, "%s is NULL", name);
  memcpy(&size, out, sizeof size);
  if (size < sizeof size || size > 65536) {
    return fail(error, IRONCL_INVALID_ARGUMENT, "%s.struct_size is %u, expected sizeof of the struct", name, size);
  }
  if (size > full_size) size = (uint32_t)full_size;
  memcpy((char*)out + sizeof size, (const char*)full + sizeof size, size - sizeof size);
  return IRONCL_OK;
}

/* Walks a chain of which this plugin knows no part. */
static ironcl_status refuse_required(const ironcl_chain* part, ironcl_error* error) {
  for (; part != NULL; part = part->next) {
    if (part->type & IRONCL_CHAIN_REQUIRED) {
      return fail(error, IRONCL_UNIMPLEMENTED, "the extension of type %u is not known to this plugin",
                  part->type & ~IRONCL_CHAIN_REQUIRED);
    }
  }
  return IRONCL_OK;
}

/*===--- Loading and devices -----------------------------------------------------------------------===*/

static ironcl_status skeleton_load(const ironcl_host* given, const ironcl_key_value* options, uint32_t option_count,
                                   ironcl_error* error) {
  ironcl_host known = {0};
  ironcl_status status;
  if (loaded) return invalid(error, "load: skeleton is loaded already; call unload() first");
  if (option_count != 0) {
    return fail(error, IRONCL_INVALID_ARGUMENT, "load: unknown option \"%s\"; skeleton has none",
                options != NULL && options[0].key != NULL ? options[0].key : "");
  }
  if (given != NULL) {
    status = read_struct(&known, sizeof known, given, "host", error);
    if (status != IRONCL_OK) return status;
  }
  host = known;
  loaded = 1;
  if (host.log != NULL) host.log(host.context, IRONCL_LOG_TRACE, "skeleton: loaded");
  return IRONCL_OK;
}

static void skeleton_unload(void) {
  memset(&host, 0, sizeof host);
  loaded = 0;
}

static ironcl_status skeleton_enumerate(ironcl_device* out_devices, uint32_t capacity, uint32_t* out_count,
                                        ironcl_error* error) {
  if (!loaded) return invalid(error, "enumerate: skeleton is not loaded; call load() first");
  if (out_count == NULL || (capacity != 0 && out_devices == NULL)) {
    return invalid(error, "enumerate: out_count, or out_devices with a capacity, is NULL");
  }
  if (capacity != 0) out_devices[0] = &the_device;
  *out_count = 1;
  return IRONCL_OK;
}

static ironcl_status skeleton_device_props(ironcl_device device, ironcl_device_props* out_props,
                                           ironcl_error* error) {
  ironcl_device_props props = {0};
  if (device == NULL) return invalid(error, "device is NULL");
  props.type = IRONCL_DEVICE_MODEL; /* never chosen automatically: right for a device that is not there */
  props.memory_bytes = (uint64_t)1 << 30;
  props.max_buffer_bytes = (uint64_t)1 << 28;
  props.buffer_alignment = 1;
  snprintf(props.name, sizeof props.name, "skeleton");
  snprintf(props.driver, sizeof props.driver, "host memory");
  return write_struct(out_props, &props, sizeof props, "out_props", error);
}

/*===--- The problem: what this device would run -----------------------------------------------------===*/

/* Reads a description of an operation; the only kind here is the GEMM. */
static ironcl_status read_desc(ironcl_gemm_desc* known, const void* desc, ironcl_error* error) {
  const ironcl_status status = read_struct(known, sizeof *known, desc, "desc", error);
  if (status != IRONCL_OK) return status;
  if (known->kind == 0) return invalid(error, "desc.kind is 0, expected an IRONCL_OP_*");
  if (known->kind == IRONCL_OP_GEMM) return IRONCL_OK;
  return fail(error, IRONCL_UNIMPLEMENTED, "desc.kind is %u, of which skeleton knows %d (GEMM)", known->kind,
              IRONCL_OP_GEMM);
}

static ironcl_status skeleton_supports(ironcl_device device, const void* desc, ironcl_support* out_support,
                                       ironcl_error* error) {
  ironcl_gemm_desc known;
  ironcl_support support = {0};
  ironcl_status status;
  if (device == NULL) return invalid(error, "device is NULL");
  status = read_desc(&known, desc, error);
  if (status != IRONCL_OK) return status;
  support.reason = IRONCL_REASON_DEVICE_FEATURE;
  snprintf(support.text, sizeof support.text, "%s", kNoGemm);
  return write_struct(out_support, &support, sizeof support, "out_support", error);
}

static ironcl_status skeleton_op_create(ironcl_device device, const void* desc, ironcl_op* out_op,
                                        ironcl_error* error) {
  ironcl_gemm_desc known;
  ironcl_status status;
  if (device == NULL || out_op == NULL) return invalid(error, "device or out_op is NULL");
  status = read_desc(&known, desc, error);
  if (status != IRONCL_OK) return status;
  return fail(error, IRONCL_UNSUPPORTED, "%s", kNoGemm); /* the same answer and text as supports() */
}

/*===--- Queues, buffers, copies, events -------------------------------------------------------------===*/

static ironcl_status skeleton_queue_create(ironcl_device device, uint32_t flags, ironcl_queue* out_queue,
                                           ironcl_error* error) {
  ironcl_queue queue;
  if (device == NULL || out_queue == NULL) return invalid(error, "device or out_queue is NULL");
  if (flags != 0) return fail(error, IRONCL_UNIMPLEMENTED, "flags are %#x, of which skeleton knows none", flags);
  queue = calloc(1, sizeof *queue);
  if (queue == NULL) return fail(error, IRONCL_OUT_OF_HOST_MEMORY, "no memory for a queue");
  queue->device = device;
  *out_queue = queue;
  return IRONCL_OK;
}

static ironcl_status skeleton_queue_finish(ironcl_queue queue, ironcl_error* error) {
  return queue == NULL ? invalid(error, "queue is NULL") : IRONCL_OK;
}

static ironcl_status skeleton_queue_wait(ironcl_queue queue, ironcl_event event, ironcl_error* error) {
  return queue == NULL || event == NULL ? invalid(error, "queue or event is NULL") : IRONCL_OK;
}

static void skeleton_queue_destroy(ironcl_queue queue) { free(queue); }

static ironcl_status skeleton_buffer_create(ironcl_device device, const ironcl_buffer_desc* desc,
                                            ironcl_buffer* out_buffer, ironcl_error* error) {
  ironcl_buffer_desc known;
  ironcl_buffer buffer;
  ironcl_status status;
  if (device == NULL || out_buffer == NULL) return invalid(error, "device or out_buffer is NULL");
  status = read_struct(&known, sizeof known, desc, "desc", error);
  if (status == IRONCL_OK) status = refuse_required(known.next, error);
  if (status != IRONCL_OK) return status;
  if (known.flags != 0) return fail(error, IRONCL_UNIMPLEMENTED, "desc.flags are %#x, expected 0", known.flags);
  if (known.size == 0) return invalid(error, "desc.size is 0, expected at least 1 byte");
  if (known.size > ((uint64_t)1 << 28)) {
    return fail(error, IRONCL_OUT_OF_DEVICE_MEMORY, "desc.size is beyond max_buffer_bytes");
  }
  buffer = malloc(sizeof *buffer + (size_t)known.size);
  if (buffer == NULL) return fail(error, IRONCL_OUT_OF_DEVICE_MEMORY, "no memory for a buffer");
  buffer->size = known.size;
  *out_buffer = buffer;
  return IRONCL_OK;
}

static void skeleton_buffer_destroy(ironcl_buffer buffer) { free(buffer); }

static ironcl_status check_copy(ironcl_queue queue, ironcl_span span, const void* host_bytes, ironcl_error* error) {
  if (queue == NULL || span.buffer == NULL || host_bytes == NULL) {
    return invalid(error, "queue, span.buffer or the host's pointer is NULL");
  }
  if (span.size == 0) return invalid(error, "span.size is 0, expected at least 1 byte");
  if (span.offset > span.buffer->size || span.size > span.buffer->size - span.offset) {
    return invalid(error, "the span reaches beyond its buffer");
  }
  return IRONCL_OK;
}

/* Makes the event of a command, where one is asked for, before the command runs: then nothing can fail any more. */
static ironcl_status prepare_event(ironcl_event* out_event, ironcl_event* event, ironcl_error* error) {
  *event = NULL;
  if (out_event == NULL) return IRONCL_OK;
  *event = calloc(1, sizeof **event);
  if (*event == NULL) return fail(error, IRONCL_OUT_OF_HOST_MEMORY, "no memory for an event");
  return IRONCL_OK;
}

static ironcl_status skeleton_write(ironcl_queue queue, ironcl_span dst, const void* src, uint32_t host_semantics,
                                    ironcl_event* out_event, ironcl_error* error) {
  ironcl_event event;
  ironcl_status status = check_copy(queue, dst, src, error);
  if (status != IRONCL_OK) return status;
  if (host_semantics > IRONCL_HOST_STABLE_UNTIL_EVENT) {
    return fail(error, IRONCL_UNIMPLEMENTED, "host_semantics is %u, of which skeleton knows 0 and 1", host_semantics);
  }
  status = prepare_event(out_event, &event, error);
  if (status != IRONCL_OK) return status;
  memcpy(dst.buffer->bytes + dst.offset, src, (size_t)dst.size);
  if (out_event != NULL) *out_event = event;
  return IRONCL_OK;
}

static ironcl_status skeleton_read(ironcl_queue queue, ironcl_span src, void* dst, ironcl_event* out_event,
                                   ironcl_error* error) {
  ironcl_event event;
  ironcl_status status = check_copy(queue, src, dst, error);
  if (status != IRONCL_OK) return status;
  status = prepare_event(out_event, &event, error);
  if (status != IRONCL_OK) return status;
  memcpy(dst, src.buffer->bytes + src.offset, (size_t)src.size);
  if (out_event != NULL) *out_event = event;
  return IRONCL_OK;
}

static ironcl_status skeleton_event_wait(ironcl_event event, uint64_t timeout_ns, ironcl_error* error) {
  (void)timeout_ns;
  if (event == NULL) return invalid(error, "event is NULL");
  return event->status == IRONCL_OK ? IRONCL_OK : fail(error, event->status, "the command failed");
}

static void skeleton_event_destroy(ironcl_event event) { free(event); }

/*===--- The table ---------------------------------------------------------------------------------===*/

/* What is left out (device_query, weights_*, op_info, op_enqueue, op_destroy, event_profile) is NULL: a host
 * reads that as UNIMPLEMENTED. */
static const ironcl_plugin table = {
    .struct_size = sizeof(ironcl_plugin),
    .abi_major = IRONCL_ABI_MAJOR,
    .abi_minor = IRONCL_ABI_MINOR,
    .flags = IRONCL_PLUGIN_UNLOADABLE, /* no thread, no atexit, no driver */
    .name = "skeleton",
    .build_id = "0.1.0",
    .load = skeleton_load,
    .unload = skeleton_unload,
    .enumerate = skeleton_enumerate,
    .device_props = skeleton_device_props,
    .supports = skeleton_supports,
    .queue_create = skeleton_queue_create,
    .queue_finish = skeleton_queue_finish,
    .queue_wait = skeleton_queue_wait,
    .queue_destroy = skeleton_queue_destroy,
    .buffer_create = skeleton_buffer_create,
    .buffer_destroy = skeleton_buffer_destroy,
    .write = skeleton_write,
    .read = skeleton_read,
    .op_create = skeleton_op_create,
    .event_wait = skeleton_event_wait,
    .event_destroy = skeleton_event_destroy,
};

IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor);
const ironcl_plugin* ironcl_plugin_query(uint32_t host_major, uint32_t host_minor) {
  (void)host_major;
  (void)host_minor;
  return &table;
}
