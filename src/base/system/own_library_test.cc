#include "base/system/own_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/io/temporary_directory.h"

namespace millrace {
namespace {

using testing::HasSubstr;

TEST(OwnLibrary, OwnFolderIsThatOfTheProgram) {
  EXPECT_EQ(own_folder(), std::filesystem::read_symlink("/proc/self/exe").parent_path());
}

TEST(OwnLibrary, NamesAMissingLibraryAndTheFolder) {
  const auto found = find_own_library("libabsent.so");
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message(), HasSubstr("libabsent.so is neither in"));
  EXPECT_THAT(found.error().message(), HasSubstr(own_folder().string()));
}

TEST(OwnLibrary, AVariableSelectsAnotherLibrary) {
  const auto directory = *TemporaryDirectory::create();
  const auto path = directory.path() / "lib.so";
  setenv("OWN_LIBRARY_TEST", path.c_str(), 1);
  EXPECT_EQ(library_named_by("OWN_LIBRARY_TEST").error().message(),
            "OWN_LIBRARY_TEST names " + path.string() + ", which does not exist");
  std::ofstream(path) << "x";
  EXPECT_EQ(*library_named_by("OWN_LIBRARY_TEST"), path);
  unsetenv("OWN_LIBRARY_TEST");
  EXPECT_EQ(*library_named_by("OWN_LIBRARY_TEST"), std::filesystem::path());
}

}  // namespace
}  // namespace millrace
