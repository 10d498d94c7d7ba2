#include "loader/same_dataset.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/hash/crc32c.h"
#include "data/fingerprint.h"

namespace millrace::loader {
namespace {

constexpr uint64_t kReadCount = 32;                  // samples whose bytes are compared
constexpr uint64_t kReadBytes = uint64_t{64} << 20;  // enough; the others are not read
constexpr uint64_t kPartCount = 64;                  // of a range, in the search for a difference
constexpr uint64_t kFilesMax = uint64_t{1} << 20;    // whose sizes are compared
constexpr uint64_t kFilesMaxSlow = 4096;             // if a status takes longer than
constexpr std::chrono::microseconds kSlowStatus{20};

// What a rank read of a sample.
struct Content {
  uint64_t size_bytes = 0;
  uint32_t checksum = 0;
  uint32_t is_read = 0;  // 0: it could not be read, or there was enough already

  bool operator==(const Content&) const = default;
};
static_assert(sizeof(Content) == 16);

struct Facts {
  uint64_t sample_count = 0;
  uint64_t file_count = 0;
  uint32_t names = 0;
  uint32_t has_slow_files = 0;
  Content contents[kReadCount] = {};
};

uint64_t sample_to_read(uint64_t index, uint64_t sample_count) {
  return sample_count <= kReadCount ? index : index * (sample_count - 1) / (kReadCount - 1);
}

// A sample that cannot be read is not compared. Whoever needs it gets the error.
Content content_of(const data::SampleSource& source, data::SampleId sample, data::Buffer& room) {
  const auto bytes = source.read(sample, room);
  if (!bytes.ok()) return {};
  return {.size_bytes = bytes->size(), .checksum = crc32c(*bytes), .is_read = 1};
}

void read_contents(const data::SampleSource& source, Facts& facts) {
  data::Buffer room;
  uint64_t read_bytes = 0;
  for (uint64_t i = 0; i < std::min(kReadCount, facts.sample_count); ++i) {
    if (read_bytes >= kReadBytes) return;
    const data::SampleId sample{sample_to_read(i, facts.sample_count)};
    facts.contents[i] = content_of(source, sample, room);
    read_bytes += facts.contents[i].size_bytes;
  }
}

// The facts of all ranks, the same on each.
template <typename T>
Result<std::vector<T>> gather(std::span<const T> mine, comm::Comm& comm) {
  ASSIGN_OR_RETURN(const auto all, comm.gather_to_all(std::as_bytes(mine)));
  std::vector<T> values(mine.size() * all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].size() != mine.size_bytes()) {
      return fail(Errc::kCorrupt, "rank {} sent {} bytes about its dataset instead of {}", rank,
                  all[rank].size(), mine.size_bytes());
    }
    std::memcpy(&values[rank * mine.size()], all[rank].data(), all[rank].size());
  }
  return values;
}

std::string host() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "an unknown host";
}

bool has_slow_files(const data::SampleSource& source) {
  const uint64_t count = source.group_count();
  if (count <= kFilesMaxSlow) return false;
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(data::file_sums(source, 0, count, count / 64));
  return std::chrono::steady_clock::now() - begin > 64 * kSlowStatus;
}

struct Difference {
  uint64_t sample = 0;
  size_t rank = 0;  // that differs from rank 0; 0: none
};

// A number of the samples or files [begin, end).
using SumOf = std::function<uint32_t(uint64_t begin, uint64_t end)>;

// Searches in ever smaller ranges of the first `end`.
Result<Difference> first_difference(const SumOf& sum_of, uint64_t end, comm::Comm& comm) {
  uint64_t begin = 0;
  for (;;) {
    const uint64_t step = std::max<uint64_t>(1, (end - begin + kPartCount - 1) / kPartCount);
    uint32_t mine[kPartCount] = {};
    for (uint64_t part = 0; part < kPartCount; ++part) {
      const uint64_t from = std::min(begin + part * step, end);
      mine[part] = sum_of(from, std::min(from + step, end));
    }
    ASSIGN_OR_RETURN(const auto all, gather(std::span<const uint32_t>(mine), comm));
    Difference found{.sample = end};
    for (uint64_t part = 0; part < kPartCount && found.rank == 0; ++part) {
      for (size_t at = kPartCount + part; at < all.size() && found.rank == 0; at += kPartCount) {
        if (all[at] != all[part]) found = {begin + part * step, at / kPartCount};
      }
    }
    if (found.rank == 0 || step == 1) return found;
    begin = found.sample;
    end = std::min(begin + step, end);
  }
}

// The error for a sample that two ranks have differently.
Status difference(const data::SampleSource& source, const Difference& found, std::string_view what,
                  comm::Comm& comm) {
  const bool has_it = found.sample < source.sample_count();
  const std::string mine = fmt::format(
      "{} on {}", has_it ? source.name(data::SampleId{found.sample}) : std::string("missing"),
      host());
  ASSIGN_OR_RETURN(const auto all, comm.gather_to_all(bytes_of(mine)));
  return fail(Errc::kInvalidArgument,
              "the ranks have different datasets ({}): sample {} is {} for rank 0, and {} for rank "
              "{}; copy the same files to all nodes, or let all ranks read the same directory",
              what, found.sample, all[0], all[found.rank], found.rank);
}

