# SPDX-License-Identifier: Apache-2.0
# grow.cmake FROM TO: the headers of the ABI as a next minor version may have them. Every struct that may grow has one
# more field, the table one more slot. Until there is a second version this is its stand-in.
set(grows "host|device_props|native_device|buffer_desc|weights_desc|weights_info|event_profile|support|op_info")
foreach(header plugin plugin_ops)
  file(READ ${FROM}/${header}.h text)
  string(REPLACE "#define IRONCL_ABI_MINOR 0u" "#define IRONCL_ABI_MINOR 1u" text "${text}")
  string(REGEX REPLACE "\n} (ironcl_(${grows}|[a-z]+_args|(gemm|quantize|route|activate|combine)_desc));"
                       "\n  uint64_t grown;\n} \\1;" text "${text}")
  string(REPLACE "\n} ironcl_plugin;" "\n  ironcl_status (*grown)(ironcl_device device, ironcl_error* error);\n} ironcl_plugin;"
                 text "${text}")
  file(WRITE ${TO}/${header}.h "${text}")
endforeach()
