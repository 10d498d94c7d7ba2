// Writes and reads checkpoints as a benchmark would, for checkpoint_test.py.
//
//   checkpoint_actions FOLDER [KEY=VALUE...] [save:EPOCH.STEP|load:EPOCH.STEP...]
//
// Keys: mode local model datatype ranks fsync randomize odirect drop verify layout sizes type
// buffer. `ranks` runs that many ranks as threads. Prints one line per rank and action; fails with
// the message of the first.
#include <fmt/core.h>

#include <cstdio>
#include <mutex>
#include <sstream>
#include <thread>

#include "bench/checkpoint/checkpoint.h"
#include "comm/testing/threads.h"

namespace millrace::bench {
namespace {

struct Request {
  Workload workload;
  uint32_t ranks = 1;
  std::vector<std::string> actions;
};

void set_model(const std::string& name, ModelConfig& model) {
  if (name == "transformer") {
    model.type = "transformer";
    model.num_layers = 2;
    model.transformer = {1000, 64, 256, 4, 2};
    model.parallelism.zero_stage = 3;
  } else if (name == "groups") {
    model.num_layers = 2;
    model.layer_parameters = {1000, 2000};
    model.optimization_groups = {5000, 300};
  } else {
    model.model_size_bytes = std::stoull(name);
  }
}

std::vector<uint64_t> sizes_of(const std::string& text) {
  std::vector<uint64_t> sizes;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) sizes.push_back(std::stoull(part));
  return sizes;
}

Request parse(int count, char** arguments) {
  Request request;
  CheckpointConfig& config = request.workload.checkpoint;
  config.checkpoint_folder = arguments[1];
  for (int i = 2; i < count; ++i) {
    const std::string text = arguments[i];
    const size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (equals == std::string::npos) request.actions.push_back(text);
    if (key == "mode") config.write_mode = named<WriteMode>(value).value();
    if (key == "local") config.local_folder = value;
    if (key == "model") set_model(value, request.workload.model);
    if (key == "datatype") request.workload.model.model_datatype = named<TensorType>(value).value();
    if (key == "ranks") request.ranks = static_cast<uint32_t>(std::stoul(value));
    if (key == "fsync") config.fsync = value == "1";
    if (key == "randomize") config.randomize_tensor = value == "1";
    if (key == "odirect") config.odirect = value == "1";
    if (key == "drop") config.drop_cache = value == "1";
    if (key == "verify") config.verify = value == "1";
    if (key == "layout") config.layout = named<CheckpointLayout>(value).value();
    if (key == "type") config.type = named<CheckpointType>(value).value();
    if (key == "sizes") config.file_sizes = sizes_of(value);
    if (key == "buffer") config.buffer_size = std::stoull(value);
  }
  return request;
}

Status act(Checkpointer& checkpoints, const std::string& action) {
  uint64_t epoch = 0;
  uint64_t step = 0;
  char verb[5] = {};
  if (std::sscanf(action.c_str(), "%4[a-z]:%lu.%lu", verb, &epoch, &step) != 3) {
    return fail(Errc::kInvalidArgument, "unknown action '{}'", action);
  }
  const bool saves = std::string_view(verb) == "save";
  RETURN_IF_ERROR(saves ? checkpoints.save(epoch, step, step)
                        : checkpoints.load(epoch, step, step));
  return {};
}

Status run(const Request& request, comm::Comm& comm) {
  static std::mutex printing;
  ASSIGN_OR_RETURN(const auto checkpoints, Checkpointer::open(request.workload, comm));
  for (const std::string& action : request.actions) RETURN_IF_ERROR(act(*checkpoints, action));
  RETURN_IF_ERROR(checkpoints->finish());
  const std::lock_guard lock(printing);
  for (const CheckpointResult& result : checkpoints->results()) {
    fmt::print("rank {} {} {} files {} bytes {} fsyncs {} cached {}\n", comm::index_of(comm.rank()),
               result.is_load ? "loaded" : "saved", checkpoint_name(result.id), result.file_count,
               result.size_bytes, result.fsync_count, result.cached_bytes);
  }
  return {};
}

int main_of(int count, char** arguments) {
  if (count < 3) return 2;
  const Request request = parse(count, arguments);
  auto comms = comm::threads_comm(request.ranks);
  std::vector<Status> outcomes(request.ranks);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < comms.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i] = comms[i]->agree(run(request, *comms[i])); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& outcome : outcomes) {
    if (outcome.ok()) continue;
    fmt::print(stderr, "{}\n", outcome.error().message());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int count, char** arguments) { return millrace::bench::main_of(count, arguments); }
