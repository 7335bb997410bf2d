// SPDX-License-Identifier: Apache-2.0
#include "host/registry/search.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "host/include/ironcl/ironcl.h"

namespace ironcl::registry {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "libironcl_";
constexpr std::string_view kSuffix = ".so";
constexpr std::size_t kMostForeignFiles = 8;  // of one folder, each in an entry of its own

fs::path absolute(const std::string& path) {
  std::error_code error;
  fs::path result = fs::absolute(path, error);
  return error ? fs::path(path) : result.lexically_normal();
}

/// A program that a plugin has beside itself: ironcl_<plugin>_<what> beside libironcl_<plugin>.so.
bool is_part_of_plugin(const fs::path& file, const std::vector<fs::path>& beside) {
  const std::string name = file.filename().string();
  return name.starts_with("ironcl_") && std::any_of(beside.begin(), beside.end(), [&name](const fs::path& other) {
           const std::string plugin = plugin_name_of_file(other);
           return !plugin.empty() && name.starts_with("ironcl_" + plugin + "_");
         });
}

}  // namespace

std::string plugin_name_of_file(const fs::path& path) {
  const std::string file = path.filename().string();
  if (file.size() <= kPrefix.size() + kSuffix.size() || !file.starts_with(kPrefix) || !file.ends_with(kSuffix))
    return {};
  return file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
}

Candidate candidate_file(const std::string& path, std::uint32_t source) {
  Candidate candidate{.path = absolute(path), .source = source};
  struct stat status {};
  if (::stat(candidate.path.c_str(), &status) != 0) {
    candidate.problem = {IRONCL_UNAVAILABLE,
                         "cannot be read: " + std::generic_category().message(errno) + "; check the path", errno};
  } else if (!S_ISREG(status.st_mode)) {  // opening a pipe would wait for ever
    candidate.problem = {IRONCL_INCOMPATIBLE,
                         S_ISDIR(status.st_mode)
                             ? "is a folder; name the plugin in it, or put it in IRONCL_PLUGIN_DIRS"
                             : "is not a regular file"};
  } else {
    candidate.id = {status.st_dev, status.st_ino};
  }
  return candidate;
}

std::vector<Candidate> candidate_directory(const std::string& path, std::uint32_t source) {
  const fs::path folder = absolute(path);
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) files.push_back(entries->path());
  const auto refused = [source](const fs::path& what, Result problem, bool remark) {
    return Candidate{.path = what, .source = source, .problem = std::move(problem), .remark = remark};
  };
  if (error) {
    if (source == IRONCL_SOURCE_BESIDE && error == std::errc::no_such_file_or_directory) return {};
    const std::string why = "this folder cannot be read: " + error.message();
    return {refused(folder, {IRONCL_UNAVAILABLE, why, error.value()}, true)};
  }
  std::sort(files.begin(), files.end());  // the order of readdir is nobody's

  std::vector<Candidate> candidates;
  std::size_t foreign = 0;
  for (const fs::path& file : files) {
    if (is_part_of_plugin(file, files)) continue;
    if (!plugin_name_of_file(file).empty()) {
      candidates.push_back(candidate_file(file.string(), source));
    } else if (++foreign <= kMostForeignFiles) {
      const char* why =
          "not opened: a plugin in a folder is called libironcl_<name>.so; name the file in IRONCL_PLUGIN_FILES to "
          "load it all the same";
      candidates.push_back(refused(file, {IRONCL_INCOMPATIBLE, why}, false));
    }
  }
  if (foreign > kMostForeignFiles) {
    const std::string more = std::to_string(foreign - kMostForeignFiles);
    candidates.push_back(
        refused(folder, {IRONCL_INCOMPATIBLE, more + " more files here are not called libironcl_<name>.so"}, true));
  }
  return candidates;
}

fs::path directory_beside_library() {
  // An object of this library, not a function: a function's address may be the executable's own jump table.
  static const char here = 0;
  Dl_info info{};
  if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr || *info.dli_fname == '\0') return {};
  std::error_code error;
  const fs::path library = fs::canonical(info.dli_fname, error);
  return error ? fs::path() : library.parent_path() / "ironcl-plugins";
}

}  // namespace ironcl::registry
