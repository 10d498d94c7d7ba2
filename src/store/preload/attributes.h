// Attributes: what stat shows for an entry of the catalogue.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>

namespace millrace::store {

void fill_status(uint32_t entry, struct stat* status);
void fill_status(uint32_t entry, struct statx* status);

// The real directory of an entry, for next_written(); null with errno.
DIR* open_written(uint32_t directory);

// The next name of a real stream that a program has created; null at the end. kNoEntry: a program
// has created the directory, too.
struct dirent64* next_written(DIR* real, uint32_t directory);

}  // namespace millrace::store
