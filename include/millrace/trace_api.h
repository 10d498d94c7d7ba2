/* The table of functions through which a traced program marks its own regions.
 *
 * libmillrace_trace.so, where it is preloaded, exports millrace_trace_api(). Programs do not call it
 * themselves: millrace/trace.h (C and C++) and the Python package find it at run time and do nothing
 * where it is absent. The table only ever grows at its end; `size_bytes` tells how much of it is there.
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

/* key=value of a region. `key`, and `value` of a text, come from name(). A number's value is the bits
 * of a double. */
struct millrace_tag {
  uint32_t key;
  uint32_t kind;
  uint64_t value;
};

struct millrace_event {
  uint64_t begin_ticks; /* now() when the region began */
  uint64_t end_ticks;   /* now() when it ended; equal to begin_ticks: a mark */
  uint64_t step;        /* MILLRACE_NO_STEP: none */
  uint32_t epoch;       /* MILLRACE_NO_EPOCH: none */
  uint32_t name;        /* from name() */
  uint64_t origin;      /* place() where it began; 0: here */
  const struct millrace_tag* tags;
  size_t tag_count;     /* at most 64 are kept */
};

/* Where a thread stands in the training: regions take both when they begin, unless they have their own. */
struct millrace_context {
  uint64_t step;  /* MILLRACE_NO_STEP: none */
  uint32_t epoch; /* MILLRACE_NO_EPOCH: none */
  uint32_t reserved;
};

struct millrace_trace_functions {
  size_t size_bytes; /* of this table */

  /* Whether regions are recorded at all. May change at a fork; cheap. */
  int (*enabled)(void);

  /* The time in the trace's ticks. */
  uint64_t (*now)(void);

  /* A number for a text, the same for the same text in every process of the trace. Keep it: finding
   * it costs more than recording with it. */
  uint32_t (*name)(const char* text, size_t length);

  /* This process and thread: process << 32 | thread. */
  uint64_t (*place)(void);

  /* Writes one event. Safe in signal handlers and on any thread; keeps errno. */
  void (*record)(const struct millrace_event* event);

  /* Says which rank of how many this process is, where the environment does not. */
  void (*set_rank)(int rank, int world_size);

  /* This thread's context, never null, for reading and writing. It belongs to the thread and is copied
   * by fork; a new thread has neither epoch nor step. Here and not in a header's own variable, since
   * every library and Python must see the same one. */
  struct millrace_context* (*context)(void);
};

const struct millrace_trace_functions* millrace_trace_api(void);

#ifdef __cplusplus
}
#endif

#endif
