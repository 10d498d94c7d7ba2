#include "io/testing/engine_contract.h"

#include <algorithm>
#include <thread>

#include "base/numbers/random.h"
#include "io/aligned_memory.h"

namespace millrace::io {

Status expect(bool holds, std::string_view what) {
  if (holds) return {};
  return fail(Errc::kCorrupt, "violated: {}", what);
}

std::byte byte_at(uint64_t offset_bytes) {
  return static_cast<std::byte>((offset_bytes * 0x9e3779b97f4a7c15) >> 56);
}

Status write_pattern(Ground& ground, std::string_view name, uint64_t size_bytes) {
  std::vector<std::byte> bytes(size_bytes);
  for (uint64_t i = 0; i < size_bytes; ++i) bytes[i] = byte_at(i);
  ASSIGN_OR_RETURN(const auto writer, ground.engine.create(ground.path(name)));
  RETURN_IF_ERROR(writer->write_at(0, bytes));
  return writer->close();
}

namespace {

Status check_bytes(uint64_t offset_bytes, ByteView bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == byte_at(offset_bytes + i)) continue;
    return fail(Errc::kCorrupt, "byte {} differs from the file's", offset_bytes + i);
  }
  return {};
}

uint64_t expected_length(uint64_t file_bytes, uint64_t offset_bytes, uint64_t size_bytes) {
  return offset_bytes >= file_bytes ? 0 : std::min(size_bytes, file_bytes - offset_bytes);
}

}  // namespace

Status check_read(const Reader& reader, uint64_t file_bytes, uint64_t offset_bytes,
                  MutableByteView out) {
  std::fill(out.begin(), out.end(), std::byte{0xee});
  ASSIGN_OR_RETURN(const size_t got, reader.read_at(offset_bytes, out));
  const uint64_t expected = expected_length(file_bytes, offset_bytes, out.size());
  if (got != expected) {
    return fail(Errc::kCorrupt, "a read of {} bytes at byte {} of {} returned {}, not {}",
                out.size(), offset_bytes, file_bytes, got, expected);
  }
  return check_bytes(offset_bytes, out.first(got));
}

namespace {

Status an_empty_file_has_no_bytes(Ground& ground) {
  RETURN_IF_ERROR(write_pattern(ground, "empty", 0));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("empty")));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, reader->size_bytes());
  RETURN_IF_ERROR(expect(size_bytes == 0, "an empty file has no bytes"));
  std::vector<std::byte> out(100);
  RETURN_IF_ERROR(check_read(*reader, 0, 0, out));
  RETURN_IF_ERROR(expect(!reader->view(0, 1), "an empty file has no view of its first byte"));
  ASSIGN_OR_RETURN(const size_t whole, ground.engine.read_whole(ground.path("empty"), out));
  RETURN_IF_ERROR(expect(whole == 0, "reading a whole empty file returns 0"));
  ASSIGN_OR_RETURN(const size_t none, ground.engine.read_whole(ground.path("empty"), {}));
  return expect(none == 0, "an empty file fits into an empty buffer");
}

Status any_offset_length_and_address_may_be_read(Ground& ground) {
  constexpr uint64_t kFile = 3 * kBlockBytes + 1234;
  RETURN_IF_ERROR(write_pattern(ground, "any", kFile));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("any")));
  AlignedMemory memory;
  const MutableByteView room = memory.room(8 * kBlockBytes);
  constexpr uint64_t kOffsets[] = {0, 1, 511, 512, 4095, 4096, 4097, 8192, 12288, 13000, kFile - 1};
  constexpr size_t kLengths[] = {0, 1, 511, 512, 4095, 4096, 4097, 8192, 12289, kFile, 20000};
  for (const uint64_t offset : kOffsets) {
    for (const size_t length : kLengths) {
      for (const size_t shift : {0, 1, 512, 4095}) {
        RETURN_IF_ERROR(check_read(*reader, kFile, offset, room.subspan(shift, length)));
      }
    }
  }
  return {};
}

Status reads_past_the_end_return_nothing(Ground& ground) {
  for (const uint64_t file_bytes : {uint64_t{5}, uint64_t{512}, uint64_t{2} * kBlockBytes}) {
    RETURN_IF_ERROR(write_pattern(ground, "past", file_bytes));
    ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("past")));
    std::vector<std::byte> out(10'000);
    for (const uint64_t offset : {file_bytes, file_bytes + 1, file_bytes + kBlockBytes,
                                  uint64_t{1} << 40, (uint64_t{1} << 43) + 1}) {
      RETURN_IF_ERROR(check_read(*reader, file_bytes, offset, out));
      RETURN_IF_ERROR(expect(!reader->view(offset, 1), "there is no view past the end"));
    }
    RETURN_IF_ERROR(check_read(*reader, file_bytes, file_bytes - 1, out));
    RETURN_IF_ERROR(expect(!reader->view(1, ~uint64_t{0}), "a view of 2^64 - 1 bytes is refused"));
  }
  return {};
}

