// sample_options: the options that say how files of samples are read, for inspect and convert.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/options/command.h"
#include "format/file_source.h"

namespace millrace::cli {

// --format, --record-bytes, --rows, --header, --window-tokens.
std::vector<Option> sample_options();

// The files, or the directory if `paths` is one.
Result<format::FilesOptions> samples_of(const Arguments& arguments,
                                        const std::vector<std::string>& paths);

}  // namespace millrace::cli
