// Calls each function of MPI-IO ten times on every rank, and writes down what a trace must contain.
//
// usage: mpi_io DIRECTORY [quiet]   (its file `data` has 64 KiB)
// Lines of DIRECTORY/expected.RANK: call, file, offset, size, result; offset -1 means none.
// `quiet` only initializes and finalizes MPI, for jobs in which not all ranks are traced.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTimes = 10, kCount = 8, kBytes = 32, kDisplacement = 64, kFileBytes = 65536 };

static char directory[4096];
static char data_path[4200];
static char out_path[4200];
static FILE* expected;
static int rank;
static int buffer[1024];

static void expect(const char* call, const char* path, long offset, long size, long result) {
  fprintf(expected, "%s\t%s\t%ld\t%ld\t%ld\n", call, path, offset, size, result);
}

static void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_File open_file(const char* path, int mode) {
  MPI_File file;
  check(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), path);
  expect("MPI_File_open", path, -1, 0, 0);
  return file;
}

static void close_file(MPI_File* file, const char* path) {
  check(MPI_File_close(file), path);
  expect("MPI_File_close", path, -1, 0, 0);
}

static void set_view(MPI_File file, const char* path) {
  check(MPI_File_set_view(file, kDisplacement, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), path);
  expect("MPI_File_set_view", path, kDisplacement, 0, 0);
}

static void rewind_file(MPI_File file, const char* path) {
  check(MPI_File_seek(file, 0, MPI_SEEK_SET), path);
  expect("MPI_File_seek", path, kDisplacement, 0, 0);
}

// The explicit offset of the i-th transfer, in elements of the view and in bytes.
static MPI_Offset place(int i) { return rank * 100 + i; }
static long place_bytes(int i) { return kDisplacement + 4 * (long)place(i); }
static long position_bytes(int i) { return kDisplacement + kBytes * (long)i; }

typedef int ReadPosition(MPI_File, void*, int, MPI_Datatype, MPI_Status*);
typedef int WritePosition(MPI_File, const void*, int, MPI_Datatype, MPI_Status*);
typedef int ReadAt(MPI_File, MPI_Offset, void*, int, MPI_Datatype, MPI_Status*);
typedef int WriteAt(MPI_File, MPI_Offset, const void*, int, MPI_Datatype, MPI_Status*);

// The dynamic linker resolves these pointers like calls: they point to the hooks.
static void blocking_reads(MPI_File file) {
  static const struct {
    const char* name;
    ReadPosition* call;
    int shared;
  } kCalls[] = {{"MPI_File_read", MPI_File_read, 0},
                {"MPI_File_read_all", MPI_File_read_all, 0},
                {"MPI_File_read_shared", MPI_File_read_shared, 1},
                {"MPI_File_read_ordered", MPI_File_read_ordered, 1}};
  for (size_t c = 0; c < sizeof(kCalls) / sizeof(kCalls[0]); ++c) {
    rewind_file(file, data_path);
    for (int i = 0; i < kTimes; ++i) {
      MPI_Status status;
      check(kCalls[c].call(file, buffer, kCount, MPI_INT, i % 2 ? &status : MPI_STATUS_IGNORE),
            kCalls[c].name);
      expect(kCalls[c].name, data_path, kCalls[c].shared ? -1 : position_bytes(i), kBytes, kBytes);
    }
  }
  static const struct {
    const char* name;
    ReadAt* call;
  } kAtCalls[] = {{"MPI_File_read_at", MPI_File_read_at},
                  {"MPI_File_read_at_all", MPI_File_read_at_all}};
  for (size_t c = 0; c < 2; ++c) {
    for (int i = 0; i < kTimes; ++i) {
      check(kAtCalls[c].call(file, place(i), buffer, kCount, MPI_INT, MPI_STATUS_IGNORE),
            kAtCalls[c].name);
      expect(kAtCalls[c].name, data_path, place_bytes(i), kBytes, kBytes);
    }
  }
}

