// ProgramFile: what a file is that a program executes.
//
// The kernel reads the first line of a script and opens its interpreter without us. And some
// programs never load the library: they would see only what the tree of the node has at the moment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/preload/client.h"

namespace millrace::store {

enum class ProgramKind : uint8_t {
  kOrdinary,  // loads the library; or something that the kernel refuses
  kScript,
  kLoader,  // the dynamic loader itself, called as a program: it loads the library, later
  kBlind,   // does not see the store: `reason`
};

struct ProgramFile {
  ProgramKind kind = ProgramKind::kOrdinary;
  const char* reason = nullptr;    // "is statically linked"
  const char* argument = nullptr;  // of the interpreter, in `text`; null: none
  char text[256 + 1];              // of a script: the path of its interpreter

  // 0, or an errno value.
  int read(const char* real);
};

// Reports a blind program on stderr, once on a node, if its working directory or one of its
// arguments is below the root.
void report_blind(const char* program, const ProgramFile& file, char* const* arguments);

// The directory where it starts: of the origin, or an empty one. It could not tell that a working
// directory in the tree of the node lacks files. False: where it is.
bool find_blind_directory(RealPath& out);

}  // namespace millrace::store
