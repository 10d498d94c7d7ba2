/* Marks regions of a C or C++ program, for `millrace trace` to record.
 *
 * Nothing needs to be linked. If libmillrace_trace.so is preloaded, regions go into the trace
 * together with the I/O inside them. Otherwise every function here returns at once. Needs C11 or
 * C++17, Linux, and gcc or clang; with a glibc older than 2.34, add -ldl.
 *
 *   static struct millrace_name fetch = {MILLRACE_FETCH, 0};      // C
 *   struct millrace_region region;
 *   millrace_region_begin(&region, &fetch);
 *   millrace_region_integer(&region, "samples", 32);
 *   ...
 *   millrace_region_end(&region);
 *
 *   millrace::Region region("fetch");                             // C++
 *   region.step(17).tag("samples", 32);
 *
 * Every function may be called on any thread and preserves errno. A region may end on another
 * thread or in a forked child; the trace then names both. See docs/guide/trace-c.md.
 */
#ifndef MILLRACE_TRACE_H
#define MILLRACE_TRACE_H

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "trace_api.h"

#ifdef __cplusplus
#include <string_view>
#include <type_traits>
#endif

/* The phases of a training job. Reports know which of these names are waiting and which are
 * compute. Any other name may be used too. */
#define MILLRACE_SETUP "setup"           /* opening datasets, starting workers */
#define MILLRACE_EPOCH "epoch"           /* one pass over the dataset */
#define MILLRACE_FETCH "fetch"           /* making one batch, in any process or thread */
#define MILLRACE_READ "read"             /* reading one sample */
#define MILLRACE_DECODE "decode"         /* turning its bytes into values */
#define MILLRACE_DECOMPRESS "decompress" /* inflating its bytes */
#define MILLRACE_PARSE "parse"           /* turning its text into values */
#define MILLRACE_TRANSFORM "transform"   /* augmentation, normalisation */
#define MILLRACE_COLLATE "collate"       /* combining samples into a batch */
#define MILLRACE_BATCH_WAIT "batch_wait" /* training waits for its batch */
#define MILLRACE_COPY "copy"             /* copying a batch to the accelerator */
#define MILLRACE_COMPUTE "compute"       /* training computes; or use the three below */
#define MILLRACE_FORWARD "forward"
#define MILLRACE_BACKWARD "backward"
#define MILLRACE_OPTIMIZER "optimizer"
#define MILLRACE_COMMUNICATE "communicate" /* exchanging gradients between ranks */
#define MILLRACE_EVALUATE "evaluate"       /* validation */
#define MILLRACE_CHECKPOINT "checkpoint"   /* saving the state */
#define MILLRACE_RESTORE "restore"         /* loading the state */
#define MILLRACE_DEVICE "device"           /* the accelerator computes, by its own clock */
#define MILLRACE_DEVICE_COPY "device_copy" /* the accelerator copies, by its own clock */
#define MILLRACE_DEVICE_WAIT "device_wait" /* the host waits for it; also device_wait.FUNCTION */

/* The most tags of one region. If there are more, the last is `tags_lost`: how many are missing. */
enum { MILLRACE_REGION_TAGS = 16 };

/* A name that is looked up once. Make it static: {"fetch", 0}. */
struct millrace_name {
  const char* text;
  uint32_t id; /* 0: not looked up yet */
};

/* A region that has begun. Its members are private. It may be moved in memory. */
struct millrace_region {
  uint64_t begin_ticks; /* 0: not recorded, or ended */
  uint64_t origin;
  uint64_t step;
  uint32_t epoch;
  uint32_t name;
  uint32_t tag_count;
  uint32_t tags_lost;
  struct millrace_tag tags[MILLRACE_REGION_TAGS];
};

