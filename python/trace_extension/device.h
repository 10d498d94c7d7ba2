// The device's time, for whatever launches work: one timer, made when the program has initialised
// its GPU. All functions need the GIL.
#pragma once

#include <Python.h>

#include "device_timer.h"

namespace millrace::python {

// Whether work may be timed now.
bool is_device_timed();

// As those of DeviceTimer. They do nothing if there is no GPU.
bool enter_device(Work work);
void leave_device(bool goes_on);
void end_device_step();

extern PyMethodDef device_functions[];
extern PyTypeObject copy_mark_type;

}  // namespace millrace::python
