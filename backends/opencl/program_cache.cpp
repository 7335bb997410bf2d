// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/program_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "backends/opencl/cache_folder.h"

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

}  // namespace

std::string ProgramCache::key_of(std::string_view what) {
  const XXH128_hash_t hash = XXH3_128bits(what.data(), what.size());
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t half : {hash.high64, hash.low64}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(half >> shift) & 15];
  }
  return text;
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

}  // namespace ironcl::opencl
