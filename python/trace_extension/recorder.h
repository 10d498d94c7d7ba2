// Recorder: the functions of libmillrace_trace.so that the extension uses, and the state of a
// region from begin to end.
//
// All of it runs with the GIL held, in every region: nothing here allocates.
#pragma once

#include <Python.h>

#include <cstdint>

#include "millrace/trace_api.h"

namespace millrace::python {

// Null if the program is not traced. Set once, when the module is imported: a library cannot be
// preloaded later.
extern const millrace_trace_functions* recorder;

// This thread's epoch and step. Without a recorder, the extension keeps them itself.
extern millrace_context* (*thread_context)();

void find_recorder();

inline bool is_recording() { return recorder != nullptr && recorder->enabled() != 0; }

// The id of a text. Names and keys are few and usually the same objects. `cached_name` remembers
// the last ones by address, and holds a reference so that the address is not reused.
uint32_t find_name(PyObject* text);
uint32_t cached_name(PyObject* text);

// Records that something happened now, with one tag. Without the GIL too.
void record_mark(const char* name, const char* key, const char* text);

// CLOCK_MONOTONIC.
uint64_t monotonic_ns();

// The ticks of the recorder at a time of CLOCK_MONOTONIC. For the recent past: the speed of the
// ticks is measured from the import of the module until now.
uint64_t ticks_at(uint64_t monotonic_ns);

// A region that has begun.
struct Begun {
  uint64_t begin_ticks = 0;
  uint64_t origin = 0;
  uint64_t step = MILLRACE_NO_STEP;
  uint32_t epoch = MILLRACE_NO_EPOCH;
};

// The part of a region that is the same in every run.
struct Description {
  PyObject* name = nullptr;  // a str, owned
  uint32_t name_id = 0;
  uint32_t epoch = MILLRACE_NO_EPOCH;  // if none, that of the thread
  uint64_t step = MILLRACE_NO_STEP;
  uint32_t tag_count = 0;
  millrace_tag* tags = nullptr;
};

// REQUIRES: is_recording().
inline Begun begin_region(const Description& what) {
  const millrace_context* context = thread_context();
  Begun begun;
  begun.step = what.step != MILLRACE_NO_STEP ? what.step : context->step;
  begun.epoch = what.epoch != MILLRACE_NO_EPOCH ? what.epoch : context->epoch;
  begun.origin = recorder->place();
  begun.begin_ticks = recorder->now();
  return begun;
}

// Records the event with one more tag: the name of the exception.
void record_with_error(const Description& what, millrace_event event, PyObject* exception_type);

inline void record_region(Description& what, const Begun& begun, uint64_t end_ticks,
                          PyObject* exception_type = nullptr) {
  if (what.name_id == 0) what.name_id = cached_name(what.name);
  const millrace_event event{
      .begin_ticks = begun.begin_ticks,
      .end_ticks = end_ticks,
      .step = begun.step,
      .epoch = begun.epoch,
      .name = what.name_id,
      // Set if the region ends in another place: in a forked child or on another thread.
      .origin = begun.origin == recorder->place() ? 0 : begun.origin,
      .tags = what.tags,
      .tag_count = what.tag_count,
  };
  if (exception_type != nullptr) {
    record_with_error(what, event, exception_type);
  } else {
    recorder->record(&event);
  }
}

inline void end_region(Description& what, const Begun& begun, PyObject* exception_type = nullptr) {
  const uint64_t now = recorder->now();
  // A region may be shorter than a tick, but equal times would make it a mark.
  record_region(what, begun, now > begun.begin_ticks ? now : begun.begin_ticks + 1, exception_type);
}

}  // namespace millrace::python
