// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/program_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>
#include <thread>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ironcl::opencl {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'I', 'R', 'O', 'N', 'C', 'L', 'P', '1'};

struct Header {
  char magic[8];
  char key[32];
  std::uint64_t size;
  std::uint64_t hash;
};

/// A binary is code that the driver runs: one that another user owns or may write is none of ours. Root's is.
bool is_ours(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         (status.st_uid == ::geteuid() || status.st_uid == 0) && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

constexpr std::chrono::seconds kLongestBuild{120};

/// Makes the folder, if it is not there, for its user alone. What fails here fails again where a file is written.
void make_cache_folder(const std::string& dir) {
  std::error_code error;
  if (fs::create_directories(dir, error)) fs::permissions(dir, fs::perms::owner_all, error);
}

}  // namespace

std::string ProgramCache::key_of(std::string_view what) {
  const XXH128_hash_t hash = XXH3_128bits(what.data(), what.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string ProgramCache::path_of(std::string_view key) const { return dir_ + "/" + std::string(key) + ".clbin"; }

std::optional<std::vector<unsigned char>> ProgramCache::load(std::string_view key) const {
  if (!enabled()) return std::nullopt;
  if (!is_ours(path_of(key))) return std::nullopt;
  std::ifstream in(path_of(key), std::ios::binary | std::ios::ate);
  if (!in) return std::nullopt;
  const auto file_size = static_cast<std::uint64_t>(in.tellg());
  Header header;
  if (file_size < sizeof(header)) return std::nullopt;
  in.seekg(0);
  if (!in.read(reinterpret_cast<char*>(&header), sizeof(header))) return std::nullopt;
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || std::string_view(header.key, 32) != key ||
      header.size != file_size - sizeof(header)) {
    return std::nullopt;
  }
  std::vector<unsigned char> binary(header.size);
  if (!in.read(reinterpret_cast<char*>(binary.data()), static_cast<std::streamsize>(binary.size())))
    return std::nullopt;
  if (XXH3_64bits(binary.data(), binary.size()) != header.hash) return std::nullopt;
  return binary;
}

bool ProgramCache::store(std::string_view key, const std::vector<unsigned char>& binary, std::string* why) const {
  if (!enabled()) return false;
  static std::atomic<unsigned> count{0};
  std::error_code error;
  make_cache_folder(dir_);
  const std::string path = path_of(key);
  const std::string aside = path + "." + std::to_string(getpid()) + "." + std::to_string(count++) + "." +
                            std::to_string(std::random_device{}()) + ".tmp";
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  std::memcpy(header.key, key.data(), std::min<std::size_t>(key.size(), sizeof(header.key)));
  header.size = binary.size();
  header.hash = XXH3_64bits(binary.data(), binary.size());
  bool good = false;
  {
    std::ofstream out(aside, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&header), sizeof(header));
    out.write(reinterpret_cast<const char*>(binary.data()), static_cast<std::streamsize>(binary.size()));
    out.close();
    good = !out.fail();
  }
  if (good) {
    fs::permissions(aside, fs::perms::owner_read | fs::perms::owner_write, error);  // Whatever the umask.
    fs::rename(aside, path, error);
    good = !error;
  }
  if (!good) {
    if (why != nullptr) *why = "cannot write " + path + (error ? ": " + error.message() : std::string());
    fs::remove(aside, error);
  }
  return good;
}

void ProgramCache::remove(std::string_view key) const {
  std::error_code ignored;
  if (enabled()) fs::remove(path_of(key), ignored);
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
