// Loads a module with RTLD_LOCAL, like interpreters load extensions, and calls it. The program
// itself does not use the libraries of the module.
//
// usage: module_caller MODULE DIRECTORY
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (module == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*run)(const char*) = (int (*)(const char*))dlsym(module, "run_hdf5");
  int64_t (*open)(const char*) = (int64_t(*)(const char*))dlsym(module, "open_for_tail_position");
  int (*close)(int64_t) = (int (*)(int64_t))dlsym(module, "close_in_tail_position");
  if (run == NULL || open == NULL || close == NULL || run(argv[2]) != 0) return 1;
  char path[4200];
  snprintf(path, sizeof(path), "%s/file0.h5", argv[2]);
  const int64_t file = open(path);
  if (file < 0 || close(file) < 0) return 1;
  // A missing symbol must look missing, whatever the recorder has looked up before.
  const char* left = dlerror();
  if (left != NULL) fprintf(stderr, "an error is left over: %s\n", left);
  return left == NULL ? 0 : 1;
}
