#include "data/testing/source_contract.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

namespace millrace::data {
namespace {

Error broken(const SampleSource& source, uint64_t index, std::string_view what) {
  return fail(Errc::kInvalidArgument, "sample {} ({}): {}", index, source.name(SampleId{index}),
              what);
}

Status read_is(const SourceUnderTest& test, uint64_t index, Buffer& room) {
  ASSIGN_OR_RETURN(const ByteView bytes, test.source->read(SampleId{index}, room));
  if (text_of(bytes) == test.samples[index]) return {};
  return broken(*test.source, index, "read() returns different bytes");
}

Status counts_its_samples(const SourceUnderTest& test) {
  const uint64_t count = test.source->sample_count();
  if (count == test.samples.size()) return {};
  return fail(Errc::kInvalidArgument, "{} samples instead of {}", count, test.samples.size());
}

Status reads_the_same_in_any_order(const SourceUnderTest& test) {
  Buffer room;
  for (uint64_t i = 0; i < test.samples.size(); ++i) RETURN_IF_ERROR(read_is(test, i, room));
  for (uint64_t i = test.samples.size(); i > 0; --i) RETURN_IF_ERROR(read_is(test, i - 1, room));
  return {};
}

Status reads_into_place(const SourceUnderTest& test) {
  for (uint64_t i = 0; i < test.samples.size(); ++i) {
    const std::string& expected = test.samples[i];
    std::string out(expected.size() + 16, '#');
    const MutableByteView all = std::as_writable_bytes(std::span(out));
    ASSIGN_OR_RETURN(const size_t size, test.source->read_into(SampleId{i}, all));
    if (size != expected.size() || std::string_view(out).substr(0, size) != expected) {
      return broken(*test.source, i, "read_into() returns different bytes");
    }
    std::fill(out.begin(), out.end(), '#');
    const auto exact = test.source->read_into(SampleId{i}, all.first(expected.size()));
    if (!exact.ok() || *exact != expected.size()) {
      return broken(*test.source, i, "read_into() needs more room than the sample has bytes");
    }
    if (out.substr(expected.size()) != std::string(16, '#')) {
      return broken(*test.source, i, "read_into() writes past the end of its room");
    }
  }
  return {};
}

Status short_room_is_exhausted(const SourceUnderTest& test) {
  for (uint64_t i = 0; i < test.samples.size(); ++i) {
    if (test.samples[i].empty()) continue;
    std::vector<std::byte> out(test.samples[i].size() - 1);
    const auto size = test.source->read_into(SampleId{i}, out);
    if (size.ok() || size.error().code() != Errc::kExhausted) {
      return broken(*test.source, i, "read_into() one byte short does not fail with kExhausted");
    }
  }
  return {};
}

Status many_threads_read_at_once(const SourceUnderTest& test) {
  std::mutex mutex;
  Status worst;  // guarded by mutex
  const auto work = [&](uint64_t first) {
    Buffer room;
    for (uint64_t round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < test.samples.size(); ++i) {
        Status status = read_is(test, (i + first) % test.samples.size(), room);
        if (status.ok()) continue;
        const std::lock_guard lock(mutex);
        worst = std::move(status);
        return;
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t first = 0; first < 4; ++first) threads.emplace_back(work, first * 3);
  for (std::thread& thread : threads) thread.join();
  return worst;
}

Status names_are_unique(const SourceUnderTest& test) {
  std::set<std::string> names;
  for (uint64_t i = 0; i < test.samples.size(); ++i) {
    const std::string name = test.source->name(SampleId{i});
    if (name.empty() || !names.insert(name).second) {
      return broken(*test.source, i, "its name is empty or not unique");
    }
  }
  return {};
}

Status labels_do_not_change(const SourceUnderTest& test) {
  for (uint64_t i = 0; i < test.samples.size(); ++i) {
    const auto label = test.source->label(SampleId{i});
    if (label != test.source->label(SampleId{i})) return broken(*test.source, i, "label changes");
    if (label && *label < 0) return broken(*test.source, i, "label is negative");
  }
  return {};
}

Status groups_cover_the_samples(const SourceUnderTest& test) {
  const SampleSource& source = *test.source;
  uint64_t at = 0;
  for (uint64_t group = 0; group < source.group_count(); ++group) {
    const uint64_t begin = index_of(source.group_begin(group));
    if (begin < at || (group == 0 && begin != 0)) {
      return fail(Errc::kInvalidArgument, "group {} begins at sample {}; the one before at {}",
                  group, begin, at);
    }
    at = begin;
  }
  const uint64_t end = index_of(source.group_begin(source.group_count()));
  if (end == source.sample_count() && end >= at) return {};
  return fail(Errc::kInvalidArgument, "the groups end at sample {} of {}", end,
              source.sample_count());
}

Status prepare_changes_nothing(const SourceUnderTest& test) {
  std::vector<SampleId> soon;
  for (uint64_t i = 0; i < test.samples.size(); ++i) soon.push_back(SampleId{i});
  test.source->prepare(soon);
  test.source->prepare({});
  Buffer room;
  for (uint64_t i = 0; i < test.samples.size(); ++i) RETURN_IF_ERROR(read_is(test, i, room));
  return {};
}

// ---- reads in flight, for sources that have them ----

// Reads every sample and checks that each result is returned exactly once.
template <typename Submit, typename Check>
Status read_all_in_flight(const SourceUnderTest& test, SampleReads& reads, Submit submit,
                          Check check) {
  const uint64_t count = test.samples.size();
  std::vector<int> seen(count, 0);
  std::vector<SampleDone> done;
  uint64_t begun = 0;
  while (begun < count || reads.in_flight() > 0) {
    while (begun < count && reads.in_flight() < reads.capacity()) {
      RETURN_IF_ERROR(submit(begun, reads));
      ++begun;
    }
    done.clear();
    reads.wait(done);
    if (done.empty()) {
      return fail(Errc::kInvalidArgument, "wait() returned nothing with reads in flight");
    }
    for (SampleDone& one : done) {
      if (one.tag >= count || ++seen[one.tag] > 1) {
        return fail(Errc::kInvalidArgument, "a read came back twice or was never submitted");
      }
      RETURN_IF_ERROR(check(one.tag, one.bytes));
    }
  }
  if (std::ranges::find(seen, 0) == seen.end()) return {};
  return fail(Errc::kInvalidArgument, "a read did not come back");
}

Status reads_into_rooms(const SourceUnderTest& test, SampleReads& reads) {
  std::vector<Buffer> rooms(test.samples.size());
  return read_all_in_flight(
      test, reads,
      [&](uint64_t i, SampleReads& into) -> Status {
        into.submit({.sample = SampleId{i}, .room = &rooms[i], .tag = i});
        return {};
      },
      [&](uint64_t i, const Result<ByteView>& bytes) -> Status {
        if (!bytes.ok()) return bytes.error();
        if (text_of(*bytes) == test.samples[i]) return {};
        return broken(*test.source, i, "a read in flight returns other bytes than read()");
      });
}

Status reads_into_spans(const SourceUnderTest& test, SampleReads& reads) {
  std::vector<std::string> outs;
  for (const std::string& sample : test.samples) outs.emplace_back(sample.size() + 16, '#');
  return read_all_in_flight(
      test, reads,
      [&](uint64_t i, SampleReads& into) -> Status {
        const MutableByteView all = std::as_writable_bytes(std::span(outs[i]));
        into.submit({.sample = SampleId{i}, .out = all.first(test.samples[i].size()), .tag = i});
        return {};
      },
      [&](uint64_t i, const Result<ByteView>& bytes) -> Status {
        if (!bytes.ok()) return bytes.error();
        if (outs[i] == test.samples[i] + std::string(16, '#') &&
            bytes->size() == test.samples[i].size()) {
          return {};
        }
        return broken(*test.source, i, "a read in flight writes other bytes to its place");
      });
}

Status reads_in_flight_equal_read(const SourceUnderTest& test) {
  for (const size_t capacity : {1, 3, 32}) {
    ASSIGN_OR_RETURN(const auto reads, test.source->open_reads(capacity));
    if (!reads) break;
    if (reads->capacity() < capacity) {
      return fail(Errc::kInvalidArgument, "the capacity is smaller than requested");
    }
    RETURN_IF_ERROR(reads_into_rooms(test, *reads));
    RETURN_IF_ERROR(reads_into_spans(test, *reads));
    std::vector<SampleDone> none;
    reads->wait(none);
    if (!none.empty()) {
      return fail(Errc::kInvalidArgument, "wait() returned reads with nothing in flight");
    }
  }
  return {};
}

Status open_reads_agrees_with_ways(const SourceUnderTest& test) {
  ASSIGN_OR_RETURN(const auto reads, test.source->open_reads(1));
  if ((reads != nullptr) == !test.source->ways().in_flight.empty()) return {};
  return fail(Errc::kInvalidArgument, "open_reads() and ways() disagree");
}

Status short_room_in_flight_is_exhausted(const SourceUnderTest& test) {
  ASSIGN_OR_RETURN(const auto reads, test.source->open_reads(2));
  for (uint64_t i = 0; reads && i < test.samples.size(); ++i) {
    if (test.samples[i].empty()) continue;
    std::vector<std::byte> out(test.samples[i].size() - 1);
    reads->submit({.sample = SampleId{i}, .out = out, .tag = i});
    std::vector<SampleDone> done;
    reads->wait(done);
    if (done.size() != 1 || done[0].bytes.ok() ||
        done[0].bytes.error().code() != Errc::kExhausted) {
      return broken(*test.source, i, "a read in flight, one byte short, is not kExhausted");
    }
    const auto alone = test.source->read_into(SampleId{i}, out);
    if (!alone.ok() && alone.error().message() != done[0].bytes.error().message()) {
      return broken(*test.source, i, "its error in flight differs from that of read_into()");
    }
  }
  return {};
}

Status destroyed_reads_write_nothing(const SourceUnderTest& test) {
  std::vector<std::string> outs;
  for (const std::string& sample : test.samples) outs.emplace_back(sample.size(), '#');
  {
    ASSIGN_OR_RETURN(const auto reads, test.source->open_reads(8));
    for (uint64_t i = 0; reads && i < std::min<uint64_t>(outs.size(), 8); ++i) {
      reads->submit({.sample = SampleId{i}, .out = std::as_writable_bytes(std::span(outs[i]))});
    }
  }
  // From here on, nothing may write to `outs`.
  for (std::string& out : outs) std::fill(out.begin(), out.end(), '-');
  std::this_thread::yield();
  for (const std::string& out : outs) {
    if (out.find_first_not_of('-') == std::string::npos) continue;
    return fail(Errc::kInvalidArgument, "destroyed reads still write to memory");
  }
  return {};
}

Status many_threads_have_reads_in_flight(const SourceUnderTest& test) {
  std::vector<Status> outcomes(4);
  std::vector<std::thread> threads;
  for (Status& outcome : outcomes) {
    threads.emplace_back([&] {
      outcome = [&]() -> Status {
        ASSIGN_OR_RETURN(const auto reads, test.source->open_reads(5));
        for (int round = 0; reads && round < 3; ++round) {
          RETURN_IF_ERROR(reads_into_rooms(test, *reads));
        }
        return {};
      }();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Status& outcome : outcomes) RETURN_IF_ERROR(std::move(outcome));
  return {};
}

constexpr SourceClause kClauses[] = {
    {"counts_its_samples", &counts_its_samples},
    {"reads_the_same_in_any_order", &reads_the_same_in_any_order},
    {"reads_into_place", &reads_into_place},
    {"short_room_is_exhausted", &short_room_is_exhausted},
    {"many_threads_read_at_once", &many_threads_read_at_once},
    {"names_are_unique", &names_are_unique},
    {"labels_do_not_change", &labels_do_not_change},
    {"groups_cover_the_samples", &groups_cover_the_samples},
    {"prepare_changes_nothing", &prepare_changes_nothing},
    {"open_reads_agrees_with_ways", &open_reads_agrees_with_ways},
    {"reads_in_flight_equal_read", &reads_in_flight_equal_read},
    {"short_room_in_flight_is_exhausted", &short_room_in_flight_is_exhausted},
    {"destroyed_reads_write_nothing", &destroyed_reads_write_nothing},
    {"many_threads_have_reads_in_flight", &many_threads_have_reads_in_flight},
};

}  // namespace

std::span<const SourceClause> source_contract() { return kClauses; }

Status check_source(const SourceUnderTest& test) {
  for (const SourceClause& clause : kClauses) {
    RETURN_IF_ERROR(clause.check(test).within(clause.name));
  }
  return {};
}

}  // namespace millrace::data
