/* SPDX-License-Identifier: Apache-2.0
 *
 * ironcl.h - the C API of a host: find plugins, list their devices, choose one for a problem.
 *
 * What an application links (libironcl). Everything after the choice goes straight through the plugin's own table,
 * `api` of ironcl_device_info, with `handle` as its device: no layer of this library lies between. Next door:
 * plugin.h (that table and every struct of a problem), ironcl.hpp (the same in C++), docs/host-api.md,
 * docs/discovery.md (where plugins are looked for), docs/environment.md (every IRONCL_* variable).
 *
 * Rules
 *  1. As in plugin.h: struct_size first, set by whoever allocates the struct; a status plus an optional error that
 * the caller allocates; a function that fails leaves its out parameters untouched; nothing is thrown.
 *  2. Nothing is allocated on one side and freed on the other. Pointers inside a filled struct (names, paths, props,
 *     api) are borrowed from the registry and stay valid until ironcl_registry_shutdown; `path`, `reason` and the
 * names in report entries until ironcl_registry_destroy.
 *  3. A registry may be used from any thread. Callbacks (log, visit) must not call back into the same registry.
 *  4. The library prints nothing, unless IRONCL_VERBOSE is set and the application gave no log callback: then it
 *     writes those lines to stderr.
 */
#ifndef IRONCL_IRONCL_H_
#define IRONCL_IRONCL_H_

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define IRONCL_API
#else
#define IRONCL_API __attribute__((visibility("default")))
#endif

/*===--- Names ------------------------------------------------------------------------------------===*/

/* Version and commit of libironcl, such as "0.1.0+3f2a90c1d4e5". A constant. */
IRONCL_API const char* ironcl_build_id(void);

/* "OK", "INVALID_ARGUMENT", ...; "status 99" is "UNKNOWN". A constant. */
IRONCL_API const char* ironcl_status_name(ironcl_status status);

/* "none", "dtype", "scale_layout", ...: of IRONCL_REASON_* of either header. A constant. */
IRONCL_API const char* ironcl_reason_name(uint32_t reason);

/* "cpu", "gpu", "accelerator", "model": of IRONCL_DEVICE_*. A constant. */
IRONCL_API const char* ironcl_device_type_name(uint32_t type);

/*===--- A registry: the plugins that were found, and why the others were not taken ----------------===*/

typedef struct ironcl_registry_t* ironcl_registry;

enum {
  IRONCL_REGISTRY_IGNORE_ENVIRONMENT = 1u << 0, /* no IRONCL_* variable is read */
  /* dlclose plugins at shutdown that declare IRONCL_PLUGIN_UNLOADABLE. Without it a library stays mapped. */
  IRONCL_REGISTRY_UNLOAD = 1u << 1
};

/* An option handed to the load() of the plugin called `plugin`. A plugin that does not know it is refused. */
typedef struct ironcl_plugin_option {
  const char* plugin;
  const char* key;
  const char* value;
} ironcl_plugin_option;

/* Every text is copied. A zeroed struct with struct_size set is a good default, and so is NULL. */
typedef struct ironcl_registry_options {
  uint32_t struct_size;
  uint32_t flags; /* IRONCL_REGISTRY_* */
  /* One line without its newline, any thread, until ironcl_registry_destroy returns. NULL: see rule 4. */
  void (*log)(void* context, const char* line);
  void* log_context;
  /* What to log, as IRONCL_VERBOSE says it. NULL: what that variable says; where it is not set, errors and warnings
   * with a callback, and nothing without. */
  const char* verbose;
  const char* plugin_files; /* ':'-separated, looked at before IRONCL_PLUGIN_FILES; NULL: none */
  const char* plugin_dirs;  /* ':'-separated, looked at before IRONCL_PLUGIN_DIRS; NULL: none */
  const char* disable;      /* ','-separated plugin names, added to IRONCL_DISABLE; NULL: none */
  const ironcl_plugin_option* plugin_options;
  uint32_t plugin_option_count;
  uint32_t reserved;
} ironcl_registry_options;

/* Makes an empty registry: nothing is searched or opened yet. Several may exist; a plugin that two of them take is
 * loaded once, and unloaded when the last of them shuts down.
 * Errors: INVALID_ARGUMENT (a verbose text that does not parse), UNIMPLEMENTED (a flag or field that this library
 * does not know), OUT_OF_HOST_MEMORY. Ownership: the caller destroys *out_registry. */
IRONCL_API ironcl_status ironcl_registry_create(const ironcl_registry_options* options, ironcl_registry* out_registry,
                                                ironcl_error* error);

/* Loads one plugin by its path, which may be relative to the working directory. Its name must not be taken yet.
 * Errors: what refused it, with the step and the reason, which the report holds too: UNAVAILABLE (no such file),
 * INCOMPATIBLE (no plugin, another ABI, another sanitizer), INVALID_ARGUMENT (a broken table, a name that is taken),
 * else the plugin's own status. A plugin that finds no device is taken, with zero devices. */
