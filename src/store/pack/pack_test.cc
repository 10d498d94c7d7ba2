#include "store/pack/pack.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <thread>

#include "base/io/file.h"
#include "comm/single.h"
#include "comm/testing/threads.h"
#include "store/pack/extract.h"
#include "store/pack/packer.h"
#include "store/pack/partition.h"
#include "store/pack/rebuild.h"
#include "store/pack/verify.h"
#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A directory with every kind of file, and room for packs.
class Packs : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    source_ = top_ / "source";
    fs::create_directories(source_);
  }

  void write_every_kind() {
    put_file(source_ / "empty_file", "");
    fs::create_directories(source_ / "empty_directory");
    put_file(source_ / "text", std::string(50'000, 'x'));
    put_file(source_ / "noise", noise(7, 10'000));
    put_file(source_ / "long_noise", noise(7, 9 << 20));
    put_file(source_ / "long_text", std::string((17 << 20) + 3, 'y'));
    put_file(source_ / "a/b/c/deep", "deep");
    put_file(source_ / "\xff\n odd", "odd");
    put_file(source_ / std::string(255, 'n'), "name");
    fs::create_symlink("../outside", source_ / "a/link");
    fs::create_symlink("loop", source_ / "loop");
    fs::create_hard_link(source_ / "text", source_ / "a/second_name");
    ::chmod((source_ / "noise").c_str(), 0600);
  }

  Result<PackReport> pack(const std::string& name, PackOptions options = {}) {
    options.source = source_;
    options.directory = top_ / name;
    return pack_directory(options, *comm::single());
  }

  std::string read(const PackReader& reader, const std::string& path) {
    const auto index = reader.catalogue().find(path);
    if (!index) return "not found";
    std::string bytes;
    BlockCodec codec;
    const Status status = reader.read_blocks(*index, codec, [&](ByteView block) -> Status {
      bytes += text_of(block);
      return {};
    });
    return status.ok() ? bytes : status.error().message();
  }

  std::string bytes_of_file(const fs::path& path) { return *read_file(path); }

  static std::vector<std::string> problems_of(const PackReader& reader) {
    return *verify_pack(reader, {}, *comm::single());
  }

  // What `verify` says after the byte at `offset` of a file of the pack has changed.
  std::vector<std::string> problems_after_change(const std::string& pack_name,
                                                 const std::string& file, uint64_t offset) {
    const fs::path copy = top_ / (pack_name + "-changed");
    fs::remove_all(copy);
    fs::copy(top_ / pack_name, copy);
    const auto changed = File::open(copy / file, O_RDWR);
    std::byte byte{};
    EXPECT_TRUE(changed->read_exactly_at(offset, std::span(&byte, 1)).ok());
    byte ^= std::byte{1};
    EXPECT_TRUE(changed->write_at(offset, std::span(&byte, 1)).ok());
    const auto reader = PackReader::open(copy);
    if (!reader.ok()) return {reader.error().message()};
    return problems_of(*reader);
  }

  fs::path source_;
};

TEST_F(Packs, EveryKindOfFileIsReadBack) {
  write_every_kind();
  for (const CodecChoice codec :
       {CodecChoice::kAuto, CodecChoice::kNone, CodecChoice::kLz4, CodecChoice::kZstd}) {
    const std::string name = fmt::format("pack{}", static_cast<int>(codec));
    const auto report = pack(name, {.partition_count = 3, .codec = codec});
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->file_count, 9u);
    const auto reader = PackReader::open(top_ / name);
    ASSERT_TRUE(reader.ok()) << reader.error().message();
    EXPECT_THAT(problems_of(*reader), IsEmpty());
    for (const char* path : {"empty_file", "text", "noise", "long_noise", "long_text", "a/b/c/deep",
                             "\xff\n odd", "a/second_name"}) {
      EXPECT_EQ(read(*reader, path), bytes_of_file(source_ / path)) << path;
    }
    const Catalogue& catalogue = reader->catalogue();
    EXPECT_EQ(catalogue.link_target(*catalogue.find("a/link")), "../outside");
    EXPECT_EQ(catalogue.entry(*catalogue.find("noise")).mode, 0600u);
    EXPECT_EQ(catalogue.origin(), fs::canonical(source_).string());
  }
}

TEST_F(Packs, ASecondNameSharesTheBytes) {
  write_every_kind();
  ASSERT_TRUE(pack("p", {.partition_count = 4}).ok());
  const auto reader = PackReader::open(top_ / "p");
  const Catalogue& catalogue = reader->catalogue();
  const auto first = catalogue.entry(*catalogue.find("text"));
  const auto second = catalogue.entry(*catalogue.find("a/second_name"));
  EXPECT_EQ(first.partition, second.partition);
  EXPECT_EQ(first.offset_bytes, second.offset_bytes);
}

TEST_F(Packs, MembersAreAlignedAndRawOnesCanBeViewed) {
  write_every_kind();
  ASSERT_TRUE(pack("p", {.codec = CodecChoice::kNone}).ok());
  const auto reader = PackReader::open(top_ / "p");
  const uint32_t index = *reader->catalogue().find("noise");
  EXPECT_EQ(reader->catalogue().entry(index).offset_bytes % 64, 0u);
  const auto view = reader->packed(index);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(text_of(*view), bytes_of_file(source_ / "noise"));
  ASSERT_TRUE(pack("q", {.codec = CodecChoice::kZstd}).ok());
  const auto packed = PackReader::open(top_ / "q");
  const uint32_t text = *packed->catalogue().find("text");
  EXPECT_NE(packed->catalogue().entry(text).codec, wire::PackCodec::kRaw);
  EXPECT_NE(text_of(*packed->packed(text)), bytes_of_file(source_ / "text"));
  EXPECT_FALSE(packed->packed(wire::kRootEntry).ok());
}

TEST_F(Packs, NoFilesAndOneFile) {
  ASSERT_TRUE(pack("none").ok());
  const auto none = PackReader::open(top_ / "none");
  EXPECT_EQ(none->catalogue().file_count(), 0u);
  EXPECT_THAT(problems_of(*none), IsEmpty());
  put_file(source_ / "x", "1");
  ASSERT_TRUE(pack("one", {.partition_count = 5}).ok());
  const auto one = PackReader::open(top_ / "one");
  EXPECT_EQ(read(*one, "x"), "1");
  EXPECT_EQ(one->catalogue().partition_count(), 5u);
  EXPECT_THAT(problems_of(*one), IsEmpty());
}

TEST_F(Packs, TheNumberOfThreadsAndRanksDoesNotMatter) {
  write_every_kind();
  ASSERT_TRUE(pack("one", {.partition_count = 4, .thread_count = 1}).ok());
  ASSERT_TRUE(pack("four", {.partition_count = 4, .thread_count = 4}).ok());
  auto ranks = comm::threads_comm(3);
  std::vector<std::thread> threads;
  for (auto& comm : ranks) {
    threads.emplace_back([&, comm = std::move(comm)] {
      const auto report = pack_directory(
          {.source = source_, .directory = top_ / "ranks", .partition_count = 4}, *comm);
      EXPECT_TRUE(report.ok()) << report.error().message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const char* file :
       {"part-00000.pack", "part-00001.pack", "part-00002.pack", "part-00003.pack", "catalogue"}) {
    EXPECT_EQ(bytes_of_file(top_ / "one" / file), bytes_of_file(top_ / "four" / file));
    EXPECT_EQ(bytes_of_file(top_ / "one" / file), bytes_of_file(top_ / "ranks" / file));
  }
}

TEST_F(Packs, PartitionsAreBalanced) {
  for (int i = 0; i < 200; ++i) {
    put_file(source_ / std::to_string(i), noise(7, static_cast<size_t>(1000 + i * 37)));
  }
  ASSERT_TRUE(pack("p", {.partition_count = 7, .codec = CodecChoice::kNone}).ok());
  const auto reader = PackReader::open(top_ / "p");
  std::vector<uint64_t> bytes(7);
  for (uint32_t i = 1; i < reader->catalogue().entry_count(); ++i) {
    const auto entry = reader->catalogue().entry(i);
    bytes[entry.partition] += entry.size_bytes;
  }
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  EXPECT_LT(*most - *least, 9000u);
}

TEST_F(Packs, BroadcastFilesHaveTheirOwnPartition) {
  put_file(source_ / "train/1", "1");
  put_file(source_ / "val/a/1", "2");
  put_file(source_ / "val/2", "3");
  ASSERT_TRUE(pack("p", {.partition_count = 2, .broadcast = {"val/**"}}).ok());
  const auto reader = PackReader::open(top_ / "p");
  const Catalogue& catalogue = reader->catalogue();
  ASSERT_EQ(catalogue.partition_count(), 3u);
  EXPECT_EQ(catalogue.partition_name(2), "broadcast.pack");
  for (const char* path : {"val/a/1", "val/2"}) {
    const auto entry = catalogue.entry(*catalogue.find(path));
    EXPECT_EQ(entry.partition, 2u);
    EXPECT_EQ(entry.flags, wire::kEntryBroadcast);
  }
  EXPECT_NE(catalogue.entry(*catalogue.find("train/1")).partition, 2u);
  const auto typing_error = pack("q", {.broadcast = {"vall/**"}});
  ASSERT_FALSE(typing_error.ok());
  EXPECT_THAT(typing_error.error().message(), HasSubstr("'vall/**' matches no file"));
}

TEST_F(Packs, ACompletePackIsNotReplaced) {
  put_file(source_ / "x", "1");
  ASSERT_TRUE(pack("p").ok());
  const auto again = pack("p");
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(again.error().message(), HasSubstr("has a complete pack already"));
}

TEST_F(Packs, APackInsideOfItsSourceIsRefused) {
  EXPECT_FALSE(pack("source/p").ok());
  EXPECT_FALSE(fs::exists(source_ / "p"));
}

TEST_F(Packs, AnInterruptedPackContinues) {
  write_every_kind();
  ASSERT_TRUE(pack("p", {.partition_count = 3}).ok());
  const std::string catalogue = bytes_of_file(top_ / "p/catalogue");
  fs::remove(top_ / "p/catalogue");
  fs::rename(top_ / "p/part-00001.pack", top_ / "p/.part-00001.pack.partial");
  EXPECT_FALSE(PackReader::open(top_ / "p").ok());
  const auto report = pack("p", {.partition_count = 3});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->kept_count, 2u);
  EXPECT_EQ(bytes_of_file(top_ / "p/catalogue"), catalogue);
  EXPECT_FALSE(fs::exists(top_ / "p/.part-00001.pack.partial"));
}

TEST_F(Packs, FilesOfOthersAreNotReplaced) {
  put_file(source_ / "x", "1");
  put_file(top_ / "victim", "precious");
  const fs::path partial = top_ / "p/.part-00000.pack.partial";
  fs::create_directories(top_ / "p");
  fs::create_symlink(top_ / "victim", partial);
  EXPECT_FALSE(pack("p").ok());
  EXPECT_TRUE(fs::is_symlink(partial));
  fs::remove(partial);
  fs::create_hard_link(top_ / "victim", partial);
  EXPECT_THAT(pack("p").error().message(), HasSubstr("millrace did not write it"));
  EXPECT_EQ(bytes_of_file(top_ / "victim"), "precious");
  fs::remove(partial);
  put_file(partial, "mine, and longer than a magic number");
  EXPECT_THAT(pack("p").error().message(), HasSubstr("millrace did not write it"));
  EXPECT_TRUE(bytes_of_file(partial).starts_with("mine"));
  fs::remove(partial);
  fs::create_symlink(top_ / "nowhere", top_ / "p/part-00000.pack");
  EXPECT_FALSE(pack("p").ok());
  EXPECT_TRUE(fs::is_symlink(top_ / "p/part-00000.pack"));
}

TEST_F(Packs, PartitionsOfOtherFilesAreNotReplaced) {
  put_file(source_ / "x", "1");
  ASSERT_TRUE(pack("p").ok());
  fs::remove(top_ / "p/catalogue");
  put_file(source_ / "y", "2");
  const auto report = pack("p");
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("belongs to another pack"));
}

TEST_F(Packs, TheCatalogueCanBeRebuilt) {
  write_every_kind();
  ASSERT_TRUE(pack("p", {.partition_count = 2, .broadcast = {"a/*"}}).ok());
  const std::string before = bytes_of_file(top_ / "p/catalogue");
  fs::remove(top_ / "p/catalogue");
  const fs::path p = top_ / "p";
  const Status missing = rebuild_catalogue({p / "part-00000.pack", p / "broadcast.pack"}, p);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message(), HasSubstr("missing"));
  ASSERT_TRUE(
      rebuild_catalogue({p / "broadcast.pack", p / "part-00001.pack", p / "part-00000.pack"}, p)
          .ok());
  EXPECT_EQ(bytes_of_file(p / "catalogue"), before);
}

TEST_F(Packs, OnePartitionCanBeReadAlone) {
  write_every_kind();
  ASSERT_TRUE(pack("p", {.partition_count = 3}).ok());
  uint64_t files = 0;
  for (const char* name : {"part-00000.pack", "part-00001.pack", "part-00002.pack"}) {
    const auto reader = PackReader::open(top_ / "p" / name);
    ASSERT_TRUE(reader.ok()) << reader.error().message();
    EXPECT_THAT(problems_of(*reader), IsEmpty());
    files += reader->catalogue().file_count();
  }
  EXPECT_EQ(files, 9u);
}

TEST_F(Packs, AMissingPartitionDoesNotHideTheOthers) {
  for (int i = 0; i < 10; ++i) put_file(source_ / std::to_string(i), noise(7, 1000));
  ASSERT_TRUE(pack("p", {.partition_count = 2}).ok());
  fs::remove(top_ / "p/part-00001.pack");
  const auto reader = PackReader::open(top_ / "p");
  ASSERT_TRUE(reader.ok());
  uint64_t readable = 0;
  for (int i = 0; i < 10; ++i)
    readable += read(*reader, std::to_string(i)) == noise(7, 1000) ? 1 : 0;
  EXPECT_EQ(readable, 5u);
  EXPECT_THAT(problems_of(*reader),
              ElementsAre(HasSubstr("part-00001.pack: cannot open: no such file")));
}

TEST_F(Packs, DamageIsFoundAndNamed) {
  put_file(source_ / "one", noise(7, 1000));
  put_file(source_ / "two", std::string(1000, 'x'));
  ASSERT_TRUE(pack("p").ok());
  EXPECT_THAT(problems_after_change("p", "part-00000.pack", 70),
              ElementsAre(HasSubstr("'one' in part-00000.pack at byte 64: the checksum is")));
  const uint64_t end = fs::file_size(top_ / "p/part-00000.pack");
  EXPECT_THAT(problems_after_change("p", "part-00000.pack", 20), testing::Not(IsEmpty()));
  EXPECT_THAT(problems_after_change("p", "part-00000.pack", end - 100), testing::Not(IsEmpty()));
  EXPECT_THAT(problems_after_change("p", "part-00000.pack", end - 3), testing::Not(IsEmpty()));
  EXPECT_THAT(problems_after_change("p", "catalogue", 300),
              ElementsAre(HasSubstr("catalogue: its checksum is wrong")));
  fs::resize_file(top_ / "p/part-00000.pack", end - 1);
  EXPECT_THAT(problems_of(*PackReader::open(top_ / "p")), testing::Not(IsEmpty()));
}

TEST_F(Packs, AFileThatChangesMeanwhileIsAnError) {
  put_file(source_ / "x", "12345");
  PackOptions options;
  options.begin = [&](uint64_t) { put_file(source_ / "x", "123456"); };
  const auto report = pack("p", options);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("x: the file changed while it was packed"));
  EXPECT_TRUE(fs::is_empty(top_ / "p"));
}

