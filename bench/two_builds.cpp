// SPDX-License-Identifier: Apache-2.0
// Two builds of a plugin in one process, call by call in turns: what a change costs or gives a whole call. Both make
// the same plan of bf16 activations quantised in it and take the same operands; says whether both gave the same bits.
// Next door: cpu_peers.cpp (beside other libraries), run (`./dev bench two-builds OLD.so NEW.so`).
#include <dlfcn.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/words.h"
#include "host/include/ironcl/plugin.h"

namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Shape {
  std::int64_t m = 1, n = 0, k = 0;
};

/// Operands of both sides: e4m3 codes without NaN, scales of 128 x 128 that are powers of two, activations in bf16.
struct Operands {
  explicit Operands(const Shape& s)
      : a(static_cast<std::size_t>(s.m * s.k)),
        b(static_cast<std::size_t>(s.n * s.k)),
        b_scale(static_cast<std::size_t>((s.n + 127) / 128 * ((s.k + 127) / 128))) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::uint16_t& x : a) x = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(random)) >> 16);
    for (std::uint8_t& code : b) code = static_cast<std::uint8_t>(random() & 0xf7u);
    for (float& scale : b_scale) scale = std::ldexp(1.0f, -static_cast<int>(random() % 5));
  }
  std::vector<std::uint16_t> a;
  std::vector<std::uint8_t> b;
  std::vector<float> b_scale;
};

/// One build: its table, its device, and the plan under measurement.
class Side {
 public:
  Side(const std::string& file, std::uint32_t device) {
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto query = reinterpret_cast<ironcl_plugin_query_fn>(dlsym(library, IRONCL_PLUGIN_QUERY_SYMBOL));
    api_ = query != nullptr ? query(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR) : nullptr;
    if (api_ == nullptr) throw std::runtime_error(file + " is not a plugin of this ABI");
    error_.struct_size = sizeof error_;
    if (api_->load != nullptr) need(api_->load(nullptr, nullptr, 0, &error_), "load");
    std::vector<ironcl_device> devices(64);
    std::uint32_t count = 0;
    need(api_->enumerate(devices.data(), static_cast<std::uint32_t>(devices.size()), &count, &error_), "enumerate");
    if (device >= count) throw std::runtime_error(fmt::format("{} has {} devices", file, count));
    device_ = devices[device];
  }

  void make(const Shape& s, const Operands& operands, const std::vector<ironcl_key_value>& options) {
    ironcl_options list{};
    list.chain = {sizeof list, IRONCL_CHAIN_OPTIONS, nullptr};
    list.count = static_cast<std::uint32_t>(options.size());
    list.items = options.data();
    ironcl_gemm_desc desc{};
    desc.struct_size = sizeof desc, desc.kind = IRONCL_OP_GEMM;
    desc.next = options.empty() ? nullptr : &list.chain;
    desc.m = s.m, desc.n = s.n, desc.k = s.k;
    desc.a_dtype = desc.b_dtype = IRONCL_F8_E4M3FN;
    desc.a_source_dtype = desc.d_dtype = IRONCL_BF16;
    desc.a_scale.dtype = desc.b_scale.dtype = IRONCL_F32;
    desc.a_scale.group_rows = 1;
    desc.a_scale.group_cols = desc.b_scale.group_rows = desc.b_scale.group_cols = 128;
    need(api_->op_create(device_, &desc, &gemm_, &error_), "op_create");
    ironcl_weights_desc weights{};
    weights.struct_size = sizeof weights;
    weights.dtype = IRONCL_F8_E4M3FN;
    weights.n = s.n, weights.k = s.k;
    weights.scale = desc.b_scale;
    weights.data = operands.b.data(), weights.scales = operands.b_scale.data();
    weights.data_bytes = operands.b.size(), weights.scale_bytes = operands.b_scale.size() * sizeof(float);
    weights.plan = gemm_;
    need(api_->weights_prepare(device_, &weights, &weights_, &error_), "weights_prepare");
    need(api_->queue_create(device_, 0, &queue_, &error_), "queue_create");
    a_ = buffer(operands.a.size() * 2);
    d_ = buffer(static_cast<std::uint64_t>(s.m * s.n) * 2);
    need(api_->write(queue_, a_, operands.a.data(), IRONCL_HOST_COPIED_BEFORE_RETURN, nullptr, &error_), "write");
    args_ = {};
    args_.struct_size = sizeof args_, args_.kind = IRONCL_OP_GEMM;
    args_.m = s.m, args_.weights = weights_, args_.a = a_, args_.d = d_;
  }

  /// One call, from enqueue to the end of the wait.
  void call() {
    ironcl_event done = nullptr;
    const Clock::time_point start = Clock::now();
    need(api_->op_enqueue(gemm_, queue_, &args_, &done, &error_), "op_enqueue");
    enqueued.push_back(microseconds_since(start));
    need(api_->event_wait(done, UINT64_MAX, &error_), "event_wait");
    whole.push_back(microseconds_since(start));
    ironcl_event_profile times{};
    times.struct_size = sizeof times;
    if (api_->event_profile(done, &times, &error_) == IRONCL_OK)
      device.push_back(static_cast<double>(times.end_ns - times.start_ns) / 1e3);
    api_->event_destroy(done);
  }

  std::vector<std::uint16_t> result() {
    std::vector<std::uint16_t> d(d_.size / 2);
    ironcl_event done = nullptr;
    need(api_->read(queue_, d_, d.data(), &done, &error_), "read");
    need(api_->event_wait(done, UINT64_MAX, &error_), "event_wait");
    api_->event_destroy(done);
    return d;
  }

