# cmake --workflow --preset tidy: runs clang-tidy, configured by .clang-tidy, on every source except the tests. On
# tests the analyzer takes ten times as long, because of GoogleTest's macros, and finds little.

find_program(RUN_CLANG_TIDY NAMES run-clang-tidy-19 run-clang-tidy)
find_program(CLANG_TIDY NAMES clang-tidy-19 clang-tidy)
if(RUN_CLANG_TIDY AND CLANG_TIDY)
  add_custom_target(tidy
    COMMAND "${RUN_CLANG_TIDY}" -quiet -clang-tidy-binary "${CLANG_TIDY}" -p "${PROJECT_BINARY_DIR}"
            "${PROJECT_SOURCE_DIR}/(src|bench|tests)/(?!.*_test\\.cc$)"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    USES_TERMINAL VERBATIM)
else()
  add_custom_target(tidy
    COMMAND "${CMAKE_COMMAND}" -E echo "clang-tidy was not found: apt-get install clang-tidy-19, and configure again"
    COMMAND "${CMAKE_COMMAND}" -E false)
endif()
