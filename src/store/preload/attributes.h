// Attributes: what stat shows for an entry of the catalogue.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>

namespace millrace::store {

void fill_status(uint32_t entry, struct stat* status);
void fill_status(uint32_t entry, struct statx* status);

}  // namespace millrace::store
