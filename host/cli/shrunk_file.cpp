// SPDX-License-Identifier: Apache-2.0
// SIGBUS as a message. Everything below report_shrunk_files() runs in a signal handler: no memory, no locks, no
// stdio.
#include "host/cli/shrunk_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "host/cli/exit_status.h"

namespace ironcl::cli {
namespace {

char command_name[64] = {};

/// Text of a fixed size; what does not fit is left out.
class Line {
 public:
  void add(std::string_view text) {
    for (const char c : text) {
      if (size_ < bytes_.size()) bytes_[size_++] = c;
    }
  }
  /// The name of a file, of which nothing but plain ASCII reaches the terminal.
  void add_name(std::string_view name) {
    for (const char c : name) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x20 && byte < 0x7f) {
        add({&c, 1});
      } else {
        constexpr const char* kDigits = "0123456789abcdef";
        const char escaped[] = {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
        add({escaped, sizeof escaped});
      }
    }
  }
  void write() const {
    std::size_t done = 0;
    while (done < size_) {
      const ssize_t step = ::write(STDERR_FILENO, bytes_.data() + done, size_ - done);
      if (step <= 0) return;
      done += static_cast<std::size_t>(step);
    }
  }

 private:
  std::array<char, 6144> bytes_{};  // a path has 4096 bytes at most
  std::size_t size_ = 0;
};

/// Reads /proc/self/maps line by line.
class Maps {
 public:
  Maps() : file_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~Maps() {
    if (file_ >= 0) ::close(file_);
  }
  Maps(const Maps&) = delete;
  Maps& operator=(const Maps&) = delete;

  /// The next line, cut to what fits; false where there is none.
  bool next(std::string_view* line) {
    size_ = 0;
    for (char c = 0; get(&c);) {
      if (c == '\n') {
        *line = {line_.data(), size_};
        return true;
      }
      if (size_ < line_.size()) line_[size_++] = c;
    }
    return false;
  }

 private:
  bool get(char* c) {
    if (at_ == filled_) {
      const ssize_t got = ::read(file_, buffer_.data(), buffer_.size());
      if (got <= 0) return false;
      at_ = 0;
      filled_ = static_cast<std::size_t>(got);
    }
    *c = buffer_[at_++];
    return true;
  }
  int file_;
  std::array<char, 4096> buffer_{};
  std::array<char, 5120> line_{};
  std::size_t at_ = 0, filled_ = 0, size_ = 0;
};

/// The hexadecimal number at the front of `text`, which then starts behind it and one more character.
std::uintptr_t take_address(std::string_view* text) {
  std::uintptr_t value = 0;
  while (!text->empty()) {
    const char c = text->front();
    text->remove_prefix(1);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<std::uintptr_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value * 16 + static_cast<std::uintptr_t>(c - 'a' + 10);
    } else {
      break;
    }
  }
  return value;
}

/// FIRST-LAST MODE OFFSET DEVICE INODE      PATH
void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Maps maps;
  for (std::string_view line; info->si_code == BUS_ADRERR && maps.next(&line);) {
    const std::uintptr_t first = take_address(&line), last = take_address(&line);
    if (address < first || address >= last) continue;
    const std::size_t name = line.find('/');
    if (name == std::string_view::npos) break;
    Line text;
    text.add("ironcl ");
    text.add(command_name);
    text.add(": ");
    text.add_name(line.substr(name));
    text.add(": became shorter, or its disk failed, while it was read; run again when nothing writes to it\n");
    text.write();
    ::_exit(static_cast<int>(ExitStatus::bad_input));
  }
  // Not a file: what is wrong happens again, and ends the process.
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(signal, &usual, nullptr);
}

}  // namespace

void report_shrunk_files(const char* command) {
  std::strncpy(command_name, command, sizeof command_name - 1);
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace ironcl::cli