TEST_F(Packs, ExtractRestoresFilesModesTimesAndLinks) {
  write_every_kind();
  ASSERT_TRUE(pack("p", {.partition_count = 2}).ok());
  const auto reader = PackReader::open(top_ / "p");
  ASSERT_TRUE(extract_pack(*reader, {.directory = top_ / "out"}, *comm::single()).ok());
  uint64_t compared = 0;
  for (const auto& item : fs::recursive_directory_iterator(source_)) {
    const fs::path copy = top_ / "out" / item.path().lexically_relative(source_);
    struct stat before{};
    struct stat after{};
    ASSERT_EQ(::lstat(item.path().c_str(), &before), 0);
    ASSERT_EQ(::lstat(copy.c_str(), &after), 0) << copy;
    EXPECT_EQ(before.st_mode, after.st_mode) << copy;
    EXPECT_EQ(before.st_mtim.tv_sec, after.st_mtim.tv_sec) << copy;
    EXPECT_EQ(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec) << copy;
    if (S_ISREG(before.st_mode)) {
      EXPECT_EQ(bytes_of_file(item.path()), bytes_of_file(copy));
    }
    if (S_ISLNK(before.st_mode)) {
      EXPECT_EQ(fs::read_symlink(item), fs::read_symlink(copy));
    }
    ++compared;
  }
  EXPECT_GT(compared, 14u);
  EXPECT_FALSE(
      extract_pack(*reader, {.directory = top_ / "out"}, *comm::single()).ok());  // not empty
}