Status long_reads_are_complete(Ground& ground) {
  constexpr uint64_t kFile = (uint64_t{5} << 20) + 77;
  RETURN_IF_ERROR(write_pattern(ground, "long", kFile));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("long")));
  AlignedMemory memory;
  const MutableByteView room = memory.room(kFile + kBlockBytes);
  RETURN_IF_ERROR(check_read(*reader, kFile, 0, room));
  RETURN_IF_ERROR(check_read(*reader, kFile, 3, room.subspan(5)));
  return check_read(*reader, kFile, kBlockBytes, room.subspan(1));
}

Status offsets_of_many_gigabytes_work(Ground& ground) {
  constexpr uint64_t kFar = (uint64_t{5} << 30) + 123;
  constexpr std::string_view kWords = "far out";
  ASSIGN_OR_RETURN(const auto writer, ground.engine.create(ground.path("far")));
  RETURN_IF_ERROR(writer->write_at(kFar, bytes_of(kWords)));
  RETURN_IF_ERROR(writer->close());
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("far")));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, reader->size_bytes());
  RETURN_IF_ERROR(expect(size_bytes == kFar + kWords.size(), "the file is as long as was written"));
  std::string out(100, 'x');
  const auto room = std::as_writable_bytes(std::span(out));
  ASSIGN_OR_RETURN(const size_t got, reader->read_at(kFar - 3, room));
  RETURN_IF_ERROR(expect(out.substr(0, got) == std::string(3, '\0') + std::string(kWords),
                         "a hole reads as zeros, and the bytes after it as they were written"));
  if (const auto view = reader->view(kFar, kWords.size())) {
    RETURN_IF_ERROR(expect(text_of(*view) == kWords, "a view has the bytes at its offset"));
  }
  ASSIGN_OR_RETURN(const size_t of_hole, reader->read_at(uint64_t{3} << 30, room));
  return expect(of_hole == out.size() && out == std::string(100, '\0'), "a hole reads as zeros");
}

Status views_are_the_bytes_of_the_file(Ground& ground) {
  constexpr uint64_t kFile = 3 * kBlockBytes + 100;
  RETURN_IF_ERROR(write_pattern(ground, "viewed", kFile));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("viewed")));
  for (const uint64_t offset : {uint64_t{0}, uint64_t{7}, uint64_t{kBlockBytes}, kFile - 1}) {
    const auto view = reader->view(offset, kFile - offset);
    RETURN_IF_ERROR(expect(view.has_value() == (ground.engine.name() == "mapped"),
                           "only the mapped engine has views"));
    if (!view) continue;
    RETURN_IF_ERROR(expect(view->size() == kFile - offset, "a view has the requested length"));
    RETURN_IF_ERROR(check_bytes(offset, *view));
    RETURN_IF_ERROR(expect(!reader->view(offset, kFile - offset + 1),
                           "a view that does not fit is refused, not shortened"));
  }
  return {};
}

Status many_threads_share_one_reader(Ground& ground) {
  constexpr uint64_t kFile = 200'001;
  RETURN_IF_ERROR(write_pattern(ground, "shared", kFile));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("shared")));
  std::vector<Status> outcomes(4);
  {
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < outcomes.size(); ++thread) {
      threads.emplace_back([&, thread] {
        Random random(thread);
        std::vector<std::byte> out(20'000);
        for (int i = 0; i < 100 && outcomes[thread].ok(); ++i) {
          const auto part = std::span(out).first(random.below(out.size()));
          outcomes[thread] = check_read(*reader, kFile, random.below(kFile + 10), part);
        }
      });
    }
  }
  for (Status& outcome : outcomes) RETURN_IF_ERROR(std::move(outcome));
  return {};
}