#ifdef __cplusplus
extern "C" {
#endif

/* The recorder's functions, or null if nothing records. */
static inline const struct millrace_trace_functions* millrace_recorder(void) {
  /* The table's address, or 1 if there is none. Looked up once per source file. */
  static uintptr_t found;
  uintptr_t api = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
  if (api == 0) {
    const int saved_errno = errno;
    const struct millrace_trace_functions* (*get)(void) = NULL;
    void* symbol = dlsym(NULL /* RTLD_DEFAULT, which strict C does not declare */, "millrace_trace_api");
    memcpy(&get, &symbol, sizeof get); /* ISO C has no cast from an object to a function */
    api = get != NULL ? (uintptr_t)get() : 0;
    api = api != 0 ? api : 1;
    __atomic_store_n(&found, api, __ATOMIC_RELEASE);
    errno = saved_errno;
  }
  return api == 1 ? NULL : (const struct millrace_trace_functions*)api;
}

/* The recorder's functions if regions are recorded now, else null. */
static inline const struct millrace_trace_functions* millrace_recording(void) {
  const struct millrace_trace_functions* api = millrace_recorder();
  return api != NULL && api->enabled() ? api : NULL;
}

/* Whether regions are recorded. Ask only before work that is done for the trace alone. */
static inline int millrace_traced(void) { return millrace_recording() != NULL; }

/* The context of this thread, or null if there is no recorder or it is too old. */
static inline struct millrace_context* millrace_thread_context(void) {
  const struct millrace_trace_functions* api = millrace_recorder();
  const size_t needed = offsetof(struct millrace_trace_functions, context) + sizeof api->context;
  return api != NULL && api->size_bytes >= needed ? api->context() : NULL;
}

/* Sets the epoch and the step of this thread's later regions. */
static inline void millrace_set_epoch(uint32_t epoch) {
  struct millrace_context* context = millrace_thread_context();
  if (context != NULL) context->epoch = epoch;
}
static inline void millrace_clear_epoch(void) { millrace_set_epoch(MILLRACE_NO_EPOCH); }

static inline void millrace_set_step(uint64_t step) {
  struct millrace_context* context = millrace_thread_context();
  if (context != NULL) context->step = step;
}
static inline void millrace_clear_step(void) { millrace_set_step(MILLRACE_NO_STEP); }

/* Sets rank and world size. Needed only if no launcher (mpirun, srun, torchrun) sets variables. */
static inline void millrace_set_rank(int rank, int world_size) {
  const struct millrace_trace_functions* api = millrace_recorder();
  if (api != NULL) api->set_rank(rank, world_size);
}

static inline uint32_t millrace_name_id(struct millrace_name* name) {
  uint32_t id = __atomic_load_n(&name->id, __ATOMIC_RELAXED);
  if (id == 0) {
    const struct millrace_trace_functions* api = millrace_recorder();
    id = api != NULL ? api->name(name->text, strlen(name->text)) : 0;
    __atomic_store_n(&name->id, id, __ATOMIC_RELAXED);
  }
  return id;
}

static inline void millrace_region_begin_id(struct millrace_region* region,
                                            const struct millrace_trace_functions* api, uint32_t name) {
  const struct millrace_context* context = millrace_thread_context();
  region->name = name;
  region->step = context != NULL ? context->step : MILLRACE_NO_STEP;
  region->epoch = context != NULL ? context->epoch : MILLRACE_NO_EPOCH;
  region->tag_count = 0;
  region->tags_lost = 0;
  region->origin = api->place();
  region->begin_ticks = api->now();
}

/* Begins a region. End it with millrace_region_end(), or drop it, and it is not recorded. */
static inline void millrace_region_begin(struct millrace_region* region, struct millrace_name* name) {
  const struct millrace_trace_functions* api = millrace_recording();
  region->begin_ticks = 0;
  if (api != NULL) millrace_region_begin_id(region, api, millrace_name_id(name));
}

/* The same for a name known only at run time. The lookup takes longer than the recording. */
static inline void millrace_region_begin_text(struct millrace_region* region, const char* name) {
  const struct millrace_trace_functions* api = millrace_recording();
  region->begin_ticks = 0;
  if (api != NULL) millrace_region_begin_id(region, api, api->name(name, strlen(name)));
}

/* Set the region's own epoch, step and tags at any time before its end. */
static inline void millrace_region_epoch(struct millrace_region* region, uint32_t epoch) {
  region->epoch = epoch;
}

static inline void millrace_region_step(struct millrace_region* region, uint64_t step) {
  region->step = step;
}

/* millrace_name_id() gives `tag.key`, and the value of a text. */
static inline void millrace_region_tag(struct millrace_region* region, struct millrace_tag tag) {
  if (region->begin_ticks == 0) return;
  if (region->tag_count < MILLRACE_REGION_TAGS) {
    region->tags[region->tag_count++] = tag;
  } else {
    region->tags_lost += region->tags_lost == 0 ? 2 : 1; /* tags_lost replaces one tag */
  }
}

static inline void millrace_region_tag_text_key(struct millrace_region* region, const char* key,
                                                uint32_t kind, uint64_t value) {
  struct millrace_tag tag;
  if (region->begin_ticks == 0) return;
  tag.key = millrace_recorder()->name(key, strlen(key));
  tag.kind = kind;
  tag.value = value;
  millrace_region_tag(region, tag);
}

static inline void millrace_region_integer(struct millrace_region* region, const char* key,
                                           int64_t value) {
  millrace_region_tag_text_key(region, key, MILLRACE_TAG_INTEGER, (uint64_t)value);
}

static inline void millrace_region_number(struct millrace_region* region, const char* key,
                                          double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  millrace_region_tag_text_key(region, key, MILLRACE_TAG_NUMBER, bits);
}

static inline void millrace_region_text_bytes(struct millrace_region* region, const char* key,
                                              const char* value, size_t length) {
  if (region->begin_ticks == 0) return;
  millrace_region_tag_text_key(region, key, MILLRACE_TAG_TEXT,
                               millrace_recorder()->name(value, length));
}

static inline void millrace_region_text(struct millrace_region* region, const char* key,
                                        const char* value) {
  millrace_region_text_bytes(region, key, value, strlen(value));
}

static inline void millrace_region_record(struct millrace_region* region, uint64_t end_ticks) {
  const struct millrace_trace_functions* api = millrace_recorder();
  struct millrace_event event;
  const uint64_t here = api->place();
  if (region->tags_lost != 0) {
    struct millrace_tag* last = &region->tags[MILLRACE_REGION_TAGS - 1];
    last->key = api->name("tags_lost", strlen("tags_lost"));
    last->kind = MILLRACE_TAG_INTEGER;
    last->value = region->tags_lost;
  }
  event.begin_ticks = region->begin_ticks;
  event.end_ticks = end_ticks;
  event.step = region->step;
  event.epoch = region->epoch;
  event.name = region->name;
  event.origin = region->origin == here ? 0 : region->origin;
  event.tags = region->tags;
  event.tag_count = region->tag_count;
  region->begin_ticks = 0;
  api->record(&event);
}

/* Ends and records the region. A second end does nothing. */
static inline void millrace_region_end(struct millrace_region* region) {
  uint64_t end_ticks;
  if (region->begin_ticks == 0) return;
  end_ticks = millrace_recorder()->now();
  /* A short region may begin and end on the same tick, and equal times mean a mark. */
  if (end_ticks <= region->begin_ticks) end_ticks = region->begin_ticks + 1;
  millrace_region_record(region, end_ticks);
}

/* Records the region as a mark: a point in time, with the region's tags. */
static inline void millrace_region_mark(struct millrace_region* region) {
  if (region->begin_ticks != 0) millrace_region_record(region, region->begin_ticks);
}

/* Records a mark: a point in time. */
static inline void millrace_mark(const char* name) {
  struct millrace_region region;
  millrace_region_begin_text(&region, name);
  millrace_region_mark(&region);
}

#ifdef __cplusplus
} /* extern "C" */

