# SPDX-License-Identifier: Apache-2.0
# cmake -DNM=... -DREADELF=... -DFILE=lib.so [-DEXPORTS=name] [-DNEEDED_ALLOWED=regex] [-DNAMESPACES_FORBIDDEN=regex] -P this
# EXPORTS: the one symbol the file may show. NEEDED_ALLOWED: what it may be linked with. NAMESPACES_FORBIDDEN: no symbol
# of it, hidden or undefined, may match. Prints what is wrong and fails.
if(EXPORTS)
  execute_process(COMMAND ${NM} -D --defined-only --format=posix ${FILE} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE " [^\n]*" "" symbols "${symbols}")
  string(STRIP "${symbols}" symbols)
  if(NOT symbols STREQUAL EXPORTS)
    message(FATAL_ERROR "${FILE} must export exactly ${EXPORTS}, but exports:\n${symbols}")
  endif()
endif()
if(NEEDED_ALLOWED)
  execute_process(COMMAND ${READELF} -d ${FILE} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*\\[[^\n]*\\]" lines "${dynamic}")
  if(NOT lines)
    message(FATAL_ERROR "${FILE}: no NEEDED entry was read, not even the C library")
  endif()
  foreach(line ${lines})
    string(REGEX REPLACE ".*\\[(.*)\\].*" "\\1" library "${line}")
    if(NOT library MATCHES "^(libstdc\\+\\+|libc\\+\\+|libm|libgcc_s|libc|libpthread|libdl|ld-linux[^.]*|libasan|libubsan|libtsan)\\.so" AND
       NOT library MATCHES "^(${NEEDED_ALLOWED})")
      message(FATAL_ERROR "${FILE} is linked with ${library}, which it must not need")
    endif()
  endforeach()
endif()
if(NAMESPACES_FORBIDDEN)
  execute_process(COMMAND ${NM} -C ${FILE} OUTPUT_VARIABLE symbols ERROR_VARIABLE ignored)
  # From the match on: with the beginning of its line the search would take seconds.
  string(REGEX MATCH "(${NAMESPACES_FORBIDDEN})[^\n]*" found "${symbols}")
  if(found)
    message(FATAL_ERROR "${FILE} must hold nothing of ${NAMESPACES_FORBIDDEN}, but has:\n${found}")
  endif()
endif()
