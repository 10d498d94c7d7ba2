// Loader for Python.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "base/concurrency/mutex.h"
#include "comm/messages.h"
#include "loader/exchange/class_skew.h"
#include "loader/loader.h"
#include "loader/order/order.h"
#include "loader/order/share.h"
#include "loader/same_dataset.h"
#include "loader_extension/bindings.h"
#include "loader_extension/pinned_memory.h"
#include "loader_extension/shared_memory.h"

namespace millrace::python {
namespace {

using loader::Loader;
using loader::LoaderOptions;
using loader::LoaderState;
using loader::LoaderStats;
using loader::order::Drawing;
using loader::order::Order;
using loader::order::Share;
using loader::order::ShareOptions;

// A file that can be polled: it has data from the first signal() until somebody reads it.
class EventFile {
 public:
  EventFile() : file_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~EventFile() { ::close(file_); }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  int file() const { return file_; }
  void signal() const { static_cast<void>(eventfd_write(file_, 1)); }

 private:
  const int file_;
};

// A Loader, and the epoch and the number of batches left.
class PyLoader {
 public:
  // `talks`: it asks other ranks for samples, or exchanges them. Opening it is then collective. So
  // is closing it, in the sense that ranks are not asked any more afterwards.
  PyLoader(LoaderOptions options, bool talks)
      : share_{.sample_count = loader::order::is_permutation(options.shuffle)
                                   ? options.source->sample_count()
                                   : options.position_count,
               .world = options.world,
               .batch_size = options.batch_size,
               .tail = options.tail} {
    // Called by the thread that waits in next(), which has released the GIL.
    options.is_interrupted = [this] {
      if (is_closing_) return true;
      const py::gil_scoped_acquire python;
      if (PyErr_CheckSignals() != 0) interruption_ = std::make_unique<py::error_already_set>();
      return interruption_ != nullptr;
    };
    options.on_ready = [ready = ready_] { ready->signal(); };
    const py::gil_scoped_release released_gil;
    const Status opened = talks ? open_with_ranks(options) : open(options);
    if (!opened.ok()) error_.emplace(opened.error());
  }

  ~PyLoader() {
    close();
    // A forked child does not have the threads that the destructor would wait for.
    if (getpid() != process_) static_cast<void>(loader_.release());
  }

  void start_epoch(uint64_t epoch) {
    run([&](Loader& loader) { return loader.start_epoch(data::Epoch{epoch}); });
    epoch_ = epoch;
    begin_at(0);
  }

  // Afterwards call start_epoch() or restore().
  void set_batch_size(uint64_t batch_size) {
    run([&](Loader& loader) { return loader.set_batch_size(batch_size); });
    share_.batch_size = batch_size;
    left_ = 0;
  }

  std::optional<data::Batch> next() {
    Result<std::optional<data::Batch>> batch = std::optional<data::Batch>();
    run([&](Loader& loader) -> Status {
      batch = loader.next();
      return {};
    });
    if (!batch.ok()) raise(batch.error(), /*of_sample=*/true);
    if (*batch) left_ -= left_ > 0 ? 1 : 0;
    return *std::move(batch);
  }

  // Whether next() would return at once. ready_file() can be polled until then; read it before.
  bool is_ready() {
    bool is_ready = false;
    run([&](Loader& loader) -> Status {
      is_ready = loader.is_ready();
      return {};
    });
    return is_ready;
  }

  int ready_file() const { return ready_->file(); }

  void count_wait(double seconds) {
    run([&](Loader& loader) -> Status {
      loader.count_wait(std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(seconds)));
      return {};
    });
  }

  // The position of the epoch, for a state, after this many batches since start_epoch() or
  // restore().
  uint64_t done_after(uint64_t batches) const { return Share(share_).done_after(batches); }

  // The samples of a batch since start_epoch() or restore(), and the seeds of its rows.
  py::tuple samples_of_batch(uint64_t number) {
    return samples_of(Share(share_), order(), epoch_, number);
  }

  // Those of a batch of a whole epoch.
  py::tuple samples_of_epoch(uint64_t epoch, uint64_t number) {
    ShareOptions whole = share_;
    whole.done = 0;
    return samples_of(Share(whole), order(), epoch, number);
  }

