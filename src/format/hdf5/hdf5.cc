// hdf5: rows of the datasets of HDF5 files. docs/formats/hdf5.md says what is read and written.
#include "format/formats.h"
#include "format/hdf5/library.h"
#include "format/hdf5/source.h"
#include "format/packed_fields.h"

namespace millrace::format {
namespace {

class Hdf5 final : public Format {
 public:
  explicit Hdf5(FormatOptions options) : options_(std::move(options)) {}

  std::string_view name() const override { return "hdf5"; }
  bool is_file_a_sample() const override { return false; }

  Result<data::FileSamples> index(io::Engine&, const std::filesystem::path&) const override {
    return fail(Errc::kUnsupported, "rows of HDF5 are not ranges of bytes; use open_samples()");
  }

  bool has_own_source() const override { return true; }
  Result<std::shared_ptr<data::SampleSource>> open(std::shared_ptr<io::Engine> engine,
                                                   const std::vector<std::string>& paths,
                                                   size_t) const override {
    ASSIGN_OR_RETURN(auto source, Hdf5Source::open(std::move(engine), paths, options_.hdf5));
    return std::shared_ptr<data::SampleSource>(std::move(source));
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    return split_packed(sample, fields);
  }

  // libhdf5 writes the file, not the engine.
  Result<std::unique_ptr<SampleWriter>> create(io::Engine&,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(const Hdf5Library* const library, hdf5_library());
    return library->create(path.string(), options_);
  }

 private:
  FormatOptions options_;
};

}  // namespace

std::unique_ptr<Format> make_hdf5(const FormatOptions& options) {
  return std::make_unique<Hdf5>(options);
}

}  // namespace millrace::format
