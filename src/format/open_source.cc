#include <algorithm>
#include <mutex>

#include "base/concurrency/thread_pool.h"
#include "base/system/cpus.h"
#include "base/text/text.h"
#include "format/file_source.h"
#include "format/file_stamp.h"
#include "format/folder.h"

namespace millrace::format {
namespace {

using data::DatasetBuilder;
using data::FileSamples;

// For errors: "files that end in .jpg, .png".
std::string described(std::span<const std::string> extensions) {
  if (extensions.empty()) return "files";
  return fmt::format("files that end in {}",
                     join(std::vector<std::string>(extensions.begin(), extensions.end()), ", "));
}

Result<std::shared_ptr<io::Engine>> engine_or_auto(std::shared_ptr<io::Engine> engine) {
  if (engine) return engine;
  ASSIGN_OR_RETURN(auto measured, io::open_engine("auto"));
  return std::shared_ptr<io::Engine>(std::move(measured));
}

ThreadPool pool_for(size_t wanted, size_t task_count) {
  const size_t threads = wanted != 0 ? wanted : usable_cpu_count();
  return ThreadPool(std::clamp<size_t>(task_count, 1, threads));
}

Result<std::vector<std::string>> paths_of(const io::Listing& listing, const FilesOptions& options,
                                          std::string_view format_name) {
  std::vector<std::string> paths;
  for (const auto& path : options.paths) paths.push_back(path.string());
  if (options.directory.empty()) return paths;
  const auto ends = extensions_of(format_name);
  const std::vector<std::string> extensions(ends.begin(), ends.end());
  ASSIGN_OR_RETURN(const auto tree, list_tree(listing, options.directory.string(), {}));
  for (const DirectoryFiles& files : tree) {
    for (size_t i = 0; i < files.name_begins.size(); ++i) {
      if (!has_name_of(files.name(i), format_name)) continue;
      paths.push_back(fmt::format("{}/{}", files.directory, files.name(i)));
    }
  }
  if (paths.empty()) {
    return fail(Errc::kNotFound, "{}: found no {} below it", options.directory.string(),
                described(extensions));
  }
  return paths;
}

Result<std::string> format_name_of(const FilesOptions& options) {
  if (!options.format.empty()) return options.format;
  if (options.paths.empty()) {
    return fail(Errc::kInvalidArgument,
                "specify the format of the files in the directory: one of {}",
                join(format_names(), ", "));
  }
  ASSIGN_OR_RETURN(const std::string_view name, format_of(options.paths.front()));
  return std::string(name);
}

Result<std::vector<FileSamples>> index_all(const Format& format, io::Engine& engine,
                                           const std::vector<std::string>& paths,
                                           size_t thread_count) {
  std::vector<FileSamples> all(paths.size());
  ThreadPool pool = pool_for(thread_count, paths.size());
  RETURN_IF_ERROR(pool.parallel_for(paths.size(), [&](size_t i) -> Status {
    // Before the bytes are read, so that a concurrent write is noticed later.
    const int64_t modified = modified_ns(paths[i]);
    auto samples = format.index(engine, paths[i]);
    if (!samples.ok()) {
      const bool has_path = samples.error().message().starts_with(paths[i]);
      return has_path ? std::move(samples).error() : std::move(samples).error().within(paths[i]);
    }
    all[i] = *std::move(samples);
    if (all[i].stamp.size_bytes != 0) all[i].stamp.modified_ns = modified;
    return {};
  }));
  return all;
}

// The element of all files. Fails if they differ.
Result<std::optional<data::FieldSpec>> common_element(const std::vector<FileSamples>& all,
                                                      const std::vector<std::string>& paths) {
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].element == all[0].element) continue;
    const auto text = [](const std::optional<data::FieldSpec>& element) {
      return element
                 ? fmt::format("{} of {}", element->shape.text(), data::element_name(element->type))
                 : "bytes";
    };
    return fail(Errc::kInvalidArgument, "{}: its samples are {}, but those of {} are {}", paths[i],
                text(all[i].element), paths[0], text(all[0].element));
  }
  return all.empty() ? std::nullopt : all[0].element;
}

