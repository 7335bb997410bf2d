# SPDX-License-Identifier: Apache-2.0
# ironcl_add_suites(TARGET LABELS... [FILTER PATTERNS] [SUFFIX TEXT] [ENVIRONMENT LIST] [TIMEOUT SECONDS] [AS_ONE NAME]):
# one test of ctest per suite of a GoogleTest binary, found when ctest starts, named after the suite. One process then
# serves all cases of a suite: loading an OpenCL driver takes longer than most cases, and its first program half a second
# more. AS_ONE: one process serves all suites, where most have a case each. With IRONCL_TEST_EACH_CASE every case is a test
# of its own, as the planted faults ask for them by name.
include(GoogleTest)

function(ironcl_add_suites target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILTER;SUFFIX;TIMEOUT;AS_ONE" "LABELS;ENVIRONMENT")
  set(properties LABELS "${arg_LABELS}")
  if(arg_ENVIRONMENT)
    list(APPEND properties ENVIRONMENT "${arg_ENVIRONMENT}")
  endif()
  if(arg_TIMEOUT)
    list(APPEND properties TIMEOUT ${arg_TIMEOUT})
  endif()
  if(IRONCL_TEST_EACH_CASE)
    gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST TEST_FILTER "${arg_FILTER}"
                         TEST_SUFFIX "${arg_SUFFIX}" PROPERTIES ${properties})
    return()
  endif()
  if(arg_AS_ONE)
    add_test(NAME ${arg_AS_ONE} COMMAND ${target} "--gtest_filter=${arg_FILTER}")
    set_tests_properties(${arg_AS_ONE} PROPERTIES ${properties})
    return()
  endif()
  string(MD5 id "${arg_FILTER}${arg_SUFFIX}")
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}-${id}-suites.cmake)
  file(GENERATE OUTPUT ${script} CONTENT "\
set(program \"$<TARGET_FILE:${target}>\")
set(filter \"${arg_FILTER}\")
set(suffix \"${arg_SUFFIX}\")
set(properties \"${properties}\")
include(\"${PROJECT_SOURCE_DIR}/tests/list_suites.cmake\")
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()
