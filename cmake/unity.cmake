# Unity builds: compiles groups of sources as one. Most of the compile time goes into headers and templates, which are
# then compiled once per group.
#
# millrace_unity(TARGET) groups the sources of the target with tools/unity_groups.py, which separates files whose
# private names would clash. CMAKE_UNITY_BUILD alone groups them in the order of the list. CMake excludes sources with
# their own compile options. Tests are always grouped; modules only if MILLRACE_UNITY is not 0. The preset `minimal`,
# which CI runs, compiles each file separately, and so finds missing includes and shadowed names.

set(MILLRACE_UNITY 0 CACHE STRING "Compile sources in groups of at most this many lines (needs Python 3); 0: each separately")
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
  set(lines_max 1500)  # an edit of a file recompiles its whole group
  if(MILLRACE_UNITY)
    set(lines_max ${MILLRACE_UNITY})
  endif()
  get_target_property(listed ${target} SOURCES)
  set(sources "")
  foreach(source IN LISTS listed)
    cmake_path(ABSOLUTE_PATH source)
    if(source MATCHES "\\.cc$" AND EXISTS "${source}")  # generated sources do not exist yet
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
  # g++ treats an included source as a header, and warns about its types with private members.
  target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>")
endfunction()
