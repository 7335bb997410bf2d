# SPDX-License-Identifier: Apache-2.0
# add_ironcl_plugin(name SOURCES file... [LINKS target...] [NO_INSTALL] [DIRECTORY dir])
#
# Builds libironcl_<name>.so, a module that a host loads at run time: everything hidden but ironcl_plugin_query, no symbol
# left undefined, put where the registry looks first. The C++ runtime stays dynamic: a host in C++ has it anyway, and two
# copies in one process are the more frequent trouble. Target: ironcl_plugin_<name>.
function(add_ironcl_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "DIRECTORY" "SOURCES;LINKS")
  if(NOT name MATCHES "^[a-z0-9_]+$")
    message(FATAL_ERROR "add_ironcl_plugin: the name \"${name}\" has characters outside [a-z0-9_]")
  endif()
  set(target ironcl_plugin_${name})
  set(exports ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/exports.map)
  if(NOT arg_DIRECTORY)
    set(arg_DIRECTORY ${IRONCL_PLUGIN_OUTPUT_DIRECTORY})
  endif()
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ironcl_build ${arg_LINKS})
  set_target_properties(${target} PROPERTIES
    PREFIX "lib" OUTPUT_NAME ironcl_${name} LIBRARY_OUTPUT_DIRECTORY ${arg_DIRECTORY}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH "" LINK_DEPENDS ${exports})
  # gcc's unique symbols would keep a library mapped that has been closed.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:$<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>>)
  if(UNIX AND NOT APPLE)
    target_link_options(${target} PRIVATE -Wl,--version-script=${exports})
    if(NOT IRONCL_SANITIZE)  # a sanitizer's runtime comes with the host
      target_link_options(${target} PRIVATE -Wl,-z,defs)
    endif()
  endif()
  if(NOT arg_NO_INSTALL AND TARGET ironcl_plugins)
    add_dependencies(ironcl_plugins ${target})
  endif()
  if(IRONCL_INSTALL AND NOT arg_NO_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION ${IRONCL_PLUGIN_INSTALL_DIRECTORY})
  endif()
endfunction()
