# The engine as a C++ library: one archive, one public target, plumb::plumb.
#
# The layers are an inner matter; installing each as a library of its own would make every one of them public. So their
# objects are merged into one libplumb.a, and the package asks only for what those objects still need at link time.
include(CMakePackageConfigHelpers)

# plumb_library(LAYERS <layers...> LINK <link-time dependencies...>)
function(plumb_library)
  cmake_parse_arguments(ARG "" "" "LAYERS;LINK" ${ARGN})
  set(objects)
  foreach(layer ${ARG_LAYERS})
    get_target_property(type plumb_${layer} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND objects $<TARGET_OBJECTS:plumb_${layer}>)
    endif()
  endforeach()
  add_library(plumb_library STATIC ${objects})
  add_library(plumb::plumb ALIAS plumb_library)
  set_target_properties(plumb_library PROPERTIES OUTPUT_NAME plumb EXPORT_NAME plumb LINKER_LANGUAGE CXX)
  target_compile_features(plumb_library INTERFACE cxx_std_20)
  target_include_directories(plumb_library INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  # Private, so that dependants link these (LINK_ONLY) and see nothing of their headers.
  target_link_libraries(plumb_library PRIVATE ${ARG_LINK})
  if(PLUMB_SANITIZE)  # an archive with sanitizer calls in it needs the runtime in whatever links it
    target_link_options(plumb_library INTERFACE -fsanitize=${PLUMB_SANITIZE})
  endif()

  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/plumb")
  install(TARGETS plumb_library EXPORT plumb_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/plumb" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
  install(EXPORT plumb_targets NAMESPACE plumb:: FILE plumb-targets.cmake DESTINATION ${package_dir})
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/plumb-config.cmake.in" "${PROJECT_BINARY_DIR}/generated/plumb-config.cmake"
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
  # Before 1.0 a minor version may change the interface.
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/plumb-config-version.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/generated/plumb-config.cmake" "${PROJECT_BINARY_DIR}/generated/plumb-config-version.cmake"
    DESTINATION ${package_dir})
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()