Status whole_files_are_read(Ground& ground) {
  for (const uint64_t file_bytes : {1, 511, 512, 4095, 4096, 4097, 131'072, 131'073}) {
    const std::string name = fmt::format("whole-{}", file_bytes);
    RETURN_IF_ERROR(write_pattern(ground, name, file_bytes));
    AlignedMemory memory;
    for (const uint64_t room_bytes : {file_bytes, file_bytes + 1, file_bytes + 10'000}) {
      for (const size_t shift : {0, 3}) {
        const auto room = memory.room(room_bytes + shift).subspan(shift);
        ASSIGN_OR_RETURN(const size_t got, ground.engine.read_whole(ground.path(name), room));
        RETURN_IF_ERROR(expect(got == file_bytes, name + " is as long as was written"));
        RETURN_IF_ERROR(check_bytes(0, room.first(got)));
      }
    }
  }
  return {};
}

// ---- the queue ----

struct Tracked {
  uint64_t offset_bytes = 0;
  MutableByteView out;
};

Status check_done(const std::vector<ReadDone>& done, const std::vector<Tracked>& tracked,
                  uint64_t file_bytes, std::vector<int>& seen) {
  for (const ReadDone& one : done) {
    RETURN_IF_ERROR(expect(one.tag < tracked.size(), "a returned tag was submitted"));
    const Tracked& read = tracked[one.tag];
    ++seen[one.tag];
    if (!one.bytes_read.ok()) return one.bytes_read.error();
    const size_t got = *one.bytes_read;
    RETURN_IF_ERROR(expect(got == expected_length(file_bytes, read.offset_bytes, read.out.size()),
                           "a queued read is complete"));
    RETURN_IF_ERROR(check_bytes(read.offset_bytes, read.out.first(got)));
  }
  return {};
}

Status reads_in_flight_come_back_once_each(Ground& ground) {
  constexpr uint64_t kFile = 300'007;
  constexpr size_t kRoom = 3 * kBlockBytes;
  RETURN_IF_ERROR(write_pattern(ground, "queued", kFile));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("queued")));
  for (const size_t capacity : {1, 3, 32}) {
    ASSIGN_OR_RETURN(const auto queue, ground.engine.open_queue(capacity));
    RETURN_IF_ERROR(expect(queue->capacity() >= capacity, "the queue has the requested capacity"));
    constexpr size_t kReads = 100;
    AlignedMemory memory;
    const MutableByteView all = memory.room(kReads * kRoom);
    if (capacity == 32) queue->use_memory(all);
    Random random(capacity);
    std::vector<Tracked> tracked;
    std::vector<int> seen(kReads, 0);
    while (tracked.size() < kReads || queue->in_flight() > 0) {
      while (tracked.size() < kReads && queue->in_flight() < queue->capacity()) {
        // Aligned and unaligned, empty, and past the end.
        const size_t shift = random.below(2) * random.below(kBlockBytes);
        const size_t length = random.below(3) == 0 ? kBlockBytes : random.below(kRoom - shift);
        const uint64_t offset =
            random.below(2) == 0 ? random.below(70) * kBlockBytes : random.below(kFile + 100);
        tracked.push_back({offset, all.subspan(tracked.size() * kRoom + shift, length)});
        RETURN_IF_ERROR(
            queue->submit({reader.get(), offset, tracked.back().out, tracked.size() - 1}));
      }
      std::vector<ReadDone> done;
      RETURN_IF_ERROR(queue->wait(done));
      RETURN_IF_ERROR(expect(!done.empty(), "wait() returns at least one read"));
      RETURN_IF_ERROR(check_done(done, tracked, kFile, seen));
    }
    RETURN_IF_ERROR(expect(seen == std::vector<int>(kReads, 1), "each read comes back once"));
    std::vector<ReadDone> none;
    RETURN_IF_ERROR(queue->wait(none));
    RETURN_IF_ERROR(expect(none.empty(), "wait() returns nothing if nothing is in flight"));
  }
  return {};
}

