# The second kind of library: one that is loaded into programs that are not ours.
#
# millrace_preload(NAME SOURCES cc... EXPORTS file.map)
#   makes libmillrace_<NAME>.so (target millrace_<NAME>_preload), linked against the C library and nothing else: no C++ runtime, so exceptions, the heap of
#   C++ and static constructors with guards cannot get in unnoticed. The version script lists what it exports.
# A program may pass null where headers say that it must not; the C library then returns an error, and checks for it must
# stay in the code.
# Hooks run on whatever stack the program has, also an alternate one of 8 KiB: no function takes more than 1 KiB of it
# (src/hook/scratch.h has the room for more).
# Its sources are compiled for it alone, without sanitizers: those need a runtime of their own. Their unit tests
# compile them once more, with whatever the preset says.
# tools/check_preload.py looks at the result, as the test preload.<NAME>.

function(millrace_preload name)
  cmake_parse_arguments(PARSE_ARGV 1 preload "" "EXPORTS" "SOURCES")
  set(target millrace_${name}_preload)
  add_library(${target} SHARED ${preload_SOURCES})
  if(MILLRACE_UNITY)
    millrace_unity(${target})
  endif()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
  set_target_properties(${target} PROPERTIES OUTPUT_NAME millrace_${name} CXX_VISIBILITY_PRESET default LINK_DEPENDS
    "${CMAKE_CURRENT_SOURCE_DIR}/${preload_EXPORTS}")
  # -O2 in every preset: what is measured and what is tested is the same code.
  target_compile_options(${target} PRIVATE -O2 -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-stack-protector
    -ftls-model=initial-exec -U_FORTIFY_SOURCE -U_GLIBCXX_ASSERTIONS -fno-builtin-printf -fno-builtin-puts -fno-builtin-fputs
    -fno-builtin-fprintf -fno-builtin-fputc -fno-builtin-fwrite
    -Wframe-larger-than=1024 -fno-delete-null-pointer-checks
    -Wno-ignored-attributes -Wno-pedantic -Wno-nonnull-compare)
  target_link_options(${target} PRIVATE -nodefaultlibs -Wl,-z,defs -Wl,-z,now -Wl,--as-needed
    "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${preload_EXPORTS}")
  if(MILLRACE_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
    target_link_options(${target} PRIVATE -fno-sanitize=all)
  endif()
  target_link_libraries(${target} PRIVATE c gcc)
  install(TARGETS ${target} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/millrace")
  if(MILLRACE_TESTS)
    add_test(NAME preload.${name} COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/check_preload.py"
      "$<TARGET_FILE:${target}>" "${CMAKE_CURRENT_SOURCE_DIR}/${preload_EXPORTS}")
  endif()
endfunction()
