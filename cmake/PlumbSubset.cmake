# PLUMB_KERNELS_ONLY: base, device and kernels with the tests of the kernels, and nothing above them. What a cross build for another processor needs
# to show that its kernels are right.
#
# No library of the target is asked for: fmt, nlohmann-json and xxHash are taken from the build machine's headers alone, and
# GoogleTest is compiled from Debian's sources.
set(headers "${PROJECT_BINARY_DIR}/headers")
file(MAKE_DIRECTORY "${headers}")
foreach(name fmt nlohmann xxhash.h)
  if(NOT EXISTS "/usr/include/${name}")
    message(FATAL_ERROR "/usr/include/${name} is missing; tools/setup installs it")
  endif()
  file(CREATE_LINK "/usr/include/${name}" "${headers}/${name}" SYMBOLIC)  # /usr/include itself would hide the target's C library
endforeach()

find_package(Threads REQUIRED)
foreach(target fmt::fmt nlohmann_json::nlohmann_json PkgConfig::XXHASH)
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} INTERFACE "${headers}")
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
target_compile_definitions(PkgConfig::XXHASH INTERFACE XXH_INLINE_ALL)

enable_testing()
include(GoogleTest)
set(INSTALL_GTEST OFF)
add_subdirectory(/usr/src/googletest googletest EXCLUDE_FROM_ALL)
if(CMAKE_CROSSCOMPILING)
  set(PLUMB_TEST_PREFIX ${CMAKE_SYSTEM_PROCESSOR}.)
endif()
add_subdirectory(src)

# A processor of 2014, without sdot and smmla: dispatch must not take them, and what it takes must run.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64 AND CMAKE_CROSSCOMPILING_EMULATOR)
  list(GET CMAKE_CROSSCOMPILING_EMULATOR 0 emulator)
  add_test(NAME ${PLUMB_TEST_PREFIX}kernels.ThePlainProcessor
           COMMAND ${emulator} -cpu cortex-a53 $<TARGET_FILE:kernels_test> --gtest_filter=Isa.*:Table.*:Kernels/*matmul_neon:Kernels/*quantize_neon)
  set_tests_properties(${PLUMB_TEST_PREFIX}kernels.ThePlainProcessor PROPERTIES TIMEOUT 300 LABELS unit)
endif()
