// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: every file of the folders named, then mutants of them. Any compiler will do,
// so every test run replays what fuzzing has found. Usage: fuzz_TARGET [--rounds N] [--seconds T] [--seed S]
// FOLDER_OR_FILE...; at least N mutants, and more until T seconds are over (default: IRONCL_FUZZ_SECONDS).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

using Input = std::vector<std::uint8_t>;

Input read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const Input* running = nullptr;

/// Leaves the input behind that ended the process, so that it can be replayed.
void leave_input() {
  const int file = running == nullptr ? -1 : open("fuzz-last-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  static const char text[] = "replay: this input is left in fuzz-last-input\n";
  if (write(file, running->data(), running->size()) >= 0 && write(STDERR_FILENO, text, sizeof(text) - 1) >= 0)
    close(file);
}

extern "C" void on_signal(int signal) {
  leave_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// On the heap and of the exact size, so that a sanitizer sees a read past the end.
void run(const Input& input) {
  const Input exact(input.begin(), input.end());
  running = &exact;
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  running = nullptr;
}

Input mutant(Input bytes, const std::vector<Input>& all, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t edits = 1 + below(4); edits > 0; --edits) {
    const std::size_t at = below(bytes.size() + 1), length = std::min<std::size_t>(1 + below(16), bytes.size() - at);
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(4)) {
      case 0:
        if (length != 0) *from = static_cast<std::uint8_t>(random());
        break;
      case 1:
        bytes.erase(from, from + static_cast<std::ptrdiff_t>(length));
        break;
      case 2: {
        const Input copy(from, from + static_cast<std::ptrdiff_t>(length));
        bytes.insert(from, copy.begin(), copy.end());
        break;
      }
      default: {
        const Input& other = all[below(all.size())];
        const std::size_t start = below(other.size()), count = std::min<std::size_t>(32, other.size() - start);
        bytes.insert(from, other.begin() + static_cast<std::ptrdiff_t>(start),
                     other.begin() + static_cast<std::ptrdiff_t>(start + count));
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, on_signal);
  unsigned long rounds = 0, seed = 1;
  const char* const given = std::getenv("IRONCL_FUZZ_SECONDS");
  unsigned long seconds = given == nullptr ? 0 : std::strtoul(given, nullptr, 10);
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if ((word == "--rounds" || word == "--seed" || word == "--seconds") && i + 1 < argc) {
      (word == "--rounds" ? rounds : word == "--seed" ? seed : seconds) = std::strtoul(argv[++i], nullptr, 10);
    } else if (std::filesystem::is_directory(word)) {
      for (const auto& entry : std::filesystem::directory_iterator(word)) files.push_back(entry.path());
    } else {
      files.emplace_back(word);
    }
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    std::fprintf(stderr, "replay: name the folder of a corpus\n");
    return 2;
  }
  std::vector<Input> inputs;
  for (const auto& file : files) {
    inputs.push_back(read(file));
    std::fprintf(stderr, "%s\n", file.c_str());
    run(inputs.back());
  }
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  unsigned long tried = 0;
  for (; tried < rounds || (seconds != 0 && std::chrono::steady_clock::now() < end); ++tried) {
    const Input input = mutant(inputs[random() % inputs.size()], inputs, random);
    run(input);
  }
  std::printf("%zu inputs and %lu mutants of them (seed %lu)\n", inputs.size(), tried, seed);
  return 0;
}
