# plumb_layer(<name> [HOT] DEPENDS <targets...>)
#
# A layer is a folder of src/. Its .cpp files become the static library plumb_<name>, its *_test.cpp files the test binary
# <name>_test. A new file needs no edit here: adding a thing to Plumb is one file and one line in the layer's own table.
# HOT: where the time of a step goes; PLUMB_QUICK_COMPILE optimises it more than the rest.
function(plumb_layer name)
  cmake_parse_arguments(ARG "HOT" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  if(ARG_HOT AND PLUMB_QUICK_COMPILE)
    # Options of a file come after those of its target.
    set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_OPTIONS -O1)
    # Sets of vector kernels: the code they share with the portable set is watched there, their own by the guard bands and the poison
    # of the conformance suite. Watched here too, tests of whole models take three times as long. (The dev preset watches all.)
    set(vectors ${sources})
    list(FILTER vectors INCLUDE REGEX "/cpu/(amx|avx2|avx512|avx_vnni|neon)/")
    if(vectors)
      set_property(SOURCE ${vectors} APPEND PROPERTY COMPILE_OPTIONS -O2)
      if(PLUMB_SANITIZE)
        set_property(SOURCE ${vectors} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=all)
      endif()
    endif()
  endif()
  if(sources)
    add_library(plumb_${name} STATIC ${sources})
    set(scope PUBLIC)
    if(NOT ARG_HOT)  # their files have options of their own
      plumb_unity(plumb_${name})
    endif()
  else()
    add_library(plumb_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(plumb_${name} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(plumb_${name} ${scope} $<BUILD_INTERFACE:plumb_options> ${ARG_DEPENDS})
  # In a cross build only the kernels are tested: an emulator on this host says nothing about another's memory order.
  if(PLUMB_BUILD_TESTS AND tests AND (ARG_HOT OR NOT PLUMB_KERNELS_ONLY))
    add_executable(${name}_test ${tests})
    plumb_unity(${name}_test)
    target_link_libraries(${name}_test PRIVATE plumb_${name} GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE PLUMB_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    # The emulator runs a process's signals and forks itself, so what a signal kills says nothing about us there. The portable kernels
    # and the checker of the suite are plain C++ that the host's own tests run; two forms of four show that variants agree.
    set(filter "")
    if(CMAKE_CROSSCOMPILING_EMULATOR)
      set(filter TEST_FILTER "-*DeathTest.*:*_portable:ConformanceSuite.*:*SerialBitForBit/f16:*SerialBitForBit/bf16")
    endif()
    gtest_discover_tests(${name}_test ${filter} TEST_PREFIX ${PLUMB_TEST_PREFIX}${name}. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 900 LABELS unit
      ENVIRONMENT "${PLUMB_TEST_ENVIRONMENT}")
  endif()
endfunction()