  uint64_t batch_count() const {
    ShareOptions whole = share_;
    whole.done = 0;
    return Share(whole).batch_count();
  }

  std::string state() { return current_state().text(); }

  std::string state_at(uint64_t epoch, uint64_t done) {
    LoaderState state = current_state();
    state.epoch = data::Epoch{epoch};
    state.done = done;
    run([&](Loader& loader) -> Status {
      state.drawn_from = loader.order().drawn_from(state.epoch);
      return {};
    });
    return state.text();
  }

  void restore(const std::string& text) {
    const LoaderState state = take(LoaderState::parse(text));
    run([&](Loader& loader) { return loader.restore(state); });
    epoch_ = data::number_of(state.epoch);
    begin_at(state.done);
  }

  // A warning for the user if the classes in the shard of `rank` differ from those of the dataset.
  std::optional<std::string> skew_warning(const SourceHandle& source, uint32_t rank) {
    std::optional<std::string> warning;
    run([&](Loader& loader) -> Status {
      const Order& order = loader.order();
      loader::exchange::ClassCounts whole;
      loader::exchange::ClassCounts shard;
      for (uint64_t i = 0; i < order.size(); ++i) {
        ++whole[source.source->label(data::SampleId{i}).value_or(-1)];
      }
      const uint32_t shard_count = std::max(order.options().shard_count, 1U);
      for (uint64_t i = rank % shard_count; i < order.size(); i += shard_count) {
        ++shard[source.source->label(order.at(data::Epoch{0}, i)).value_or(-1)];
      }
      warning = loader::exchange::class_skew_warning(
          loader::exchange::class_skew(shard, whole),
          {.fraction = order.options().fraction, .rank = rank});
      return {};
    });
    return warning;
  }

  LoaderStats stats() {
    const py::gil_scoped_release released_gil;
    const MutexLock lock(loader_mutex_);
    return loader_ ? loader_->stats() : last_stats_;
  }

  // Why samples were read from the dataset again, if that happened since the last call.
  std::optional<std::string> restaged() {
    const auto shard = stats().shard;
    if (!shard || shard->restaged == last_restaged_) return {};
    last_restaged_ = shard->restaged;
    return last_restaged_;
  }

  // With shard storage: the epoch whose samples it holds.
  std::optional<uint64_t> storage_epoch() {
    std::optional<uint64_t> number;
    run([&](Loader& loader) -> Status {
      if (const auto epoch = loader.storage_epoch()) number = data::number_of(*epoch);
      return {};
    });
    return number;
  }

  uint64_t epoch() const { return epoch_; }
  uint64_t batches_left() const { return left_; }

  // A next() that waits on another thread ends first. Does nothing in a forked child, where threads
  // that stayed in the parent may hold the locks forever.
  void close() {
    if (getpid() != process_) return;
    const py::gil_scoped_release released_gil;
    is_closing_ = true;  // a concurrent start_epoch() would undo a cancel()
    {
      const MutexLock lock(loader_mutex_);
      if (loader_) loader_->cancel();
    }
    const MutexLock lock(use_mutex_);
    const MutexLock lock_loader(loader_mutex_);
    if (loader_) last_stats_ = loader_->stats();
    loader_.reset();
    comm_.reset();
  }

  void check_opened() const {
    if (error_) raise(*error_);
  }

 private:
  Status open(const LoaderOptions& options) {
    ASSIGN_OR_RETURN(loader_, Loader::open(options));
    return {};
  }

  Status open_with_ranks(LoaderOptions& options) {
    ASSIGN_OR_RETURN(comm_, connected());
    if (options.shard.directory.empty()) {
      RETURN_IF_ERROR(loader::check_same_dataset(*options.source, *comm_));
      ASSIGN_OR_RETURN(options.tiers.messages, comm_->open_messages());
    }
    options.shard.comm = comm_;
    return loader::exchange::agree_all(
        *comm_, open(options));  // or the other ranks would wait for this one
  }

  const Order& order() {
    const Order* order = nullptr;
    run([&](Loader& loader) -> Status {
      order = &loader.order();
      return {};
    });
    return *order;
  }

