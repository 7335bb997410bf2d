// SPDX-License-Identifier: Apache-2.0
// What can be told about a library without running any of its code: its format, its symbols, its sanitizer.
#define BOOST_DLL_USE_STD_FS
#include <algorithm>
#include <boost/dll/library_info.hpp>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <string_view>

#include "host/registry/load.h"

namespace ironcl::registry {
namespace {

// The runtime of a sanitizer ends a process that it is opened into too late, so this is looked at before dlopen.
std::uint32_t sanitizer_of_file(const std::filesystem::path& path) {
  namespace ip = boost::interprocess;
  const ip::file_mapping file(path.c_str(), ip::read_only);
  const ip::mapped_region region(file, ip::read_only);
  const std::string_view bytes(static_cast<const char*>(region.get_address()), region.get_size());
  using namespace std::string_view_literals;
  // A name in the dynamic string table has a NUL on either side.
  if (bytes.find("\0__asan_init\0"sv) != bytes.npos) return IRONCL_SANITIZER_ADDRESS;
  if (bytes.find("\0__tsan_init\0"sv) != bytes.npos) return IRONCL_SANITIZER_THREAD;
  if (bytes.find("\0__msan_init\0"sv) != bytes.npos) return IRONCL_SANITIZER_MEMORY;
  return IRONCL_SANITIZER_NONE;
}

}  // namespace

std::uint32_t own_sanitizer() {
#if defined(__SANITIZE_ADDRESS__)
  return IRONCL_SANITIZER_ADDRESS;
#elif defined(__SANITIZE_THREAD__)
  return IRONCL_SANITIZER_THREAD;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return IRONCL_SANITIZER_ADDRESS;
#elif __has_feature(thread_sanitizer)
  return IRONCL_SANITIZER_THREAD;
#elif __has_feature(memory_sanitizer)
  return IRONCL_SANITIZER_MEMORY;
#else
  return IRONCL_SANITIZER_NONE;
#endif
#else
  return IRONCL_SANITIZER_NONE;
#endif
}

const char* sanitizer_name(std::uint32_t kind) {
  switch (kind) {
    case IRONCL_SANITIZER_NONE:
      return "no sanitizer";
    case IRONCL_SANITIZER_ADDRESS:
      return "AddressSanitizer";
    case IRONCL_SANITIZER_THREAD:
      return "ThreadSanitizer";
    case IRONCL_SANITIZER_MEMORY:
      return "MemorySanitizer";
    default:
      return "an unknown sanitizer";
  }
}

Result preflight(const std::filesystem::path& path, std::uint32_t& step) {
  step = IRONCL_STEP_PREFLIGHT;
  try {
    const std::vector<std::string> symbols = boost::dll::library_info(path).symbols();
    if (std::find(symbols.begin(), symbols.end(), IRONCL_PLUGIN_QUERY_SYMBOL) == symbols.end())
      return {IRONCL_INCOMPATIBLE,
              "is a library but not an IronCL plugin: it does not export " IRONCL_PLUGIN_QUERY_SYMBOL};
  } catch (const std::bad_alloc&) {
    return {IRONCL_INCOMPATIBLE, "is a broken library: its headers speak of more than there is"};
  } catch (const std::ios_base::failure&) {
    return {IRONCL_INCOMPATIBLE, "is not a shared library, or one that was cut off: it ends where its headers go on"};
  } catch (const std::exception& error) {
    return {IRONCL_INCOMPATIBLE, "is not a shared library for this machine: " + std::string(error.what())};
  }
  try {
    const std::uint32_t theirs = sanitizer_of_file(path);
    if (theirs != IRONCL_SANITIZER_NONE && theirs != own_sanitizer()) {
      step = IRONCL_STEP_SANITIZER;
      return {IRONCL_INCOMPATIBLE, std::string("was built with ") + sanitizer_name(theirs) + ", this library with " +
                                       sanitizer_name(own_sanitizer()) + "; build both alike"};
    }
  } catch (const std::exception& error) {
    return {IRONCL_INCOMPATIBLE, "cannot be mapped: " + std::string(error.what())};
  }
  return {};
}

}  // namespace ironcl::registry
