#include "report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "base/io/file.h"
#include "base/io/gzip.h"
#include "report/page.h"

namespace millrace::report {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The element of a document, between its tags.
std::string element_of(const std::string& html, const std::string& name) {
  const size_t id = html.find("id=\"data-" + name + "\"");
  if (id == std::string::npos) return "";
  const size_t begin = html.find('>', id) + 1;
  return html.substr(begin, html.find('<', begin) - begin);
}

std::string from_base64(const std::string& text) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    if (letter == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(alphabet.find(letter));
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  return bytes;
}

std::string decoded(const std::string& bytes) {
#ifdef MILLRACE_HAVE_GZIP
  std::string text(1 << 20, '\0');
  const auto step =
      (*GzipReader::create())->inflate(bytes_of(bytes), std::as_writable_bytes(std::span(text)));
  if (!step.ok()) return step.error().message();
  text.resize(step->made);
  return text;
#else
  return bytes;
#endif
}

std::string document_of(const std::string& html, const std::string& name) {
  return decoded(from_base64(element_of(html, name)));
}

TEST(ReportHtml, TheBuiltPageIsTheCommittedOne) {
  const auto committed = read_file("src/report/page/dist/index.html");
  ASSERT_TRUE(committed.ok()) << committed.error().message();
  EXPECT_EQ(built_page(), *committed);
}

TEST(ReportHtml, ThePageHoldsTheThreeDocuments) {
  // Lengths with each remainder modulo 3, which base64 pads differently.
  const auto html = report_html("{\"a\":1}", "{\"b\":22}", "{\"c\":333}");
  ASSERT_TRUE(html.ok()) << html.error().message();
  EXPECT_THAT(*html, StartsWith("<!doctype html>"));
  EXPECT_EQ(document_of(*html, "profile"), "{\"a\":1}");
  EXPECT_EQ(document_of(*html, "findings"), "{\"b\":22}");
  EXPECT_EQ(document_of(*html, "detail"), "{\"c\":333}");
  EXPECT_THAT(*html, Not(HasSubstr(kDataPlace)));
}

TEST(ReportHtml, AFileNameCannotEndTheElement) {
  const std::string evil = "{\"path\":\"</script><script>alert(1)</script><!--\"}";
  const auto html = report_html(evil, "{}", "{}");
  ASSERT_TRUE(html.ok());
  EXPECT_THAT(*html, Not(HasSubstr("alert(1)")));
  EXPECT_EQ(document_of(*html, "profile"), evil);
}

TEST(ReportHtml, RoundTripsAllByteValues) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += static_cast<char>(i * 31 % 256);
  const auto html = report_html(bytes, "", "x");
  ASSERT_TRUE(html.ok());
  EXPECT_EQ(document_of(*html, "profile"), bytes);
  EXPECT_EQ(document_of(*html, "findings"), "");
  EXPECT_EQ(document_of(*html, "detail"), "x");
}

TEST(ReportHtml, ThePageUsesNoNetwork) {
  const std::string_view page = built_page();
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("href=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_LT(page.size(), 400'000U);
}

}  // namespace
}  // namespace millrace::report