Status add_directory(DatasetBuilder& builder, const DirectoryFiles& files,
                     std::optional<int32_t> label) {
  for (size_t i = 0; i < files.name_begins.size(); ++i) {
    RETURN_IF_ERROR(builder.add_file(files.directory, files.name(i), label));
  }
  return {};
}

Result<data::Dataset> list_plain(const io::Listing& listing, const FolderOptions& options) {
  DatasetBuilder builder;
  ASSIGN_OR_RETURN(const auto tree,
                   list_tree(listing, options.directory.string(), options.extensions));
  for (const DirectoryFiles& files : tree) {
    RETURN_IF_ERROR(add_directory(builder, files, std::nullopt));
  }
  return std::move(builder).build();
}

Result<data::Dataset> list_classes(const io::Listing& listing, const FolderOptions& options) {
  const std::string root = options.directory.string();
  ASSIGN_OR_RETURN(std::vector<std::string> classes, list_directories(listing, root));
  if (classes.empty()) {
    return fail(Errc::kInvalidArgument,
                "{}: has no directories to use as classes; for files without classes, set "
                "has_classes=False",
                root);
  }
  std::vector<std::vector<DirectoryFiles>> trees(classes.size());
  ThreadPool pool = pool_for(options.thread_count, classes.size());
  RETURN_IF_ERROR(pool.parallel_for(classes.size(), [&](size_t i) -> Status {
    const std::string directory = (options.directory / classes[i]).string();
    ASSIGN_OR_RETURN(trees[i], list_tree(listing, directory, options.extensions));
    if (!trees[i].empty()) return {};
    return fail(Errc::kNotFound, "{}: this class has no {}; remove the directory or add files",
                directory, described(options.extensions));
  }));
  DatasetBuilder builder;
  for (size_t i = 0; i < classes.size(); ++i) {
    for (const DirectoryFiles& files : trees[i]) {
      RETURN_IF_ERROR(add_directory(builder, files, static_cast<int32_t>(i)));
    }
    trees[i] = {};  // the dataset has them now
  }
  builder.set_class_names(std::move(classes));
  return std::move(builder).build();
}

}  // namespace

Result<std::shared_ptr<FileSource>> open_files(FilesOptions options) {
  if (options.paths.empty() == options.directory.empty()) {
    return fail(Errc::kInvalidArgument, "give either files or a directory of them");
  }
  ASSIGN_OR_RETURN(const auto engine, engine_or_auto(std::move(options.engine)));
  ASSIGN_OR_RETURN(const std::string format_name, format_name_of(options));
  ASSIGN_OR_RETURN(std::shared_ptr<const Format> format,
                   open_format(format_name, options.format_options));
  if (format->has_own_source()) {
    return fail(Errc::kUnsupported, "{} files have a source of their own; use open_samples()",
                format_name);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                   paths_of(engine->listing(), options, format_name));
  DatasetBuilder builder;
  std::optional<data::FieldSpec> element;
  if (format->is_file_a_sample()) {
    for (const std::string& path : paths) RETURN_IF_ERROR(builder.add_file(path, FileSamples{}));
  } else {
    ASSIGN_OR_RETURN(std::vector<FileSamples> all,
                     index_all(*format, *engine, paths, options.thread_count));
    ASSIGN_OR_RETURN(element, common_element(all, paths));
    for (size_t i = 0; i < paths.size(); ++i) {
      RETURN_IF_ERROR(builder.add_file(paths[i], all[i]));
      all[i] = {};
    }
  }
  std::shared_ptr<FileSource> source(new FileSource(std::move(builder).build(), engine,
                                                    std::move(format), options.open_files_max));
  source->element_ = std::move(element);
  return source;
}

