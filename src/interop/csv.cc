// The exporter `csv`: one row per event with every column, for pandas, spreadsheets and databases.
//
// A cell is empty if the event has no such value (no offset, no rank, no error). Tags are one cell
// with a JSON object, because each region has its own. Rows are not sorted: blocks are written in
// file order, and events within a block in the order in which they ended. Readers of a table can
// sort best.
#include "interop/describe.h"
#include "interop/encode_text.h"
#include "interop/interop.h"

namespace millrace::interop {
namespace {

constexpr std::string_view kHeader =
    "begin_ns,duration_ns,level,call,name,file,offset,size,result,errno,pid,tid,rank,host,epoch,"
    "step,other_file,other_offset,detail,estimate,tags\r\n";

class CsvRow {
 public:
  explicit CsvRow(std::string& out) : out_(out) {}

  void text(std::string_view value) {
    separate();
    append_csv_text(out_, value);
  }

  template <typename Integer>
  void integer(Integer value) {
    separate();
    append_integer(out_, value);
  }

  template <typename Integer>
  void integer_unless(Integer value, Integer none) {
    separate();
    if (value != none) append_integer(out_, value);
  }

  void empty() { separate(); }
  void end() { out_ += "\r\n"; }

 private:
  void separate() {
    if (!first_) out_ += ',';
    first_ = false;
  }

  std::string& out_;
  bool first_ = true;
};

// name, file, offset and size. A region has only a name.
void write_subject(const trace::Trace& trace, const Event& event, CsvRow& row) {
  if (event.is_region()) {
    row.text(trace.name(event.file));
    row.empty();
    row.empty();
    row.empty();
    return;
  }
  row.text(call_name(event.call));
  row.text(trace.name(event.file));
  row.integer_unless(event.offset, wire::kNoOffset);
  row.integer(event.size);
}

void write_place(const trace::Trace& trace, const Event& event, CsvRow& row) {
  const trace::Process* process = process_of(trace, event.thread);
  if (process == nullptr) {
    for (int i = 0; i < 4; ++i) row.empty();
    return;
  }
  row.integer(process->pid);
  row.integer(trace.threads()[static_cast<size_t>(event.thread)].tid);
  row.integer_unless(process->rank, -1);
  row.text(host_of(trace, *process));
}

void write_row(const trace::Trace& trace, const Event& event, std::string& out) {
  CsvRow row(out);
  row.integer(event.begin_ns);
  row.integer(event.duration_ns());
  row.text(level_name(event.call));
  row.text(call_name(event.call));
  write_subject(trace, event, row);
  row.integer(event.result);
  if (event.error != 0) {
    row.text(error_name(event.error));
  } else {
    row.empty();
  }
  write_place(trace, event, row);
  row.integer_unless(event.is_region() ? event.size : wire::kNoEpoch,
                     static_cast<uint64_t>(wire::kNoEpoch));
  row.integer_unless(event.is_region() ? event.offset : wire::kNoStep, wire::kNoStep);
  row.text(trace.name(event.other_file));
  row.integer_unless(event.other_offset, wire::kNoOffset);
  row.integer(event.detail);
  row.integer((event.flags & wire::kFlagEstimate) != 0 ? 1 : 0);
  if (event.tags.empty()) {
    row.empty();
  } else {
    std::string tags = "{";
    append_tags(trace, event.tags, tags);
    tags += '}';
    row.text(tags);
  }
  row.end();
}

}  // namespace

Status export_csv(const trace::Trace& trace, const Selection& selection, Sink& sink,
                  ExportReport& report) {
  RETURN_IF_ERROR(sink.append(kHeader));
  return visit_events(trace, selection, [&](const Event& event) -> Status {
    write_row(trace, event, sink.buffer());
    ++report.event_count;
    return sink.flush_if_full();
  });
}

}  // namespace millrace::interop
