// What the operations of the driver have in common: arguments and answers. See driver.c.
// Whoever includes it defines _GNU_SOURCE first.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { kSlots = 8 };
extern int slots[kSlots];  // -1: not open

// Arguments: the words of the line, from 1.
const char* word(int i);
long number(int i);
char* path(int i);
int descriptor(int i);
char* pattern(long size, long tag);  // bytes that follow from the size and the tag

// Answers.
void say(const char* format, ...) __attribute__((format(printf, 1, 2)));
void say_result(long result);  // the number, or the name of the error
void say_path(const char* path);
void say_bytes(const char* bytes, long size);
void say_read(const char* bytes, long size);  // the same, or the name of the error if size is -1
void say_stat(int result, const struct stat* status);
void say_directory(DIR* directory);  // and closes it
char entry_letter(int type);
void keep(int slot, int fd);  // and says whether there is one

// Names that an answer has sorted.
void add_name(const char* format, ...) __attribute__((format(printf, 1, 2)));
void say_names(void);
void forget_names(void);

// An operation `stat:stat64` is `stat`, but calls stat64 for CALL(stat): both have the same
// arguments. Their names differ in underscores before them and a 64. What has other arguments is a
// VARIANT, a function of its own.
extern const char* other_name;  // stat64; null if there is none
void* called(const char* name, void* function);
#define CALL(name) ((__typeof__(&name))called(#name, (void*)name))

struct operation {
  const char* name;
  void (*call)(void);
};
#define OPERATION(name) {#name, do_##name}
#define VARIANT(name, other) {#name ":" #other, do_##name##_##other}

// For the functions behind stat in old programs.
#if defined(__x86_64__)
enum { kStatVersion = 1 };
#else
enum { kStatVersion = 0 };
#endif

// Each ends with a null name.
extern const struct operation descriptor_operations[];
extern const struct operation name_operations[];
extern const struct operation process_operations[];
