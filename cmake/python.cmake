# The Python package: in the build tree, where tests and benchmarks import it with PYTHONPATH=<build>/python, and
# installed (component `python`), by pip or by `cmake --install <build> --component python --prefix ENVIRONMENT`.
# The .deb has it too (component `debian_python`), without the program and the libraries, which the .deb has anyway.
#
# millrace_python_module(NAME SOURCES cc... [INCLUDES folder...] [LINKS target...])
#   makes the extension <build>/python/millrace/<NAME>.<suffix>. Without LINKS, it is linked with no module and no C++
#   runtime. With LINKS, it still exports only its entry point.
# millrace_python_package(FOLDER)
#   links to the Python sources from there, so that an edit needs no build.
# millrace_python_program()
#   adds the program, its workloads, manual, completions and examples: the package contains all of Millrace.
# The target python_package builds everything that is installed.

set(MILLRACE_PYTHON_TREE "${PROJECT_BINARY_DIR}/python")
add_custom_target(python_package)

# Where the package and the shared files are installed: into an environment, or into the wheel that pip makes.
if(SKBUILD)
  set(MILLRACE_PYTHON_SITE ".")
  set(python_share "${SKBUILD_DATA_DIR}/share")
else()
  set(MILLRACE_PYTHON_SITE "${PythonHeaders_SITE}" CACHE STRING "Where to install the Python package, relative to the prefix")
  set(python_share share)
endif()
set(python_package_folder "${MILLRACE_PYTHON_SITE}/millrace")

# Only on request: a plain `cmake --install` has no place for it.
set(python_component COMPONENT python EXCLUDE_FROM_ALL)
set(debian_component COMPONENT debian_python EXCLUDE_FROM_ALL)
set(debian_package_folder lib/python3/dist-packages/millrace)

# Installs the sources of the package from `folder` into another one.
function(millrace_python_install_sources folder destination)
  install(DIRECTORY "${folder}/" DESTINATION "${destination}" ${ARGN}
    FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
endfunction()

function(millrace_python_install target folder)
  add_dependencies(python_package ${target})
  install(TARGETS ${target}
    LIBRARY DESTINATION "${folder}" ${python_component}
    RUNTIME DESTINATION "${folder}" ${python_component})
endfunction()

function(millrace_python_module name)
  cmake_parse_arguments(PARSE_ARGV 1 module "" "" "SOURCES;INCLUDES;LINKS")
  set(target millrace_python${name})
  add_library(${target} MODULE ${module_SOURCES})
  target_link_libraries(${target} PRIVATE ${MILLRACE_PYTHON_TARGET} ${module_LINKS})
  target_include_directories(${target} PRIVATE ${module_INCLUDES})
  if(NOT module_LINKS)
    target_compile_options(${target} PRIVATE -fno-exceptions -fno-rtti)
  endif()
  millrace_export_only(${target} PyInit_${name})
  target_link_options(${target} PRIVATE -Wl,--as-needed)
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} SUFFIX "${PythonHeaders_SUFFIX}"
    LIBRARY_OUTPUT_DIRECTORY "${MILLRACE_PYTHON_TREE}/millrace")
  millrace_python_install(${target} "${python_package_folder}")
  install(TARGETS ${target} LIBRARY DESTINATION "${debian_package_folder}" ${debian_component})
endfunction()

function(millrace_python_package folder)
  file(MAKE_DIRECTORY "${MILLRACE_PYTHON_TREE}/millrace")
  file(GLOB entries CONFIGURE_DEPENDS RELATIVE "${folder}" "${folder}/*")
  list(REMOVE_ITEM entries __pycache__)
  foreach(entry IN LISTS entries)
    file(CREATE_LINK "${folder}/${entry}" "${MILLRACE_PYTHON_TREE}/millrace/${entry}" SYMBOLIC)
  endforeach()
  # The package looks here for the program and for the libraries that it loads by name.
  file(CREATE_LINK "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}" "${MILLRACE_PYTHON_TREE}/millrace/bin" SYMBOLIC)
  file(CREATE_LINK "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}" "${MILLRACE_PYTHON_TREE}/millrace/lib" SYMBOLIC)
  set(libraries millrace_trace_preload millrace_store_preload)
  foreach(kind IN LISTS MILLRACE_MPI_KINDS)
    list(APPEND libraries millrace_mpi_${kind})
  endforeach()
  if(MILLRACE_HAVE_HDF5)
    list(APPEND libraries millrace_hdf5)
  endif()
  foreach(library IN LISTS libraries)
    millrace_python_install(${library} "${python_package_folder}/lib")
  endforeach()

  # The version is defined only in project().
  set(version "${MILLRACE_PYTHON_TREE}/millrace/_version.py")
  file(CONFIGURE OUTPUT "${version}" CONTENT "__version__ = \"${PROJECT_VERSION}\"\n")
  install(FILES "${version}" DESTINATION "${python_package_folder}" ${python_component})
  install(FILES "${version}" DESTINATION "${debian_package_folder}" ${debian_component})
  millrace_python_install_sources("${folder}" "${debian_package_folder}" ${debian_component})
  if(NOT SKBUILD)  # pip installs the sources itself, so that `pip install -e` can use them in place
    millrace_python_install_sources("${folder}" "${python_package_folder}" ${python_component})
  endif()
endfunction()

function(millrace_python_program)
  millrace_python_install(millrace "${python_package_folder}/bin")
  millrace_install_workloads("${python_package_folder}/${CMAKE_INSTALL_DATADIR}" ${python_component})
  millrace_install_examples("${python_share}" ${python_component})
  if(TARGET shell_files)
    add_dependencies(python_package shell_files)
    millrace_install_shell_files("${python_share}" ${python_component})
  endif()
  if(NOT SKBUILD)  # pip makes the command itself (see millrace/_program.py)
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/command")
    file(CREATE_LINK "../${python_package_folder}/bin/millrace" "${PROJECT_BINARY_DIR}/command/millrace" SYMBOLIC)
    install(FILES "${PROJECT_BINARY_DIR}/command/millrace" DESTINATION bin ${python_component})
  endif()
  millrace_debian_links()
endfunction()

# In the .deb, the package finds the program and the libraries through these links.
function(millrace_debian_links)
  set(links "${PROJECT_BINARY_DIR}/debian_links")
  file(MAKE_DIRECTORY "${links}")
  file(CREATE_LINK "../../../../bin" "${links}/bin" SYMBOLIC)
  file(CREATE_LINK "../../../../${CMAKE_INSTALL_LIBDIR}/millrace" "${links}/lib" SYMBOLIC)
  install(FILES "${links}/bin" "${links}/lib" DESTINATION "${debian_package_folder}" ${debian_component})
endfunction()
