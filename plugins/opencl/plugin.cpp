// SPDX-License-Identifier: Apache-2.0
// libironcl_opencl.so: the OpenCL backend behind the C ABI. Each setting is an option of load() or, where that is not
// given, an environment variable (docs/environment.md).
#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "backends/opencl/backend.h"
#include "plugins/adapter/plugin_definition.h"

namespace {

using ironcl::adapter::setting;
using ironcl::backend::Options;

/// The folder of the program cache; empty where it is off.
std::string cache_dir(const Options& options) {
  if (const auto given = setting(options, "cache_dir", "IRONCL_CACHE_DIR")) return *given == "off" ? "" : *given;
  if (const auto cache = setting({}, "", "XDG_CACHE_HOME")) return *cache + "/ironcl";
  if (const auto home = setting({}, "", "HOME")) return *home + "/.cache/ironcl";
  return "";
}

/// True for "1", false for "0"; unset: `fallback`.
bool flag(const Options& options, std::string_view option, const char* variable, bool fallback = false) {
  const std::string value = setting(options, option, variable).value_or(fallback ? "1" : "0");
  if (value == "1" || value == "0") return value == "1";
  ironcl::boundary::invalid("load: {} ({}) is \"{}\", expected 0 or 1", option, variable, value);
}

/// Config::ptx by its option or variable.
int ptx(const Options& options) {
  const std::string value = setting(options, "ptx", "IRONCL_OPENCL_PTX").value_or("90");
  for (const int known : {90, 89, 80, 0})
    if (value == std::to_string(known)) return known;
  ironcl::boundary::invalid("load: ptx (IRONCL_OPENCL_PTX) is \"{}\", expected 90, 89, 80 or 0", value);
}

/// Bytes of the largest table that is read; ours have some thousand.
constexpr std::uintmax_t kLargestTable = 16u << 20;

/// Why a file of the folder of tables is not to be opened, which may wait for ever or never end; empty: it is.
std::string why_not_read(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return error ? error.message() : "it is not a regular file";
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error) return error.message();
  if (size > kLargestTable)
    return "it has " + std::to_string(size) + " bytes, a table has at most " + std::to_string(kLargestTable);
  return "";
}

/// The tuned tables: those built in, then those of the folder `overlay`; "off": none at all.
std::vector<ironcl::opencl::TunedTable> tuned_tables(const std::string& overlay, ironcl::backend::Log* log) {
  if (overlay == "off") return {};
  std::vector<ironcl::opencl::TunedTable> tables = ironcl::opencl::embedded_tables();
  if (overlay.empty()) return tables;
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator entry(overlay, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".json") files.push_back(entry->path());
  std::sort(files.begin(), files.end());
  const auto warn = [&](const std::string& text) {
    if (log != nullptr) log->write(ironcl::backend::LogLevel::warn, "opencl: tuned_dir (IRONCL_TUNED_DIR): " + text);
  };
  if (error) warn(overlay + " cannot be read: " + error.message());
  for (const auto& file : files) {
    if (const std::string why = why_not_read(file); !why.empty()) {
      warn(file.string() + " is not read: " + why);
      continue;
    }
    std::ifstream in(file, std::ios::binary);
    if (in)
      tables.push_back({file.filename().string(), {std::istreambuf_iterator<char>(in), {}}});
    else
      warn(file.string() + " cannot be read");
  }
  return tables;
}

/// The program for trials: beside this plugin, wherever that was loaded from.
std::string trial_program() {
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&trial_program), &here) == 0 || here.dli_fname == nullptr) return "";
  std::error_code error;
  const auto path = std::filesystem::absolute(here.dli_fname, error).parent_path() / "ironcl_opencl_trial";
  return error || !std::filesystem::exists(path, error) ? "" : path.string();
}

std::unique_ptr<ironcl::backend::Backend> make_backend(const Options& options, ironcl::backend::Log* log) {
  ironcl::adapter::check_option_names(
      options, {"amx", "avx512_bf16", "cache_dir", "cl_dir", "print_config", "profiling", "ptx", "tuned_dir"});
  ironcl::opencl::Config config;
  config.cache_dir = cache_dir(options);
  config.kernel_dir = setting(options, "cl_dir", "IRONCL_CL_DIR").value_or("");
  config.print_config = flag(options, "print_config", "IRONCL_PRINT_CONFIG");
  config.amx = flag(options, "amx", "IRONCL_OPENCL_AMX", true);
  config.profiling = flag(options, "profiling", "IRONCL_OPENCL_PROFILING", true);
  config.avx512_bf16 = flag(options, "avx512_bf16", "IRONCL_OPENCL_AVX512_BF16", true);
  config.ptx = ptx(options);
  config.trial_program = trial_program();
  config.tuned = tuned_tables(setting(options, "tuned_dir", "IRONCL_TUNED_DIR").value_or(""), log);
  return ironcl::opencl::make_backend(config, log);
}

}  // namespace

IRONCL_DEFINE_PLUGIN("opencl", make_backend);
