// Generates and verifies datasets for tests/bench/generate_test.py.
//
// usage: bench_dataset generate KEY=VALUE...   prints files written, files kept and bytes of the
//                                              dataset
//        bench_dataset verify KEY=VALUE...     reads every sample and compares it
//        bench_dataset dims COUNT KEY=VALUE... prints the shapes of the first COUNT training files
// KEY: a key of the workload's dataset section; also threads, fsync and slow (microseconds
// to sleep after each write, so that a test can kill it in the middle).
// Exit code: 0, or 1 with a message.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "bench/generate/file_job.h"
#include "bench/generate/generate.h"
#include "bench/generate/verify.h"
#include "comm/single.h"
#include "format/file_source.h"

namespace millrace::bench {
namespace {

using Settings = std::map<std::string, std::string>;

struct Program {
  Workload workload;
  GenerateOptions options;
};

data::ElementType type_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(data::ElementType::kBool); ++i) {
    const auto type = static_cast<data::ElementType>(i);
    if (data::element_name(type) == name) return type;
  }
  return data::ElementType::kU8;
}

std::vector<uint64_t> numbers_in(const std::string& text) {
  std::vector<uint64_t> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, 'x');) numbers.push_back(std::stoull(part));
  return numbers;
}

Program program_of(Settings settings) {
  Program program;
  DatasetConfig& dataset = program.workload.dataset;
  const auto number = [&](const std::string& key, auto& out) {
    if (settings.contains(key))
      out = static_cast<std::decay_t<decltype(out)>>(std::stod(settings[key]));
  };
  const auto text = [&](const std::string& key, std::string& out) {
    if (settings.contains(key)) out = settings[key];
  };
  number("record_length_bytes", dataset.record_length_bytes);
  number("record_length_bytes_stdev", dataset.record_length_bytes_stdev);
  number("num_files_train", dataset.num_files_train);
  number("num_files_eval", dataset.num_files_eval);
  number("num_samples_per_file", dataset.num_samples_per_file);
  number("num_subfolders_train", dataset.num_subfolders_train);
  number("seed", dataset.seed);
  if (settings.contains("format")) {
    dataset.format = named<DatasetFormat>(settings["format"]).value();
  }
  if (settings.contains("content")) {
    dataset.content = named<ContentKind>(settings["content"]).value();
  }
  text("data_folder", dataset.data_folder);
  if (settings.contains("record_dims")) dataset.record_dims = numbers_in(settings["record_dims"]);
  if (settings.contains("record_element_type")) {
    dataset.record_element_type = type_named(settings["record_element_type"]);
  }
  number("threads", program.options.thread_count);
  number("fsync", program.options.fsync);
  useconds_t pause_us = 0;
  number("slow", pause_us);
  if (pause_us > 0) {
    program.options.on_progress = [pause_us](uint64_t, uint64_t) { ::usleep(pause_us); };
  }
  return program;
}

Status generate_dataset(const Program& program) {
  const auto comm = comm::single();
  ASSIGN_OR_RETURN(const GenerateReport report, generate(program.workload, *comm, program.options));
  fmt::print("{} {} {}\n", report.files_written, report.files_kept, report.dataset_bytes);
  return {};
}

Status verify_files(const Verifier& verifier, Split split) {
  for (uint64_t i = 0; i < verifier.layout().file_count(split); ++i) {
    const FileId file{.split = split, .index = i};
    ASSIGN_OR_RETURN(const std::string bytes, read_file(verifier.layout().path(file)));
    RETURN_IF_ERROR(verifier.verify_file(file, bytes_of(bytes)));
  }
  return {};
}

Status verify_samples(const Verifier& verifier, DatasetFormat format, Split split) {
  const Layout& layout = verifier.layout();
  format::FilesOptions options{.format = std::string(name_of(format))};
  for (uint64_t i = 0; i < layout.file_count(split); ++i) {
    options.paths.emplace_back(layout.path({.split = split, .index = i}));
  }
  ASSIGN_OR_RETURN(const auto samples, format::open_samples(options));
  const uint64_t per_file = samples.source->sample_count() / layout.file_count(split);
  data::Buffer room;
  format::SampleFields fields;
  for (uint64_t i = 0; i < samples.source->sample_count(); ++i) {
    ASSIGN_OR_RETURN(const ByteView bytes, samples.source->read(data::SampleId{i}, room));
    RETURN_IF_ERROR(samples.format->split(bytes, fields));
    RETURN_IF_ERROR(verifier.verify(
        {.file = {.split = split, .index = i / per_file}, .sample = i % per_file}, fields.list()));
  }
  return {};
}

Status verify_dataset(const Program& program) {
  ASSIGN_OR_RETURN(const Verifier verifier, Verifier::of(program.workload));
  const DatasetConfig& dataset = program.workload.dataset;
  for (const Split split : {Split::kTrain, Split::kEval}) {
    if (verifier.layout().file_count(split) == 0) continue;
    RETURN_IF_ERROR(dataset.traits().is_image ? verify_files(verifier, split)
                                              : verify_samples(verifier, dataset.format, split));
  }
  return {};
}

Status print_dims(const Program& program, uint64_t count) {
  ASSIGN_OR_RETURN(const Layout layout, Layout::of(program.workload));
  for (uint64_t i = 0; i < count; ++i) {
    const data::Shape shape = layout.record_shape({.index = i});
    fmt::print("{} {}\n", shape.lengths()[0], shape.lengths()[1]);
  }
  return {};
}

Status run(const std::vector<std::string>& arguments) {
  Settings settings;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals != std::string::npos) {
      settings[argument.substr(0, equals)] = argument.substr(equals + 1);
    }
  }
  const Program program = program_of(settings);
  if (arguments[0] == "generate") return generate_dataset(program);
  if (arguments[0] == "verify") return verify_dataset(program);
  return print_dims(program, std::stoull(arguments[1]));
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  const millrace::Status status = millrace::bench::run({argv + 1, argv + argc});
  if (!status.ok()) fmt::print(stderr, "bench_dataset: {}\n", status.error().message());
  return status.ok() ? 0 : 1;
}
