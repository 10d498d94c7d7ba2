# millrace_export_only(TARGET SYMBOL)
#   makes a loaded library export only this symbol, and adds a test for it. Otherwise its static libraries and its
#   instantiations of C++ templates could replace those of other libraries in the process: a library that is loaded
#   with RTLD_GLOBAL, as MPI's must be, precedes PyTorch's if it is loaded first.
function(millrace_export_only target symbol)
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${target}.map")
  file(CONFIGURE OUTPUT "${script}" CONTENT "{ global: ${symbol}; local: *; };\n")
  target_link_options(${target} PRIVATE "-Wl,--version-script=${script}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  if(MILLRACE_TESTS)
    add_test(NAME exports.${target} COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tests/exports_test.py"
      "$<TARGET_FILE:${target}>" "${symbol}")
  endif()
endfunction()
