# Modules: the libraries of src/.
#
# millrace_module(NAME HEADERS h... [SOURCES cc...] [TESTS cc...] [DEPENDS module...] [LIBRARIES target...]
#                 [TEST_DEPENDS module...])
#   makes the static library millrace_<NAME> (without SOURCES, an interface library), which other modules link as
#   millrace::<NAME>, and one test program, <NAME>_test. Each header without a source of the same name is compiled alone
#   (target all_verify_interface_header_sets), to show that it includes what it needs. Any other header is the first
#   include of its source (tools/check_headers.py), which shows the same. What only tests and benchmarks use is in the
#   folder testing/ and in a module of its own, <NAME>_testing, which tests name in TEST_DEPENDS.
# tools/layers.txt lists the modules that a module may depend on; a test checks the includes against it.

function(millrace_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "" "" "HEADERS;SOURCES;TESTS;DEPENDS;LIBRARIES;TEST_DEPENDS")
  set(target millrace_${name})
  if(module_SOURCES)
    add_library(${target} STATIC)
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(millrace::${name} ALIAS ${target})
  set(lone_headers "")
  foreach(header IN LISTS module_HEADERS)
    string(REGEX REPLACE "\\.h$" ".cc" source "${header}")
    if(NOT source IN_LIST module_SOURCES)
      list(APPEND lone_headers "${header}")
    endif()
  endforeach()
  target_sources(${target}
    PRIVATE ${module_SOURCES}
    ${scope} FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/src" FILES ${module_HEADERS}
    FILE_SET lone_headers TYPE HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/src" FILES ${lone_headers})
  list(TRANSFORM module_DEPENDS PREPEND millrace::)
  target_link_libraries(${target} ${scope} ${module_DEPENDS} ${module_LIBRARIES})
  set_target_properties(${target} PROPERTIES
    VERIFY_INTERFACE_HEADER_SETS ON INTERFACE_HEADER_SETS_TO_VERIFY lone_headers)
  if(name MATCHES "_testing$")
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  if(MILLRACE_UNITY AND module_SOURCES)
    millrace_unity(${target})
  endif()

  # ThreadSanitizer finds nothing in modules without threads, and they take as long to compile.
  if(MILLRACE_TEST_MODULES AND NOT name IN_LIST MILLRACE_TEST_MODULES)
    set(module_TESTS "")
  endif()
  if(MILLRACE_TESTS AND module_TESTS)
    add_executable(${name}_test ${module_TESTS})
    list(TRANSFORM module_TEST_DEPENDS PREPEND millrace::)
    target_link_libraries(${name}_test PRIVATE
      millrace::${name} ${module_TEST_DEPENDS} GTest::gmock GTest::gtest_main)
    # Test code runs only once, and optimising it doubles the time to compile it with sanitizers.
    target_compile_options(${name}_test PRIVATE -O0)
    millrace_unity(${name}_test)
    millrace_unit_tests(${name}_test)
  endif()
endfunction()

# Adds one ctest test for each test of the program. With sanitizers, whose runtime takes longer to start than most
# tests run, it adds a few groups of tests. Both run in the root of the sources, to find tests/golden. The label
# `unit` selects only these. If the program is for another architecture, ctest lists its tests when it runs, not in
# the build.
function(millrace_unit_tests program)
  if(NOT MILLRACE_SANITIZE)
    set(discovery POST_BUILD)
    if(CMAKE_CROSSCOMPILING)
      set(discovery PRE_TEST)
    endif()
    gtest_discover_tests(${program} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" NO_PRETTY_VALUES DISCOVERY_MODE ${discovery}
      PROPERTIES TIMEOUT 120 LABELS unit)
    return()
  endif()
  set(share_count 4)
  foreach(share RANGE 1 ${share_count})
    math(EXPR index "${share} - 1")
    add_test(NAME ${program}.${share} COMMAND ${program} --gtest_brief=1 WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${program}.${share} PROPERTIES TIMEOUT 600 LABELS unit
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${share_count};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()