  static Error closed() {
    return fail(Errc::kCancelled, "the loader is closed; make another DataLoader");
  }

  // The first call reads the names of all samples.
  LoaderState current_state() {
    LoaderState state;
    run([&](Loader& loader) -> Status {
      state = loader.state();
      return {};
    });
    return state;
  }

  // Runs one call at a time, without the GIL: the loader has a single consumer.
  template <typename Work>
  void run(Work work) {
    const Status done = [&]() -> Status {
      const py::gil_scoped_release released_gil;
      const MutexLock lock(use_mutex_);
      if (!loader_ || is_closing_) return closed();
      return work(*loader_);
    }();
    if (const auto interruption = std::exchange(interruption_, nullptr)) throw *interruption;
    if (!done.ok()) raise(done.error());
  }

  void begin_at(uint64_t done) {
    share_.done = done;
    left_ = Share(share_).batch_count();
  }

  const pid_t process_ = getpid();
  const std::shared_ptr<const EventFile> ready_ =  // shared with the loader's threads
      std::make_shared<const EventFile>();
  std::atomic<bool> is_closing_ = false;
  Mutex use_mutex_;                   // held by a call that may block
  Mutex loader_mutex_;                // held to close or cancel the loader
  std::shared_ptr<comm::Comm> comm_;  // if it talks; shared with all that talk, outlives the loader
  std::unique_ptr<Loader> loader_;
  LoaderStats last_stats_;                               // after close()
  std::optional<Error> error_;                           // why there is no loader
  std::unique_ptr<py::error_already_set> interruption_;  // raised by a signal handler
  ShareOptions share_;
  std::string last_restaged_;  // what restaged() returned last
  uint64_t epoch_ = 0;
  uint64_t left_ = 0;
};

std::unique_ptr<PyLoader> open_loader(const SourceHandle& source, const Decoder& decoder,
                                      const py::kwargs& options) {
  const auto text = [&](const char* name) { return options[name].cast<std::string>(); };
  const auto seconds = std::chrono::duration<double>(options["timeout_seconds"].cast<double>());
  LoaderOptions wanted{
      .source = source.source,
      .decoder = decoder.decoder,
      .shuffle = take(loader::order::shuffle_from(text("shuffle"))),
      .fraction = options["fraction"].cast<double>(),
      .shard_count = options["shard_count"].cast<uint32_t>(),
      .position_count = options["position_count"].cast<uint64_t>(),
      .drawing = options["drawing"].cast<std::shared_ptr<Drawing>>(),
      .seed = options["seed"].cast<uint64_t>(),
      .world = {.rank = options["rank"].cast<uint32_t>(),
                .size = options["world_size"].cast<uint32_t>()},
      .batch_size = options["batch_size"].cast<uint64_t>(),
      .tail = take(loader::order::tail_from(text("tail"))),
      .epoch_count = options["epoch_count"].cast<uint64_t>(),
      .thread_count = options["thread_count"].cast<uint32_t>(),
      .prefetch_batches = options["prefetch_batches"].cast<uint32_t>(),
      .memory_bytes = options["memory_bytes"].cast<uint64_t>(),
      .io_depth = options["io_depth"].cast<uint32_t>(),
      .skips_bad_samples = options["skips_bad_samples"].cast<bool>(),
      .read_deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(seconds)};
  wanted.tiers = {.memory_bytes = options["cache_memory_bytes"].cast<uint64_t>(),
                  .disk_bytes = options["cache_disk_bytes"].cast<uint64_t>(),
                  .disk_directory = text("cache_directory")};
  wanted.shard = {.directory = text("shard_directory"), .shows_progress = true};
  wanted.marks_waits = options["marks_waits"].cast<bool>();
  if (const py::object gpu = options["pins_for_gpu"]; !gpu.is_none()) {
    wanted.memory_hooks = take(pinned_memory(gpu.cast<int>()));
  }
  if (const py::object memory = options["shared_memory"]; !memory.is_none()) {
    wanted.memory_hooks = SharedMemory::hooks(memory.cast<std::shared_ptr<SharedMemory>>());
  }
  const bool talks = options["cache_peers"].cast<bool>() || !wanted.shard.directory.empty();
  auto opened = std::make_unique<PyLoader>(std::move(wanted), talks);
  opened->check_opened();
  return opened;
}

py::dict describe(const loader::tiers::Stats& stats) {
  py::dict result;
  for (const loader::tiers::Tier tier : loader::tiers::kTiers) {
    const loader::tiers::TierUse& use = stats.of(tier);
    py::dict of_tier;
    of_tier["samples"] = use.samples;
    of_tier["bytes"] = use.bytes;
    of_tier["bytes_per_second"] = use.bytes_per_second;
    result[py::str(std::string(loader::tiers::tier_name(tier)))] = of_tier;
  }
  result["memory_held_bytes"] = stats.memory_held_bytes;
  result["disk_held_bytes"] = stats.disk.held_bytes;
  result["disk_read_errors"] = stats.disk.read_errors;
  result["disk_ended_by"] = file_text(stats.disk.ended_by);
  result["peer_refusals"] = stats.peer_refusals;
  result["served"] = stats.served;
  result["not_served"] = stats.not_served;
  return result;
}

py::dict describe(const loader::pipeline::ReadStats& stats) {
  py::dict result;
  result["engine"] = stats.engine;
  result["trials"] = stats.trial_count;
  py::dict measured;
  for (const auto& way : stats.measured) {
    py::dict of_way;
    of_way["bytes_per_second"] = way.bytes_per_second;
    of_way["cpu_us_per_sample"] = way.cpu_us_per_sample;
    measured[py::str(way.name)] = of_way;
  }
  result["measured"] = measured;
  result["refusal"] = stats.refusal;
  return result;
}

py::dict describe(const LoaderStats& stats) {
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  py::dict result;
  result["batches"] = stats.batches;
  result["samples"] = stats.samples;
  result["bytes_read"] = stats.bytes_read;
  result["bad_samples"] = stats.bad_samples;
  result["first_bad_sample"] = file_text(stats.first_bad_sample);
  result["read_seconds"] = seconds(stats.read);
  result["decode_seconds"] = seconds(stats.decode);
  result["wait_seconds"] = seconds(stats.waited);
  result["blocked_seconds"] = seconds(stats.blocked);
  result["threads"] = stats.thread_count;
  result["prefetch"] = stats.prefetch_batches;
  result["buffers_allocated"] = stats.buffers_allocated;
  result["reads"] = describe(stats.reads);
  if (stats.tiers) result["cache"] = describe(*stats.tiers);
  if (stats.shard) result["shard"] = describe_held(*stats.shard);
  return result;
}

}  // namespace

