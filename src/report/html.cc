#include "report/html.h"

#include <array>
#include <cstdint>
#include <utility>

#include "base/io/gzip.h"
#include "report/page.h"

namespace millrace::report {
namespace {

// RFC 4648. Plain JSON would not be safe in the page: a file may be named "</script>". No character
// of base64 is special in HTML.
void append_base64(std::string_view bytes, std::string& out) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t taken = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < taken ? static_cast<unsigned char>(bytes[i + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += k <= taken ? kAlphabet[group >> (18 - 6 * k) & 63] : '=';
    }
  }
}

struct Encoded {
  std::string_view encoding;  // "gzip", which browsers decode, or "plain"; the page reads both
  std::string bytes;
};

Result<Encoded> encode(std::string_view text) {
  // On the largest page data (7 MB), level 9 was 1 % smaller than level 6 and took twice the time.
  const auto gzip = GzipWriter::create(6);
  if (!gzip.ok() && gzip.error().code() == Errc::kUnsupported) {
    return Encoded{.encoding = "plain", .bytes = std::string(text)};
  }
  if (!gzip.ok()) return gzip.error();
  Encoded encoded{.encoding = "gzip", .bytes = {}};
  RETURN_IF_ERROR((*gzip)->append(text, encoded.bytes));
  RETURN_IF_ERROR((*gzip)->finish(encoded.bytes));
  return encoded;
}

}  // namespace

Result<std::string> report_html(std::string_view profile_json, std::string_view findings_json,
                                std::string_view detail_json) {
  const std::string_view page = built_page();
  const size_t place = page.find(kDataPlace);
  if (place == std::string_view::npos) {
    return fail(Errc::kCorrupt, "the built page has no {}; run tools/build_page.sh", kDataPlace);
  }
  const std::array<std::pair<std::string_view, std::string_view>, 3> documents = {
      {{"profile", profile_json}, {"findings", findings_json}, {"detail", detail_json}}};
  std::string html(page.substr(0, place));
  for (const auto& [name, json] : documents) {
    ASSIGN_OR_RETURN(const Encoded encoded, encode(json));
    // A type that no browser executes.
    html += fmt::format(
        "<script type=\"application/octet-stream\" id=\"data-{}\" data-encoding=\"{}\">", name,
        encoded.encoding);
    append_base64(encoded.bytes, html);
    html += "</script>\n";
  }
  html += page.substr(place + kDataPlace.size());
  return html;
}

}  // namespace millrace::report