namespace millrace {

// A name that is looked up once: `static millrace::Name fetch{"fetch"};`.
class Name {
 public:
  // REQUIRES: `text` lives as long as the Name; a literal does.
  explicit constexpr Name(const char* text) : name_{text, 0} {}
  millrace_name& get() { return name_; }

 private:
  millrace_name name_;
};

// A region that ends with its scope or at end(). It may be moved to another thread.
class Region {
 public:
  explicit Region(Name& name) { millrace_region_begin(&region_, &name.get()); }
  explicit Region(const char* name) { millrace_region_begin_text(&region_, name); }

  Region(Region&& other) noexcept : region_(other.region_) { other.region_.begin_ticks = 0; }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  Region& operator=(Region&&) = delete;
  ~Region() { end(); }

  Region& epoch(uint32_t epoch) {
    millrace_region_epoch(&region_, epoch);
    return *this;
  }

  Region& step(uint64_t step) {
    millrace_region_step(&region_, step);
    return *this;
  }

  template <typename Value>
  Region& tag(const char* key, const Value& value) {
    if constexpr (std::is_integral_v<Value> || std::is_enum_v<Value>) {
      millrace_region_integer(&region_, key, static_cast<int64_t>(value));
    } else if constexpr (std::is_floating_point_v<Value>) {
      millrace_region_number(&region_, key, static_cast<double>(value));
    } else {
      const std::string_view text(value);
      millrace_region_text_bytes(&region_, key, text.data(), text.size());
    }
    return *this;
  }

  // Ends the region. A second call does nothing.
  void end() { millrace_region_end(&region_); }

  // Records a mark at the region's begin instead of the region.
  void mark() { millrace_region_mark(&region_); }

 private:
  millrace_region region_;
};

}  // namespace millrace
#endif

#endif
