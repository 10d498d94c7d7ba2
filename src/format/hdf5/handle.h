// hdf5_handle: what the files that call libhdf5 share: its lock, its handles and its errors.
//
// Only they include this header, and only libmillrace_hdf5.so contains them.
#pragma once

#include <hdf5.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace millrace::format {

// Holds the lock of libhdf5 and silences its printing of errors, as long as it lives. The first one
// registers the lock with fork().
class Hdf5Use {
 public:
  Hdf5Use();
  ~Hdf5Use();
  Hdf5Use(const Hdf5Use&) = delete;
  Hdf5Use& operator=(const Hdf5Use&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

// Why the last call of libhdf5 failed, in its words.
std::string hdf5_reason();

// An error of libhdf5: what we attempted, and the reason that libhdf5 gives. The system's reasons
// (no space, no permission) get the code they have elsewhere; otherwise it is `code`.
Error fail_hdf5(Errc code, std::string_view doing);

// An identifier that is closed at the end. REQUIRES: a Hdf5Use lives whenever one is closed.
class Hdf5Id {
 public:
  using Close = herr_t (*)(hid_t);

  Hdf5Id() = default;
  Hdf5Id(hid_t id, Close closing) : id_(id), close_(closing) {}
  Hdf5Id(Hdf5Id&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hdf5Id& operator=(Hdf5Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Hdf5Id() { close(); }

  bool ok() const { return id_ >= 0; }
  hid_t get() const { return id_; }
  // False if closing failed, for a file whose last bytes could not be written.
  bool close() {
    const hid_t id = std::exchange(id_, H5I_INVALID_HID);
    return id < 0 || close_(id) >= 0;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

}  // namespace millrace::format
