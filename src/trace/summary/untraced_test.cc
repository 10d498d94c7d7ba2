#include "trace/summary/untraced.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/io/atomic_file.h"
#include "base/io/temporary_directory.h"

namespace millrace::trace {
namespace {

class WhyNoLibrary : public testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view bytes) {
    const std::string path = directory_.path() / name;
    EXPECT_TRUE(write_file_atomically(path, bytes_of(bytes)).ok());
    return path;
  }

  // The first bytes of an ELF program without a dynamic linker.
  std::string write_elf(const std::string& name, unsigned char elf_class, uint16_t machine) {
    Elf64_Ehdr head{};
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = elf_class;
    head.e_machine = machine;
    return write(name, std::string_view(reinterpret_cast<const char*>(&head), sizeof(head)));
  }

  static uint16_t own_machine() {
    const std::string own = *read_file("/proc/self/exe");
    Elf64_Ehdr head{};
    std::memcpy(&head, own.data(), sizeof(head));
    return head.e_machine;
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

TEST_F(WhyNoLibrary, FindsNoReasonInADynamicProgram) {
  EXPECT_EQ(why_no_library("/proc/self/exe"), std::nullopt);
}

TEST_F(WhyNoLibrary, NamesAStaticProgramAndTheAlternative) {
  EXPECT_EQ(why_no_library(write_elf("static", ELFCLASS64, own_machine())),
            "statically linked: libraries cannot be preloaded; use 'millrace trace --all'");
}

TEST_F(WhyNoLibrary, ChecksTheInterpreterOfAScript) {
  const std::string interpreter = write_elf("static", ELFCLASS64, own_machine());
  const std::string script = write("script", "#! " + interpreter + " -x\necho\n");
  const std::string outer = write("outer", "#!" + script + "\n");
  EXPECT_TRUE(why_no_library(script).has_value());
  EXPECT_EQ(why_no_library(outer), why_no_library(interpreter));
  EXPECT_EQ(why_no_library(write("shell", "#!/proc/self/exe\n")), std::nullopt);
}

TEST_F(WhyNoLibrary, StopsAtAScriptThatIsItsOwnInterpreter) {
  const std::string path = directory_.path() / "loop";
  EXPECT_EQ(why_no_library(write("loop", "#!" + path + "\n")), std::nullopt);
}

TEST_F(WhyNoLibrary, NamesProgramsOfAnotherArchitecture) {
  EXPECT_EQ(why_no_library(write_elf("old", ELFCLASS32, EM_386)),
            "a 32-bit program: the recorder is 64-bit");
  EXPECT_EQ(why_no_library(write_elf("foreign", ELFCLASS64, EM_S390)),
            "a program for another architecture");
}

TEST_F(WhyNoLibrary, NamesAProgramThatGainsRights) {
  const std::string path = write("setuid", *read_file("/proc/self/exe"));
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_EQ(why_no_library(path), std::nullopt) << "the user owns it, so it gains no rights";
  if (geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(path.c_str(), 04755), 0);
  EXPECT_EQ(why_no_library(path), "setuid or setgid: libraries cannot be preloaded");
  const std::string script = write("script", "#!/proc/self/exe\n");
  ASSERT_EQ(chown(script.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(script.c_str(), 04755), 0);
  EXPECT_EQ(why_no_library(script), std::nullopt) << "the kernel ignores the bit of a script";
}

TEST_F(WhyNoLibrary, FindsNoReasonIfTheFileCannotBeRead) {
  EXPECT_EQ(why_no_library(""), std::nullopt);
  EXPECT_EQ(why_no_library(directory_.path() / "absent"), std::nullopt);
  EXPECT_EQ(why_no_library(directory_.path()), std::nullopt);
  EXPECT_EQ(why_no_library(write("empty", "")), std::nullopt);
  EXPECT_EQ(why_no_library(write("text", "hello\n")), std::nullopt);
}

}  // namespace
}  // namespace millrace::trace
