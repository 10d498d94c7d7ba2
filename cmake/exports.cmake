# millrace_export_only(TARGET SYMBOL)
#   makes a loaded library show that symbol and nothing else, and tests it. What it links statically, and templates of
#   the C++ library that were instantiated in it, would otherwise stand for those of others in the process: a library
#   that is loaded with RTLD_GLOBAL, as that of MPI must be, comes before PyTorch's where it is loaded first.
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
