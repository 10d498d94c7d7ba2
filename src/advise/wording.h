// Wording: what the sentences of findings share.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>

#include "advise/advise.h"
#include "advise/case.h"

namespace millrace::advise {

// Evidence that this part of the report shows: at("loading", "{} batches", 3).
template <typename... Args>
Evidence at(std::string where, fmt::format_string<Args...> format, Args&&... args) {
  return {.text = fmt::format(format, std::forward<Args>(args)...), .where = std::move(where)};
}

// "12.5 s"
std::string duration(uint64_t time_ns);

// "75.0 % of training time", or "of the wall time".
std::string part_text(double share, bool of_training);

// The directory of the most read data file, for example commands; "DATA" if there is none.
std::string data_directory(const Case& given);

// "millrace store pack DIR -o PACKS, then millrace store run --pack PACKS --at DIR -- COMMAND".
std::string store_commands(const Case& given);

// "lfs setstripe -S 4M -c 8 DIR". A stripe holds one transfer (1 to 16 MiB, a power of two). One
// server per GiB of the file, 1 to 16.
std::string stripe_command(const Case& given, uint64_t transfer_bytes, uint64_t file_bytes);

// The rank waits for data: evidence of several rules.
Evidence waiting_for_data(const Case& given);

// `saved_ns` is limited to the time of training.
Gain gain_of(const Waiting& waiting, uint64_t saved_ns, std::string how);

// The finding with the gain, and with the severity that follows from it: a problem if it is more
// than a tenth of training time. The text says how the gain was calculated. less_waiting() is for
// time that training waits for: it may save compute, too, which the work slows down on the same
// cores, and then says so.
Finding less_time(const Waiting& waiting, uint64_t saved_ns, Finding text);
Finding less_waiting(const Waiting& waiting, uint64_t saved_ns, Finding text);

// The same for a change that saves time, but it is not known how much.
Finding less_by_unknown(Finding text);

}  // namespace millrace::advise