void bind_loader(py::module_& module) {
  py::class_<PyLoader>(module, "Loader", "Batches that C++ threads read and decode ahead of time.")
      .def(py::init(&open_loader))
      .def("start_epoch", &PyLoader::start_epoch)
      .def("next", &PyLoader::next, "The next batch, or None at the end of the epoch.")
      .def("set_batch_size", &PyLoader::set_batch_size)
      .def("is_ready", &PyLoader::is_ready)
      .def("count_wait", &PyLoader::count_wait)
      .def_property_readonly("ready_file", &PyLoader::ready_file)
      .def("done_after", &PyLoader::done_after)
      .def("samples_of_batch", &PyLoader::samples_of_batch)
      .def("samples_of_epoch", &PyLoader::samples_of_epoch, py::arg("epoch"), py::arg("number"))
      .def_property_readonly("batch_count", &PyLoader::batch_count)
      .def_property_readonly("batches_left", &PyLoader::batches_left)
      .def_property_readonly("epoch", &PyLoader::epoch)
      .def_property_readonly("storage_epoch", &PyLoader::storage_epoch)
      .def("state", &PyLoader::state)
      .def("state_at", &PyLoader::state_at)
      .def("restore", &PyLoader::restore)
      .def("stats", [](PyLoader& self) { return describe(self.stats()); })
      .def("restaged", &PyLoader::restaged)
      .def("skew_warning", &PyLoader::skew_warning, py::arg("source"), py::arg("rank"))
      .def("close", &PyLoader::close);
  module.def("check_state", [](const std::string& text) { take(LoaderState::parse(text)); });
}

}  // namespace millrace::python
