// SPDX-License-Identifier: Apache-2.0
// Objects of the reference plugin's backend: one device in host memory, a thread for each queue, numbers by plain
// loops that share nothing with our backends but the casts. Next door: backend.cpp (the device), boundary.cpp (the
// table).
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <future>

#include "backends/interface.h"
#include "tests/conformance/plugins/faults.h"
#include "tests/plugins/host_memory.h"

namespace ironcl::reference {

using backend::Error;
using backend::Status;
using numerics::DType;
using test::address_of, test::HostBuffer;

using Bytes = std::vector<std::byte>;
using Events = std::vector<std::shared_ptr<backend::Event>>;

/// Of a command that a queue's thread runs.
class HostEvent final : public backend::Event {
 public:
  explicit HostEvent(const Events& causes);
  Status wait(std::chrono::nanoseconds timeout) override;
  backend::Profile profile() override { return profile_; }
  /// Waits for `wait`, runs `work`, and ends.
  void run(const Events& wait, const std::function<void()>& work);

 private:
  std::promise<void> promise_;
  std::shared_future<void> end_{promise_.get_future()};
  backend::Profile profile_;
  std::atomic<bool> seen_{false};  // fault event_ends_twice
  Events kept_;                    // fault events_keep_their_causes
};

class HostQueue final : public backend::Queue {
 public:
  ~HostQueue() override { thread_.join(); }
  void finish() override;
  void wait_for(const std::shared_ptr<backend::Event>& event) override;
  std::shared_ptr<backend::Event> write(const backend::Span& dst, const void* src,
                                        backend::HostSemantics semantics) override;
  std::shared_ptr<backend::Event> read(const backend::Span& src, void* dst) override;
  /// Runs `work` in its turn, and after `wait`.
  std::shared_ptr<backend::Event> run(Events wait, std::function<void()> work);

 private:
  boost::asio::thread_pool thread_{1};
};

/// B, and decoded: value (n, k) at k * columns + n, one matrix after another.
struct DecodedWeights final : test::HostWeights {
  explicit DecodedWeights(const backend::WeightsDesc& desc);
  std::uint64_t data_bytes() const noexcept override { return data.size() + (fault("export_is_padded") ? 128 : 0); }
  void export_to(std::byte* to, std::byte* to_scales) override;

  bool usual = true;  ///< Prepared for no plan.
  std::vector<float> decoded, decoded_scales;
};

class HostGemm final : public backend::Gemm, public std::enable_shared_from_this<HostGemm> {
 public:
  explicit HostGemm(const backend::GemmDesc& given) : desc(given) {}
  backend::GemmInfo info() const override;
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue,
                                          const backend::GemmArgs& args) override;
  void multiply(const backend::GemmArgs& args, const std::vector<std::int32_t>& early_counts);

  backend::GemmDesc desc;

 private:
  void load_a(const backend::GemmArgs& args, std::vector<float>& a, std::vector<float>& scales);
  std::vector<float> kept_rows_, kept_scales_;  // fault stale_rows
};

/// Of the other kinds: a description and the loops that run it.
template <class Desc, class Args>
class HostOperation final : public backend::Operation<Args> {
 public:
  using Run = void (*)(const Desc&, const Args&);
  HostOperation(const Desc& desc, Run run) : desc_(desc), run_(run) {}
  std::shared_ptr<backend::Event> enqueue(const std::shared_ptr<backend::Queue>& queue, const Args& args) override {
    return static_cast<HostQueue&>(*queue).run(args.wait, [desc = desc_, run = run_, args] { run(desc, args); });
  }

 private:
  Desc desc_;
  Run run_;
};

// backend.cpp
inline std::atomic<int> delay_us{0};             ///< Load option: before each GEMM.
inline std::atomic<bool> fail_next_gemm{false};  ///< Told by a query.
std::unique_ptr<backend::Backend> make_backend(const backend::Options& options, backend::Log* log);

// gemm.cpp
float decode_one(DType type, const std::byte* at);
void store_one(DType type, float value, std::byte* at);
/// The codes of x [rows, cols], which becomes their values, and the scales of its groups, tight.
Bytes quantize(DType type, numerics::Quantizer how, numerics::ScaleGrid grid, std::int64_t rows, std::int64_t cols,
               std::vector<float>& x, std::vector<float>& scales);
void quantize(const backend::QuantizeDesc& desc, const backend::QuantizeArgs& args);
std::uint64_t workspace_bytes(const backend::GemmDesc& desc);

// experts.cpp
void route(const backend::RouteDesc& desc, const backend::RouteArgs& args);
void activate(const backend::ActivateDesc& desc, const backend::ActivateArgs& args);
void combine(const backend::CombineDesc& desc, const backend::CombineArgs& args);
/// First row and number of rows of each matrix: counts that trust nothing.
struct Stretches {
  std::vector<std::int64_t> begin, used;
};
Stretches clamp_counts(std::vector<std::int32_t> counts, std::int64_t rows, bool masked);

}  // namespace ironcl::reference
