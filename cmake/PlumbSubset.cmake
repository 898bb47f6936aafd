# PLUMB_KERNELS_ONLY: base, device and kernels with their tests and nothing above them. What a cross build for another processor needs
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
add_subdirectory(src)
