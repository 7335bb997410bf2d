// SPDX-License-Identifier: Apache-2.0
// ironcl_faulty_walk: records every call of OpenCL that a plugin makes in its life, then lives once for each of them
// with that call failed, and says what came of it. Exit status 0: every failure was answered as it must be; 1: not;
// 77: there is no device.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/faulty_opencl/scenario.h"
#include "tests/faulty_opencl/shim.h"

namespace ironcl::faulty {
namespace {

/// A call of the recorded life.
struct Site {
  std::string step, call;
  long nth = 0;    ///< Among the calls of that name.
  long index = 0;  ///< Among all calls. Both from 1.
};

/// How a call may fail: what a driver answers, and the status that this stands for (design of the C ABI).
struct Failure {
  int code;
  const char* name;
  ironcl_status status;
};

Failure failure_of(const std::string& call) {
  if (call == "clCreateBuffer") return {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE", IRONCL_OUT_OF_DEVICE_MEMORY};
  if (call == "clBuildProgram") return {-11, "CL_BUILD_PROGRAM_FAILURE", IRONCL_BUILD_FAILED};
  if (call == "clCreateProgramWithBinary") return {-42, "CL_INVALID_BINARY", IRONCL_INTERNAL};
  if (call.starts_with("clEnqueue") || call == "clFinish" || call == "clFlush" || call == "clSetKernelArg")
    return {-5, "CL_OUT_OF_RESOURCES", IRONCL_OUT_OF_DEVICE_MEMORY};
  return {-6, "CL_OUT_OF_HOST_MEMORY", IRONCL_OUT_OF_HOST_MEMORY};
}
constexpr Failure kLost{-2, "CL_DEVICE_NOT_AVAILABLE", IRONCL_DEVICE_LOST};

constexpr unsigned kPatience = 120;  ///< Seconds that a life may take before it hangs.

/// What is being tried, for the last words of a process that a failure brings down.
std::string& trying() {
  static std::string text;
  return text;
}

extern "C" void last_words(int signal) {
  const auto say = [](const char* text, std::size_t size) {
    if (write(STDOUT_FILENO, text, size) < 0) _exit(1);
  };
  const bool hung = signal == SIGALRM;
  say(hung ? "BREACH hangs:   " : "BREACH crashed: ", 16);
  say(trying().c_str(), trying().size());
  say("\n", 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

struct Settings {
  std::string plugin, problem = "stream", table, scratch;
  std::string call;  ///< Only this one; empty: all.
  bool ends = false;
  std::array<long, 2> part{0, 1};  ///< Which of how many equal parts of the calls; several processes share a walk.
};

class Walk {
 public:
  explicit Walk(const Settings& settings)
      : settings_(settings), plugin_(open_plugin(settings.plugin)), problem_(problem_named(settings.problem)) {}

  int run() {
    const std::string warm = settings_.scratch + "/cache-" + problem_.name;
    std::filesystem::remove_all(warm);
    cache_ = warm;
    Life first = once("", [] {});
    if (first.no_device || first.refused || first.status == IRONCL_UNSUPPORTED) {
      std::printf("no device for %s: %s\n", problem_.name.c_str(), first.message.c_str());
      return 77;
    }
    for (const auto& [name, cache] :
         {std::pair<std::string, std::string>{"from source", "off"}, {"from the cache", warm}}) {
      cache_ = cache;
      programs_ = name;
      walk();
    }
    print();
    return breaches_.empty() ? 0 : 1;
  }

 private:
  void walk() {
    const std::vector<Site> sites = recorded();
    std::printf("%s, programs %s: %zu calls in a life\n", problem_.name.c_str(), programs_.c_str(), sites.size());
    std::set<long> chosen;
    if (settings_.ends) {
      std::map<std::pair<std::string, std::string>, std::pair<long, long>> ends;
      for (const Site& site : sites) {
        auto [at, fresh] = ends.try_emplace({site.step, site.call}, site.index, site.index);
        if (!fresh) at->second.second = site.index;
      }
      for (const auto& [key, pair] : ends) chosen.insert({pair.first, pair.second});
    }
    for (const Site& site : sites) {
      if (settings_.ends && !chosen.contains(site.index)) continue;
      if (!settings_.call.empty() && site.call != settings_.call) continue;
      if (site.index % settings_.part[1] != settings_.part[0]) continue;
      // The bindings (opencl.hpp) keep an object that they could not retain, and release again one that they could
      // not release: a program in C++ cannot survive either, so neither ever fails here.
      if (site.call.starts_with("clRetain") || site.call.starts_with("clRelease")) continue;
      const Failure failure = failure_of(site.call);
      const std::string where = site.call + ":" + std::to_string(site.nth) + ":" + std::to_string(failure.code);
      judge("refused", site, failure, "fail=" + where, true);
      if (site.call == "clEnqueueNDRangeKernel" || site.call == "clEnqueueReadBuffer")
        judge("fails later", site, failure, "later=" + where, true);
      if (!settings_.ends || site.index % 4 == 0)
        judge("device lost", site, kLost, "lose=" + std::to_string(site.index), false);
    }
  }

  std::vector<Site> recorded() {
    std::vector<Site> sites;
    std::map<std::string, long> counts;
    std::string step;
    command("");
    record();
    const auto note = [&](const char* next) {
      for (const std::string& call : stop())
        sites.push_back({step, call, ++counts[call], static_cast<long>(sites.size()) + 1});
      step = next;
      record();
    };
    live({.plugin = plugin_, .cache_dir = cache_, .step = note}, problem_);
    stop();
    return sites;
  }

  Life once(const std::string& text, const std::function<void()>& mended) {
    command(text);
    return live({.plugin = plugin_, .cache_dir = cache_, .mended = mended}, problem_);
  }

  void judge(const char* how, const Site& site, const Failure& failure, const std::string& text, bool passes) {
    trying() = problem_.name + ", programs " + programs_ + ", " + site.step + " [" + text + "]";
    alarm(kPatience);
    const Life life = once(text, [&] {
      if (passes) command("");
    });
    alarm(0);
    const bool struck = faulty::struck();
    const auto breach = [&](const std::string& what) {
      breaches_.push_back(problem_.name + ", programs " + programs_ + ", " + site.step + ", " + site.call +
                          " number " + std::to_string(site.nth) + " " + how + ": " + what + " [" + text + "] " +
                          life.message);
    };
    for (const auto& [kind, count] : held()) {
      if (count != 0) breach(std::to_string(count) + " references to a " + kind + " are left");
    }
    std::string outcome = "no effect";
    if (life.wrong) {
      outcome = "WRONG";
      breach("wrong and silent");
    } else if (!life.failed.empty()) {
      outcome = status_name(life.status);
      if (life.status != failure.status && !(life.failed == "enumerate" && life.status == IRONCL_UNAVAILABLE))
        breach("answered " + outcome + ", expected " + status_name(failure.status));
      if (life.native_code != failure.code) breach("native code " + std::to_string(life.native_code));
      if (life.message.find(failure.name) == std::string::npos) breach("the text does not name the code");
      if (passes && life.after != "right") breach("afterwards: " + life.after);
      // A flush comes after the command was accepted: its caller's memory is being read or written.
      if (passes && site.call == "clFlush") breach("what was accepted is said to have failed");
    } else if (life.refused) {  // A kernel that must be tried first was not compiled: that is said of the kernel.
      outcome = "refused with the reason";
      if (failure.status != IRONCL_BUILD_FAILED) breach("the device refuses");
      if (life.message.find(failure.name) == std::string::npos) breach("the reason does not name the code");
    } else if (life.no_device) {
      outcome = "no device, logged";
      if (life.message.find(failure.name) == std::string::npos)
        breach("no device, and the log does not name the code");
    }
    if (passes && struck && life.failed.empty()) ++survived_;
    ++lives_;
    ++table_[{how, site.step, site.call}][life.failed.empty() ? outcome : outcome + " from " + life.failed];
  }

  void print() {
    std::string text = "| how | step | call | answers |\n|---|---|---|---|\n";
    for (const auto& [key, outcomes] : table_) {
      std::string answers;
      for (const auto& [outcome, count] : outcomes)
        answers += (answers.empty() ? "" : ", ") + std::to_string(count) + " × " + outcome;
      const auto& [how, step, call] = key;
      text += "| " + how + " | " + step + " | `" + call + "` | " + answers + " |\n";
    }
    if (!settings_.table.empty()) {
      std::ofstream out(settings_.table);
      out << text;
      if (!out.flush()) throw std::runtime_error(settings_.table + ": cannot be written");
    } else {
      std::printf("%s", text.c_str());
    }
    for (const std::string& breach : breaches_) std::printf("BREACH %s\n", breach.c_str());
    std::printf("%s: %ld lives, %zu breaches; %ld failures had no effect on the results\n", problem_.name.c_str(),
                lives_, breaches_.size(), survived_);
  }

  Settings settings_;
  const ironcl_plugin& plugin_;
  Problem problem_;
  std::string cache_, programs_;
  std::map<std::tuple<std::string, std::string, std::string>, std::map<std::string, long>> table_;
  std::vector<std::string> breaches_;
  long lives_ = 0, survived_ = 0;
};

}  // namespace
}  // namespace ironcl::faulty

int main(int argc, char** argv) {
  ironcl::faulty::Settings settings;
  CLI::App app{"Fails every call of OpenCL that a plugin makes, one at a time, and says what came of it."};
  app.add_option("--plugin", settings.plugin, "The plugin file, libironcl_opencl.so")->required();
  app.add_option("--problem", settings.problem,
                 "stream, tiled, skinny, panel, grouped or amx: the kernels of a plan; steps: of no plan");
  app.add_option("--scratch", settings.scratch, "A folder for program caches")->required();
  app.add_option("--table", settings.table, "Markdown file for the table of calls and answers (default: stdout)");
  app.add_option("--part", settings.part, "I N: only the I-th (from 0) of N equal parts of the calls")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--call", settings.call, "Only calls of this name, such as clEnqueueNDRangeKernel");
  app.add_flag("--ends", settings.ends, "Only the first and the last of each call in a step");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGSEGV, ironcl::faulty::last_words);
  std::signal(SIGABRT, ironcl::faulty::last_words);
  std::signal(SIGALRM, ironcl::faulty::last_words);
  try {
    if (settings.part[0] >= settings.part[1]) throw std::runtime_error("--part: expected I N with I below N");
    return ironcl::faulty::Walk(settings).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ironcl_faulty_walk: %s\n", error.what());
    return 2;
  }
}
