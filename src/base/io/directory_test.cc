#include "base/io/directory.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io/temporary_directory.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

// Changes the umask of the process while it exists.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }

 private:
  mode_t before_;
};

mode_t mode_of(const fs::path& path) {
  struct stat info{};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

class PrivateDirectory : public testing::Test {
 protected:
  std::string refused(const fs::path& path) {
    const Status status = make_private_directory(path);
    return status.ok() ? "" : status.error().message();
  }

  TemporaryDirectory holder_ = *TemporaryDirectory::create();
  fs::path path_ = holder_.path() / "a" / "b";
};

TEST_F(PrivateDirectory, IsPrivateTogetherWithNewParents) {
  for (const mode_t mask : {022, 000}) {
    const Umask umask(mask);
    ASSERT_EQ(refused(path_), "");
    EXPECT_EQ(mode_of(path_), 0700u);
    EXPECT_EQ(mode_of(path_.parent_path()), 0700u);
    fs::remove_all(path_.parent_path());
  }
}

TEST_F(PrivateDirectory, IsMadePrivateIfItExists) {
  ASSERT_TRUE(make_directories(path_).ok());
  ASSERT_EQ(chmod(path_.c_str(), 0775), 0);
  ASSERT_EQ(chmod(path_.parent_path().c_str(), 0775), 0);
  EXPECT_EQ(refused(path_), "");
  EXPECT_EQ(mode_of(path_), 0700u);
  EXPECT_EQ(mode_of(path_.parent_path()), 0775u);
}

TEST_F(PrivateDirectory, IsRefusedIfItBelongsToAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  ASSERT_TRUE(make_directories(path_).ok());
  ASSERT_EQ(chown(path_.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(refused(path_), HasSubstr("belongs to user 65534, but this program runs as user 0"));
  EXPECT_EQ(mode_of(path_), 0700u);
}

TEST_F(PrivateDirectory, IsRefusedIfOthersCouldReplaceIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  const fs::path above = path_.parent_path();
  ASSERT_TRUE(make_directories(above).ok());
  ASSERT_EQ(chown(above.c_str(), kNobody, kNobody), 0);
  for (const mode_t shared : {0777, 0770}) {
    ASSERT_EQ(chmod(above.c_str(), shared), 0);
    EXPECT_THAT(refused(path_), HasSubstr("others may write to it"));
  }
  ASSERT_EQ(chmod(above.c_str(), 01777), 0);  // like /tmp
  EXPECT_EQ(refused(path_), "");
}

TEST_F(PrivateDirectory, IsRefusedIfItIsASymbolicLink) {
  fs::create_directories(holder_.path() / "elsewhere");
  fs::create_directories(path_.parent_path());
  fs::create_directory_symlink(holder_.path() / "elsewhere", path_);
  EXPECT_THAT(refused(path_), HasSubstr("is a symbolic link"));
}

TEST_F(PrivateDirectory, IsNamedIfItCannotBeCreated) {
  EXPECT_THAT(refused("/proc/none/here"), HasSubstr("/proc/none: cannot create the directory"));
}

TEST(MakeDirectories, DoesNotChangeExistingDirectories) {
  const auto holder = *TemporaryDirectory::create();
  ASSERT_EQ(chmod(holder.path().c_str(), 0755), 0);
  EXPECT_TRUE(make_directories(holder.path()).ok());
  EXPECT_EQ(mode_of(holder.path()), 0755u);
  EXPECT_TRUE(make_directories(holder.path() / "a" / "b" / "").ok());
  EXPECT_EQ(mode_of(holder.path() / "a" / "b"), 0700u);
}

}  // namespace
}  // namespace millrace
