#include "analyze/profile/profile_json.h"

#include <concepts>
#include <type_traits>

namespace millrace::analyze {
namespace {

class FieldWriter {
 public:
  explicit FieldWriter(JsonWriter& json) : json_(json) {}

  template <typename T>
  void operator()(const Field& field, const T& value) {
    json_.key(field.name);
    if (is_missing(field, value)) {
      json_.null();
    } else {
      put(value);
    }
  }

 private:
  template <typename T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      json_.value(name_of(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
      json_.value(value);
    } else {
      json_.begin_object(kOnOneLine<T> ? JsonLayout::kOneLine : JsonLayout::kLines);
      visit_fields(*this, value);
      json_.end_object();
    }
  }

  void put(const std::string& text) { json_.value(text); }

  template <typename T>
  void put(const std::vector<T>& values) {
    json_.begin_list(std::is_arithmetic_v<T> ? JsonLayout::kOneLine : JsonLayout::kLines);
    for (const T& value : values) put(value);
    json_.end_list();
  }

  // Sizes and latencies rarely fill half of the bins. Empty bins at the end are left out.
  void put(const LogHistogram& histogram) {
    size_t size = LogHistogram::kBinCount;
    while (size > 0 && histogram.bins()[size - 1] == 0) --size;
    json_.begin_list(JsonLayout::kOneLine);
    for (size_t bin = 0; bin < size; ++bin) json_.value(histogram.bins()[bin]);
    json_.end_list();
  }

  JsonWriter& json_;
};

}  // namespace

void write_profile(JsonWriter& json, const Profile& profile) {
  json.field("format", kProfileFormat);
  json.field("version", kProfileVersion);
  FieldWriter fields(json);
  visit_fields(fields, profile);
}

std::string profile_json(const Profile& profile) {
  JsonWriter json;
  json.begin_object();
  write_profile(json, profile);
  json.end_object();
  return std::move(json).finish();
}

}  // namespace millrace::analyze
