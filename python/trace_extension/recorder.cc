#include "recorder.h"

#include <time.h>

#include <cstring>

#include "millrace/trace.h"

namespace millrace::python {

const millrace_trace_functions* recorder = nullptr;

namespace {

constexpr size_t kCacheSlots = 256;
constexpr size_t kTagsMax = 64;  // the limit of the recorder

struct CachedName {
  PyObject* text;
  uint32_t id;
};
CachedName cache[kCacheSlots];

// The same moment on both clocks.
struct Moment {
  uint64_t ticks;
  uint64_t ns;
};
Moment first_moment;

// Reads both clocks. Tries again if the thread was interrupted in between.
Moment read_clocks() {
  Moment best{};
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 4; ++i) {
    const uint64_t before = recorder->now();
    const uint64_t ns = monotonic_ns();
    const uint64_t after = recorder->now();
    if (after - before >= least) continue;
    least = after - before;
    best = {before + least / 2, ns};
  }
  return best;
}

thread_local millrace_context own_context{MILLRACE_NO_STEP, MILLRACE_NO_EPOCH, 0};

millrace_context* find_own_context() { return &own_context; }

}  // namespace

millrace_context* (*thread_context)() = &find_own_context;

uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void record_mark(const char* name, const char* key, const char* text) {
  if (!is_recording()) return;
  const millrace_tag tag{recorder->name(key, strlen(key)), MILLRACE_TAG_TEXT,
                         recorder->name(text, strlen(text))};
  const uint64_t now = recorder->now();
  const millrace_event event{.begin_ticks = now,
                             .end_ticks = now,
                             .step = MILLRACE_NO_STEP,
                             .epoch = MILLRACE_NO_EPOCH,
                             .name = recorder->name(name, strlen(name)),
                             .origin = 0,
                             .tags = &tag,
                             .tag_count = 1};
  recorder->record(&event);
}

void find_recorder() {
  recorder = millrace_recorder();
  if (millrace_thread_context() != nullptr) thread_context = recorder->context;
  if (recorder != nullptr) first_moment = read_clocks();
}

uint64_t ticks_at(uint64_t ns) {
  const Moment now = read_clocks();
  const auto passed_ns = static_cast<double>(now.ns - first_moment.ns);
  const double speed =
      passed_ns > 0 ? static_cast<double>(now.ticks - first_moment.ticks) / passed_ns : 1;
  // Signed: the time may be a little after now, if two clocks disagree.
  const auto ago_ns = static_cast<double>(static_cast<int64_t>(now.ns - ns));
  return now.ticks - static_cast<uint64_t>(static_cast<int64_t>(ago_ns * speed));
}

uint32_t find_name(PyObject* text) {
  Py_ssize_t length = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == nullptr) {  // lone surrogates, for example in file names that are not UTF-8
    PyErr_Clear();
    PyObject* encoded = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
    if (encoded == nullptr) PyErr_Clear();
    if (encoded == nullptr) return recorder->name("?", 1);
    const uint32_t id =
        recorder->name(PyBytes_AS_STRING(encoded), static_cast<size_t>(PyBytes_GET_SIZE(encoded)));
    Py_DECREF(encoded);
    return id;
  }
  return recorder->name(bytes, static_cast<size_t>(length));
}

uint32_t cached_name(PyObject* text) {
  const auto address = reinterpret_cast<uintptr_t>(text);
  CachedName& slot = cache[(address >> 4 ^ address >> 12) % kCacheSlots];
  if (slot.text == text) return slot.id;
  const uint32_t id = find_name(text);
  if (id == 0) return 0;  // no room for it now; try again next time
  Py_XDECREF(slot.text);
  Py_INCREF(text);
  slot = {text, id};
  return id;
}

void record_with_error(const Description& what, millrace_event event, PyObject* exception_type) {
  millrace_tag tags[kTagsMax];
  size_t count = what.tag_count < kTagsMax ? what.tag_count : kTagsMax - 1;
  for (size_t i = 0; i < count; ++i) tags[i] = what.tags[i];
  const char* error = PyExceptionClass_Check(exception_type)
                          ? reinterpret_cast<PyTypeObject*>(exception_type)->tp_name
                          : "?";
  tags[count++] = {recorder->name("error", 5), MILLRACE_TAG_TEXT,
                   recorder->name(error, strlen(error))};
  event.tags = tags;
  event.tag_count = count;
  recorder->record(&event);
}

}  // namespace millrace::python
