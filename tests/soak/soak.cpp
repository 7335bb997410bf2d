// SPDX-License-Identifier: Apache-2.0
// ironcl_soak: a plugin under the use that a long-lived server makes of it. Each thread has plans of its own and
// shares the device: chains of calls tied by events, weights swapped and destroyed while in use, queues destroyed
// with work under way, results read by another queue. Every result is compared bit for bit with that of a quiet call,
// which the f64 oracle has judged. Exit status: 0 all right and memory flat, 1 not, 2 usage, 77 no device.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "tests/conformance/suite/handles.h"
#include "tests/f8_product.h"

namespace {

using namespace ironcl;
using conformance::Buffer;
using conformance::Event;
using conformance::Op;
using conformance::Queue;
using conformance::Weights;
using numerics::DType;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kGroup = testing::F8Product::kGroup;

struct Settings {
  std::string plugin, cache = "off";
  double seconds = 20;
  unsigned threads = 5, seed = 1;
  double growth_mib = 48;
};

struct Counts {
  std::atomic<long> calls{0}, checks{0}, wrong{0}, refused{0}, queues{0}, swaps{0};
};

/// What a call may answer besides OK: nothing that a program did wrong, so every other answer ends the soak.
void need(ironcl_status status, const ironcl_error& error, const char* what, Counts& counts) {
  if (status == IRONCL_OK) return;
  ++counts.refused;
  throw std::runtime_error(std::string(what) + " answered " + std::to_string(status) + ": " + error.message);
}

/// Each thread has its own, and they differ in sizes and kernels.
const testing::F8Product kShapes[] = {{4, 96, 256, true, {}},
                                      {1, 320, 384, true, {}},
                                      {45, 96, 256, true, {13, 0, 31, 1}},
                                      {33, 64, 256, false, {}},
                                      {17, 130, 512, true, {}}};

class Worker {
 public:
  Worker(const ironcl_plugin& table, ironcl_device device, unsigned number, unsigned seed, Counts& counts)
      : t_(table),
        device_(device),
        shape_(kShapes[number % std::size(kShapes)]),
        random_(seed * 1000 + number),
        counts_(counts) {
    error_.struct_size = sizeof(error_);
    set_up();
  }

  void round() {
    const std::size_t length = 1 + random_() % 5;
    // A chain of calls over two queues, each waiting for the one before; D of each call is its own.
    std::vector<Buffer> outputs;
    std::vector<std::size_t> which;
    Event last;
    {
      Queue queues[2] = {queue(), queue()};
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t w = random_() % weights_.size();
        if (random_() % 3 == 0) swap(w);
        outputs.push_back(buffer(d_bytes()));
        which.push_back(w);
        last = call(queues[random_() % 2], outputs.back(), weights_[w], last, random_() % 8 == 0 ? 0 : shape_.m);
        if (last_rows_ == 0) which.back() = weights_.size();
        if (random_() % 4 == 0) swap(w);  // Destroyed while the call may still run.
      }
    }  // Both queues go with their work under way.
    need(t_.event_wait(last.get(), UINT64_MAX, &error_), error_, "event_wait", counts_);
    Queue reader = queue();
    for (std::size_t i = 0; i < length; ++i) {
      if (which[i] < weights_.size()) check(reader, outputs[i], expected_[which[i]]);
    }
  }

  /// What a quiet call gives, as the oracle sees it: true where it is right.
  bool quiet_results_are_right() const { return right_; }

 private:
  std::size_t d_bytes() const { return static_cast<std::size_t>(shape_.m * shape_.n) * sizeof(float); }

  template <class H, class F>
  H make(const char* what, F&& f) {
    decltype(std::declval<H>().get()) made = nullptr;
    need(f(&made), error_, what, counts_);
    return H(t_, made);
  }
  Queue queue() {
    ++counts_.queues;
    return make<Queue>("queue_create", [&](auto* out) { return t_.queue_create(device_, 0, out, &error_); });
  }
  Buffer buffer(std::uint64_t size) {
    const ironcl_buffer_desc desc{sizeof(ironcl_buffer_desc), 0, nullptr, size};
    return make<Buffer>("buffer_create", [&](auto* out) { return t_.buffer_create(device_, &desc, out, &error_); });
  }
  Weights prepare(const std::vector<std::uint8_t>& codes) {
    const ironcl_weights_desc w = shape_.weights(codes, scales_.data(), plan_.get());
    return make<Weights>("weights_prepare", [&](auto* out) { return t_.weights_prepare(device_, &w, out, &error_); });
  }
  /// The same weights prepared anew; the old object goes at once.
  void swap(std::size_t which) {
    ++counts_.swaps;
    weights_[which] = prepare(codes_[which]);
  }

  void write(Queue& queue, const Buffer& to, const void* bytes, std::uint64_t size) {
    need(t_.write(queue.get(), {to.get(), 0, size}, bytes, IRONCL_HOST_COPIED_BEFORE_RETURN, nullptr, &error_),
         error_, "write", counts_);
  }

