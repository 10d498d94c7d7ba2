/* Regions from C: every function of millrace/trace.h, in the order that region_test.py expects. */
#include <errno.h>
#include <millrace/trace.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct millrace_name fetch = {MILLRACE_FETCH, 0};

static void* end_elsewhere(void* region) {
  millrace_region_end((struct millrace_region*)region);
  return NULL;
}

static void tags_and_nesting(void) {
  struct millrace_region outer;
  struct millrace_region inner;
  millrace_set_epoch(3);
  millrace_set_step(17);
  millrace_region_begin(&outer, &fetch);
  millrace_region_integer(&outer, "samples", -32);
  millrace_region_number(&outer, "rate", 0.5);
  millrace_region_text(&outer, "file", "a.tfrecord");
  millrace_region_begin_text(&inner, MILLRACE_READ);
  millrace_region_step(&inner, 18);
  millrace_region_epoch(&inner, 4);
  millrace_region_end(&inner);
  millrace_region_end(&inner); /* the second does nothing */
  millrace_clear_epoch();
  millrace_clear_step();
  millrace_region_end(&outer); /* began in epoch 3 */
}

static void marks(void) {
  struct millrace_region region;
  millrace_mark("plain");
  millrace_region_begin_text(&region, "tagged");
  millrace_region_integer(&region, "value", 7);
  millrace_region_mark(&region);
}

static void too_many_tags(void) {
  struct millrace_region region;
  int i;
  millrace_region_begin_text(&region, "crowded");
  for (i = 0; i < MILLRACE_REGION_TAGS + 3; ++i) millrace_region_integer(&region, "n", i);
  millrace_region_end(&region);
}

static int other_thread(void) {
  struct millrace_region region;
  pthread_t thread;
  millrace_region_begin_text(&region, "threads");
  if (pthread_create(&thread, NULL, end_elsewhere, &region) != 0) return 0;
  return pthread_join(thread, NULL) == 0;
}

static int fork_within(void) {
  struct millrace_region region;
  int status = -1;
  pid_t child;
  millrace_region_begin_text(&region, "forked");
  child = fork();
  if (child == 0) {
    millrace_region_end(&region);
    _exit(0);
  }
  millrace_region_end(&region);
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int forgotten(void) {
  struct millrace_region region;
  millrace_region_begin_text(&region, "forgotten");
  return region.begin_ticks != 0 || !millrace_traced();
}

int main(void) {
  errno = EDOM;
  tags_and_nesting();
  marks();
  too_many_tags();
  millrace_set_rank(5, 8);
  if (errno != EDOM) return 3;
  if (!other_thread() || !fork_within() || !forgotten()) return 4;
  puts(millrace_traced() ? "traced" : "not traced");
  return 0;
}
