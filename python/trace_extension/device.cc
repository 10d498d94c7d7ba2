#include "device.h"

#include <unistd.h>

#include <new>

#include "method.h"
#include "recorder.h"

namespace millrace::python {

namespace {

constexpr uint64_t kLastNs = 2'000'000'000;  // how long the last events are waited for

DeviceTimer* timer = nullptr;
bool is_switched_on = true;

// finder() returns None as long as the program has not initialised its GPU; then how the name of
// the driver's library begins, a function that returns the current device, and one that returns its
// current stream. Null: no device is timed.
PyObject* finder = nullptr;
PyObject* get_device = nullptr;
PyObject* get_stream = nullptr;

// The device of a context is asked for once: a call of PyTorch takes a microsecond in a program
// that does much else.
bool current_stream(void* context, void** stream) {
  static void* known = nullptr;
  static PyObject* device = nullptr;
  if (context != known || device == nullptr) {
    Py_XSETREF(device, PyObject_CallNoArgs(get_device));
    known = context;
  }
  PyObject* handle = device != nullptr ? PyObject_CallOneArg(get_stream, device) : nullptr;
  if (handle != nullptr) *stream = PyLong_AsVoidPtr(handle);
  Py_XDECREF(handle);
  if (PyErr_Occurred() == nullptr) return true;
  PyErr_WriteUnraisable(get_stream);
  return false;
}

// In a forked child the device cannot be used, and the reading thread does not exist. The events
// must not even be destroyed.
void forget_timer() {
  if (timer == nullptr) return;
  timer = nullptr;
  finder = nullptr;
}

bool make_timer(const char* library) {
  DeviceDriver driver;
  void* memory = find_driver(library, driver) ? PyMem_RawMalloc(sizeof(DeviceTimer)) : nullptr;
  if (memory == nullptr) return false;
  auto* made = new (memory) DeviceTimer(driver, current_stream);
  if (!made->start_reader()) return false;
  timer = made;
  pthread_atfork(nullptr, nullptr, forget_timer);
  return true;
}

// The first thread that launches work is the one that trains.
bool open_timer() {
  PyObject* found = PyObject_CallNoArgs(finder);
  const char* library = nullptr;
  if (found == Py_None) {
    Py_DECREF(found);
    return false;
  }
  if (found == nullptr || PyArg_ParseTuple(found, "sOO", &library, &get_device, &get_stream) == 0) {
    PyErr_WriteUnraisable(finder);
  } else {
    Py_INCREF(get_device);
    Py_INCREF(get_stream);
    if (!make_timer(library)) record_mark("device_time_lost", "error", "no driver was found");
  }
  Py_XDECREF(found);
  if (timer == nullptr) Py_CLEAR(finder);
  return timer != nullptr;
}

PyObject* set_finder(PyObject*, PyObject* function) {
  Py_XSETREF(finder, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyObject* enter(PyObject*, PyObject* is_copy) {
  return PyBool_FromLong(enter_device(is_copy == Py_True ? Work::kCopy : Work::kCompute));
}

PyObject* leave(PyObject*, PyObject* goes_on) {
  leave_device(goes_on == Py_True);
  Py_RETURN_NONE;
}

PyObject* end_step(PyObject*, PyObject*) {
  end_device_step();
  Py_RETURN_NONE;
}

PyObject* capture(PyObject*, PyObject* is_capturing) {
  if (timer != nullptr) timer->set_capturing(is_capturing == Py_True);
  Py_RETURN_NONE;
}

// Waits until what has passed, or passes soon, is recorded: recording is about to end.
PyObject* drain(PyObject*, PyObject*) {
  end_device_step();
  const uint64_t until_ns = monotonic_ns() + kLastNs;
  while (timer != nullptr && !timer->is_all_read() && monotonic_ns() < until_ns) {
    timer->wake_reader();
    Py_BEGIN_ALLOW_THREADS;
    usleep(1000);
    Py_END_ALLOW_THREADS;
  }
  Py_RETURN_NONE;
}

PyObject* finish(PyObject* module, PyObject*) {
  Py_DECREF(drain(module, nullptr));
  is_switched_on = false;
  if (timer == nullptr) Py_RETURN_NONE;
  Py_BEGIN_ALLOW_THREADS;
  timer->end_reader(kLastNs);
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyObject* read_now(PyObject*, PyObject*) {
  if (timer != nullptr) timer->read_now();
  Py_RETURN_NONE;
}

PyObject* tune(PyObject*, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"on", "join_ns", "read_ns", "probe_ns", nullptr};
  DeviceTimer::Options& options = DeviceTimer::options;
  int is_on = is_switched_on ? 1 : 0;
  unsigned long long join_ns = options.join_ns;
  unsigned long long read_ns = options.read_ns;
  unsigned long long probe_ns = options.probe_ns;
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "|$pKKK:_device_tune",
                                  const_cast<char**>(names), &is_on, &join_ns, &read_ns,
                                  &probe_ns) == 0) {
    return nullptr;
  }
  is_switched_on = is_on != 0;
  options = {.join_ns = join_ns, .read_ns = read_ns, .probe_ns = probe_ns};
  Py_RETURN_NONE;
}

}  // namespace

bool is_device_timed() { return is_switched_on && finder != nullptr; }

bool enter_device(Work work) {
  if (!is_device_timed() || (timer == nullptr && !open_timer())) return false;
  return timer->enter(work);
}

void leave_device(bool goes_on) {
  if (timer != nullptr) timer->leave(goes_on);
}

void end_device_step() {
  if (timer != nullptr && is_switched_on) timer->end_step();
}

PyMethodDef device_functions[] = {
    {"_device_find", set_finder, METH_O, nullptr},
    {"_device_enter", enter, METH_O, nullptr},
    {"_device_leave", leave, METH_O, nullptr},
    {"_device_end_step", end_step, METH_NOARGS, nullptr},
    {"_device_capture", capture, METH_O, nullptr},
    {"_device_drain", drain, METH_NOARGS, nullptr},
    {"_device_finish", finish, METH_NOARGS, nullptr},
    // For tests and benchmarks/gpu/gpu_trace.py.
    {"_device_read", read_now, METH_NOARGS, nullptr},
    {"_device_tune", as_method(tune), METH_VARARGS | METH_KEYWORDS, nullptr},
    {},
};

}  // namespace millrace::python
