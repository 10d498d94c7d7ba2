add_executable(checkpoint_actions checkpoints.cc)
target_link_libraries(checkpoint_actions PRIVATE millrace::bench millrace::comm_testing)

set(checkpoint_python Python3::Interpreter)
if(MILLRACE_HAVE_PYTHON)
  set(checkpoint_python "${PythonHeaders_EXECUTABLE}")
endif()
millrace_script_test(bench.checkpoints TIMEOUT 300
  COMMAND ${checkpoint_python} "${CMAKE_CURRENT_SOURCE_DIR}/checkpoint_test.py" "$<TARGET_FILE:checkpoint_actions>")
