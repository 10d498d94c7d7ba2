// RecordedSample: writes small recordings for tests, as a recorder would.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "wire/trace_session.h"

namespace millrace::trace {

class RecordedSample {
 public:
  // A session of another host, whose counter ticks twice per nanosecond.
  static constexpr uint64_t kFirstTicks = 1'000'000;
  static constexpr uint64_t kFirstNs = 5'000'000'000;
  static constexpr int64_t kFirstWall = 1'700'000'000'000'000'000;

  explicit RecordedSample(std::filesystem::path directory) : directory_(std::move(directory)) {
    std::filesystem::create_directories(directory_);
    page.magic = wire::kSessionMagic;
    page.version = wire::kRecordingVersion;
    page.counter = wire::CounterSource::kTsc;
    page.first = {kFirstTicks, kFirstNs, kFirstWall, 50};
    page.last = {kFirstTicks + 2'000'000'000, kFirstNs + 1'000'000'000, kFirstWall + 1'000'000'000,
                 50};
    page.levels = 62;
    page.cores = 24;
    std::strcpy(page.host, "node7");
    std::strcpy(page.boot_id, "11111111-2222-3333-4444-555555555555");
    names_.resize(sizeof(wire::NamesHeader));
  }

  static uint64_t ticks_at(uint64_t ns_since_first) { return kFirstTicks + 2 * ns_since_first; }

  wire::NameId name(const std::string& text) {
    names_.resize((names_.size() + 7) / 8 * 8);
    const auto id = static_cast<wire::NameId>(names_.size() / 8);
    wire::NameEntry entry{};
    entry.length = static_cast<uint32_t>(text.size());
    entry.hash = static_cast<uint32_t>(wire::name_hash(text.data(), text.size()) >> 32);
    names_.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
    names_ += text;
    names_ += '\0';
    return id;
  }

  static wire::ProcessPage process(uint32_t pid) {
    wire::ProcessPage page{};
    page.magic = wire::kProcessMagic;
    page.version = wire::kRecordingVersion;
    page.pid = pid;
    page.parent_pid = 1;
    page.rank = -1;
    page.world_size = -1;
    page.start_ticks = kFirstTicks;
    page.exited = 1;
    return page;
  }

  static wire::Ring ring(uint32_t number, uint64_t sequence, uint32_t pid, uint32_t tid) {
    wire::Ring ring{};
    ring.header = {.magic = wire::kRingMagic,
                   .ring = number,
                   .sequence = sequence,
                   .process = pid,
                   .thread = tid,
                   .slot_count = wire::kRingSlots,
                   .in_use = 1,
                   .reserved = {}};
    return ring;
  }

  // A read of 4096 bytes that began `ns` after the session's start and took 500 ns.
  static wire::TraceSlot read_event(uint64_t ns, wire::NameId file, uint64_t offset) {
    wire::TraceSlot slot{};
    slot.record = {.begin_ticks = ticks_at(ns),
                   .offset = offset,
                   .duration_ticks = 1000,
                   .file = file,
                   .size = 4096,
                   .call = wire::Call::kRead,
                   .slots = 1,
                   .flags = static_cast<uint8_t>(wire::ResultForm::kSize)};
    return slot;
  }

  static void fill(wire::Ring& ring, uint64_t first_ns, wire::NameId file, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      ring.slots[i] = read_event(first_ns + 1000 * i, file, 4096 * i);
    }
  }

  void write_session() const {
    std::string bytes(wire::kPageSizeBytes, '\0');
    std::memcpy(bytes.data(), &page, sizeof(page));
    write("session", bytes);
    std::string names = names_;
    wire::NamesHeader header{};
    header.magic = wire::kNamesMagic;
    header.version = wire::kRecordingVersion;
    header.end = names.size();
    std::memcpy(names.data(), &header, sizeof(header));
    write("names", names);
  }

  void write_process(const std::string& recording, const wire::ProcessPage& process,
                     const std::vector<wire::Ring>& rings, const std::vector<wire::Ring>& log,
                     size_t log_bytes_cut = 0) const {
    std::string bytes(wire::ring_offset(0), '\0');
    std::memcpy(bytes.data(), &process, sizeof(process));
    for (const wire::Ring& ring : rings) append(bytes, ring);
    write(recording + ".rings", bytes);
    if (log.empty()) return;
    std::string log_bytes;
    for (const wire::Ring& ring : log) append(log_bytes, ring);
    log_bytes.resize(log_bytes.size() - log_bytes_cut);
    write(recording + ".log", log_bytes);
  }

  // Children in child pages of a parent, each with one ring: recordings NAME@0, NAME@1, ...
  struct Child {
    wire::ProcessPage page;
    wire::Ring ring;
  };
  void write_child_pages(const std::string& name, const std::vector<Child>& children) const {
    const auto count = static_cast<uint32_t>(children.size());
    std::string bytes(wire::child_page_offset(count), '\0');
    wire::ChildPagesHeader header{};
    header.magic = wire::kChildPagesMagic;
    header.version = wire::kRecordingVersion;
    header.page_count = count;
    header.taken = count;
    std::memcpy(bytes.data(), &header, sizeof(header));
    for (uint32_t i = 0; i < count; ++i) {
      char* child_page = bytes.data() + wire::child_page_offset(i);
      std::memcpy(child_page, &children[i].page, sizeof(wire::ProcessPage));
      std::memcpy(child_page + wire::ring_offset(0), &children[i].ring, sizeof(wire::Ring));
    }
    write(name + ".rings", bytes);
  }

  const std::filesystem::path& directory() const { return directory_; }

  wire::SessionPage page{};

 private:
  static void append(std::string& bytes, const wire::Ring& ring) {
    bytes.append(reinterpret_cast<const char*>(&ring), sizeof(ring));
  }
  void write(const std::string& file, const std::string& bytes) const {
    std::ofstream out(directory_ / file, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  std::filesystem::path directory_;
  std::string names_;
};

}  // namespace millrace::trace