Status names_differ(const data::SampleSource& source, std::span<const Facts> facts,
                    comm::Comm& comm) {
  const uint64_t common = std::ranges::min(facts, {}, &Facts::sample_count).sample_count;
  const auto names = [&](uint64_t begin, uint64_t end) {
    return data::fingerprint(source, data::SampleId{begin}, data::SampleId{end});
  };
  ASSIGN_OR_RETURN(Difference found, first_difference(names, common, comm));
  const uint64_t count = facts.front().sample_count;
  const auto other =
      std::ranges::find_if(facts, [&](const Facts& rank) { return rank.sample_count != count; });
  if (found.rank == 0 && other != facts.end())
    found.rank = static_cast<size_t>(other - facts.begin());
  const uint64_t other_count = facts[found.rank].sample_count;
  return difference(source, found,
                    other_count == count ? std::string("files with other names")
                                         : fmt::format("{} and {} samples", count, other_count),
                    comm);
}

// The sample of a rank that differs from that of rank 0, if any of them does. `contents` are those
// of all ranks, `stride` apart.
Status compare_contents(const data::SampleSource& source, uint64_t sample,
                        std::span<const Content> contents, size_t stride, comm::Comm& comm) {
  const Content& here = contents.front();
  for (size_t rank = 1; rank * stride < contents.size(); ++rank) {
    const Content& there = contents[rank * stride];
    if (here == there || here.is_read == 0 || there.is_read == 0) continue;
    return difference(
        source, {sample, rank},
        here.size_bytes == there.size_bytes
            ? std::string("files with other bytes")
            : fmt::format("files of {} and {} bytes", here.size_bytes, there.size_bytes),
        comm);
  }
  return {};
}

// Compares sizes of the first `count` files, and the bytes of the first whose time differs.
Status compare_files(const data::SampleSource& source, uint64_t count, bool are_slow,
                     comm::Comm& comm) {
  const uint64_t files_max = are_slow ? kFilesMaxSlow : kFilesMax;
  const uint64_t step = count == 0 ? 1 : (count - 1) / files_max + 1;
  const data::FileSums mine = data::file_sums(source, 0, count, step);
  ASSIGN_OR_RETURN(const auto sums, gather(std::span<const data::FileSums>(&mine, 1), comm));
  if (!std::ranges::all_of(sums, [](const data::FileSums& rank) { return rank.is_known != 0; })) {
    return {};
  }
  const auto differs = [&](uint32_t data::FileSums::* sum) {
    return std::ranges::any_of(
        sums, [&](const data::FileSums& rank) { return rank.*sum != sums.front().*sum; });
  };
  const auto first_other = [&](uint32_t data::FileSums::* sum) -> Result<Difference> {
    const auto sum_of = [&](uint64_t begin, uint64_t end) {
      return data::file_sums(source, begin * step, std::min(end * step, count), step).*sum;
    };
    ASSIGN_OR_RETURN(Difference found, first_difference(sum_of, (count + step - 1) / step, comm));
    found.sample = data::index_of(source.group_begin(std::min(found.sample * step, count)));
    return found;  // none if the file has changed meanwhile
  };
  if (differs(&data::FileSums::sizes)) {
    ASSIGN_OR_RETURN(const Difference found, first_other(&data::FileSums::sizes));
    return found.rank == 0 ? Status() : difference(source, found, "files of other sizes", comm);
  }
  if (!differs(&data::FileSums::times)) return {};
  ASSIGN_OR_RETURN(const Difference found, first_other(&data::FileSums::times));
  if (found.rank == 0) return {};
  data::Buffer room;
  const Content content = content_of(source, data::SampleId{found.sample}, room);
  ASSIGN_OR_RETURN(const auto contents, gather(std::span<const Content>(&content, 1), comm));
  return compare_contents(source, found.sample, contents, 1, comm);
}

}  // namespace

Status check_same_dataset(const data::SampleSource& source, comm::Comm& comm) {
  if (comm.size() == 1) return {};
  Facts mine{.sample_count = source.sample_count(),
             .file_count = source.group_count(),
             .names = data::fingerprint(source),
             .has_slow_files = has_slow_files(source)};
  read_contents(source, mine);
  ASSIGN_OR_RETURN(const auto facts, gather(std::span<const Facts>(&mine, 1), comm));
  const Facts& first = facts.front();
  for (const Facts& other : facts) {
    if (other.sample_count != first.sample_count || other.names != first.names) {
      return names_differ(source, facts, comm);
    }
  }
  std::vector<Content> contents;
  for (const Facts& rank : facts) {
    contents.insert(contents.end(), std::begin(rank.contents), std::end(rank.contents));
  }
  for (uint64_t i = 0; i < kReadCount; ++i) {
    RETURN_IF_ERROR(compare_contents(source, sample_to_read(i, first.sample_count),
                                     std::span(contents).subspan(i), kReadCount, comm));
  }
  const bool are_slow =
      std::ranges::any_of(facts, [](const Facts& rank) { return rank.has_slow_files != 0; });
  return compare_files(source, std::ranges::min(facts, {}, &Facts::file_count).file_count, are_slow,
                       comm);
}

}  // namespace millrace::loader