TEST_F(Packs, ExtractLeavesTheModeOfADirectoryThatWasThere) {
  put_file(source_ / "x", "1");
  ::chmod(source_.c_str(), 0777);
  ASSERT_TRUE(pack("p").ok());
  const fs::path out = top_ / "private";
  ASSERT_EQ(::mkdir(out.c_str(), 0700), 0);
  ASSERT_TRUE(
      extract_pack(*PackReader::open(top_ / "p"), {.directory = out}, *comm::single()).ok());
  EXPECT_EQ(fs::status(out).permissions(), fs::perms(0700));
}

// The files get another owner, who must not lend them his rights.
TEST_F(Packs, ExtractDropsSetUserAndSetGroupBits) {
  const auto mode_of = [](const fs::path& path) {
    struct stat status{};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  };
  put_file(source_ / "program", "#!/bin/sh");
  put_file(source_ / "group/plain", "plain");
  fs::create_directories(source_ / "shared");
  ASSERT_EQ(::chmod((source_ / "program").c_str(), 07755), 0);
  ASSERT_EQ(::chmod((source_ / "group").c_str(), 02775), 0);
  ASSERT_EQ(::chmod((source_ / "shared").c_str(), 01777), 0);
  ASSERT_TRUE(pack("p").ok());
  const auto reader = PackReader::open(top_ / "p");
  const auto report = extract_pack(*reader, {.directory = top_ / "out"}, *comm::single());
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(mode_of(top_ / "out/program"), 0755u);
  EXPECT_EQ(mode_of(top_ / "out/group"), 0775u);
  EXPECT_EQ(mode_of(top_ / "out/shared"), 01777u);
  EXPECT_EQ(report->changed_mode_count, 2u);
}

