# SPDX-License-Identifier: Apache-2.0
# Installs the build into an empty folder, builds ./consumer against it and runs what that built:
#   cmake -DBUILD_DIR=... -DWORK_DIR=... -DGENERATOR=... -DLIBDIR=... -DFLAGS=... -DCHECKPOINT=... -P install_and_consume.cmake
function(run)
  list(JOIN ARGV " " command)
  message(STATUS "${command}")
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR}/elsewhere)
set(prefix ${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})
# Moved after the installation: nothing may hold the prefix it was configured for.
file(RENAME ${prefix} ${WORK_DIR}/moved)
set(prefix ${WORK_DIR}/moved)

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK_DIR}/consumer -G ${GENERATOR}
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release "-DCMAKE_C_FLAGS=${FLAGS}" "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer)

# From another folder and with no variable of ours: the plugins must be found beside the installed library.
set(clean ${CMAKE_COMMAND} -E chdir ${WORK_DIR}/elsewhere ${CMAKE_COMMAND} -E env --unset=IRONCL_PLUGIN_FILES
          --unset=IRONCL_PLUGIN_DIRS --unset=IRONCL_DEVICE --unset=IRONCL_DISABLE)
run(${clean} ${WORK_DIR}/consumer/consumer_cpp ironwood)
run(${clean} ${WORK_DIR}/consumer/consumer_c)
run(${clean} ${WORK_DIR}/consumer/consumer_checkpoint ${CHECKPOINT} ironwood 2)
# A plugin of somebody else goes into the same folder.
file(COPY ${WORK_DIR}/consumer/libironcl_mine.so DESTINATION ${prefix}/${LIBDIR}/ironcl-plugins)
run(${clean} ${WORK_DIR}/consumer/consumer_cpp ironwood mine)
# What else a package has: licence, documentation, man pages, completions.
foreach(file ${DOCDIR}/LICENSE ${DOCDIR}/README.md ${DOCDIR}/docs/README.md ${DOCDIR}/docs/command.md
        ${DOCDIR}/host/examples/one_plugin.c ${DOCDIR}/host/examples/stream_layer.cpp
        ${DOCDIR}/host/examples/run_checkpoint.cpp)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
# pkg-config gives what a compiler needs, wherever the tree has gone.
find_program(PKG_CONFIG NAMES pkg-config pkgconf)
if(NOT PKG_CONFIG)
  message(FATAL_ERROR "there is no pkg-config; ./dev setup installs it")
endif()
set(ask ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${prefix}/${LIBDIR}/pkgconfig ${PKG_CONFIG})
execute_process(COMMAND ${ask} --cflags --libs ironcl OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${ask} --modversion ironcl OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${ask} --variable=plugindir ironcl OUTPUT_VARIABLE plugins OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT version STREQUAL VERSION OR NOT IS_DIRECTORY "${plugins}")
  message(FATAL_ERROR "ironcl.pc has version '${version}', expected '${VERSION}', and plugins in '${plugins}'")
endif()
separate_arguments(flags UNIX_COMMAND "${flags}")
separate_arguments(more UNIX_COMMAND "${FLAGS}")
run(${CC} ${more} ${CMAKE_CURRENT_LIST_DIR}/consumer/consumer.c -o ${WORK_DIR}/by_pkg_config ${flags}
    -Wl,-rpath,${prefix}/${LIBDIR})
run(${clean} ${WORK_DIR}/by_pkg_config)
if(EXISTS ${prefix}/bin/ironcl)
  if(NOT EXISTS ${prefix}/share/bash-completion/completions/ironcl)
    message(FATAL_ERROR "the completion is not installed")
  endif()
  run(${clean} ${prefix}/bin/ironcl plugins)
endif()
