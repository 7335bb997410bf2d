# SPDX-License-Identifier: Apache-2.0
# cmake -DGOOD=libironcl_good.so -DDIR=zoo -P make_files.cmake: the specimens that no compiler makes.
foreach(folder text_file empty_file directory dangling_link truncated foreign_machine)
  file(REMOVE_RECURSE ${DIR}/${folder})
  file(MAKE_DIRECTORY ${DIR}/${folder})
endforeach()
file(WRITE ${DIR}/text_file/libironcl_text_file.so "This is not a library.\n")
file(TOUCH ${DIR}/empty_file/libironcl_empty_file.so)
file(MAKE_DIRECTORY ${DIR}/directory/libironcl_directory.so)
file(CREATE_LINK nowhere.so ${DIR}/dangling_link/libironcl_dangling_link.so SYMBOLIC)

set(truncated ${DIR}/truncated/libironcl_truncated.so)
execute_process(COMMAND dd if=${GOOD} of=${truncated} bs=1000 count=3 status=none COMMAND_ERROR_IS_FATAL ANY)

# e_machine is the two bytes at offset 18: 0x1234 is nobody's.
set(foreign ${DIR}/foreign_machine/libironcl_foreign_machine.so)
file(COPY_FILE ${GOOD} ${foreign})
execute_process(COMMAND printf "\\064\\022" COMMAND dd of=${foreign} bs=1 seek=18 conv=notrunc status=none
                COMMAND_ERROR_IS_FATAL ANY)
file(TOUCH ${DIR}/made.stamp)
