// SPDX-License-Identifier: Apache-2.0
// Output files: aside and renamed, or straight through.
#include "host/report/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>
#include <utility>

#include "host/report/visible.h"

namespace ironcl::report {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAdvice =
    "name a file in a folder that exists and is writable, or - for the standard output";
constexpr int kMostLinks = 40;  // as Linux follows

[[noreturn]] void fail(const fs::path& path, int code) {
  throw FileError(path == "-" ? fs::path("the standard output") : path, code, kAdvice);
}

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }
  /// The error of closing, at which some file systems say that bytes were lost; 0: none.
  int close() noexcept {
    const int number = std::exchange(number_, -1);
    return number >= 0 && ::close(number) != 0 && errno != EINTR ? errno : 0;
  }

 private:
  int number_ = -1;
};

/// Writes all of `bytes` to the open file of `path`; from `offset` on where that is not negative. Waits where the
/// other side is not ready.
void write_all(const fs::path& path, int file, std::string_view bytes, off_t offset = -1) {
  while (!bytes.empty()) {
    const ssize_t done =
        offset < 0 ? ::write(file, bytes.data(), bytes.size()) : ::pwrite(file, bytes.data(), bytes.size(), offset);
    if (done < 0 && errno == EAGAIN) {
      pollfd ready{file, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (done < 0 && errno != EINTR) {
      fail(path, errno);
    } else if (done >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(done));
      if (offset >= 0) offset += done;
    }
  }
}

bool in_proc(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : fs::path("."), error);
  return !error && (folder == "/proc" || folder.native().starts_with("/proc/"));
}

/// 1 or 2 where `status` is what the standard output or error is connected to; else -1.
int standard_stream(const struct stat& status) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own {};
    if (::fstat(stream, &own) == 0 && own.st_dev == status.st_dev && own.st_ino == status.st_ino) return stream;
  }
  return -1;
}

/// What stands where an output is to go.
struct Target {
  fs::path path;         ///< After all links.
  bool replace = false;  ///< A regular file or nothing: write aside, then rename.
  bool there = false;    ///< The regular file is there; `status` is its.
  int stream = -1;       ///< Written to this standard stream.
  struct stat status {};
};

Target find_target(const fs::path& named) {
  Target target{.path = named};
  if (named.empty()) fail(named, ENOENT);
  if (named == "-") {
    target.stream = STDOUT_FILENO;
    return target;
  }
  for (int links = 0;; ++links) {
    if (::lstat(target.path.c_str(), &target.status) != 0) {
      if (errno != ENOENT) fail(named, errno);
      target.replace = true;
      return target;
    }
    if (!S_ISLNK(target.status.st_mode)) break;
    if (links == kMostLinks) fail(named, ELOOP);
    if (in_proc(target.path)) {  // /dev/fd/N: an open file, which its name only describes
      if (::stat(target.path.c_str(), &target.status) != 0) fail(named, errno);
      target.stream = standard_stream(target.status);
      return target;
    }
    std::error_code error;
    const fs::path next = fs::read_symlink(target.path, error);
    if (error) fail(named, error.value());
    target.path = next.is_absolute() ? next : target.path.parent_path() / next;
  }
  if (S_ISDIR(target.status.st_mode)) fail(named, EISDIR);
  target.stream = standard_stream(target.status);
  target.replace = target.there = target.stream < 0 && S_ISREG(target.status.st_mode);
  // A rename asks nothing of the file that it replaces; a file that is not writable is not ours to replace.
  if (target.there && ::faccessat(AT_FDCWD, target.path.c_str(), W_OK, AT_EACCESS) != 0) fail(named, errno);
  return target;
}

}  // namespace

FileError::FileError(const fs::path& path, int code, std::string_view advice)
    : FileError(path, code == 0 ? std::string("an unknown reason") : std::generic_category().message(code), advice) {}

FileError::FileError(const fs::path& path, std::string reason, std::string_view advice)
    : std::runtime_error(fmt::format("{}: cannot be written: {}; {}", visible(path.string()), reason, advice)),
      path_(path),
      reason_(std::move(reason)) {}

struct OutputFile::State {
  explicit State(fs::path path) : named(std::move(path)), target(find_target(named)) {
    if (target.replace) make_aside();
  }
  ~State() {
    if (!aside.empty()) ::unlink(aside.c_str());
  }

