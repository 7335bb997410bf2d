// SPDX-License-Identifier: Apache-2.0
// One run of the driver of random calls: the objects that it has made, and how the input chooses among them.
// abi.cpp has the plugin and the order of calls, abi_objects.cpp devices' objects and products, abi_steps.cpp
// quantisers and the steps of a layer of experts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/c_api.h"
#include "tests/fuzz/fuzz.h"

namespace ironcl::fuzz {

constexpr std::size_t kMost = 6;  ///< Objects of a kind in one run.
constexpr std::int64_t kSizes[] = {1, 2,  5,         16,         33,        64,        128,        200,      256,
                                   0, -1, INT64_MAX, 2147483647, 536870911, 536870912, 2143615794, 134459904};
constexpr std::int64_t kSmall = 256;  ///< Larger problems are only asked about.

const ironcl_plugin* table();  ///< The plugin, opened and loaded once.
ironcl_device device();        ///< Its first device, or NULL.

/// A struct in more room than it may claim, so that every struct_size is true; what is past the struct is zero or
/// not.
template <class T>
struct Claimed {
  Claimed() = default;
  explicit Claimed(Bytes& in) { claim(in); }
  alignas(16) std::array<unsigned char, 1024> bytes{};
  T& value() { return *reinterpret_cast<T*>(bytes.data()); }
  T* get() { return reinterpret_cast<T*>(bytes.data()); }
  void claim(Bytes& in) {
    const std::uint32_t sizes[] = {
        sizeof(T), sizeof(T), sizeof(T), sizeof(T) - 8, sizeof(T) + 16, sizeof(T), sizeof(T) + 64, 8, 4, 0};
    value().struct_size = in.of(sizes);
    if constexpr (detail::kKind<T> != 0) value().kind = in.below(32) == 0 ? in.byte() : detail::kKind<T>;
    if (value().struct_size > sizeof(T) && in.below(2) == 1) bytes[sizeof(T) + in.below(16)] = in.byte();
  }
};

class Run {
 public:
  explicit Run(Bytes in) : in_(in) {}
  void all();

 private:
  /// Checks an answer; gives it back.
  ironcl_status answer(const char* slot, ironcl_status status, Claimed<ironcl_error>& error) {
    static const bool traced = std::getenv("IRONCL_FUZZ_TRACE") != nullptr;  // What an input does, for who reads one.
    if (traced) std::fprintf(stderr, "%s: %u %s\n", slot, status, error.value().message);
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
    Claimed<ironcl_error> error(in_);
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
    if (usual) return {IRONCL_F32, 1, 128, 0, 0, 0, 0};
    const std::uint32_t groups[] = {0, 1, 32, 64, 128, 256, 0xffffffffu};
    return {static_cast<ironcl_dtype>(in_.below(4) == 0 ? in_.byte() : in_.below(4)),
            in_.of(groups),
            in_.of(groups),
            in_.below(32) == 0 ? 1u : 0u,
            in_.below(8) == 0 ? size() : 0,
            in_.below(32) == 0 ? 1u : 0u,
            in_.below(32) == 0 ? 1u : 0u};
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

  Claimed<ironcl_gemm_desc> describe();
  const ironcl_chain* chain(bool odd);
  static bool is_small(const ironcl_gemm_desc& d) { return d.m <= kSmall && d.n <= kSmall && d.k <= kSmall; }

  void step();
  void step_of_experts(std::size_t which);
  void create_buffer();
  void destroy_buffer();
  void transfer();
  void prepare();
  void export_back();
  void enqueue();
  void enqueue_chain();
  void query();

  void create_quantize();
  void enqueue_quantize();
  void destroy_quantize() { t_.op_destroy(take(quantizers_)); }
  void create_route();
  void enqueue_route();
  void destroy_route() { t_.op_destroy(take(routes_)); }
  void create_activate();
  void enqueue_activate();
  void create_combine();
  void enqueue_combine();
  void destroy_activate_or_combine() { t_.op_destroy(take(in_.below(2) == 0 ? activates_ : combines_)); }
  template <class Desc>
  void make_op(std::vector<ironcl_op>& pool, Claimed<Desc>& desc) {
    make("op_create", pool, [&](auto* out, auto* e) { return t_.op_create(device(), desc.get(), out, e); });
  }
  /// A call of an operation of the pool: its wait list, and its event among the others.
  template <class Args>
  void enqueue_one(const std::vector<ironcl_op>& pool, Claimed<Args>& args) {
    std::vector<ironcl_event> wait;
    for (std::size_t n = in_.below(4); n > 0; --n) wait.push_back(pick(events_));
    args.value().wait = wait.data();
    args.value().wait_count = static_cast<std::uint32_t>(wait.size());
    if (in_.below(16) == 0) args.value().next = chain(true);
    ironcl_event event = nullptr;
    call("op_enqueue", [&](auto* e) { return t_.op_enqueue(pick(pool), pick(queues_), args.get(), &event, e); });
    if (event == nullptr) return;
    if (events_.size() >= kMost) t_.event_destroy(take(events_));
    events_.push_back(event);
  }

  Bytes in_;
  const ironcl_plugin& t_ = *table();
  std::vector<ironcl_queue> queues_;
  std::vector<ironcl_buffer> buffers_;
  std::vector<std::uint64_t> sizes_;  ///< Of buffers_.
  std::vector<ironcl_weights> weights_;
  std::vector<ironcl_op> plans_, quantizers_, routes_, activates_, combines_;
  std::vector<ironcl_event> events_, transfers_;
  std::deque<std::vector<unsigned char>> memory_;
};

}  // namespace ironcl::fuzz
