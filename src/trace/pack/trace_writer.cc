#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/directory.h"
#include "trace/pack/packed_writer.h"
#include "trace/trace.h"

namespace millrace::trace {

struct TraceWriter::State {
  std::string path;
  std::string partial_path;  // its name until finish()
  PackedWriter writer;
};

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() = default;

Result<TraceWriter> TraceWriter::create(const std::string& path, int64_t origin_wall_ns) {
  std::string partial_path = path + ".partial";
  unlink(partial_path.c_str());  // left by a killed writer, or someone else's link
  ASSIGN_OR_RETURN(File file,
                   File::open(partial_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  ASSIGN_OR_RETURN(PackedWriter writer,
                   PackedWriter::create(std::move(file), origin_wall_ns, 0).within(partial_path));
  return TraceWriter(std::make_unique<State>(
      State{.path = path, .partial_path = std::move(partial_path), .writer = std::move(writer)}));
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
  if (rename(state_->partial_path.c_str(), state_->path.c_str()) != 0) {
    return fail_os(errno, "cannot rename " + state_->partial_path).within(state_->path);
  }
  return sync_directory(directory_of(state_->path));
}

}  // namespace millrace::trace
