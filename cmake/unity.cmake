# Groups of sources compiled as one: headers and templates are most of the work, and are then done once a group.
#
# millrace_unity(TARGET) groups the sources of the target by tools/unity_groups.py, which keeps apart the files whose
# private names would meet. Not CMAKE_UNITY_BUILD alone: it groups by the order of the list. A source with compile options of its
# own is left out by CMake. Tests are always grouped; modules where MILLRACE_UNITY is on, in every preset but `dev`. What
# developers build is compiled file by file: an include that is missing shows there.

option(MILLRACE_UNITY "Compile the modules, too, in groups of sources (needs Python 3)" OFF)
if(MILLRACE_UNITY)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_compile_options(-w)  # compiled file by file it has none; together, files shadow each other's names
endif()

function(millrace_unity target)
  set(lines_max 1500)
  if(MILLRACE_UNITY)
    set(lines_max 3000)  # nobody edits there
  endif()
  get_target_property(listed ${target} SOURCES)
  set(sources "")
  foreach(source IN LISTS listed)
    cmake_path(ABSOLUTE_PATH source)
    if(source MATCHES "\\.cc$" AND EXISTS "${source}")  # one that the build makes is not there yet
      list(APPEND sources "${source}")
    endif()
  endforeach()
  execute_process(COMMAND "${Python3_EXECUTABLE}" -B "${PROJECT_SOURCE_DIR}/tools/unity_groups.py" ${lines_max} ${sources}
    OUTPUT_VARIABLE numbers OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" numbers "${numbers}")
  foreach(source number IN ZIP_LISTS sources numbers)
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${target}_${number}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # g++ takes an included source for a header, whose types should not have private members.
  target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>")
endfunction()