TEST_F(Packs, ASparseFileIsExtractedSparse) {
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  put_file(source_ / "sparse", "begin");
  fs::resize_file(source_ / "sparse", kBytes);
  ASSERT_TRUE(pack("p", {.codec = CodecChoice::kAuto}).ok());
  EXPECT_LT(fs::file_size(top_ / "p/part-00000.pack"), kBytes / 100);
  const auto reader = PackReader::open(top_ / "p");
  ASSERT_TRUE(extract_pack(*reader, {.directory = top_ / "out"}, *comm::single()).ok());
  struct stat status{};
  ASSERT_EQ(::stat((top_ / "out/sparse").c_str(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), kBytes);
  EXPECT_LT(static_cast<uint64_t>(status.st_blocks) * 512, kBytes / 100);
}

TEST_F(Packs, ExtractTakesOnlyWhatTheGlobsChoose) {
  write_every_kind();
  ASSERT_TRUE(pack("p").ok());
  const auto reader = PackReader::open(top_ / "p");
  const auto report =
      extract_pack(*reader, {.directory = top_ / "out", .globs = {"a/b/*"}}, *comm::single());
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->file_count, 1u);
  EXPECT_TRUE(fs::exists(top_ / "out/a/b/c/deep"));
  EXPECT_FALSE(fs::exists(top_ / "out/text"));
  EXPECT_FALSE(
      extract_pack(*reader, {.directory = top_ / "no", .globs = {"zzz"}}, *comm::single()).ok());
}

