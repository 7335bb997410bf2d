# SPDX-License-Identifier: Apache-2.0
# Makes a program of the example in the head comment of ironcl.hpp:
#   cmake -DHEADER=.../ironcl.hpp -DOUTPUT=... -P head_comment.cmake
file(STRINGS ${HEADER} lines REGEX "^//")
set(code "")
set(inside FALSE)
foreach(line IN LISTS lines)
  if(line MATCHES "^//   ironcl::Registry registry")
    set(inside TRUE)
  elseif(line MATCHES "^// [A-Z]")
    set(inside FALSE)
  endif()
  if(inside)
    string(REGEX REPLACE "^// ?" "" line "${line}")
    string(APPEND code "${line}\n")
  endif()
endforeach()
if(NOT code MATCHES "queue.read")
  message(FATAL_ERROR "the example in the head comment of ${HEADER} was not found")
endif()
file(WRITE ${OUTPUT} "// Made from the head comment of ironcl.hpp.
#include <cstdio>
#include <ironcl/ironcl.hpp>

int main() try {
${code}
  std::printf(\"%s: %g %g\\n\", device.uri().c_str(), d[0], d[255]);
  return d[0] == 64 && d[127] == 64 && d[128] == 128 && d[255] == 128 ? 0 : 1;
} catch (const ironcl::Error& error) {
  std::printf(\"%s\\n\", error.what());
  return error.status() == IRONCL_UNAVAILABLE ? 4 : 1;
}
")
