if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, ..." FORCE)
endif()

# plumb_options: what every target of the project is compiled with.
#
# -ffp-contract=off: a product and a sum are fused only where the code says fma. Results must not depend on which
# statements a compiler chose to contract, because equality across loops and batches is tested bit for bit.
set(PLUMB_SANITIZE "" CACHE STRING "Comma-separated sanitizers, e.g. address,undefined or thread")
option(PLUMB_WERROR "Treat warnings as errors; a discarded Result is one in every build" OFF)
option(PLUMB_OPTIMISE_DEBUG "Compile Debug with -O1 so that sanitizer runs of the real model stay short" OFF)
option(PLUMB_QUICK_COMPILE "With it: -Og and line tables only, -O1 for layers marked HOT" OFF)

add_library(plumb_options INTERFACE)
target_compile_features(plumb_options INTERFACE cxx_std_20)
target_compile_options(plumb_options INTERFACE
  -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Wnon-virtual-dtor -Werror=unused-result
  -Wno-missing-field-initializers  # designated initialisers leave out what keeps its default
  -fno-math-errno -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees an overlapping copy in "literal" + std::string (its bug 105651, fixed in 13).
  target_compile_options(plumb_options INTERFACE -Wno-restrict)
endif()
if(PLUMB_WERROR)
  target_compile_options(plumb_options INTERFACE -Werror)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(plumb_options INTERFACE -fstack-protector-strong)
  target_compile_definitions(plumb_options INTERFACE _FORTIFY_SOURCE=2)
endif()
if(PLUMB_OPTIMISE_DEBUG)
  target_compile_options(plumb_options INTERFACE -O1 -fno-omit-frame-pointer)
endif()
# On a file that reads JSON, gcc 12 with both sanitizers takes 10 s with these instead of 27. At -Og it sees too little of a
# function to tell whether a variable is set; the optimised build keeps that warning.
if(PLUMB_QUICK_COMPILE)
  target_compile_options(plumb_options INTERFACE -Og -g1 -Wno-maybe-uninitialized)
endif()
if(PLUMB_SANITIZE)
  target_compile_options(plumb_options INTERFACE -fsanitize=${PLUMB_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(plumb_options INTERFACE -fsanitize=${PLUMB_SANITIZE})
  target_compile_definitions(plumb_options INTERFACE _GLIBCXX_ASSERTIONS)  # containers check their bounds too
  if(PLUMB_QUICK_COMPILE)
    # Checks of the undefined-behaviour sanitizer that the address sanitizer makes too, as soon as the pointer is used: a quarter of
    # the time a file takes to compile.
    target_compile_options(plumb_options INTERFACE -fno-sanitize=null,vptr,object-size)
  endif()
endif()

# What every test runs with: an undefined-behaviour report without a stack names only the line that noticed.
set(PLUMB_TEST_ENVIRONMENT UBSAN_OPTIONS=print_stacktrace=1)

# plumb_unity(<target>): under PLUMB_UNITY its files are compiled several at a time, because most of a file's compile time is the front
# end of headers that they share (nlohmann-json, gtest). Files that say the same name in their unnamed namespaces stay alone: the list. So does
# the program, whose verbs all do. A new collision is renamed, or added here.
option(PLUMB_UNITY "Compile files of one target together: a quarter less time from nothing, more of it after an edit" OFF)
set(PLUMB_NOT_TOGETHER
  base/mapped_file kernels/conformance/checker kernels/cpu/ model/arch/ serve/wire text/regex_translate text/vocab_source_test)
function(plumb_unity target)
  if(NOT PLUMB_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    foreach(alone IN LISTS PLUMB_NOT_TOGETHER)
      if(source MATCHES "/${alone}")
        set_property(SOURCE ${source} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
endfunction()