IRONCL_API ironcl_status ironcl_registry_load_file(ironcl_registry registry, const char* path, ironcl_error* error);

/* Looks in the usual places, in order: options.plugin_files, IRONCL_PLUGIN_FILES, options.plugin_dirs,
 * IRONCL_PLUGIN_DIRS, the folder ironcl-plugins beside libironcl. Never in the working directory. The first plugin of
 * a name wins. A file that cannot be taken is reported and is no error: finding nothing is OK too. */
IRONCL_API ironcl_status ironcl_registry_discover(ironcl_registry registry, ironcl_error* error);

/* Unloads every plugin, last first: every device, and every object made with one, must be gone before. The report
 * stays readable. A second call does nothing. Objects that a plugin says are still alive are named in the report. */
IRONCL_API ironcl_status ironcl_registry_shutdown(ironcl_registry registry, ironcl_error* error);

/* Shuts the registry down, unless that is done, and frees it. NULL is fine. */
IRONCL_API void ironcl_registry_destroy(ironcl_registry registry);

/*===--- Load report ------------------------------------------------------------------------------===*/

/* The last step that a file reached. REGISTER with status OK: it was taken. */
enum {
  IRONCL_STEP_FOUND = 1,     /* the file or folder is there */
  IRONCL_STEP_PREFLIGHT = 2, /* it is a library with the plugin's symbol, read without running it */
  IRONCL_STEP_OPEN = 3,      /* dlopen */
  IRONCL_STEP_QUERY = 4,     /* its query function gives a table */
  IRONCL_STEP_VERSION = 5,   /* ABI version, name and required functions */
  IRONCL_STEP_SANITIZER = 6, /* built with the same sanitizer */
  IRONCL_STEP_LOAD = 7,      /* load() */
  IRONCL_STEP_ENUMERATE = 8, /* enumerate() and device_props() */
  IRONCL_STEP_REGISTER = 9   /* its name is free and it is in the list */
};

/* Where a file was named. */
enum {
  IRONCL_SOURCE_LOAD_FILE = 1, /* ironcl_registry_load_file */
  IRONCL_SOURCE_FILES = 2,     /* options.plugin_files or IRONCL_PLUGIN_FILES */
  IRONCL_SOURCE_DIRS = 3,      /* options.plugin_dirs or IRONCL_PLUGIN_DIRS */
  IRONCL_SOURCE_BESIDE = 4     /* the folder ironcl-plugins beside libironcl */
};

enum {
  IRONCL_REPORT_TAKEN = 1,     /* registered */
  IRONCL_REPORT_REFUSED = 2,   /* `step` failed with `status` */
  IRONCL_REPORT_SHADOWED = 3,  /* a plugin of the same name came first */
  IRONCL_REPORT_DISABLED = 4,  /* named in IRONCL_DISABLE or options.disable */
  IRONCL_REPORT_DUPLICATE = 5, /* the same file (device and inode) was looked at before */
  IRONCL_REPORT_REMARK = 6     /* about a folder, or about shutdown */
};

typedef struct ironcl_report_entry {
  uint32_t struct_size;
  uint32_t outcome; /* IRONCL_REPORT_* */
  uint32_t step;    /* IRONCL_STEP_*: the last one tried */
  uint32_t source;  /* IRONCL_SOURCE_* */
  ironcl_status status;
  uint32_t reserved;
  const char* path;     /* as it was found */
  const char* plugin;   /* name where it is known, else "" */
  const char* build_id; /* likewise */
  const char* reason;   /* a sentence: what is wrong, and what to do; "" where taken with devices */
} ironcl_report_entry;

/* Entries in the order in which files were looked at. */
IRONCL_API uint32_t ironcl_registry_report_count(ironcl_registry registry);
/* Errors: INVALID_ARGUMENT (index out of range). */
IRONCL_API ironcl_status ironcl_registry_report_entry(ironcl_registry registry, uint32_t index,
                                                      ironcl_report_entry* out_entry, ironcl_error* error);
/* "found", "preflight", ... of IRONCL_STEP_*. A constant. */
IRONCL_API const char* ironcl_step_name(uint32_t step);
/* "taken", "refused", ... of IRONCL_REPORT_*. A constant. */
IRONCL_API const char* ironcl_outcome_name(uint32_t outcome);

/*===--- Plugins and devices ----------------------------------------------------------------------===*/

typedef struct ironcl_plugin_info {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t flags;           /* IRONCL_PLUGIN_* */
  const ironcl_plugin* api; /* the host's complete copy: no slot is NULL, missing ones answer UNIMPLEMENTED */
  const char* name;
  const char* build_id;
  const char* path;
  uint32_t device_count;
  uint32_t first_device;          /* its devices are first_device .. first_device + device_count - 1 */
  uint32_t source;                /* IRONCL_SOURCE_* */
  ironcl_status enumerate_status; /* OK, or UNAVAILABLE */
  const char* enumerate_reason;   /* why there is no device; "" else */
} ironcl_plugin_info;

