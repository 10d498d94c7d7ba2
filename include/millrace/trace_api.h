/* The table of functions through which a traced program marks its own regions.
 *
 * libmillrace_trace.so exports millrace_trace_api(). Programs do not call it themselves:
 * millrace/trace.h (C and C++) and the Python package look it up at run time and do nothing if the
 * library is not preloaded. New members are only ever added at the end; `size_bytes` says how many
 * bytes of the table exist.
 */
#ifndef MILLRACE_TRACE_API_H
#define MILLRACE_TRACE_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MILLRACE_NO_EPOCH UINT32_MAX
#define MILLRACE_NO_STEP UINT64_MAX

enum millrace_tag_kind { MILLRACE_TAG_INTEGER = 1, MILLRACE_TAG_NUMBER = 2, MILLRACE_TAG_TEXT = 3 };

/* A key=value tag of a region. name() gives `key`, and the `value` of a text. The value of a number
 * is the bits of a double. */
struct millrace_tag {
  uint32_t key;
  uint32_t kind;
  uint64_t value;
};

struct millrace_event {
  uint64_t begin_ticks; /* now() when the region began */
  uint64_t end_ticks;   /* now() when it ended; if equal to begin_ticks, a mark */
  uint64_t step;        /* MILLRACE_NO_STEP: none */
  uint32_t epoch;       /* MILLRACE_NO_EPOCH: none */
  uint32_t name;        /* from name() */
  uint64_t origin;      /* place() where the region began; 0: here */
  const struct millrace_tag* tags;
  size_t tag_count;     /* at most 64 are kept */
};

/* The epoch and step of a thread. A region takes both when it begins, unless it sets its own. */
struct millrace_context {
  uint64_t step;  /* MILLRACE_NO_STEP: none */
  uint32_t epoch; /* MILLRACE_NO_EPOCH: none */
  uint32_t reserved;
};

struct millrace_trace_functions {
  size_t size_bytes; /* of this table */

  /* Whether regions are recorded. A fork may change this. Cheap to call. */
  int (*enabled)(void);

  /* The current time in ticks of the trace. */
  uint64_t (*now)(void);

  /* Returns the number of a text. The same text has the same number in every process of the trace.
   * Keep the number: looking it up costs more than recording an event. */
  uint32_t (*name)(const char* text, size_t length);

  /* This process and thread: process << 32 | thread. */
  uint64_t (*place)(void);

  /* Writes one event. Safe on any thread and in signal handlers. Preserves errno. */
  void (*record)(const struct millrace_event* event);

  /* Sets rank and world size, if no variable of the environment does. */
  void (*set_rank)(int rank, int world_size);

  /* The context of this thread, to read and write. Never null. fork copies it; a new thread has
   * neither epoch nor step. It is not a variable of the header, because all libraries and Python
   * must share one. */
  struct millrace_context* (*context)(void);

  /* Pauses the recording of this process, or resumes it. Nothing is recorded while it is paused,
   * neither regions nor calls. A forked child begins as its parent is. */
  void (*pause)(int paused);
};

const struct millrace_trace_functions* millrace_trace_api(void);

#ifdef __cplusplus
}
#endif

#endif
