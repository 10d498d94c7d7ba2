# Embeds a file into the program, as a function that returns its bytes.
#
# millrace_embed(OUT variable FILE path HEADER include NAMESPACE namespace FUNCTION name) sets the variable to a
#   generated source that defines `std::string_view namespace::name()`, which HEADER declares.
# Not xxd, which is missing on many machines, and not .incbin, whose input ccache cannot see.

if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${INPUT}" bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {
constexpr unsigned char kBytes[] = {
${bytes}};
}  // namespace

std::string_view ${FUNCTION}() { return {reinterpret_cast<const char*>(kBytes), sizeof kBytes}; }

}  // namespace ${NAMESPACE}
")
  return()
endif()

set(MILLRACE_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(millrace_embed)
  cmake_parse_arguments(PARSE_ARGV 0 embed "" "OUT;FILE;HEADER;NAMESPACE;FUNCTION" "")
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${embed_FUNCTION}.cc")
  add_custom_command(OUTPUT "${source}"
    COMMAND "${CMAKE_COMMAND}" "-DINPUT=${embed_FILE}" "-DOUTPUT=${source}" "-DHEADER=${embed_HEADER}"
            "-DNAMESPACE=${embed_NAMESPACE}" "-DFUNCTION=${embed_FUNCTION}" -P "${MILLRACE_EMBED_SCRIPT}"
    DEPENDS "${embed_FILE}" "${MILLRACE_EMBED_SCRIPT}"
    VERBATIM)
  set(${embed_OUT} "${source}" PARENT_SCOPE)
endfunction()
