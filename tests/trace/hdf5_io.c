// Calls each traced function of HDF5 ten times, and writes down what a trace must contain.
//
// usage: hdf5_io DIRECTORY. Also a module: module_caller.c loads it and calls run_hdf5().
// Lines of DIRECTORY/expected: call, file or dataset, offset, size, result; offset -1 means none.
#include <hdf5.h>
#include <hdf5_hl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kTimes = 10, kRows = 64, kColumns = 32, kChunkRows = 8 };

static FILE* expected;
static char directory[4096];

static void expect(const char* call, const char* name, long size, long result) {
  fprintf(expected, "%s\t%s/%s\t-1\t%ld\t%ld\n", call, directory, name, size, result);
}

static void check(long status, const char* what) {
  if (status >= 0) return;
  fprintf(stderr, "%s failed\n", what);
  exit(1);
}

static double data[kRows * kColumns];

static hid_t make_dataset(hid_t file, const char* name) {
  const hsize_t extent[2] = {kRows, kColumns};
  const hsize_t chunk[2] = {kChunkRows, kColumns};
  const hid_t space = H5Screate_simple(2, extent, NULL);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 2, chunk);
  const hid_t dataset =
      H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  check(dataset, "H5Dcreate2");
  H5Pclose(creation);
  H5Sclose(space);
  return dataset;
}

static void whole(hid_t dataset, const char* name) {
  const long size = sizeof(data);
  for (int i = 0; i < kTimes; ++i) {
    check(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "H5Dwrite");
    expect("H5Dwrite", name, size, size);
    check(H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "H5Dread");
    expect("H5Dread", name, size, size);
  }
}

// Rows of the dataset as floats: the recorded size is that in memory.
static void part(hid_t dataset, const char* name) {
  float rows[3 * kColumns];
  const hsize_t count[2] = {3, kColumns};
  const hid_t memory = H5Screate_simple(2, count, NULL);
  const hid_t space = H5Dget_space(dataset);
  for (int i = 0; i < kTimes; ++i) {
    const hsize_t start[2] = {(hsize_t)i, 0};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    check(H5Dread(dataset, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, rows), "H5Dread");
    expect("H5Dread", name, sizeof(rows), sizeof(rows));
  }
  H5Sclose(space);
  H5Sclose(memory);
}

static void chunks(hid_t dataset, const char* name) {
  const long size = sizeof(double) * kChunkRows * kColumns;
  for (int i = 0; i < kTimes; ++i) {
    const hsize_t offset[2] = {kChunkRows * (hsize_t)(i % (kRows / kChunkRows)), 0};
    uint32_t filters = 0;
    check(H5Dwrite_chunk(dataset, H5P_DEFAULT, 0, offset, size, data), "H5Dwrite_chunk");
    expect("H5Dwrite_chunk", name, size, size);
    check(H5DOwrite_chunk(dataset, H5P_DEFAULT, 0, offset, size, data), "H5DOwrite_chunk");
    expect("H5Dwrite_chunk", name, size, size);
    check(H5Dread_chunk(dataset, H5P_DEFAULT, offset, &filters, data), "H5Dread_chunk");
    expect("H5Dread_chunk", name, size, size);
  }
}

// A failing call is recorded, and the error that HDF5 keeps for it is still available.
static void failures(hid_t file, hid_t dataset, const char* file_name, const char* name) {
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  for (int i = 0; i < kTimes; ++i) {
    if (H5Dopen2(file, "missing", H5P_DEFAULT) >= 0) check(-1, "opening what is not there");
    expect("H5Dopen", file_name, 0, -1);
    if (H5Eget_num(H5E_DEFAULT) <= 0) check(-1, "asking for the error of H5Dopen2");
    if (H5Dread(dataset, H5T_NATIVE_DOUBLE, dataset, H5S_ALL, H5P_DEFAULT, data) >= 0) {
      check(-1, "reading into no space");
    }
    expect("H5Dread", name, 0, -1);
    if (H5Eget_num(H5E_DEFAULT) <= 0) check(-1, "asking for the error of H5Dread");
  }
}

static void one_file(int i) {
  char file_name[64];
  char path[4200];
  snprintf(file_name, sizeof(file_name), "file%d.h5", i);
  snprintf(path, sizeof(path), "%s/%s", directory, file_name);
  // Every second path is relative, and the working directory changes later.
  if (chdir(directory) != 0) check(-1, "chdir");
  hid_t file = H5Fcreate(i % 2 ? file_name : path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (chdir("/") != 0) check(-1, "chdir");
  check(file, path);
  expect("H5Fcreate", file_name, 0, 0);
  const hid_t group = H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t dataset = make_dataset(group, "values");
  char name[128];
  snprintf(name, sizeof(name), "%s:/group/values", file_name);
  expect("H5Dcreate", name, 0, 0);
  if (i == 0) {
    whole(dataset, name);
    part(dataset, name);
    chunks(dataset, name);
    failures(file, dataset, file_name, name);
  }
  check(H5Dflush(dataset), "H5Dflush");
  expect("H5Dflush", name, 0, 0);
  check(H5Fflush(file, H5F_SCOPE_GLOBAL), "H5Fflush");
  expect("H5Fflush", file_name, 0, 0);
  check(H5Dclose(dataset), "H5Dclose");
  expect("H5Dclose", name, 0, 0);
  H5Gclose(group);
  check(H5Fclose(file), "H5Fclose");
  expect("H5Fclose", file_name, 0, 0);

  file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  check(file, path);
  expect("H5Fopen", file_name, 0, 0);
  dataset = i % 2 ? H5Dopen1(file, "/group/values") : H5Dopen2(file, "group/values", H5P_DEFAULT);
  check(dataset, "H5Dopen");
  expect("H5Dopen", name, 0, 0);
  check(H5Dclose(dataset), "H5Dclose");
  expect("H5Dclose", name, 0, 0);
  check(H5Fclose(file), "H5Fclose");
  expect("H5Fclose", file_name, 0, 0);
}

int run_hdf5(const char* where) {
  char path[4200];
  snprintf(directory, sizeof(directory), "%s", where);
  snprintf(path, sizeof(path), "%s/expected", directory);
  expected = fopen(path, "w");
  for (int i = 0; i < kTimes; ++i) one_file(i);
  return fclose(expected);
}

// A tail call: compiled to a jump, so that our caller seems to call HDF5.
int close_in_tail_position(hid_t file) { return H5Fclose(file); }

hid_t open_for_tail_position(const char* path) {
  return H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
}

int main(int argc, char** argv) { return argc == 2 ? run_hdf5(argv[1]) : 2; }
