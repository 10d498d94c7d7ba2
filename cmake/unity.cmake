# Groups of sources compiled as one: headers and templates are most of the work, and are then done once a group.
#
# millrace_unity(TARGET) groups the sources of the target by tools/unity_groups.py, which keeps files apart whose
# private names would clash. CMAKE_UNITY_BUILD alone groups them in the order of the list. CMake leaves out a source with
# compile options of its own. Tests are always grouped, modules if MILLRACE_UNITY is not 0. The preset `minimal` compiles
# each file by itself, and CI runs it: a missing include or a shadowed name shows there.

set(MILLRACE_UNITY 0 CACHE STRING "Compile sources in groups of at most this many lines (needs Python 3); 0: each by itself")
if(MILLRACE_UNITY)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # Files of a group shadow each other's names. Only `dev` has warnings; other presets compile the same sources.
  if(MILLRACE_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT CMAKE_COMPILE_WARNING_AS_ERROR)
    add_compile_options(-w)
  else()
    add_compile_options(-Wno-shadow)
  endif()
endif()

function(millrace_unity target)
  set(lines_max 1500)  # whoever edits a file waits for its group
  if(MILLRACE_UNITY)
    set(lines_max ${MILLRACE_UNITY})
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
