#include <unistd.h>

#include "base/io/atomic_file.h"
#include "base/io/directory.h"
#include "trace/pack/packed_writer.h"
#include "trace/trace.h"

namespace millrace::trace {

struct TraceWriter::State {
  State(std::string final_path, NewFile& made, PackedWriter packed)
      : path(std::move(final_path)),
        partial_path(std::move(made.path)),
        writer(std::move(packed)) {}
  ~State() {
    if (!is_finished) unlink(partial_path.c_str());
  }

  std::string path;
  std::string partial_path;  // its name until finish()
  PackedWriter writer;
  bool is_finished = false;
};

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() = default;

const std::string& TraceWriter::partial_path() const { return state_->partial_path; }

Result<TraceWriter> TraceWriter::create(const std::string& path, int64_t origin_wall_ns) {
  ASSIGN_OR_RETURN(NewFile made, create_beside(path, 0600));
  ASSIGN_OR_RETURN(PackedWriter writer,
                   PackedWriter::create(std::move(made.file), origin_wall_ns, 0).within(path));
  return TraceWriter(std::make_unique<State>(path, made, std::move(writer)));
}

uint32_t TraceWriter::add_session(const Session& session) {
  return state_->writer.add_session({.session = session, .clock = {}, .directory = {}});
}

NameIndex TraceWriter::add_name(std::string_view name) { return state_->writer.add_name(name); }

ProcessIndex TraceWriter::add_process(const Process& process) {
  return state_->writer.add_process({.process = process, .peer = {}, .recording = {}});
}

ThreadIndex TraceWriter::add_thread(const Thread& thread) {
  return state_->writer.add_thread(thread);
}

void TraceWriter::add_loss(const LostEvents& loss) { state_->writer.add_loss(loss); }

Status TraceWriter::append(const EventColumns& columns) {
  if (columns.size_events() == 0) return {};
  RETURN_IF_ERROR(check_columns(columns));
  const Tables& tables = state_->writer.tables();
  const auto thread_of = [&](size_t event) { return static_cast<size_t>(columns.thread[event]); };
  for (size_t i = 0; i < columns.size_events(); ++i) {
    if (thread_of(i) >= tables.threads.size() ||
        static_cast<size_t>(columns.file[i]) >= tables.names.size() ||
        static_cast<size_t>(columns.other_file[i]) >= tables.names.size()) {
      return fail(Errc::kInvalidArgument, "event {} names a thread or file that was not added", i);
    }
  }
  const ProcessIndex process = tables.threads[thread_of(0)].process;
  return state_->writer.append(columns, process).within(state_->partial_path);
}

Status TraceWriter::finish() {
  RETURN_IF_ERROR(state_->writer.finish().within(state_->partial_path));
  RETURN_IF_ERROR(state_->writer.sync().within(state_->partial_path));
  RETURN_IF_ERROR(state_->writer.close().within(state_->partial_path));
  if (const int error = rename_to_new(state_->partial_path, state_->path); error != 0) {
    return fail_os(error, "cannot rename " + state_->partial_path).within(state_->path);
  }
  state_->is_finished = true;
  return sync_directory(directory_of(state_->path));
}

}  // namespace millrace::trace
