// Any bytes may be a packed trace. They are read twice: unchanged, and with corrected checksums, to
// reach what is behind them.
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/hash/crc32c.h"
#include "trace/read/packed_trace.h"

namespace {

using namespace millrace;
using wire::TraceBlockHeader;

template <typename Head>
void seal(char* place) {
  Head head;
  std::memcpy(&head, place, sizeof(head));
  head.crc32c = crc32c(std::as_bytes(std::span(&head, 1)).first(offsetof(Head, crc32c)));
  std::memcpy(place, &head, sizeof(head));
}

void make_checksums_right(std::string& bytes) {
  if (bytes.size() < sizeof(wire::TraceFileHeader)) return;
  seal<wire::TraceFileHeader>(bytes.data());
  size_t at = sizeof(wire::TraceFileHeader);
  while (bytes.size() - at >= sizeof(TraceBlockHeader)) {
    TraceBlockHeader head;
    std::memcpy(&head, bytes.data() + at, sizeof(head));
    const size_t room = bytes.size() - at - sizeof(head);
    if (head.payload_bytes > room) break;
    const ByteView payload = bytes_of(bytes).subspan(at + sizeof(head), head.payload_bytes);
    head.payload_crc32c = crc32c(payload);
    std::memcpy(bytes.data() + at, &head, sizeof(head));
    seal<TraceBlockHeader>(bytes.data() + at);
    at += sizeof(head) + head.payload_bytes;
  }
  if (bytes.size() - at == sizeof(wire::TraceTrailer)) {
    seal<wire::TraceTrailer>(bytes.data() + at);
  }
}

void read_all(const std::string& bytes) {
  const auto file = trace::PackedTrace::open(trace::ByteSource(bytes_of(bytes)), "fuzz");
  if (!file.ok()) return;
  trace::EventColumns columns;
  for (size_t i = 0; i < file->event_blocks().size(); ++i) {
    const Status status = file->read(i, columns);
    if (status.ok() && columns.size_events() != file->event_blocks()[i].header.count)
      __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  read_all(bytes);
  make_checksums_right(bytes);
  read_all(bytes);
  return 0;
}
