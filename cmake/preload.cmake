# Preload libraries, which are loaded into other people's programs.
#
# millrace_preload(NAME SOURCES cc... EXPORTS file.map)
#   makes libmillrace_<NAME>.so (target millrace_<NAME>_preload), linked only against the C library. Without the C++
#   runtime, exceptions, `new` and guarded static constructors cannot get in unnoticed. The version script lists the
#   exported symbols.
# A program may pass null where a header forbids it, and the C library then returns an error. So checks for null must
# not be optimised away.
# Hooks run on any stack of the program, even an alternate one of 8 KiB. So no function uses more than 1 KiB of stack;
# src/hook/scratch.h provides larger buffers.
# The sources are compiled separately for the library, without sanitizers, which would need their runtime. Their unit
# tests compile them again with the options of the preset.
# tools/check_preload.py checks the result in the test preload.<NAME>.

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
  # -O2 in every preset, so that the same code is measured and tested.
  target_compile_options(${target} PRIVATE -O2 -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-stack-protector
    -ftls-model=initial-exec -U_FORTIFY_SOURCE -U_GLIBCXX_ASSERTIONS -fno-builtin-printf -fno-builtin-puts -fno-builtin-fputs
    -fno-builtin-fprintf -fno-builtin-fputc -fno-builtin-fwrite
    -Wframe-larger-than=1024 -fno-delete-null-pointer-checks
    -Wno-ignored-attributes -Wno-pedantic
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-nonnull-compare>"
    # clang takes the inline functions of headers, such as getchar(), for another definition of the hook.
    "$<$<CXX_COMPILER_ID:Clang>:-Wno-tautological-pointer-compare;-D__NO_INLINE__>")
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
