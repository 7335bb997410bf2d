// SPDX-License-Identifier: Apache-2.0
// A real plugin called through its C table in any order: odd sizes, short structs, chains, spans, wait lists, objects
// destroyed while in use, from one thread or two. Every pointer is good and every size true, as plugin.h asks of a
// caller; all else is up to the input. Any status but INTERNAL is an answer; out parameters stay on failure.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <deque>
#include <thread>
#include <vector>

#include "host/include/ironcl/plugin.h"
#include "tests/fuzz/fuzz.h"

namespace {

using ironcl::fuzz::Bytes;
using ironcl::fuzz::must;

constexpr std::size_t kMost = 6;  ///< Objects of a kind in one run.
constexpr std::int64_t kSizes[] = {1, 2,  5,         16,         33,        64,        128,        200,      256,
                                   0, -1, INT64_MAX, 2147483647, 536870911, 536870912, 2143615794, 134459904};
constexpr std::int64_t kSmall = 256;  ///< Larger problems are only asked about.

const ironcl_plugin* table() {
  static const ironcl_plugin* const loaded = [] {
    void* const library = dlopen(IRONCL_FUZZ_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    must(library != nullptr, std::string("a plugin opens: ") + (library == nullptr ? dlerror() : ""));
    const auto query = reinterpret_cast<ironcl_plugin_query_fn>(dlsym(library, IRONCL_PLUGIN_QUERY_SYMBOL));
    const ironcl_plugin* const made = query(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
    static const ironcl_key_value options[] = {{"cache_dir", IRONCL_FUZZ_CACHE}};
    const bool cached = std::string_view(made->name) == "opencl";
    must(made->load(nullptr, cached ? options : nullptr, cached ? 1 : 0, nullptr) == IRONCL_OK, "a plugin loads");
    return made;
  }();
  return loaded;
}

ironcl_device device() {
  static const ironcl_device found = [] {
    ironcl_device first = nullptr;
    std::uint32_t count = 0;
    table()->enumerate(&first, 1, &count, nullptr);
    return count == 0 ? nullptr : first;
  }();
  return found;
}

/// A struct in more room than it may claim, so that every struct_size is true; what is past the struct is zero or
/// not.
template <class T>
struct Claimed {
  alignas(16) std::array<unsigned char, 1024> bytes{};
  T& value() { return *reinterpret_cast<T*>(bytes.data()); }
  T* get() { return reinterpret_cast<T*>(bytes.data()); }
  void claim(Bytes& in) {
    const std::uint32_t sizes[] = {
        sizeof(T), sizeof(T), sizeof(T), sizeof(T) - 8, sizeof(T) + 16, sizeof(T), sizeof(T) + 64, 8, 4, 0};
    value().struct_size = in.of(sizes);
    if (value().struct_size > sizeof(T) && in.below(2) == 1) bytes[sizeof(T) + in.below(16)] = in.byte();
  }
};

class Run {
 public:
  explicit Run(Bytes in) : in_(in) {}

  void all() {
    for (int steps = 0; !in_.empty() && steps < 200; ++steps) step();
    // Transfers still write to memory of ours.
    for (const ironcl_event event : transfers_) {
      t_.event_wait(event, UINT64_MAX, nullptr);
      t_.event_destroy(event);
    }
    for (const auto event : events_) t_.event_destroy(event);
    for (const auto weights : weights_) t_.weights_destroy(weights);
    for (const auto plan : plans_) t_.gemm_destroy(plan);
    for (const auto buffer : buffers_) t_.buffer_destroy(buffer);
    for (const auto queue : queues_) t_.queue_destroy(queue);
  }

 private:
  /// Checks an answer; gives it back.
  ironcl_status answer(const char* slot, ironcl_status status, Claimed<ironcl_error>& error) {
    must(status <= IRONCL_INTERNAL, std::string(slot) + " answers a status of plugin.h");
    must(status != IRONCL_INTERNAL, std::string(slot) + " has a bug: " + error.value().message);
    if (status != IRONCL_OK && status != IRONCL_TIMEOUT && error.value().struct_size >= sizeof(ironcl_error)) {
      must(error.value().status == status, std::string(slot) + " puts its status into the error");
      must(error.value().message[0] != '\0', std::string(slot) + " says why");
    }
    return status;
  }
  template <class F>
  ironcl_status call(const char* slot, F&& f) {
    Claimed<ironcl_error> error;
    error.claim(in_);
    return answer(slot, f(error.get()), error);
  }
  template <class H, class F>
  void make(const char* slot, std::vector<H>& pool, F&& f) {
    const auto before = reinterpret_cast<H>(std::uintptr_t{0x77});
    H made = before;
    if (call(slot, [&](ironcl_error* e) { return f(&made, e); }) == IRONCL_OK) {
      must(made != before && made != nullptr, std::string(slot) + " makes an object");
      pool.push_back(made);
    } else {
      must(made == before, std::string(slot) + " leaves its out parameter alone on failure");
    }
  }
  /// One of the pool; now and then none.
  template <class H>
  H pick(const std::vector<H>& pool) {
    const std::size_t at = in_.below(pool.size() + (in_.below(16) == 0 ? 1 : 0));
    return at < pool.size() ? pool[at] : nullptr;
  }
  template <class H>
  H take(std::vector<H>& pool) {
    if (pool.empty()) return nullptr;
    const std::size_t at = in_.below(pool.size());
    const H taken = pool[at];
    pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(at));
    return taken;
  }

  std::int64_t size() { return kSizes[in_.below(in_.below(4) == 0 ? std::size(kSizes) : 9)]; }
  std::uint32_t type() { return in_.below(8) == 0 ? in_.byte() : 1 + static_cast<std::uint32_t>(in_.below(7)); }

  ironcl_scale_desc scales(bool usual) {
    if (usual) return {IRONCL_F32, 1, 128, 0, 0};
    const std::uint32_t groups[] = {0, 1, 32, 64, 128, 256, 0xffffffffu};
    return {static_cast<ironcl_dtype>(in_.below(4) == 0 ? in_.byte() : in_.below(4)), in_.of(groups), in_.of(groups),
            in_.below(32) == 0 ? 1u : 0u, in_.below(8) == 0 ? size() : 0};
  }

  ironcl_span span() {
    if (in_.below(8) == 0) return {};
    ironcl_span s{pick(buffers_), 0, 0};
    if (in_.below(4) == 0) {
      s.offset = in_.number() >> in_.below(64);
      s.size = in_.number() >> in_.below(64);
    } else {
      s.offset = in_.below(4) * 64;
      const auto found = std::find(buffers_.begin(), buffers_.end(), s.buffer);
      const std::uint64_t held =
          found == buffers_.end() ? 0 : sizes_[static_cast<std::size_t>(found - buffers_.begin())];
      s.size = held > s.offset ? held - s.offset : 0;
    }
    return s;
  }

  unsigned char* memory(std::size_t bytes) {
    memory_.emplace_back(bytes, static_cast<unsigned char>(0x3c));
    return memory_.back().data();
  }

  void describe(Claimed<ironcl_gemm_desc>& out) {
    out.claim(in_);
    ironcl_gemm_desc& d = out.value();
    const bool usual = in_.below(3) != 0;  // A problem that runs, with one thing or another changed.
    d.m = usual ? kSizes[in_.below(3)] : size();
    d.n = usual ? kSizes[in_.below(8)] : size();
    d.k = usual ? 256 : size();
    d.a_source_dtype = usual               ? static_cast<std::uint32_t>(in_.below(2)) * IRONCL_BF16
                       : in_.below(4) == 0 ? std::uint32_t{in_.byte()}
                                           : std::uint32_t{IRONCL_F32};
    d.a_dtype = usual ? static_cast<ironcl_dtype>(IRONCL_F8_E4M3FN) : type();
    d.b_dtype = usual ? static_cast<ironcl_dtype>(IRONCL_F8_E4M3FN) : type();
    d.d_dtype = usual ? 1 + 2 * static_cast<std::uint32_t>(in_.below(2)) : type();
    d.a_scale = scales(usual);
    d.b_scale = usual ? ironcl_scale_desc{IRONCL_F32, 128, 128, 0, 0} : scales(false);
    if (in_.below(8) == 0) d.d_scale = scales(false);
    if (in_.below(8) == 0) d.bias_dtype = type();
    if (in_.below(8) == 0) d.lda = size();
    if (in_.below(8) == 0) d.ldd = size();
    if (in_.below(16) == 0) d.flags = in_.byte();
    if (in_.below(16) == 0) d.grouping = in_.byte();
    if (in_.below(16) == 0) d.group_count = in_.byte();
    if (in_.below(16) == 0) d.weakest_accuracy = in_.byte();
    if (in_.below(16) == 0) d.a_quantizer.scale_rounding = in_.byte();
    if (in_.below(8) == 0) d.next = chain(in_.below(4) == 0);
  }

  /// A chain of one to three parts; options that exist, or that do not.
  const ironcl_chain* chain(bool odd) {
    static constexpr ironcl_key_value kItems[] = {{"variant", "gemm_stream"},  {"split_k", "16"}, {"split_k", "2"},
                                                  {"variant", "gemm_tiled"},   {"variant", ""},   {"buffers", "2"},
                                                  {"tile_m", "99999999999999"}};
    auto* part = reinterpret_cast<ironcl_options*>(memory(sizeof(ironcl_options)));
    *part = {};
    part->chain = {sizeof(ironcl_options), IRONCL_CHAIN_OPTIONS, nullptr};
    part->count = static_cast<std::uint32_t>(1 + in_.below(2));
    const std::size_t first = in_.below(std::size(kItems) - 1);
    part->items = kItems + first;
    if (odd) {
      part->chain.type = static_cast<std::uint32_t>(in_.number());
      part->chain.struct_size = in_.byte();
      if (in_.below(2) == 0) part->chain.next = &part->chain;
    }
    return &part->chain;
  }

  static bool is_small(const ironcl_gemm_desc& d) { return d.m <= kSmall && d.n <= kSmall && d.k <= kSmall; }

  void step() {
    switch (in_.below(22)) {
      case 0:
        if (queues_.size() < kMost)
          make("queue_create", queues_,
               [&](auto* out, auto* e) { return t_.queue_create(device(), in_.below(16) == 0, out, e); });
        break;
      case 1:
        call("queue_finish", [&](auto* e) { return t_.queue_finish(pick(queues_), e); });
        break;
      case 2:
        t_.queue_destroy(take(queues_));
        break;
      case 3:
        create_buffer();
        break;
      case 4:
        destroy_buffer();
        break;
      case 5:
      case 6:
        transfer();
        break;
      case 7:
        prepare();
        break;
      case 8:
        export_back();
        break;
      case 9:
        t_.weights_destroy(take(weights_));
        break;
      case 10:
      case 11: {
        Claimed<ironcl_gemm_desc> desc;
        describe(desc);
        if (plans_.size() < kMost && is_small(desc.value()))
          make("gemm_create", plans_,
               [&](auto* out, auto* e) { return t_.gemm_create(device(), desc.get(), out, e); });
        break;
      }
      case 12:
      case 13:
      case 14:
        enqueue();
        break;
      case 15:
        t_.gemm_destroy(take(plans_));
        break;
      case 16: {
        const std::uint64_t timeouts[] = {0, 1000, 1'000'000, UINT64_MAX};
        call("event_wait", [&](auto* e) { return t_.event_wait(pick(events_), in_.of(timeouts), e); });
        break;
      }
      case 17: {
        Claimed<ironcl_event_profile> profile;
        profile.claim(in_);
        call("event_profile", [&](auto* e) { return t_.event_profile(pick(events_), profile.get(), e); });
        break;
      }
      case 18:
        t_.event_destroy(take(events_));
        break;
      case 19: {
        Claimed<ironcl_gemm_desc> desc;
        Claimed<ironcl_support> support;
        describe(desc);
        support.claim(in_);
        call("supports", [&](auto* e) { return t_.supports(device(), desc.get(), support.get(), e); });
        break;
      }
      case 20:
        query();
        break;
      default:
        call("queue_wait", [&](auto* e) { return t_.queue_wait(pick(queues_), pick(events_), e); });
    }
  }

  void create_buffer() {
    if (buffers_.size() >= kMost) return;
    Claimed<ironcl_buffer_desc> desc;
    desc.claim(in_);
    const std::uint64_t wanted[] = {1, 64, 4096, 65536, 262144, 0, UINT64_MAX, std::uint64_t{1} << 62};
    desc.value().size = in_.of(wanted);
    if (in_.below(16) == 0) desc.value().flags = in_.byte();
    ironcl_native_memory native{};
    if (in_.below(6) == 0) {
      // Memory of ours, at an odd address now and then; it outlives everything.
      const std::uint64_t bytes = std::min<std::uint64_t>(desc.value().size, 65536);
      desc.value().size = bytes;
      native.chain = {sizeof(native), IRONCL_CHAIN_NATIVE_MEMORY | IRONCL_CHAIN_REQUIRED, nullptr};
      native.kind = IRONCL_MEMORY_HOST_POINTER;
      unsigned char* const lent = lent_memory();
      const auto aligned = (reinterpret_cast<std::uintptr_t>(lent) + 4095) / 4096 * 4096;
      const std::uintptr_t steps[] = {0, 1, 4, 16, 32, 64};
      native.handle = reinterpret_cast<void*>(aligned + in_.of(steps));
      desc.value().next = &native.chain;
    }
    const std::size_t before = buffers_.size();
    make("buffer_create", buffers_,
         [&](auto* out, auto* e) { return t_.buffer_create(device(), desc.get(), out, e); });
    if (buffers_.size() > before) sizes_.push_back(desc.value().size);
  }

  /// Never freed: a command may use a buffer's memory after the run that made it.
  static unsigned char* lent_memory() {
    static auto* const lent = new std::array<unsigned char, 65536 + 8192>{};
    return lent->data();
  }

  void destroy_buffer() {
    if (buffers_.empty()) return t_.buffer_destroy(nullptr);
    const std::size_t at = in_.below(buffers_.size());
    t_.buffer_destroy(buffers_[at]);
    buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(at));
    sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void transfer() {
    ironcl_span at = span();
    const std::uint64_t room = 262144;
    if (at.size > room) return;
    unsigned char* const host = memory(static_cast<std::size_t>(std::max<std::uint64_t>(at.size, 1)));
    ironcl_event event = nullptr;
    const ironcl_queue queue = pick(queues_);
    if (in_.below(2) == 0) {
      call("write",
           [&](auto* e) { return t_.write(queue, at, host, static_cast<std::uint32_t>(in_.below(3)), &event, e); });
    } else {
      call("read", [&](auto* e) { return t_.read(queue, at, host, &event, e); });
    }
    if (event != nullptr) transfers_.push_back(event);
  }

  void prepare() {
    if (weights_.size() >= kMost) return;
    Claimed<ironcl_weights_desc> desc;
    desc.claim(in_);
    ironcl_weights_desc& w = desc.value();
    const bool usual = in_.below(3) != 0;
    w.dtype = usual ? static_cast<ironcl_dtype>(IRONCL_F8_E4M3FN) : type();
    w.n = usual ? kSizes[in_.below(8)] : size();
    w.k = usual ? 256 : size();
    w.scale = usual ? ironcl_scale_desc{IRONCL_F32, 128, 128, 0, 0} : scales(false);
    if (in_.below(8) == 0) w.ld = size();
    if (in_.below(16) == 0) w.group_count = in_.byte();
    const std::size_t room[] = {65536, 65536, 65536, 200 * 256, 1, 16};
    w.data_bytes = in_.of(room);
    w.scale_bytes = in_.of(room);
    w.data = memory(w.data_bytes);
    w.scales = memory(w.scale_bytes);
    if (in_.below(4) == 0) w.plan = pick(plans_);
    make("weights_prepare", weights_,
         [&](auto* out, auto* e) { return t_.weights_prepare(device(), desc.get(), out, e); });
  }

  void export_back() {
    const ironcl_weights weights = pick(weights_);
    Claimed<ironcl_weights_info> info;
    info.claim(in_);
    const bool known =
        call("weights_info", [&](auto* e) { return t_.weights_info(weights, info.get(), e); }) == IRONCL_OK &&
        info.value().struct_size >= sizeof(ironcl_weights_info);
    const std::uint64_t data = known && in_.below(4) != 0 ? info.value().data_bytes : in_.byte();
    const std::uint64_t scale = known && in_.below(4) != 0 ? info.value().scale_bytes : in_.byte();
    std::vector<unsigned char> values(data + 1), scales(scale + 1);
    call("weights_export",
         [&](auto* e) { return t_.weights_export(weights, values.data(), data, scales.data(), scale, e); });
  }

  void enqueue() {
    Claimed<ironcl_gemm_args> args;
    args.claim(in_);
    ironcl_gemm_args& a = args.value();
    a.m = in_.below(8) == 0 ? size() : kSizes[in_.below(6)];
    if (in_.below(8) == 0) a.m = 0;
    a.weights = pick(weights_);
    a.a = span();
    a.d = span();
    for (ironcl_span* other :
         {&a.a_scale, &a.workspace, &a.bias, &a.a_quantized, &a.a_quantized_scale, &a.d_scale, &a.group_sizes})
      if (in_.below(4) == 0) *other = span();
    std::vector<ironcl_event> wait;
    for (std::size_t n = in_.below(4); n > 0; --n) wait.push_back(pick(events_));
    a.wait = wait.data();
    a.wait_count = static_cast<std::uint32_t>(wait.size());
    if (in_.below(16) == 0) a.next = chain(true);
    ironcl_event event = nullptr;
    call("gemm_enqueue",
         [&](auto* e) { return t_.gemm_enqueue(pick(plans_), pick(queues_), args.get(), &event, e); });
    if (event == nullptr) return;
    if (events_.size() >= kMost) t_.event_destroy(take(events_));
    events_.push_back(event);
  }

  void query() {
    const char* const keys[] = {"features", "options", "variants", "choice", "candidates", "model", "", "\xff"};
    Claimed<ironcl_gemm_desc> desc;
    describe(desc);
    std::array<char, 256> text;
    text.fill('\x7f');
    const std::uint64_t capacity = in_.below(text.size());
    std::uint64_t needed = 0;
    const bool with = in_.below(2) == 0;
    const ironcl_status status = call("device_query", [&](auto* e) {
      return t_.device_query(device(), in_.of(keys), with && is_small(desc.value()) ? desc.get() : nullptr,
                             capacity == 0 ? nullptr : text.data(), capacity, &needed, e);
    });
    if (status == IRONCL_OK) must(needed >= 1, "a text has room for its end");
    must(text[static_cast<std::size_t>(capacity)] == '\x7f', "a query writes no more than its room");
  }

  Bytes in_;
  const ironcl_plugin& t_ = *table();
  std::vector<ironcl_queue> queues_;
  std::vector<ironcl_buffer> buffers_;
  std::vector<std::uint64_t> sizes_;  ///< Of buffers_.
  std::vector<ironcl_weights> weights_;
  std::vector<ironcl_gemm> plans_;
  std::vector<ironcl_event> events_, transfers_;
  std::deque<std::vector<unsigned char>> memory_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 4096 || device() == nullptr) return 0;
  if (data[0] % 8 != 0) {
    Run(Bytes(data + 1, size - 1)).all();
    return 0;
  }
  const std::size_t half = size / 2;  // Two threads with objects of their own on one device.
  std::thread other([=] { Run(Bytes(data + half, size - half)).all(); });
  Run(Bytes(data + 1, half - 1)).all();
  other.join();
  return 0;
}
