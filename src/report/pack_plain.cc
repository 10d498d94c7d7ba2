#include "report/pack.h"

namespace millrace::report {

Result<Packed> pack(std::string_view text) {
  return Packed{.encoding = "plain", .bytes = std::string(text)};
}

}  // namespace millrace::report
