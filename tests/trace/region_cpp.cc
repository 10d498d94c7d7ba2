// Regions from C++: scoped, tagged by chaining, moved to a thread. region_c.c tests the C
// functions.
#include <millrace/trace.h>

#include <cstdio>
#include <string>
#include <thread>
#include <utility>

namespace {

enum class Kind { kJpeg = 2 };

void decode(const std::string& file) {
  static millrace::Name name{MILLRACE_DECODE};
  millrace::Region region(name);
  region.epoch(1).step(2).tag("file", file).tag("literal", "text").tag("kind", Kind::kJpeg);
  region.tag("ratio", 0.25F).tag("flag", true).tag("size", 1ULL << 40);
}

void end_by_exception() {
  try {
    millrace::Region region("throws");
    throw 1;
  } catch (int) {
  }
}

}  // namespace

int main() {
  for (int i = 0; i < 3; ++i) decode("a.jpg");
  end_by_exception();
  millrace::Region moved("moved");
  std::thread([region = std::move(moved)]() mutable { region.end(); }).join();
  millrace::Region("point").tag("x", 1).mark();
  millrace::Region early("early");
  early.end();
  early.end();
  std::puts(millrace_traced() != 0 ? "traced" : "not traced");
}
