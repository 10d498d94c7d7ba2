#include "format/hdf5/handle.h"

#include <pthread.h>

#include "base/concurrency/mutex.h"
#include "base/text/text.h"

namespace millrace::format {
namespace {

// Not a recursive mutex: a forked child could not unlock one, because its thread has another
// number than the one that locked it. Never destroyed: a writer may outlive any static.
Mutex& library_mutex() {
  static Mutex* const mutex = [] {
    auto* made = new Mutex;
    // The handlers may not call this function: the child would wait for its initialization.
    static Mutex* known = nullptr;
    known = made;
    // Not analysed: the lock is held from one handler to the next.
    pthread_atfork([]() NO_THREAD_SAFETY_ANALYSIS { known->lock(); },
                   []() NO_THREAD_SAFETY_ANALYSIS { known->unlock(); },
                   []() NO_THREAD_SAFETY_ANALYSIS { known->unlock(); });
    return made;
  }();
  return *mutex;
}

// The first entry of the stack is the innermost function: the cause.
herr_t take_first(unsigned index, const H5E_error2_t* entry, void* out) {
  if (index == 0 && entry->desc != nullptr) *static_cast<std::string*>(out) = entry->desc;
  return 0;
}

Errc code_of(std::string_view reason, Errc otherwise) {
  const auto says = [&](std::string_view text) { return reason.find(text) != reason.npos; };
  if (says("No such file")) return Errc::kNotFound;
  if (says("Permission denied")) return Errc::kPermission;
  if (says("No space left") || says("Too many open files")) return Errc::kExhausted;
  if (says("errno =")) return Errc::kIo;
  return otherwise;
}

}  // namespace

Hdf5Use::Hdf5Use() {
  library_mutex().lock();
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Use::~Hdf5Use() {
  H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
  library_mutex().unlock();
}

std::string hdf5_reason() {
  std::string reason = "no reason given";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  H5Eclear2(H5E_DEFAULT);
  return reason;
}

Error fail_hdf5(Errc code, std::string_view doing) {
  const std::string reason = hdf5_reason();
  return fail(code_of(reason, code), "{} (libhdf5: {})", doing, printable(reason));
}

}  // namespace millrace::format
