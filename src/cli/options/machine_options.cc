#include "cli/options/machine_options.h"

namespace millrace::cli {
namespace {

Status check_cores(std::string_view text) {
  RETURN_IF_ERROR(advise::parse_cores(text));
  return {};
}

Status check_storage(std::string_view text) {
  RETURN_IF_ERROR(advise::parse_storage(text));
  return {};
}

}  // namespace

std::vector<Option> machine_options() {
  return {{.name = "cores",
           .value = "N",
           .help = "CPU cores per host that the job may use",
           .check = check_cores},
          size_option("memory", "memory per host, for example 256GiB"),
          size_option("local-disk", "free space on the local disk of a host, for example 1TB"),
          {.name = "data-storage",
           .value = "KIND",
           .help = "storage of the data: local, rotating, lustre, nfs, ...",
           .check = check_storage},
          {.name = "checkpoint-storage",
           .value = "KIND",
           .help = "storage of the checkpoints, likewise",
           .check = check_storage}};
}

advise::MachineWords machine_words(const Arguments& arguments) {
  return advise::MachineWords{
      .cores = arguments.value("cores").value_or(""),
      .memory = arguments.value("memory").value_or(""),
      .local_disk = arguments.value("local-disk").value_or(""),
      .data_storage = arguments.value("data-storage").value_or(""),
      .checkpoint_storage = arguments.value("checkpoint-storage").value_or("")};
}

}  // namespace millrace::cli
