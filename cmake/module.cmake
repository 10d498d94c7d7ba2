# The one kind of library there is: a module of src/.
#
# millrace_module(NAME HEADERS h... [SOURCES cc...] [TESTS cc...] [DEPENDS module...] [LIBRARIES target...])
#   makes the static library millrace_<NAME> (an interface library where there are no SOURCES) that other modules
#   link by the name millrace::<NAME>, compiles each of its headers alone
#   (target all_verify_interface_header_sets), and makes one test program, <NAME>_test.
# tools/layers.txt says which modules may depend on which; a test holds the includes against it.

function(millrace_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "" "" "HEADERS;SOURCES;TESTS;DEPENDS;LIBRARIES")
  set(target millrace_${name})
  if(module_SOURCES)
    add_library(${target} STATIC)
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(millrace::${name} ALIAS ${target})
  target_sources(${target}
    PRIVATE ${module_SOURCES}
    ${scope} FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/src" FILES ${module_HEADERS})
  list(TRANSFORM module_DEPENDS PREPEND millrace::)
  target_link_libraries(${target} ${scope} ${module_DEPENDS} ${module_LIBRARIES})
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)

  # ThreadSanitizer has nothing to look for in modules without threads, and takes as long to compile them.
  if(MILLRACE_TEST_MODULES AND NOT name IN_LIST MILLRACE_TEST_MODULES)
    set(module_TESTS "")
  endif()
  if(MILLRACE_TESTS AND module_TESTS)
    add_executable(${name}_test ${module_TESTS})
    target_link_libraries(${name}_test PRIVATE millrace::${name} GTest::gmock GTest::gtest_main)
    # Test code runs once; optimising it doubles the time to compile it under the sanitizers.
    target_compile_options(${name}_test PRIVATE -O0)
    # From the root of the sources, so that tests find tests/golden.
    gtest_discover_tests(${name}_test WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" PROPERTIES TIMEOUT 120)
  endif()
endfunction()