  std::string choice() {
    ironcl_op_info info{};
    info.struct_size = sizeof info;
    need(api_->op_info(gemm_, &info, &error_), "op_info");
    return fmt::format("{} {}", info.variant, info.tuning);
  }

  void drop() {
    api_->buffer_destroy(a_.buffer);
    api_->buffer_destroy(d_.buffer);
    api_->weights_destroy(weights_);
    api_->queue_destroy(queue_);
    api_->op_destroy(gemm_);
    forget();
  }
  void forget() {
    for (std::vector<double>* times : {&whole, &enqueued, &device}) times->clear();
  }

  std::vector<double> whole, enqueued, device;  ///< Microseconds a call.

 private:
  void need(ironcl_status status, const char* what) const {
    if (status != IRONCL_OK) throw std::runtime_error(fmt::format("{}: {}", what, error_.message));
  }
  ironcl_span buffer(std::uint64_t size) {
    ironcl_buffer_desc desc{};
    desc.struct_size = sizeof desc;
    desc.size = size;
    ironcl_buffer made = nullptr;
    need(api_->buffer_create(device_, &desc, &made, &error_), "buffer_create");
    return {made, 0, size};
  }

  const ironcl_plugin* api_ = nullptr;
  ironcl_device device_ = nullptr;
  ironcl_error error_{};
  ironcl_op gemm_ = nullptr;
  ironcl_weights weights_ = nullptr;
  ironcl_queue queue_ = nullptr;
  ironcl_span a_{}, d_{};
  ironcl_gemm_args args_{};
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// KEY=VALUE words as the ABI takes them; they outlive the plans that are made with them.
class Options {
 public:
  Options(const std::vector<std::string>& words, const char* option) {
    for (const std::string& word : words) {
      const auto pair = ironcl::words::key_value(word);
      if (!pair) throw std::runtime_error(fmt::format("{} {}: write KEY=VALUE", option, word));
      texts_.emplace_back(pair->first, pair->second);
    }
    for (const auto& [key, value] : texts_) all.push_back({key.c_str(), value.c_str()});
  }
  std::vector<ironcl_key_value> all;

 private:
  std::vector<std::pair<std::string, std::string>> texts_;
};

void measure(Side& before, Side& after, const Shape& s, const Options& old_options, const Options& new_options,
             double seconds) {
  const Operands operands(s);
  before.make(s, operands, old_options.all);
  after.make(s, operands, new_options.all);
  for (int round = 0; round < 20; ++round) {
    before.call();
    after.call();
  }
  const bool same = before.result() == after.result();
  for (Side* side : {&before, &after}) side->forget();
  std::vector<double> pairs;
  const Clock::time_point start = Clock::now();
  for (int round = 0; microseconds_since(start) < 1e6 * seconds; ++round) {
    Side &first = round % 2 == 0 ? before : after, &second = round % 2 == 0 ? after : before;
    first.call();
    second.call();
    pairs.push_back(before.whole.back() / after.whole.back());
  }
  fmt::print("{:18} {:9.1f} {:9.1f} {:8.3f} {:8.3f} {:9.1f} {:9.1f} {:7.1f} {:7.1f} {:7}  {:4} {}\n",
             fmt::format("{}x{}x{}", s.m, s.n, s.k), median(before.whole), median(after.whole),
             median(before.whole) / median(after.whole), median(pairs), median(before.device), median(after.device),
             median(before.enqueued), median(after.enqueued), pairs.size(), same ? "yes" : "NO",
             before.choice() == after.choice() ? after.choice() : before.choice() + " -> " + after.choice());
  std::fflush(stdout);
  for (Side* side : {&before, &after}) side->drop();
}

}  // namespace

int main(int argc, char** argv) try {
  std::string before, after;
  std::vector<std::int64_t> rows{1, 16};
  std::vector<std::string> shapes{"4096x4096", "3072x1024", "7168x2048", "576x7168"}, opts, new_opts;
  std::uint32_t device = 0;
  double seconds = 3;
  CLI::App app("Two builds of a plugin, call by call in turns");
  app.add_option("old", before, "the one plugin file")->required();
  app.add_option("new", after, "the other")->required();
  app.add_option("--m", rows, "rows of A")->delimiter(',')->capture_default_str();
  app.add_option("--shape", shapes, "NxK")->delimiter(',')->capture_default_str();
  app.add_option("--opt", opts, "KEY=VALUE of both plans, such as variant=gemm_stream");
  app.add_option("--new-opt", new_opts, "KEY=VALUE of the new one's plans alone, such as split_k=1");
  app.add_option("--device", device, "the device's number")->capture_default_str();
  app.add_option("--seconds", seconds, "for each row")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Options old_options(opts, "--opt");
  new_opts.insert(new_opts.begin(), opts.begin(), opts.end());
  const Options new_options(new_opts, "--new-opt");
  Side first(before, device), second(after, device);
  fmt::print(
      "us a call; ratios old/new: above 1 the new one is faster\n{:18} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9} {:>7} "
      "{:>7} {:>7}  same\n",
      "MxNxK", "old", "new", "medians", "pairs", "kernels", "kernels", "enqueue", "enqueue", "calls");
  for (const std::string& text : shapes) {
    const auto sizes = ironcl::words::split(text, 'x');
    if (sizes.size() != 2) throw std::runtime_error(fmt::format("--shape {}: write NxK", text));
    for (const std::int64_t m : rows)
      measure(first, second, {m, std::stoll(std::string(sizes[0])), std::stoll(std::string(sizes[1]))}, old_options,
              new_options, seconds);
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "two-builds: {}\n", error.what());
  return 1;
}
