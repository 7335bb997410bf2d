// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "backends/opencl/device.h"
#include "backends/opencl/matrix_unit.h"
#include "backends/opencl/sources.h"
#include "backends/opencl/trial.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program.

namespace ironcl::opencl {
namespace {

constexpr std::string_view kAnswer = "ironcl trial: ";
constexpr std::string_view kForNow = "ironcl trial, for now: ";  ///< Another process may fare better.
constexpr std::string_view kRight = "right";

/// Which driver and device is meant, as a word.
std::string trial_identity(const cl::Device& device) {
  return program_key(DriverIdentity::of(device), "trial", "", "");
}

/// Which text of the variant's kernel is meant, as a word.
std::string kernel_identity(const Config& config, const Variant& variant) {
  return program_key({}, "trial", "", kernel_source(config.kernel_dir, file_of(variant)));
}

/// What a child said, or how it ended.
struct Ending {
  std::string why;       ///< Empty: right.
  bool keep = false;     ///< The same would come out again.
  bool crashed = false;  ///< By a signal of its own making.
};

/// Reads until the other end is closed or `seconds` are over. False: time was up.
bool read_all(int from, double seconds, std::string& text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd one{from, POLLIN, 0};
    const int ready = poll(&one, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    char buffer[512];
    const ssize_t count = read(from, buffer, sizeof(buffer));
    if (count == 0) return true;
    if (count < 0 && errno != EINTR) return false;
    if (count > 0 && text.size() < 65536) text.append(buffer, static_cast<std::size_t>(count));
  }
}

/// Starts the program; the reading end of its output is left in *from. The child's pid, or -1 with errno.
pid_t start(const std::vector<std::string>& command, int* from) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // The host's handling of signals is not the child's.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& part : command) arguments.push_back(const_cast<char*>(part.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int code = posix_spawn(&pid, command[0].c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  if (code != 0) {
    close(ends[0]);
    errno = code;
    return -1;
  }
  *from = ends[0];
  return pid;
}

/// Whether a child that ended by this signal would do so again: others come from outside (a Ctrl-C to the whole
/// group, a system short of memory, a filter of system calls).
bool ends_again(int signal) {
  return signal == SIGILL || signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGABRT;
}

Ending run_child(const Config& config, const Variant& variant, const std::string& identity) {
  if (config.trial_program.empty()) return {"no program for trials was named (Config::trial_program)", false};
  int from = -1;
  const pid_t pid = start({config.trial_program, variant.name, kernel_identity(config, variant), identity,
                           config.cache_dir, config.kernel_dir, std::to_string(config.ptx)},
                          &from);
  if (pid < 0) return {config.trial_program + " cannot be started: " + std::strerror(errno), false};
  std::string text;
  const bool ended = read_all(from, config.trial_seconds, text);
  close(from);
  if (!ended) kill(pid, SIGKILL);
  int status = 0;
  pid_t waited = 0;
  do waited = waitpid(pid, &status, 0);
  while (waited < 0 && errno == EINTR);  // A host that ignores SIGCHLD leaves nothing to wait for: the text decides.
  if (!ended) return {fmt::format("its trial in a child process did not end within {:.0f} s", config.trial_seconds)};
  for (const std::string_view start : {kAnswer, kForNow}) {
    const auto at = text.rfind(start);
    if (at == std::string::npos) continue;
    std::string answer = text.substr(at + start.size());
    answer = answer.substr(0, answer.find('\n'));
    return {answer == kRight ? std::string() : answer, start == kAnswer};
  }
  if (waited == pid && WIFSIGNALED(status)) {
    const bool again = ends_again(WTERMSIG(status));
    return {fmt::format("its trial in a child process ended by signal {}", WTERMSIG(status)), again, again};
  }
  return {"its trial in a child process gave no answer", false};
}

}  // namespace

std::string try_in_child(const Context& context, const Variant& variant) {
  const ProgramCache cache(context.config.cache_dir);
  // A device that is held to less has other kernels to try.
  const std::string held = context.config.ptx == Config::kAllPtx ? "" : " as " + std::to_string(context.config.ptx);
  const std::string key = program_key(DriverIdentity::of(context.device),
                                      "trial of " + variant.name + " by " + variant.toolchain->name() + held,
                                      processor_identity() + trial_question(variant, context.features),
                                      kernel_source(context.config.kernel_dir, file_of(variant)));
  if (const auto kept = cache.load(key)) return std::string(kept->begin(), kept->end());
  const std::string identity = trial_identity(context.device);
  Ending ending = run_child(context.config, variant, identity);
  // A driver's compiler that crashes once need not crash again; an instruction that is refused is refused again.
  if (ending.crashed) ending = run_child(context.config, variant, identity);
  std::string not_kept;
  if (ending.keep && !cache.store(key, {ending.why.begin(), ending.why.end()}, &not_kept) && !not_kept.empty())
    context.builder->say(backend::LogLevel::warn, "opencl: program cache: " + not_kept);
  return ending.why;
}

std::string answer_of_child(const std::string& variant, const std::string& kernel, const std::string& identity,
                            const Config& config) {
  const auto answer = [](const std::string& why) {
    return std::string(kAnswer) + (why.empty() ? std::string(kRight) : why);
  };
  const auto for_now = [](const std::string& why) { return std::string(kForNow) + why; };
  std::string seen;  // For whoever reads that the device was not among them.
  try {
    // An answer about another kernel than the one that was asked about would be kept as if it were about that one.
    if (find_variant(variant) == nullptr || kernel_identity(config, *find_variant(variant)) != kernel)
      return for_now("the program for trials beside the plugin has another " + variant +
                     " than the plugin: install both of one build");
    std::vector<cl::Platform> platforms;
    cl::Platform::get(&platforms);
    for (const cl::Platform& platform : platforms) {
      std::vector<cl::Device> devices;
      try {
        platform.getDevices(CL_DEVICE_TYPE_ALL, &devices);
      } catch (const cl::Error& error) {  // No device of this kind here, or a driver that does not start in a child.
        seen += "; " + platform.getInfo<CL_PLATFORM_NAME>() + ": " + make_error("its devices", error).what();
        continue;
      }
      for (const cl::Device& native : devices) {
        if (trial_identity(native) != identity) {
          seen += "; not " + native.getInfo<CL_DEVICE_NAME>();
          continue;
        }
        Device device(platform, native, config, nullptr);
        const Context& context = *device.context();
        const Variant* tried = find_variant(variant, context.variants);
        if (tried == nullptr || !tried->trial) return for_now("the program for trials has no trial of " + variant);
        if (tried->trial->permission != nullptr) {
          if (const std::string why = tried->trial->permission(); !why.empty()) return for_now(why);
        }
        return answer(attempt_trial(context, *tried, nullptr));
      }
    }
  } catch (const cl::Error& error) {
    return for_now(make_error("a trial in a child process", error).what());
  } catch (const backend::Error& error) {
    return error.status() == backend::Status::build_failed ? answer(error.what()) : for_now(error.what());
  } catch (const std::exception& error) {
    return for_now(error.what());
  }
  return for_now(std::string(kNotSeenByChild) + seen);
}

}  // namespace ironcl::opencl
