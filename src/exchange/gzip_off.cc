#include "exchange/gzip.h"

namespace millrace::exchange {
namespace {

Error no_gzip() {
  return fail(Errc::kUnsupported,
              "this build cannot read or write gzip; install zlib (zlib1g-dev) and build again, or "
              "use the file without .gz");
}

}  // namespace

Result<std::unique_ptr<GzipWriter>> GzipWriter::create() { return no_gzip(); }

Result<std::unique_ptr<GzipReader>> GzipReader::create() { return no_gzip(); }

}  // namespace millrace::exchange
