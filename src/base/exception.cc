#include "base/exception.h"

#include <exception>
#include <new>

namespace millrace {

Error fail_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Error(Errc::kExhausted, "there is not enough memory");
  } catch (const std::exception& exception) {
    return Error(Errc::kIo, exception.what());
  } catch (...) {
    return Error(Errc::kIo, "an unknown exception was thrown");
  }
}

}  // namespace millrace
