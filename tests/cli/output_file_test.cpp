// SPDX-License-Identifier: Apache-2.0
// Output files: what becomes of whatever has that name already.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "host/report/file.h"
#include "tests/errors.h"
#include "tests/temp_dir.h"

namespace {

using namespace ironcl::report;
namespace fs = std::filesystem;

/// What write_file says about a path that it must refuse.
std::string complaint_about(const fs::path& path) {
  return ironcl::error_of<FileError>([&] { write_file(path, "text"); });
}

class OutputFiles : public testing::Test {
 protected:
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  ironcl::TempDir folder_;
};

TEST_F(OutputFiles, AReaderOfTheOldFileGoesOnReadingTheOldFile) {
  const fs::path path = folder_.file("report.json", "the old text, which is longer");
  const int reader = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char text[64] = {};
  ASSERT_EQ(::read(reader, text, 1), 1);
  write_file(path, "new");
  EXPECT_EQ(::read(reader, text + 1, sizeof text - 1), 28) << "the file was written in place";
  EXPECT_STREQ(text, "the old text, which is longer");
  ::close(reader);
  EXPECT_EQ(ironcl::read_file(path), "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputFiles, NothingIsSeenBeforeCommitAndNothingIsLeftWithoutIt) {
  const fs::path old = folder_.file("old", "old"), fresh = folder_ / "fresh";
  for (const fs::path& path : {old, fresh}) {
    OutputFile file(path);
    file.write_at(0, "half of");
  }
  EXPECT_EQ(ironcl::read_file(old), "old");
  EXPECT_FALSE(fs::exists(fresh));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(OutputFiles, PiecesComeInAnyOrder) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Waits for nothing: where nothing came, the test fails.
  const int reader = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  for (const fs::path& path : {folder_ / "file", pipe}) {
    OutputFile file(path);
    file.write_at(6, "world");
    file.write_at(0, "hello ");
    file.commit();
  }
  EXPECT_EQ(ironcl::read_file(folder_ / "file"), "hello world");
  char got[16] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 11);
  EXPECT_STREQ(got, "hello world");
  ::close(reader);
}

TEST_F(OutputFiles, PermissionsAndOwnerStay) {
  const fs::path path = folder_.file("report", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  const bool root = ::geteuid() == 0;
  const uid_t owner = root ? 12 : ::geteuid();
  const gid_t group = root ? 34 : ::getegid();
  ASSERT_EQ(::chown(path.c_str(), owner, group), 0);
  write_file(path, "new");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0640u);
  EXPECT_EQ(status.st_uid, owner);
  EXPECT_EQ(status.st_gid, group);
}

TEST_F(OutputFiles, ANewFileHasThePermissionsOfTheUmask) {
  const mode_t before = ::umask(027);
  write_file(folder_ / "new", "text");
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777u, 0640u);
}

TEST_F(OutputFiles, LinksAreFollowed) {
  const fs::path file = folder_.file("file", "old");
  fs::create_directory(folder_ / "links");
  fs::create_symlink("../file", folder_ / "links" / "second");
  fs::create_symlink(folder_ / "links" / "second", folder_ / "first");
  write_file(folder_ / "first", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "first"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "links" / "second"));
  EXPECT_EQ(ironcl::read_file(file), "new");

  fs::create_symlink("not-there-yet", folder_ / "dangling");
  write_file(folder_ / "dangling", "made");
  EXPECT_TRUE(fs::is_symlink(folder_ / "dangling"));
  EXPECT_EQ(ironcl::read_file(folder_ / "not-there-yet"), "made");
}

TEST_F(OutputFiles, APipeIsWrittenToAndStaysAPipe) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(300000, 'x');  // more than a pipe holds
  // Opened for both, so that neither a test that fails nor one that passes waits for ever.
  const int keep = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  std::string got;
  std::thread reader([&] {
    char part[4096];
    while (got.size() < text.size()) {
      const ssize_t done = ::read(keep, part, sizeof part);
      if (done <= 0 || part[0] == '!') break;
      got.append(part, static_cast<std::size_t>(done));
    }
  });
  write_file(pipe, text);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_TRUE(fs::is_fifo(pipe) || ::write(keep, "!", 1) == 1);
  reader.join();
  ::close(keep);
  EXPECT_EQ(got, text);
}

