# Adds build_info.cpp (version, commit, compiler, flags) to a target.
#
# The compiler and the flags are known now. The commit is not: a commit made after the configuration must show, so a custom
# target asks git at every build and rewrites its header only when the answer changed, which recompiles one small file.
function(plumb_add_build_info target)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  get_target_property(options plumb_options INTERFACE_COMPILE_OPTIONS)
  list(JOIN options " " options)
  string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${options}" flags)
  string(REGEX REPLACE "  +" " " flags "${flags}")
  string(REPLACE "\\" "\\\\" flags "${flags}")
  string(REPLACE "\"" "\\\"" PLUMB_BUILD_FLAGS "${flags}")
  set(PLUMB_BUILD_SANITIZERS "${PLUMB_SANITIZE}")
  if(NOT PLUMB_BUILD_SANITIZERS)
    set(PLUMB_BUILD_SANITIZERS none)
  endif()

  set(generated "${PROJECT_BINARY_DIR}/generated")
  configure_file("${PROJECT_SOURCE_DIR}/src/base/build_info.cpp.in" "${generated}/build_info.cpp" @ONLY)
  add_custom_target(plumb_git_commit
    COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${generated}/plumb_git_commit.h
            -P ${PROJECT_SOURCE_DIR}/cmake/WriteGitCommit.cmake
    BYPRODUCTS "${generated}/plumb_git_commit.h"
    COMMENT "Asking git for the commit"
    VERBATIM)
  add_dependencies(${target} plumb_git_commit)
  target_sources(${target} PRIVATE "${generated}/build_info.cpp")
  set_source_files_properties("${generated}/build_info.cpp" PROPERTIES INCLUDE_DIRECTORIES "${generated}")
endfunction()