/* In the order in which they were taken. */
IRONCL_API uint32_t ironcl_registry_plugin_count(ironcl_registry registry);
IRONCL_API ironcl_status ironcl_registry_plugin_info(ironcl_registry registry, uint32_t index,
                                                     ironcl_plugin_info* out_info, ironcl_error* error);

typedef struct ironcl_device_info {
  uint32_t struct_size;
  uint32_t index;           /* in the registry */
  uint32_t plugin_index;    /* of its plugin in the registry */
  uint32_t plugin_device;   /* in its plugin: the number in the URI */
  const ironcl_plugin* api; /* call this table ... */
  ironcl_device handle;     /* ... with this device */
  const char* uri;          /* "opencl:0": names this device in this process and in the next one on this machine */
  const char* plugin;       /* "opencl" */
  const ironcl_device_props* props; /* read when the plugin was loaded */
} ironcl_device_info;

/* Grouped by plugin, in the plugin's order. */
IRONCL_API uint32_t ironcl_registry_device_count(ironcl_registry registry);
IRONCL_API ironcl_status ironcl_registry_device_info(ironcl_registry registry, uint32_t index,
                                                     ironcl_device_info* out_info, ironcl_error* error);

/* Finds a device by URI: PLUGIN, PLUGIN:INDEX, PLUGIN:TYPE, PLUGIN:TYPE:INDEX or auto, where TYPE is cpu, gpu,
 * accelerator or model. "opencl" and "opencl:0" are its first device, "opencl:gpu:1" its second GPU. "auto" is what
 * ironcl_registry_select chooses without a problem.
 * Errors: INVALID_ARGUMENT (not of that form; the message has the form), UNAVAILABLE (no such device; the message
 * lists those that exist). */
IRONCL_API ironcl_status ironcl_registry_find_device(ironcl_registry registry, const char* uri,
                                                     ironcl_device_info* out_info, ironcl_error* error);

/*===--- Selection --------------------------------------------------------------------------------===*/

/* Reasons of the host, beside IRONCL_REASON_* of plugin.h. */
enum {
  IRONCL_REASON_MODEL_DEVICE = 0x100, /* a model is never chosen automatically: name it */
  IRONCL_REASON_NOT_NAMED = 0x101,    /* the preference names other devices */
  IRONCL_REASON_CALL_FAILED = 0x102   /* supports() itself failed: see status */
};

enum {
  IRONCL_VERDICT_CHOSEN = 1, /* the device to use */
  IRONCL_VERDICT_USABLE = 2, /* usable, but another came first */
  IRONCL_VERDICT_REFUSED = 3 /* see reason and text */
};

/* What selection found about one device. */
typedef struct ironcl_candidate {
  uint32_t struct_size;
  uint32_t verdict;     /* IRONCL_VERDICT_* */
  uint32_t rank;        /* place in the order of preference, from 0; UINT32_MAX where refused */
  uint32_t reason;      /* IRONCL_REASON_*; 0 where usable */
  ironcl_status status; /* of supports(); UNSUPPORTED where refused for a reason */
  uint32_t reserved;
  const ironcl_device_info* device;
  const ironcl_support* support; /* what the device said; NULL where it was not asked */
  const char* text;              /* the reason in a sentence; "" where usable */
} ironcl_candidate;

enum { IRONCL_SELECT_IGNORE_ENVIRONMENT = 1u << 0 /* IRONCL_DEVICE is not read */ };

typedef struct ironcl_select_options {
  uint32_t struct_size;
  uint32_t flags;               /* IRONCL_SELECT_* */
  const ironcl_gemm_desc* desc; /* the problem; NULL: any */
  /* ','-separated URIs, the best first, such as "opencl:gpu,opencl:cpu" or "opencl:0,auto". NULL, "" or "auto": what
   * IRONCL_DEVICE says (same form), and without it the rule below. */
  const char* preference;
  /* Called once for each device of the registry, in the registry's order, before the function returns. May be NULL.
   */
  void (*visit)(void* context, const ironcl_candidate* candidate);
  void* visit_context;
} ironcl_select_options;

/* Chooses a device that supports the problem. With URIs: the first of them that does; a URI that matches several
 * devices tries them in order. By rule ("auto"): GPU before accelerator before CPU, then more memory, then plugin
 * name, then index; a model never. A device whose kernel is of a weaker accuracy class than desc.weakest_accuracy is
 * refused. Two runs choose the same. Errors: INVALID_ARGUMENT (a URI or desc is malformed), UNAVAILABLE (there is no
 * device, or none that is named), UNSUPPORTED (none runs the problem: the message joins the reasons). */
IRONCL_API ironcl_status ironcl_registry_select(ironcl_registry registry, const ironcl_select_options* options,
                                                ironcl_device_info* out_info, ironcl_error* error);

#ifdef __cplusplus
}
#endif
#endif /* IRONCL_IRONCL_H_ */
