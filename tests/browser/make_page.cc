// Makes a report's page from three JSON files, like `millrace report --html` from a trace. Tests of
// the page use it for data that no trace of theirs contains.
#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "base/io/file.h"
#include "report/html.h"

namespace {

millrace::Result<std::string> page_of(char** paths) {
  ASSIGN_OR_RETURN(const std::string profile, millrace::read_file(paths[0]));
  ASSIGN_OR_RETURN(const std::string findings, millrace::read_file(paths[1]));
  ASSIGN_OR_RETURN(const std::string detail, millrace::read_file(paths[2]));
  return millrace::report::report_html(profile, findings, detail);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: make_page PROFILE.json FINDINGS.json DETAIL.json PAGE.html\n");
    return 2;
  }
  const auto page = page_of(argv + 1);
  if (!page.ok()) {
    fmt::print(stderr, "make_page: {}\n", page.error().message());
    return 1;
  }
  std::ofstream(argv[4], std::ios::binary) << *page;
  return 0;
}