constexpr const char* kGolden = "tests/golden/pack";

TEST_F(Packs, TheGoldenPackIsRead) {
  const auto reader = PackReader::open(kGolden);
  ASSERT_TRUE(reader.ok()) << reader.error().message();
  EXPECT_THAT(problems_of(*reader), IsEmpty());
  const Catalogue& catalogue = reader->catalogue();
  EXPECT_EQ(read(*reader, "val"), "broadcast");
  EXPECT_EQ(read(*reader, "nothing"), "");
  EXPECT_EQ(read(*reader, "a/text").substr(0, 14), "the same line\n");
  EXPECT_EQ(catalogue.link_target(*catalogue.find("a/link")), "../val");
  EXPECT_EQ(catalogue.entry(*catalogue.find("a/bytes")).mtime_ns, 1'700'000'000'123'456'789);
  EXPECT_EQ(catalogue.origin(), "/tmp/millrace-golden-source");
}

// Inside of members, only what changes the file matters: zstd has bits without a meaning.
TEST_F(Packs, EveryFlippedBitAroundTheMembersIsNoticed) {
  fs::copy(kGolden, top_ / "p");
  for (const char* name : {"part-00000.pack", "part-00001.pack", "broadcast.pack"}) {
    const std::string good = bytes_of_file(top_ / "p" / name);
    wire::PackFooter footer;
    std::memcpy(&footer, good.data() + good.size() - sizeof(footer), sizeof(footer));
    for (size_t i = 0; i < good.size(); ++i) {
      if (i >= sizeof(wire::PackHeader) && i < footer.index_offset) continue;
      EXPECT_FALSE(problems_after_change("p", name, i).empty()) << name << ", byte " << i;
    }
  }
}

TEST_F(Packs, AHundredThousandSmallFiles) {
  for (int i = 0; i < 100; ++i) fs::create_directories(source_ / std::to_string(i));
  for (int i = 0; i < 100'000; ++i) {
    const std::string path = (source_ / std::to_string(i % 100) / std::to_string(i)).string();
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::write(fd, &i, sizeof(i)), 4);
    ::close(fd);
  }
  const auto report = pack("p", {.partition_count = 4});
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->file_count, 100'000u);
  const auto reader = PackReader::open(top_ / "p");
  EXPECT_THAT(problems_of(*reader), IsEmpty());
  EXPECT_EQ(read(*reader, "99/99999"), std::string("\x9f\x86\x01\0", 4));
}

}  // namespace
}  // namespace millrace::store