  Event call(Queue& queue, const Buffer& d, const Weights& weights, const Event& after, std::int64_t rows) {
    const std::vector<std::uint8_t> poison(d_bytes(), 0xff);
    write(queue, d, poison.data(), poison.size());
    const ironcl_event wait = after.get();
    ironcl_gemm_args args{};
    args.struct_size = sizeof(args), args.kind = IRONCL_OP_GEMM;
    args.m = rows;
    args.weights = weights.get();
    args.a = {a_.get(), 0, a_bytes_};
    if (a_scale_) args.a_scale = {a_scale_.get(), 0, a_scale_bytes_};
    args.d = {d.get(), 0, d_bytes()};
    if (row_counts_) args.matrix_rows = {row_counts_.get(), 0, shape_.rows.size() * sizeof(std::int32_t)};
    args.wait = &wait;
    args.wait_count = wait == nullptr ? 0 : 1;
    last_rows_ = rows;
    ++counts_.calls;
    return make<Event>("op_enqueue",
                       [&](auto* out) { return t_.op_enqueue(plan_.get(), queue.get(), &args, out, &error_); });
  }

  std::vector<float> read(Queue& queue, const Buffer& d) {
    std::vector<float> got(d_bytes() / sizeof(float));
    const Event done = make<Event>("read", [&](auto* out) {
      return t_.read(queue.get(), {d.get(), 0, d_bytes()}, got.data(), out, &error_);
    });
    need(t_.event_wait(done.get(), UINT64_MAX, &error_), error_, "event_wait", counts_);
    return got;
  }

  void check(Queue& reader, const Buffer& d, const std::vector<float>& want) {
    const std::vector<float> got = read(reader, d);
    ++counts_.checks;
    if (std::memcmp(got.data(), want.data(), d_bytes()) != 0) ++counts_.wrong;
  }

  void set_up() {
    const auto next = [&] { return random_(); };
    const std::int64_t m = shape_.m, n = shape_.n, k = shape_.k;
    const ironcl_gemm_desc desc = shape_.desc();
    plan_ = make<Op>("op_create", [&](auto* out) { return t_.op_create(device_, &desc, out, &error_); });

    std::vector<std::uint8_t> a(static_cast<std::size_t>(m * k));
    std::vector<float> a_scales(static_cast<std::size_t>(m * (k / kGroup)));
    Queue setup = queue();
    const auto upload = [&](const void* bytes, std::uint64_t size) {
      Buffer to = buffer(size);
      write(setup, to, bytes, size);
      return to;
    };
    if (shape_.dynamic) {
      std::vector<float> x(a.size());
      for (float& v : x) v = static_cast<float>(next() >> 8) * 0x1p-22f - 2.0f;
      std::vector<std::uint8_t> bf16(x.size() * 2);
      numerics::encode(DType::bf16, x, bf16.data());
      numerics::quantize(DType::bf16, bf16.data(), m, k, k, DType::e4m3fn, {1, kGroup}, {}, a, a_scales);
      a_bytes_ = bf16.size();
      a_ = upload(bf16.data(), a_bytes_);
    } else {
      for (auto& code : a) code = static_cast<std::uint8_t>((next() >> 11) & 0xbf);
      for (float& s : a_scales) s = 0.25f + static_cast<float>(next() >> 8) * 0x1p-24f;
      a_bytes_ = a.size();
      a_ = upload(a.data(), a_bytes_);
      a_scale_bytes_ = a_scales.size() * sizeof(float);
      a_scale_ = upload(a_scales.data(), a_scale_bytes_);
    }
    if (!shape_.rows.empty()) row_counts_ = upload(shape_.rows.data(), shape_.rows.size() * sizeof(std::int32_t));
    scales_.resize(static_cast<std::size_t>(shape_.matrices() * shape_.b_scales_of_a_matrix()));
    for (float& s : scales_) s = 0.25f + static_cast<float>(next() >> 8) * 0x1p-24f;
    for (int set = 0; set < 3; ++set) {
      auto& codes = codes_.emplace_back(static_cast<std::size_t>(shape_.matrices() * n * k));
      for (auto& code : codes) code = static_cast<std::uint8_t>((next() >> 11) & 0xbf);
      weights_.push_back(prepare(codes));
      const Buffer d = buffer(d_bytes());
      const Event done = call(setup, d, weights_.back(), {}, m);
      expected_.push_back(read(setup, d));
      right_ = right_ && is_right(a, a_scales, codes, expected_.back());
    }
  }

