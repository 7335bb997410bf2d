// SPDX-License-Identifier: Apache-2.0
// What can be told about a library without running any of its code: its format, its symbols, its sanitizer.
#define BOOST_DLL_USE_STD_FS
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <boost/dll/library_info.hpp>
#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>

#include "host/registry/load.h"

namespace ironcl::registry {
namespace {

// Empty, or why the section table cannot be believed. Boost.DLL takes the sizes in it at their word and would
// allocate whatever a broken file says.
std::string problem_of_sections(std::string_view bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return fmt::format("it has {} bytes", bytes.size());
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "it does not begin as one";
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return "it is not of 64 bits";
  const std::uint64_t size = bytes.size(), table = std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum) return "its header is broken";
  if (header.e_shoff > size || table > size - header.e_shoff)
    return "it was cut off: its section table lies behind its end";
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    if (section.sh_offset > size || section.sh_size > size - section.sh_offset)
      return fmt::format("it was cut off: section {} ends behind its end", i);
  }
  return {};
}

// The runtime of a sanitizer ends a process that it is opened into too late, so this is looked at before dlopen.
std::uint32_t sanitizer_of_file(std::string_view bytes) {
  using namespace std::string_view_literals;
  // A name in the dynamic string table has a NUL on either side.
  if (bytes.find("\0__asan_init\0"sv) != bytes.npos) return IRONCL_SANITIZER_ADDRESS;
  if (bytes.find("\0__tsan_init\0"sv) != bytes.npos) return IRONCL_SANITIZER_THREAD;
  if (bytes.find("\0__msan_init\0"sv) != bytes.npos) return IRONCL_SANITIZER_MEMORY;
  return IRONCL_SANITIZER_NONE;
}

}  // namespace

void check_sanitizer(std::uint32_t theirs) {
  static constexpr const char* kNames[] = {"no sanitizer", "AddressSanitizer", "ThreadSanitizer", "MemorySanitizer"};
  if (theirs == IRONCL_SANITIZER_NONE || theirs == IRONCL_THIS_SANITIZER) return;
  refuse(IRONCL_INCOMPATIBLE, "was built with {}, this library with {}; build both alike",
         theirs < std::size(kNames) ? kNames[theirs] : "an unknown sanitizer", kNames[IRONCL_THIS_SANITIZER]);
}

void check_handle_left(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int code = errno;
  if (file >= 0) ::close(file);
  if (file >= 0 || (code != EMFILE && code != ENFILE)) return;
  throw Refused(IRONCL_UNAVAILABLE,
                fmt::format("cannot be opened: {}; close some files, or raise the limit (ulimit -n)",
                            std::generic_category().message(code)),
                code);
}

void preflight(const std::filesystem::path& path, std::uint32_t& step) {
  step = IRONCL_STEP_PREFLIGHT;
  try {
    namespace ip = boost::interprocess;
    ip::mapped_region region;
    {
      // Closed once mapped: what follows needs the handle.
      const ip::file_mapping file(path.c_str(), ip::read_only);
      if (std::filesystem::file_size(path) == 0) refuse(IRONCL_INCOMPATIBLE, "is not a shared library: it is empty");
      region = ip::mapped_region(file, ip::read_only);
    }
    const std::string_view bytes(static_cast<const char*>(region.get_address()), region.get_size());
    if (const std::string problem = problem_of_sections(bytes); !problem.empty())
      refuse(IRONCL_INCOMPATIBLE, "is not a shared library: {}", problem);
    const std::vector<std::string> symbols = boost::dll::library_info(path).symbols();
    if (std::find(symbols.begin(), symbols.end(), IRONCL_PLUGIN_QUERY_SYMBOL) == symbols.end())
      refuse(IRONCL_INCOMPATIBLE,
             "is a library but not an IronCL plugin: it does not export " IRONCL_PLUGIN_QUERY_SYMBOL);
    const std::uint32_t sanitizer = sanitizer_of_file(bytes);
    step = IRONCL_STEP_SANITIZER;
    check_sanitizer(sanitizer);
    step = IRONCL_STEP_PREFLIGHT;
  } catch (const Refused&) {
    throw;
  } catch (const std::exception& error) {
    check_handle_left(path);
    const bool unread = dynamic_cast<const boost::interprocess::interprocess_exception*>(&error) != nullptr;
    refuse(IRONCL_INCOMPATIBLE, "{}: {}{}", unread ? "cannot be read" : "is not a shared library for this machine",
           error.what(), unread ? "; check its permissions" : "");
  }
}

}  // namespace ironcl::registry
