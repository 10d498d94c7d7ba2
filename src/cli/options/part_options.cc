#include "cli/options/part_options.h"

#include "base/text/units.h"

namespace millrace::cli {
namespace {

Status check_time(std::string_view text) {
  ASSIGN_OR_RETURN(const auto time, parse_duration(text));
  if (time.count() >= 0) return {};
  return fail(Errc::kInvalidArgument,
              "times count from the start of the trace and cannot be negative");
}

Status check_ranks(std::string_view text) {
  RETURN_IF_ERROR(interop::parse_ranks(text));
  return {};
}

Result<std::optional<uint64_t>> time_of(const Arguments& arguments, std::string_view option) {
  const auto given = arguments.value(option);
  if (!given) return std::optional<uint64_t>();
  ASSIGN_OR_RETURN(const auto time, parse_duration(*given));
  return std::optional<uint64_t>(static_cast<uint64_t>(time.count()));
}

}  // namespace

std::vector<Option> part_options() {
  return {{.name = "from",
           .value = "TIME",
           .help = "skip events that ended before, for example 1.5s",
           .check = check_time},
          {.name = "until",
           .value = "TIME",
           .help = "skip events that began at this time or later",
           .check = check_time},
          {.name = "ranks",
           .value = "LIST",
           .help = "only these ranks, for example 0,3-5",
           .check = check_ranks}};
}

Result<interop::Selection> part_of(const Arguments& arguments) {
  interop::Selection selection;
  ASSIGN_OR_RETURN(selection.from_ns, time_of(arguments, "from"));
  ASSIGN_OR_RETURN(selection.until_ns, time_of(arguments, "until"));
  if (const auto ranks = arguments.value("ranks")) {
    ASSIGN_OR_RETURN(selection.ranks, interop::parse_ranks(*ranks));
  }
  return selection;
}

}  // namespace millrace::cli
