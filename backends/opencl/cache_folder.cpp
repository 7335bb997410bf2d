// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/cache_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <thread>

namespace ironcl::opencl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestBuild{120};

}  // namespace

void make_cache_folder(const std::string& dir) {
  std::error_code error;
  if (fs::create_directories(dir, error)) fs::permissions(dir, fs::perms::owner_all, error);
}

Turn::Turn(const std::string& dir, std::string_view key) {
  if (dir.empty()) return;
  make_cache_folder(dir);
  file_ = ::open((dir + "/turns").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file_ < 0) return;
  // A byte for each key, so that one empty file does for all; keys that share a byte only wait for one another.
  std::uint32_t place = 0;
  std::from_chars(key.data(), key.data() + std::min<std::size_t>(7, key.size()), place, 16);
  struct flock byte {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(place);
  byte.l_len = 1;
  // Locks of the open file, not of the process: threads wait for one another too, and closing another file of the
  // same name ends none of them.
  const auto end = std::chrono::steady_clock::now() + kLongestBuild;
  std::chrono::milliseconds pause{1};
  while (::fcntl(file_, F_OFD_SETLK, &byte) != 0) {
    if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || std::chrono::steady_clock::now() >= end) return;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(20));
  }
}

Turn::~Turn() {
  if (file_ < 0) return;
  // Closing alone would leave it to a child that the host forked meanwhile, which has the same open file.
  struct flock all {};
  all.l_type = F_UNLCK;
  all.l_whence = SEEK_SET;
  ::fcntl(file_, F_OFD_SETLK, &all);
  ::close(file_);
}

}  // namespace ironcl::opencl
