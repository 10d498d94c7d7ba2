// Judging: limits and arithmetic that rules share, and what the calls of a profile do.
#pragma once

#include <cstdint>
#include <string_view>

#include "analyze/profile/profile.h"

namespace millrace::advise {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;

// Fewer calls than this are not a pattern.
inline constexpr uint64_t kCallsMin = 200;
// A share of training time (Waiting::training_ns). Less waiting varies between runs anyway.
inline constexpr double kWaitShareMin = 0.05;
// A share of training time. Nobody would notice the fix of a smaller problem.
inline constexpr double kCostShareMin = 0.03;

// A read that takes longer waited for a device or a server: one from the page cache only copies.
inline constexpr uint64_t kCachedReadNs = 20'000;
// The share of the waiting for code that a change saves: it may make the code twice as fast, or run
// it ahead of time. Most cures of the clinic do the latter.
inline constexpr double kSavedOfCode = 0.8;

// What one sample costs in Python, even if it only slices an array in memory.
inline constexpr uint64_t kSampleNs = 5'000;

// One thread copies from the page cache at 2 GB/s or more on any current machine. Slower reads
// waited for a device or a server.
inline constexpr uint64_t kCacheBytesPerSecond = 2'000'000'000;
// A local solid-state disk.
inline constexpr uint64_t kDiskBytesPerSecond = 1'000'000'000;

// a / b; 0 if b is 0.
double ratio(uint64_t a, uint64_t b);

// Time to transfer `bytes`, in ns.
uint64_t time_at(uint64_t bytes, uint64_t bytes_per_second);

// whole * share, rounded down; the share is clamped to [0, 1].
uint64_t scaled(uint64_t whole, double share);

// whole - part; 0 if the part is larger.
inline uint64_t minus(uint64_t whole, uint64_t part) { return whole < part ? 0 : whole - part; }

// Totals of the files of this kind; null if there are none.
const analyze::IoTotals* totals_of(const analyze::Profile& profile, analyze::FileKind kind);
// All data files together; zeros if there are none.
analyze::IoTotals data_totals(const analyze::Profile& profile);

// Total time of reads, writes and metadata calls.
uint64_t time_of(const analyze::IoTotals& io);

// Stall::phase of gaps between the first step and the last.
inline constexpr std::string_view kInTraining = "in training";

// Whether the gap is spent in writing files, most of them checkpoints. The functions that saved
// them had no region, and made so many calls that only parts of them were recognised as
// checkpoints.
bool writes_checkpoint(const analyze::Profile& profile, const analyze::Stall& stall);
// A mean rank stopped for them between the first step and the last.
uint64_t unmarked_checkpoints_ns(const analyze::Profile& profile);

// What a call does, by its name in the profile; kOther if there is none.
wire::CallKind kind_of(const analyze::Profile& profile, std::string_view name);
// Calls that find files, those that name, remove or cut them as writers do, those that get their
// bytes, and those that change them.
bool changes_names(std::string_view name);
bool is_metadata(const analyze::Profile& profile, std::string_view name);
bool is_reading(const analyze::Profile& profile, std::string_view name);
bool is_writing(const analyze::Profile& profile, std::string_view name);

// Whether training stopped for writes in this directory. Then it opened files there to write.
bool has_writes_in(const analyze::Profile& profile, std::string_view directory);

bool uses_hdf5(const analyze::Profile& profile);
// Whether a path, or an extension, is that of an HDF5 file.
bool is_hdf5_name(std::string_view path);

}  // namespace millrace::advise