Result<std::shared_ptr<FileSource>> open_indexed(const std::vector<std::string>& paths,
                                                 std::shared_ptr<io::Engine> engine,
                                                 std::shared_ptr<const Format> format) {
  ASSIGN_OR_RETURN(const std::vector<FileSamples> all, index_all(*format, *engine, paths, 0));
  DatasetBuilder builder;
  for (size_t i = 0; i < paths.size(); ++i) RETURN_IF_ERROR(builder.add_file(paths[i], all[i]));
  return open_listed(std::move(builder).build(), std::move(engine), std::move(format));
}

std::shared_ptr<FileSource> open_listed(data::Dataset dataset, std::shared_ptr<io::Engine> engine,
                                        std::shared_ptr<const Format> format) {
  return std::shared_ptr<FileSource>(
      new FileSource(std::move(dataset), std::move(engine), std::move(format), 0));
}

Result<Samples> open_samples(FilesOptions options) {
  if (options.paths.empty() == options.directory.empty()) {
    return fail(Errc::kInvalidArgument, "give either files or a directory of them");
  }
  ASSIGN_OR_RETURN(const std::string format_name, format_name_of(options));
  ASSIGN_OR_RETURN(std::shared_ptr<const Format> format,
                   open_format(format_name, options.format_options));
  if (!format->has_own_source()) {
    ASSIGN_OR_RETURN(const auto source, open_files(std::move(options)));
    return Samples{source, source->format(), source->element()};
  }
  ASSIGN_OR_RETURN(const auto engine, engine_or_auto(std::move(options.engine)));
  ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                   paths_of(engine->listing(), options, format_name));
  ASSIGN_OR_RETURN(auto source, format->open(engine, paths, options.thread_count));
  return Samples{std::move(source), std::move(format), std::nullopt};
}

Status split_sample(const Samples& samples, ByteView sample, SampleFields& fields) {
  RETURN_IF_ERROR(samples.format->split(sample, fields));
  if (!samples.element || fields.list().size() != 1) return {};
  const data::FieldSpec& element = *samples.element;
  if (sample.size() != element.size_bytes()) {
    return fail(Errc::kCorrupt, "has {} bytes, but {} takes {}", sample.size(),
                data::description(element), element.size_bytes());
  }
  fields.clear();
  fields.add({.name = element.name,
              .array = {.type = element.type, .shape = element.shape, .bytes = sample}});
  return {};
}

Result<FileList> list_files(const FilesOptions& options) {
  if (options.paths.empty() == options.directory.empty()) {
    return fail(Errc::kInvalidArgument, "give either files or a directory of them");
  }
  FileList list;
  ASSIGN_OR_RETURN(list.format, format_name_of(options));
  RETURN_IF_ERROR(open_format(list.format, options.format_options));
  ASSIGN_OR_RETURN(list.paths, paths_of(io::system_listing(), options, list.format));
  return list;
}

Result<std::shared_ptr<FileSource>> open_folder(FolderOptions options) {
  ASSIGN_OR_RETURN(const auto engine, engine_or_auto(std::move(options.engine)));
  std::shared_ptr<const Format> format;
  if (!options.format.empty()) {
    ASSIGN_OR_RETURN(format, open_format(options.format, {.rows = false}));
    if (!format->is_file_a_sample()) {
      return fail(Errc::kInvalidArgument,
                  "a {} file holds many samples; open it as a file, not as a folder of samples",
                  options.format);
    }
    const auto ends = extensions_of(options.format);
    if (options.extensions.empty()) options.extensions.assign(ends.begin(), ends.end());
  }
  ASSIGN_OR_RETURN(data::Dataset dataset, options.has_classes
                                              ? list_classes(engine->listing(), options)
                                              : list_plain(engine->listing(), options));
  if (dataset.sample_count() == 0) {
    return fail(Errc::kNotFound, "{}: found no {} below it", options.directory.string(),
                described(options.extensions));
  }
  // Keeps no file open: each is read at once.
  return std::shared_ptr<FileSource>(
      new FileSource(std::move(dataset), engine, std::move(format), 1));
}

}  // namespace millrace::format
