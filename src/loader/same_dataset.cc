#include "loader/same_dataset.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/hash/crc32c.h"
#include "data/fingerprint.h"

namespace millrace::loader {
namespace {

constexpr uint64_t kReadCount = 32;                  // samples whose bytes are compared
constexpr uint64_t kReadBytes = uint64_t{64} << 20;  // enough; the others are not read
constexpr uint64_t kPartCount = 64;                  // of a range, in the search for a name

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
  uint32_t names = 0;
  uint32_t reserved = 0;
  Content contents[kReadCount] = {};
};

uint64_t sample_to_read(uint64_t index, uint64_t sample_count) {
  return sample_count <= kReadCount ? index : index * (sample_count - 1) / (kReadCount - 1);
}

// A sample that cannot be read is not compared. Whoever needs it gets the error.
void read_contents(const data::SampleSource& source, Facts& facts) {
  data::Buffer room;
  uint64_t read_bytes = 0;
  for (uint64_t i = 0; i < std::min(kReadCount, facts.sample_count); ++i) {
    if (read_bytes >= kReadBytes) return;
    const data::SampleId sample{sample_to_read(i, facts.sample_count)};
    const auto bytes = source.read(sample, room);
    if (!bytes.ok()) continue;
    facts.contents[i] = {.size_bytes = bytes->size(), .checksum = crc32c(*bytes), .is_read = 1};
    read_bytes += bytes->size();
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

struct Difference {
  uint64_t sample = 0;
  size_t rank = 0;  // that has another name than rank 0; 0: none
};

// Searches in ever smaller ranges of the first `end` samples.
Result<Difference> first_other_name(const data::SampleSource& source, uint64_t end,
                                    comm::Comm& comm) {
  uint64_t begin = 0;
  for (;;) {
    const uint64_t step = std::max<uint64_t>(1, (end - begin + kPartCount - 1) / kPartCount);
    uint32_t mine[kPartCount] = {};
    for (uint64_t part = 0; part < kPartCount; ++part) {
      const uint64_t from = std::min(begin + part * step, end);
      mine[part] = data::fingerprint(source, data::SampleId{from},
                                     data::SampleId{std::min(from + step, end)});
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
  ASSIGN_OR_RETURN(Difference found, first_other_name(source, common, comm));
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

}  // namespace

Status check_same_dataset(const data::SampleSource& source, comm::Comm& comm) {
  if (comm.size() == 1) return {};
  Facts mine{.sample_count = source.sample_count(), .names = data::fingerprint(source)};
  read_contents(source, mine);
  ASSIGN_OR_RETURN(const auto facts, gather(std::span<const Facts>(&mine, 1), comm));
  const Facts& first = facts.front();
  for (const Facts& other : facts) {
    if (other.sample_count != first.sample_count || other.names != first.names) {
      return names_differ(source, facts, comm);
    }
  }
  for (uint64_t i = 0; i < kReadCount; ++i) {
    for (size_t rank = 1; rank < facts.size(); ++rank) {
      const Content& here = first.contents[i];
      const Content& there = facts[rank].contents[i];
      if (here == there || here.is_read == 0 || there.is_read == 0) continue;
      return difference(
          source, {sample_to_read(i, first.sample_count), rank},
          here.size_bytes == there.size_bytes
              ? std::string("files with other bytes")
              : fmt::format("files of {} and {} bytes", here.size_bytes, there.size_bytes),
          comm);
    }
  }
  return {};
}

}  // namespace millrace::loader
