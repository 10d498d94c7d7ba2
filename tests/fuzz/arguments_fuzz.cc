// Any words, one per line, are valid arguments of a verb or wrong usage.
#include <cstdint>
#include <cstdlib>

#include "base/text/text.h"
#include "cli/cli.h"
#include "cli/options/argument_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(data[i]);
    }
  }
  for (const millrace::cli::Command* command : millrace::cli::visible(millrace::cli::commands())) {
    const auto arguments = millrace::cli::ArgumentParser(*command).parse(words);
    if (arguments.ok()) continue;
    // Messages that quote untrusted bytes must be safe to print.
    if (millrace::printable(arguments.error().message()) != arguments.error().message())
      std::abort();
  }
  return 0;
}