  void make_aside() {
    // A long name leaves no room for an addition: 255 bytes is what most file systems take.
    const std::string name = target.path.filename().string().substr(0, 200);
    std::random_device random;
    for (int attempt = 0; attempt < 16 && !file; ++attempt) {
      const fs::path path = target.path.parent_path() / fmt::format("{}.{:08x}.partial", name, random());
      file = Descriptor(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666));
      if (file) {
        aside = path;
      } else if (errno != EEXIST) {
        break;
      }
    }
    if (!file) {
      const bool folder_closed = errno == EACCES || errno == EPERM || errno == EROFS;
      if (!target.there || !folder_closed) fail(named, errno);
      return;  // gathered in memory, then written in place
    }
    if (!target.there) return;
    // Owner and group as far as this process may give them; setting them clears set-user-id, so the mode comes last.
    if (::fchown(file.get(), target.status.st_uid, target.status.st_gid) != 0 &&
        ::fchown(file.get(), static_cast<uid_t>(-1), target.status.st_gid) != 0) {
      errno = 0;
    }
    if (::fchmod(file.get(), target.status.st_mode & 07777u) != 0) fail(named, errno);
  }

  void commit() {
    if (!file) return write_through();
    if (::fsync(file.get()) != 0 && errno != EINVAL && errno != ENOSYS) fail(named, errno);
    if (::rename(aside.c_str(), target.path.c_str()) != 0) {
      if (errno != EBUSY || !target.there) fail(named, errno);  // EBUSY: a mount point
      read_back();
      return write_through();
    }
    aside.clear();
    if (const int code = file.close(); code != 0) fail(named, code);
  }

  /// By the descriptor: the file itself may forbid its owner to read it.
  void read_back() {
    gathered.resize(fs::file_size(aside));
    for (std::size_t at = 0; at < gathered.size();) {
      const ssize_t done = ::pread(file.get(), &gathered[at], gathered.size() - at, static_cast<off_t>(at));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail(named, done < 0 ? errno : EIO);
      at += static_cast<std::size_t>(done);
    }
  }

  void write_through() {
    if (target.stream >= 0) {
      if (target.stream == STDOUT_FILENO && std::fflush(stdout) != 0) fail(named, errno);
      return write_all(named, target.stream, gathered);
    }
    Descriptor open(
        ::open(target.path.c_str(), O_WRONLY | O_CLOEXEC | (S_ISREG(target.status.st_mode) ? O_TRUNC : 0)));
    if (!open) fail(named, errno);
    write_all(named, open.get(), gathered);
    if (const int code = open.close(); code != 0) fail(named, code);
  }

  fs::path named;
  Target target;
  Descriptor file;       ///< The file aside.
  fs::path aside;        ///< Its path, until it has its place.
  std::string gathered;  ///< Where there is none.
};

OutputFile::OutputFile(fs::path path) : state_(std::make_unique<State>(std::move(path))) {}
OutputFile::~OutputFile() = default;

void OutputFile::write_at(std::uint64_t offset, std::string_view bytes) {
  State& state = *state_;
  if (state.file) return write_all(state.named, state.file.get(), bytes, static_cast<off_t>(offset));
  state.gathered.resize(std::max<std::size_t>(state.gathered.size(), offset + bytes.size()));
  std::copy(bytes.begin(), bytes.end(), state.gathered.begin() + static_cast<std::ptrdiff_t>(offset));
}

void OutputFile::commit() { state_->commit(); }

void write_file(const fs::path& path, std::string_view bytes) {
  OutputFile file(path);
  const bool terminal = path == "-" && ::isatty(STDOUT_FILENO) == 1;
  file.write_at(0, terminal ? visible_lines(bytes) : std::string(bytes));
  file.commit();
}

void check_outputs(const std::vector<fs::path>& outputs, const std::vector<fs::path>& inputs) {
  std::vector<fs::path> files;
  for (const fs::path& output : outputs) {
    if (output.empty()) continue;
    const Target target = find_target(output);
    std::error_code error;  // where one of them is not there
    for (const fs::path& input : inputs)
      if (fs::equivalent(output, input, error))
        throw FileError(output, "it is an input of this command and would be overwritten", "name another file");
    if (!target.replace) continue;  // a stream takes one after the other
    const fs::path folder = target.path.has_parent_path() ? target.path.parent_path() : fs::path(".");
    if (!target.there && ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) fail(output, errno);
    const fs::path file = fs::weakly_canonical(target.path, error);
    if (std::find(files.begin(), files.end(), file) != files.end())
      throw FileError(output, "another output of this command goes there too", "name another file");
    files.push_back(file);
  }
}

}  // namespace ironcl::report
