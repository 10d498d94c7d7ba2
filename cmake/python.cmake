# The Python package in the build tree: what tests and benchmarks import, with PYTHONPATH=<build>/python.
#
# millrace_python_module(NAME SOURCES cc... [INCLUDES folder...])
#   makes the extension <build>/python/millrace/<NAME>.<suffix>. It links nothing of ours and no C++ runtime.
# millrace_python_package(FOLDER)
#   puts the sources of the package beside it, as links, so that an edit needs no build.

set(MILLRACE_PYTHON_TREE "${PROJECT_BINARY_DIR}/python")

function(millrace_python_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "" "" "SOURCES;INCLUDES")
  set(target millrace_python${name})
  add_library(${target} MODULE ${module_SOURCES})
  target_link_libraries(${target} PRIVATE ${MILLRACE_PYTHON_TARGET})
  target_include_directories(${target} PRIVATE ${module_INCLUDES})
  target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti)
  target_link_options(${target} PRIVATE -Wl,--as-needed)
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} SUFFIX "${PythonHeaders_SUFFIX}"
    LIBRARY_OUTPUT_DIRECTORY "${MILLRACE_PYTHON_TREE}/millrace")
endfunction()

function(millrace_python_package folder)
  file(MAKE_DIRECTORY "${MILLRACE_PYTHON_TREE}/millrace")
  file(GLOB entries CONFIGURE_DEPENDS RELATIVE "${folder}" "${folder}/*")
  list(REMOVE_ITEM entries __pycache__)
  foreach(entry IN LISTS entries)
    file(CREATE_LINK "${folder}/${entry}" "${MILLRACE_PYTHON_TREE}/millrace/${entry}" SYMBOLIC)
  endforeach()
  # Where the package looks for the preload library first.
  file(CREATE_LINK "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}" "${MILLRACE_PYTHON_TREE}/millrace/lib" SYMBOLIC)
endfunction()