  bool is_right(const std::vector<std::uint8_t>& a_codes, const std::vector<float>& a_scales,
                const std::vector<std::uint8_t>& b_codes, const std::vector<float>& got) const {
    std::int64_t row = 0;
    for (std::int64_t g = 0; g < shape_.matrices(); ++g) {
      const std::int64_t rows = shape_.rows_of(g);
      const std::vector<double> values(got.begin() + row * shape_.n, got.begin() + (row + rows) * shape_.n);
      if (rows != 0 && !compare(values, bounded(shape_.oracle(g, row, a_codes, a_scales, b_codes, scales_),
                                                {DType::f32, numerics::AccuracyClass::f32, shape_.k, kGroup}))
                            .pass)
        return false;
      row += rows;
    }
    return true;
  }

  const ironcl_plugin& t_;
  ironcl_device device_;
  testing::F8Product shape_;
  std::mt19937 random_;
  Counts& counts_;
  ironcl_error error_{};
  Op plan_;
  Buffer a_, a_scale_, row_counts_;
  std::uint64_t a_bytes_ = 0, a_scale_bytes_ = 0;
  std::vector<float> scales_;
  std::vector<std::vector<std::uint8_t>> codes_;
  std::vector<Weights> weights_;
  std::vector<std::vector<float>> expected_;
  std::int64_t last_rows_ = 0;
  bool right_ = true;
};

/// Memory of this process in MiB.
double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0);
}

int run(const Settings& settings) {
  const ironcl_plugin& table = open_plugin(settings.plugin);
  ironcl_error error{};
  error.struct_size = sizeof(error);
  const ironcl_key_value option{"cache_dir", settings.cache.c_str()};
  Counts counts;
  need(table.load(nullptr, &option, std::string_view(table.name) == "opencl" ? 1 : 0, &error), error, "load", counts);
  ironcl_device device = nullptr;
  std::uint32_t count = 0;
  const ironcl_status listed = table.enumerate(&device, 1, &count, &error);
  if (listed == IRONCL_UNAVAILABLE || count == 0) return 77;

  std::atomic<bool> failed{false}, right{true};
  // The time begins when all threads have made their objects: compiling for them may take longer than the soak.
  std::latch ready(static_cast<std::ptrdiff_t>(settings.threads) + 1);
  const auto elapsed_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < settings.threads; ++i) {
      threads.emplace_back([&, i] {
        bool waited = false;
        try {
          Worker worker(table, device, i, settings.seed, counts);
          if (!worker.quiet_results_are_right()) right = false;
          waited = true;
          ready.arrive_and_wait();
          const Clock::time_point begin = Clock::now();
          do worker.round();
          while (elapsed_since(begin) < settings.seconds && !failed);
        } catch (const std::exception& e) {
          std::fprintf(stderr, "ironcl_soak: thread %u: %s\n", i, e.what());
          failed = true;
          if (!waited) ready.count_down();
        }
      });
    }
    ready.arrive_and_wait();
    const Clock::time_point begin = Clock::now();
    const auto elapsed = [&] { return elapsed_since(begin); };
    // The first quarter fills pools and caches; from then on memory must not grow.
    double first = 0, most = 0;
    while (elapsed() < settings.seconds && !failed) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      if (elapsed() < settings.seconds / 4) continue;
      const double now = resident_mib();
      if (first == 0) first = now;
      most = std::max(most, now);
    }
    threads.clear();
    const double last = resident_mib();
    const bool flat = first == 0 || last - first <= settings.growth_mib;
    std::printf(
        "{\"plugin\": \"%s\", \"seconds\": %.0f, \"threads\": %u, \"calls\": %ld, \"checks\": %ld, \"wrong\": %ld, "
        "\"queues_destroyed\": %ld, \"weights_swapped\": %ld, \"mib_first\": %.1f, \"mib_most\": %.1f, "
        "\"mib_last\": %.1f}\n",
        table.name, elapsed(), settings.threads, counts.calls.load(), counts.checks.load(), counts.wrong.load(),
        counts.queues.load(), counts.swaps.load(), first, most, last);
    table.unload();
    if (!right) std::fprintf(stderr, "ironcl_soak: a quiet call is out of bounds\n");
    if (counts.checks == 0) std::fprintf(stderr, "ironcl_soak: the time was too short for a single check\n");
    if (!flat) std::fprintf(stderr, "ironcl_soak: memory grew by %.1f MiB\n", last - first);
    return failed || !right || !flat || counts.wrong != 0 || counts.checks == 0 ? 1 : 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Uses a plugin as a long-lived server does, and checks every result and its memory."};
  app.add_option("--plugin", settings.plugin, "The plugin file")->required();
  app.add_option("--seconds", settings.seconds, "How long")->capture_default_str();
  app.add_option("--threads", settings.threads, "Threads that share the device")->capture_default_str();
  app.add_option("--seed", settings.seed, "Seed of operands and choices")->capture_default_str();
  app.add_option("--cache", settings.cache, "Folder of the program cache, or off")->capture_default_str();
  app.add_option("--growth-mib", settings.growth_mib, "Memory may grow by so much after the first quarter")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ironcl_soak: %s\n", error.what());
    return 1;
  }
}
