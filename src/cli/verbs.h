// Verbs: one function per file of this folder that describes the verb. commands() in cli.cc lists
// them.
#pragma once

#include "cli/options/command.h"

namespace millrace::cli {

Command compact_command();
Command compare_command();
Command advise_command();
Command bench_command();
Command completion_command();
Command convert_command();
Command doctor_command();
Command export_command();
Command import_command();
Command info_command();
Command inspect_command();
Command manual_command();
Command model_command();
Command query_command();
Command replay_command();
Command report_command();
Command store_command();
Command top_command();
Command trace_command();

}  // namespace millrace::cli