static void blocking_writes(MPI_File file) {
  static const struct {
    const char* name;
    WritePosition* call;
    int shared;
  } kCalls[] = {{"MPI_File_write", MPI_File_write, 0},
                {"MPI_File_write_all", MPI_File_write_all, 0},
                {"MPI_File_write_shared", MPI_File_write_shared, 1},
                {"MPI_File_write_ordered", MPI_File_write_ordered, 1}};
  for (size_t c = 0; c < sizeof(kCalls) / sizeof(kCalls[0]); ++c) {
    rewind_file(file, out_path);
    for (int i = 0; i < kTimes; ++i) {
      MPI_Status status;
      check(kCalls[c].call(file, buffer, kCount, MPI_INT, i % 2 ? &status : MPI_STATUS_IGNORE),
            kCalls[c].name);
      expect(kCalls[c].name, out_path, kCalls[c].shared ? -1 : position_bytes(i), kBytes, kBytes);
    }
  }
  static const struct {
    const char* name;
    WriteAt* call;
  } kAtCalls[] = {{"MPI_File_write_at", MPI_File_write_at},
                  {"MPI_File_write_at_all", MPI_File_write_at_all}};
  for (size_t c = 0; c < 2; ++c) {
    for (int i = 0; i < kTimes; ++i) {
      check(kAtCalls[c].call(file, place(i), buffer, kCount, MPI_INT, MPI_STATUS_IGNORE),
            kAtCalls[c].name);
      expect(kAtCalls[c].name, out_path, place_bytes(i), kBytes, kBytes);
    }
  }
}

static void finish(MPI_Request* request, const char* call, const char* path, long offset) {
  check(MPI_Wait(request, MPI_STATUS_IGNORE), call);
  expect(call, path, offset, kBytes, kBytes);
}

