# cmake -DSOURCE_DIR=... -DOUTPUT=... -P WriteGitCommit.cmake
# Writes a header that defines PLUMB_GIT_COMMIT; leaves the file alone when nothing changed, so that nothing is recompiled.
set(commit unknown)
find_program(git_program git)
if(git_program)
  execute_process(COMMAND ${git_program} -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE answer ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit "${answer}")
  endif()
endif()
set(content "#pragma once\n#define PLUMB_GIT_COMMIT \"${commit}\"\n")
set(previous "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" previous)
endif()
if(NOT content STREQUAL previous)
  file(WRITE "${OUTPUT}" "${content}")
endif()