TEST_F(OutputFiles, ADeviceIsWrittenToAndStaysADevice) {
  // Devices of the test's own, so that a fault does not replace the machine's, as root could.
  const fs::path device = folder_ / "device", null = folder_ / "null";
  if (::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0 ||
      ::mknod(null.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) {
    GTEST_SKIP() << "only root makes devices";
  }
  fs::create_symlink(device, folder_ / "full");
  EXPECT_NE(complaint_about(folder_ / "full").find("full: cannot be written: No space left on device"),
            std::string::npos);
  EXPECT_TRUE(fs::is_symlink(folder_ / "full"));
  EXPECT_TRUE(fs::is_character_file(device));
  write_file(null, "text");
  EXPECT_TRUE(fs::is_character_file(null));
  EXPECT_EQ(entries(), 3u);
}

TEST_F(OutputFiles, WhatCannotBeAnOutputIsRefusedWithTheReason) {
  const auto expect = [&](const fs::path& path, const std::string& reason) {
    EXPECT_EQ(complaint_about(path).find(path.string() + ": cannot be written: " + reason), 0u)
        << complaint_about(path);
  };
  fs::create_symlink("loop", folder_ / "loop");
  expect(folder_ / "loop", "Too many levels of symbolic links");
  expect(folder_.path(), "Is a directory");
  expect(folder_ / "none" / "report", "No such file or directory");
  expect(folder_.file("file", "") / "report", "Not a directory");
  expect(folder_ / std::string(256, 'n'), "File name too long");
  EXPECT_EQ(entries(), 2u);
}

TEST_F(OutputFiles, TheLongestNameIsWritten) {
  const fs::path path = folder_ / std::string(255, 'n');
  write_file(path, "text");
  EXPECT_EQ(ironcl::read_file(path), "text");
}

/// Somebody who is not root for as long as it lives; root may write everything.
class Nobody {
 public:
  explicit Nobody(const fs::path& folder) {
    if (::geteuid() != 0) return;
    for (const auto& entry : fs::directory_iterator(folder)) own(entry.path());
    own(folder);
    EXPECT_EQ(::seteuid(kNobody), 0);
  }
  ~Nobody() { EXPECT_EQ(::seteuid(::getuid()), 0); }

 private:
  static constexpr uid_t kNobody = 65534;
  static void own(const fs::path& path) { EXPECT_EQ(::chown(path.c_str(), kNobody, kNobody), 0); }
};

TEST_F(OutputFiles, AFileThatMayNotBeWrittenIsNotReplaced) {
  const fs::path path = folder_.file("file", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  const Nobody nobody(folder_.path());
  EXPECT_NE(complaint_about(path).find("Permission denied"), std::string::npos);
  EXPECT_EQ(ironcl::read_file(path), "old");
}

TEST_F(OutputFiles, AFileInAFolderThatMayNotBeWrittenIsOverwritten) {
  const fs::path path = folder_.file("file", "old and longer");
  const Nobody nobody(folder_.path());
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0500), 0);
  write_file(path, "new");
  EXPECT_EQ(ironcl::read_file(path), "new");
  EXPECT_NE(complaint_about(folder_ / "other").find("Permission denied"), std::string::npos);
}

TEST_F(OutputFiles, AnOpenFileIsWrittenTo) {
  const fs::path path = folder_.file("file", "old");
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  write_file("/proc/self/fd/" + std::to_string(file), "new");
  char text[8] = {};
  EXPECT_EQ(::read(file, text, sizeof text), 3) << "another file has the name now";
  EXPECT_STREQ(text, "new");
  ::close(file);
}

}  // namespace
