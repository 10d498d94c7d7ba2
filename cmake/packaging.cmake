# What is installed, and the packages made from it: a .deb with the Python package, which depends on Debian's libraries,
# and a .tar.gz of the program with the libraries it needs.

include(GNUInstallDirs)

set_target_properties(millrace PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/millrace")
install(TARGETS millrace RUNTIME_DEPENDENCY_SET millrace_libraries)

# Only the .tar.gz uses this component. It does not include glibc, which must match the machine's kernel and loader.
install(RUNTIME_DEPENDENCY_SET millrace_libraries
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|util)\\.so"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/millrace"
  COMPONENT bundle EXCLUDE_FROM_ALL)

# The program itself prints the manual and the completions, so they match what it does.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "manual and completions: skipped, because a program for ${CMAKE_SYSTEM_PROCESSOR} cannot run here")
else()
  set(shell_files "${PROJECT_BINARY_DIR}/shell")
  add_custom_command(
    OUTPUT "${shell_files}/millrace.1" "${shell_files}/millrace.bash" "${shell_files}/_millrace"
           "${shell_files}/millrace.fish"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${shell_files}"
    COMMAND millrace manual > "${shell_files}/millrace.1"
    COMMAND millrace completion bash > "${shell_files}/millrace.bash"
    COMMAND millrace completion zsh > "${shell_files}/_millrace"
    COMMAND millrace completion fish > "${shell_files}/millrace.fish"
    DEPENDS millrace
    VERBATIM)
  add_custom_target(shell_files ALL DEPENDS "${shell_files}/millrace.1")
  function(millrace_install_shell_files share)  # optional: the component
    install(FILES "${shell_files}/millrace.1" DESTINATION "${share}/man/man1" ${ARGN})
    install(FILES "${shell_files}/millrace.bash" DESTINATION "${share}/bash-completion/completions" ${ARGN} RENAME millrace)
    install(FILES "${shell_files}/_millrace" DESTINATION "${share}/zsh/vendor-completions" ${ARGN})
    install(FILES "${shell_files}/millrace.fish" DESTINATION "${share}/fish/vendor_completions.d" ${ARGN})
  endfunction()
  millrace_install_shell_files("${CMAKE_INSTALL_DATADIR}")
endif()
# The workloads of `millrace bench`, which finds them relative to itself.
function(millrace_install_workloads share)  # optional: the component
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/workloads" DESTINATION "${share}/millrace" ${ARGN} FILES_MATCHING PATTERN "*.yaml")
endfunction()
millrace_install_workloads("${CMAKE_INSTALL_DATADIR}")
function(millrace_install_examples share)  # optional: the component
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/" "${PROJECT_SOURCE_DIR}/python/examples/"
    DESTINATION "${share}/doc/millrace/examples" ${ARGN} PATTERN "__pycache__" EXCLUDE)
endfunction()
millrace_install_examples("${CMAKE_INSTALL_DATAROOTDIR}")
if(TARGET python_package)
  millrace_python_program()
endif()
# The headers for programs that mark regions; nothing has to be linked.
install(FILES "${PROJECT_SOURCE_DIR}/include/millrace/trace.h" "${PROJECT_SOURCE_DIR}/include/millrace/trace_api.h"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/millrace")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME copyright)
install(FILES "${PROJECT_SOURCE_DIR}/README.md" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME millrace)
set(CPACK_PACKAGE_VENDOR "The Millrace authors")
set(CPACK_PACKAGE_CONTACT "The Millrace authors <millrace@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "find and remove the data bottleneck of deep-learning training")
set(CPACK_PACKAGE_DESCRIPTION "Millrace shows where deep-learning training waits for its data, and removes the wait.")
set(CPACK_PACKAGE_FILE_NAME "millrace-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# For several ranks, for `store mount` without root, and for what batches are handed to.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin, fuse3, python3-numpy, python3-torch")
if(TARGET python_package AND PythonHeaders_SITE MATCHES "python3\\.([0-9]+)")
  # The extensions are for one minor version. Not `Depends`: the program works without Python.
  math(EXPR next_minor "${CMAKE_MATCH_1} + 1")
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3 (>= 3.${CMAKE_MATCH_1}~), python3 (<< 3.${next_minor}~)")
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    "${CMAKE_CURRENT_LIST_DIR}/debian/postinst" "${CMAKE_CURRENT_LIST_DIR}/debian/prerm")
endif()
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/package_contents.cmake")
include(CPack)
