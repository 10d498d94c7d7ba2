#include "doctor/report.h"

#include <gtest/gtest.h>

#include "base/text/json.h"

namespace millrace::doctor {
namespace {

Diagnosis example() {
  Diagnosis diagnosis;
  diagnosis.machine = {{.name = "preload", .fact = "LD_PRELOAD is honoured by a new process"},
                       {.name = "io_uring",
                        .state = State::kMissing,
                        .fact = "cannot set up a ring: operation not permitted",
                        .without = "cold and direct reads use threads, which costs more CPU",
                        .fix = "sysctl kernel.io_uring_disabled=0",
                        .figures = {{"operations", 0}}}};
  DirectoryFindings directory;
  directory.path = "scratch";
  directory.usable = true;
  directory.file_system = "ext4";
  directory.source = "/dev/vda";
  directory.rotating = false;
  directory.free_bytes = 80'000'000'000;
  directory.total_bytes = 252'000'000'000;
  directory.speed = DirectorySpeed{.probe_size_bytes = uint64_t{256} << 20,
                                   .write_bytes_per_second = 1.2e9,
                                   .cached_read_bytes_per_second = 6e9,
                                   .device_read_bytes_per_second = 3e9,
                                   .device_random_reads = RandomReads{90, 200, 45'000, 16},
                                   .device_method = "O_DIRECT, 4 reads of 1 MiB at a time",
                                   .small_creates_per_second = 21'000,
                                   .small_stats_per_second = 500'000,
                                   .small_reads_per_second = 140'000};
  diagnosis.directories.push_back(directory);
  return diagnosis;
}

TEST(DoctorReport, IsOneReadableScreen) {
  EXPECT_EQ(report_text(example(), {}),
            "  ok       preload   LD_PRELOAD is honoured by a new process\n"
            "  missing  io_uring  cannot set up a ring: operation not permitted\n"
            "                     so: cold and direct reads use threads, which costs more CPU\n"
            "                     fix: sysctl kernel.io_uring_disabled=0\n"
            "\n"
            "scratch  ext4 (solid) on /dev/vda  80 GB free of 252 GB\n"
            "  write, made durable    1.2 GB/s  #####\n"
            "  read, page cache         6 GB/s  ########################\n"
            "  read, device             3 GB/s  ############\n"
            "  read 4 KiB, device       45 k/s  16 at a time; alone 90 us median, 200 us p99\n"
            "  create 16 KiB file       21 k/s\n"
            "  stat, warm              500 k/s\n"
            "  open+read+close, warm   140 k/s  1 thread, 16 KiB\n"
            "  measured on a file of 256 MiB; device: O_DIRECT, 4 reads of 1 MiB at a time\n"
            "\n"
            "1 ok, 0 limited, 1 missing, 0 failed\n");
}

TEST(DoctorReport, AFastDiskIsNotCalledRotating) {
  Diagnosis diagnosis = example();
  diagnosis.directories[0].rotating = true;
  EXPECT_EQ(report_text(diagnosis, {}).find("rotating"), std::string::npos);
  diagnosis.directories[0].speed->device_random_reads->latency_us_p50 = 8000;
  EXPECT_NE(report_text(diagnosis, {}).find("ext4 (rotating)"), std::string::npos);
}

TEST(DoctorReport, AnUnknownFileSystemIsNotNamed) {
  Diagnosis diagnosis = example();
  diagnosis.directories[0].file_system.clear();
  EXPECT_NE(report_text(diagnosis, {}).find("\nscratch  80 GB free of 252 GB\n"),
            std::string::npos);
}

TEST(DoctorReport, JsonHasTheSameFigures) {
  const auto document = parse_json(report_json(example()), "doctor");
  ASSERT_TRUE(document.ok()) << document.error().message();
  EXPECT_EQ(*document->root.find("ok")->as_bool(), true);
  EXPECT_EQ(document->root.find("machine")->items()[1].find("state")->text(), "missing");
  const Node& directory = document->root.find("directories")->items()[0];
  EXPECT_EQ(*directory.find("speed")->find("device_read_bytes_per_second")->as_double(), 3e9);
  EXPECT_EQ(*directory.find("free_bytes")->as_uint(), 80'000'000'000u);
}

TEST(DoctorReport, OnlyAFailedCheckIsAFailure) {
  Diagnosis diagnosis = example();
  EXPECT_FALSE(has_failure(diagnosis));
  diagnosis.directories[0].findings.push_back({.name = "directory", .state = State::kFailed});
  EXPECT_TRUE(has_failure(diagnosis));
}

TEST(DoctorReport, EscapeSequencesInAPathAreNotPrinted) {
  Diagnosis diagnosis = example();
  diagnosis.directories[0].path = "evil\x1b[2J";
  EXPECT_EQ(report_text(diagnosis, {}).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace millrace::doctor
