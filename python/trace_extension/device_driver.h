// DeviceDriver: the functions of a GPU's driver that the timer calls.
//
// They are found in the library that PyTorch has loaded, so that nothing is linked with it. A call
// through PyTorch's own events costs several times as much, and needs the GIL.
#pragma once

namespace millrace::python {

// Each returns 0, or the number of an error.
struct DeviceDriver {
  int (*create_event)(void** event, unsigned flags);
  int (*record_event)(void* event, void* stream);
  int (*query_event)(void* event);
  int (*elapsed_ms)(float* ms, void* begin, void* end);
  int (*get_context)(void** context);
  int (*set_context)(void* context);
};

inline constexpr int kNotReady = 600;  // of query_event: the event has not passed

// False: no library whose name begins with `library` is loaded in this process, or it is no driver
// that is known here. A version follows in the name.
bool find_driver(const char* library, DeviceDriver& driver);

}  // namespace millrace::python