static void unfinished_calls(MPI_File in, MPI_File out) {
  MPI_Request request;
  rewind_file(in, data_path);
  rewind_file(out, out_path);
  for (int i = 0; i < kTimes; ++i) {
    MPI_File_iread(in, buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iread", data_path, position_bytes(i));
    MPI_File_iwrite(out, buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iwrite", out_path, position_bytes(i));
    MPI_File_iread_at(in, place(i), buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iread_at", data_path, place_bytes(i));
    MPI_File_iwrite_at(out, place(i), buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iwrite_at", out_path, place_bytes(i));
    MPI_File_iread_at_all(in, place(i), buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iread_at_all", data_path, place_bytes(i));
    MPI_File_iwrite_at_all(out, place(i), buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iwrite_at_all", out_path, place_bytes(i));
    MPI_File_iread_shared(in, buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iread_shared", data_path, -1);
    MPI_File_iwrite_shared(out, buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iwrite_shared", out_path, -1);
  }
  rewind_file(in, data_path);
  rewind_file(out, out_path);
  for (int i = 0; i < kTimes; ++i) {
    MPI_File_iread_all(in, buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iread_all", data_path, position_bytes(i));
    MPI_File_iwrite_all(out, buffer, kCount, MPI_INT, &request);
    finish(&request, "MPI_File_iwrite_all", out_path, position_bytes(i));
  }
}

static void ended(int code, const char* call, const char* path) {
  check(code, call);
  expect(call, path, -1, 0, 0);
}

static void split_calls(MPI_File in, MPI_File out) {
  MPI_Status status;
  rewind_file(in, data_path);
  rewind_file(out, out_path);
  for (int i = 0; i < kTimes; ++i) {
    MPI_File_read_all_begin(in, buffer, kCount, MPI_INT);
    expect("MPI_File_read_all_begin", data_path, position_bytes(i), kBytes, kBytes);
    ended(MPI_File_read_all_end(in, buffer, &status), "MPI_File_read_all_end", data_path);
    MPI_File_write_all_begin(out, buffer, kCount, MPI_INT);
    expect("MPI_File_write_all_begin", out_path, position_bytes(i), kBytes, kBytes);
    ended(MPI_File_write_all_end(out, buffer, &status), "MPI_File_write_all_end", out_path);
    MPI_File_read_at_all_begin(in, place(i), buffer, kCount, MPI_INT);
    expect("MPI_File_read_at_all_begin", data_path, place_bytes(i), kBytes, kBytes);
    ended(MPI_File_read_at_all_end(in, buffer, &status), "MPI_File_read_at_all_end", data_path);
    MPI_File_write_at_all_begin(out, place(i), buffer, kCount, MPI_INT);
    expect("MPI_File_write_at_all_begin", out_path, place_bytes(i), kBytes, kBytes);
    ended(MPI_File_write_at_all_end(out, buffer, &status), "MPI_File_write_at_all_end", out_path);
    MPI_File_read_ordered_begin(in, buffer, kCount, MPI_INT);
    expect("MPI_File_read_ordered_begin", data_path, -1, kBytes, kBytes);
    ended(MPI_File_read_ordered_end(in, buffer, &status), "MPI_File_read_ordered_end", data_path);
    MPI_File_write_ordered_begin(out, buffer, kCount, MPI_INT);
    expect("MPI_File_write_ordered_begin", out_path, -1, kBytes, kBytes);
    ended(MPI_File_write_ordered_end(out, buffer, &status), "MPI_File_write_ordered_end", out_path);
  }
}

static void other_calls(MPI_File file) {
  for (int i = 0; i < kTimes; ++i) {
    MPI_Offset size = 0;
    check(MPI_File_set_size(file, 100000 + i), "MPI_File_set_size");
    expect("MPI_File_set_size", out_path, -1, 100000 + i, 0);
    check(MPI_File_get_size(file, &size), "MPI_File_get_size");
    expect("MPI_File_get_size", out_path, -1, 0, 100000 + i);
    check(MPI_File_sync(file), "MPI_File_sync");
    expect("MPI_File_sync", out_path, -1, 0, 0);
    check(MPI_File_seek(file, i, MPI_SEEK_SET), "MPI_File_seek");
    expect("MPI_File_seek", out_path, kDisplacement + 4 * i, 0, 0);
    check(MPI_File_seek_shared(file, i, MPI_SEEK_SET), "MPI_File_seek_shared");
    expect("MPI_File_seek_shared", out_path, -1, 0, 0);
  }
}

// Each rank uses its own files: opening, deleting, failing.
static void names(void) {
  for (int i = 0; i < kTimes; ++i) {
    char path[4300];
    snprintf(path, sizeof(path), "%s/own.%d.%d", directory, rank, i);
    MPI_File file;
    check(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                        &file),
          path);
    expect("MPI_File_open", path, -1, 0, 0);
    if (MPI_File_read(file, buffer, 1, MPI_INT, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
      check(MPI_ERR_OTHER, "reading a file open for writing");
    }
    expect("MPI_File_read", path, 0, 0, -1);
    // Not on a shared file: there, Open MPI 4.1 fails or hangs, traced or not.
    check(MPI_File_preallocate(file, 2000 + i), "MPI_File_preallocate");
    expect("MPI_File_preallocate", path, -1, 2000 + i, 0);
    close_file(&file, path);
    check(MPI_File_delete(path, MPI_INFO_NULL), path);
    expect("MPI_File_delete", path, -1, 0, 0);
    if (MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS) {
      check(MPI_ERR_OTHER, "opening what is not there");
    }
    expect("MPI_File_open", path, -1, 0, -1);
  }
}

// Only 16 bytes are left, less than requested; the count is available with or without a status.
static void short_reads(MPI_File file) {
  for (int i = 0; i < kTimes; ++i) {
    MPI_Status status;
    int count = 0;
    const MPI_Offset at = (kFileBytes - kDisplacement - 16) / 4;
    check(MPI_File_read_at(file, at, buffer, kCount, MPI_INT, i % 2 ? &status : MPI_STATUS_IGNORE),
          "short read");
    if (i % 2) MPI_Get_count(&status, MPI_INT, &count);
    if (i % 2 && count != 4) check(MPI_ERR_OTHER, "the count of a short read");
    expect("MPI_File_read_at", data_path, kFileBytes - 16, kBytes, 16);
  }
}

int main(int argc, char** argv) {
  int provided = 0;
  if (argc == 3) {
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
  }
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(directory, sizeof(directory), "%s", argv[1]);
  snprintf(data_path, sizeof(data_path), "%s/data", directory);
  snprintf(out_path, sizeof(out_path), "%s/out", directory);
  char path[4300];
  snprintf(path, sizeof(path), "%s/expected.%d", directory, rank);
  expected = fopen(path, "w");

  MPI_File in = open_file(data_path, MPI_MODE_RDONLY);
  MPI_File out = open_file(out_path, MPI_MODE_CREATE | MPI_MODE_RDWR);
  for (int i = 0; i < kTimes; ++i) set_view(in, data_path);
  set_view(out, out_path);
  blocking_reads(in);
  blocking_writes(out);
  unfinished_calls(in, out);
  split_calls(in, out);
  other_calls(out);
  short_reads(in);
  names();
  close_file(&in, data_path);
  close_file(&out, out_path);
  fclose(expected);
  MPI_Finalize();
  return 0;
}