Status whole_files_in_flight_come_back_once_each(Ground& ground) {
  constexpr uint64_t kSizes[] = {0, 1, 511, 512, 4096, 131'072, 131'073};
  for (const uint64_t size_bytes : kSizes) {
    RETURN_IF_ERROR(write_pattern(ground, fmt::format("flown-{}", size_bytes), size_bytes));
  }
  ASSIGN_OR_RETURN(const auto queue, ground.engine.open_queue(3));
  for (const uint64_t more_bytes : {0, 1, 10'000}) {
    std::vector<AlignedMemory> rooms(std::size(kSizes));
    std::vector<MutableByteView> places;
    std::vector<ReadDone> done;
    for (uint64_t i = 0; i < std::size(kSizes); ++i) {
      while (queue->in_flight() == 3) RETURN_IF_ERROR(queue->wait(done));
      places.push_back(rooms[i].room(kSizes[i] + more_bytes + i).subspan(i));
      const std::string path = ground.path(fmt::format("flown-{}", kSizes[i])).native();
      RETURN_IF_ERROR(queue->submit_whole({path, places[i], i}));
    }
    while (queue->in_flight() > 0) RETURN_IF_ERROR(queue->wait(done));
    RETURN_IF_ERROR(expect(done.size() == std::size(kSizes), "each file comes back once"));
    for (const ReadDone& one : done) {
      if (!one.bytes_read.ok()) return one.bytes_read.error();
      RETURN_IF_ERROR(
          expect(*one.bytes_read == kSizes[one.tag], "the file is as long as was written"));
      RETURN_IF_ERROR(check_bytes(0, places[one.tag].first(*one.bytes_read)));
    }
  }
  return {};
}

Status a_queue_may_be_destroyed_with_reads_in_flight(Ground& ground) {
  constexpr uint64_t kFile = 1 << 20;
  RETURN_IF_ERROR(write_pattern(ground, "left", kFile));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("left")));
  AlignedMemory memory;
  const MutableByteView room = memory.room(kFile);
  for (int round = 0; round < 5; ++round) {
    ASSIGN_OR_RETURN(auto queue, ground.engine.open_queue(16));
    for (uint64_t i = 0; i < 16; ++i) {
      RETURN_IF_ERROR(queue->submit({reader.get(), i << 16, room.subspan(i << 16, 1 << 16), i}));
    }
    queue.reset();
    // Nothing may write to this memory now.
    std::fill(room.begin(), room.end(), std::byte{0x11});
    std::this_thread::yield();
    const bool untouched =
        std::all_of(room.begin(), room.end(), [](std::byte b) { return b == std::byte{0x11}; });
    RETURN_IF_ERROR(expect(untouched, "a destroyed queue no longer writes to memory"));
  }
  return {};
}

// ---- writing ----

Status reads_return_what_was_written(Ground& ground) {
  ASSIGN_OR_RETURN(auto writer, ground.engine.create(ground.path("written")));
  std::vector<std::byte> bytes(50'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(i);
  Random random(3);
  std::vector<std::pair<size_t, size_t>> parts;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length =
        std::min<size_t>(bytes.size() - at, 1 + random.below(random.below(2) == 0 ? 100 : 12'000));
    parts.emplace_back(at, length);
    at += length;
  }
  std::reverse(parts.begin(), parts.end());  // in any order
  for (const auto& [at, length] : parts) {
    RETURN_IF_ERROR(writer->write_at(at, std::span(bytes).subspan(at, length)));
  }
  RETURN_IF_ERROR(writer->write_at(7, {}));
  RETURN_IF_ERROR(writer->sync());
  RETURN_IF_ERROR(writer->close());
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("written")));
  std::vector<std::byte> out(60'000);
  return check_read(*reader, bytes.size(), 0, out);
}

Status create_truncates_the_file(Ground& ground) {
  RETURN_IF_ERROR(write_pattern(ground, "again", 10'000));
  RETURN_IF_ERROR(write_pattern(ground, "again", 10));
  ASSIGN_OR_RETURN(const auto reader, ground.engine.open(ground.path("again")));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, reader->size_bytes());
  return expect(size_bytes == 10, "create truncates the file");
}

constexpr ContractClause kContract[] = {
    {"AnEmptyFileHasNoBytes", false, an_empty_file_has_no_bytes},
    {"AnyOffsetLengthAndAddressMayBeRead", false, any_offset_length_and_address_may_be_read},
    {"ReadsPastTheEndReturnNothing", false, reads_past_the_end_return_nothing},
    {"LongReadsAreComplete", false, long_reads_are_complete},
    {"OffsetsOfManyGigabytesWork", false, offsets_of_many_gigabytes_work},
    {"ViewsAreTheBytesOfTheFile", false, views_are_the_bytes_of_the_file},
    {"ManyThreadsShareOneReader", false, many_threads_share_one_reader},
    {"WholeFilesAreRead", false, whole_files_are_read},
    {"ReadsInFlightComeBackOnceEach", false, reads_in_flight_come_back_once_each},
    {"WholeFilesInFlightComeBackOnceEach", false, whole_files_in_flight_come_back_once_each},
    {"AQueueMayBeDestroyedWithReadsInFlight", false, a_queue_may_be_destroyed_with_reads_in_flight},
    {"ReadsReturnWhatWasWritten", false, reads_return_what_was_written},
    {"CreateTruncatesTheFile", false, create_truncates_the_file},
};

}  // namespace

std::span<const ContractClause> contract() { return kContract; }

}  // namespace millrace::io
