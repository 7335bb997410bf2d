// SPDX-License-Identifier: Apache-2.0
// Devices and linear layers as Python uses them: synchronous calls on host memory. Next door: module.cpp (the names
// that Python sees), ironcl/ (arrays, torch, transformers).
#pragma once

#include <atomic>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <tuple>

#include "ironcl/checkpoint.hpp"

namespace ironcl::python {

/// An operand as Python names it: where it begins in host memory, which the caller holds.
using Address = std::uintptr_t;
inline std::span<std::byte> bytes_at(Address address, std::uint64_t count) {
  return {reinterpret_cast<std::byte*>(address), count};
}

/// A block of Python's: rows and columns, 0 for all.
using Block = std::pair<std::uint32_t, std::uint32_t>;

/// One line for logging.getLogger("ironcl"), from any thread; lost where the interpreter is on its way out.
void log_line(std::string_view line);

/// Every plugin beside libironcl, found at the first call. Never destroyed: at exit Python's objects go in any order.
Registry& registry();

/// While it lives, the OpenMP workers of the calling thread yield their cores. Those of torch spin for ten
/// milliseconds after each of its operations, on cores that a driver's threads need; were they asleep, the cores
/// would be too, and take longer to wake than a short kernel runs.
class YieldingWorkers {
 public:
  YieldingWorkers();
  ~YieldingWorkers();

 private:
  std::atomic<bool> done_ = false;
  void (*end_)() = nullptr;
};

/// A device with its queue. Calls from several threads take turns.
class Device {
 public:
  /// The device of a URI ("auto", "opencl:cpu", "opencl:0"); the same object for the same device.
  static std::shared_ptr<Device> open(const std::string& uri);
  explicit Device(ironcl::Device device) : device_(std::move(device)), queue_(device_) {}

  const ironcl::Device& device() const noexcept { return device_; }

 private:
  friend class Linear;
  friend class Experts;
  friend void quantize(Device&, const QuantizeDesc&, const void*, void*, std::uint64_t, void*, std::uint64_t);

  /// The device for one call. Commands read the caller's memory until they have run, so those of a call that failed
  /// are waited for before that memory may go: what they read is declared before the turn.
  class Turn {
   public:
    /// `torch`: its workers wait beside the threads of a CPU's driver.
    explicit Turn(Device& device, bool torch = false);
    ~Turn();

   private:
    std::lock_guard<std::mutex> lock_;
    Device& device_;
    std::optional<YieldingWorkers> yielding_;
    int exceptions_ = std::uncaught_exceptions();
  };

  /// The plan of a problem, or another operation, made once.
  template <class Description>
  std::shared_ptr<Operation<Description>> operation(const Description& desc);
  /// Memory of operand `which`, which grows and is used by one call after another. Where the host sees it, no command
  /// brings it to the device and back: on a CPU waking the driver's threads for one costs more than a copy.
  struct Staging {
    std::shared_ptr<void> host;  ///< Null: the host does not see it.
    Buffer buffer;
  };
  ironcl_span staging(std::size_t which, std::uint64_t bytes);
  /// The same, with the bytes from `from` in it when the next command begins.
  ironcl_span write(std::size_t which, const void* from, std::uint64_t bytes);
  void write(ironcl_span to, const void* from);
  /// Waits, and copies what commands have left in operand `which`.
  void read(std::size_t which, void* to, std::uint64_t bytes);

  ironcl::Device device_;
  Queue queue_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<void>> operations_;  ///< Keyed by the bytes of their C descriptions.
  std::vector<Staging> staging_;
  std::uint64_t generation_ = 0;  ///< Changes where memory of an operand is another one.
};

/// A linear layer, or the matrices of a layer of experts, prepared for a device. `desc` is its problem without m, and
/// without the types of x and out where activations are quantised in the plan or not at all.
class Linear : public std::enable_shared_from_this<Linear> {
 public:
  /// Weights [matrices, n, k] with their scales, copied; bias [matrices, n] of desc.bias. `gated`: in the form that
  /// a gated call reads.
  Linear(std::shared_ptr<Device> device, GemmDesc desc, const WeightsDesc& weights, const void* bias, bool gated);
  /// A layer of a checkpoint.
  Linear(std::shared_ptr<Device> device, const Layer& layer, std::uint32_t accuracy);

  /// One call.
  struct Args {
    const void* x;
    ironcl_dtype x_type;
    std::int64_t m;
    void* out;
    ironcl_dtype out_type;
    const std::int32_t* rows = nullptr;  ///< [matrices], rows of each matrix, of a grouped layer.
    bool torch = false;                  ///< The caller's are tensors.
    bool gated = false;      ///< The weights are the rows of gate and then of up; out is silu(gate) * up, [m, n / 2].
    Linear* down = nullptr;  ///< out is its product of the first one's in f32, which stays on the device.
  };
  /// out [m, n] = x [m, k] times the weights transposed (+ bias), both tight in host memory. Returns when out is
  /// written.
  void run(const Args& args);

  std::int64_t n(bool gated = false) const noexcept { return gated ? desc_.n / 2 : desc_.n; }
  std::int64_t k() const noexcept { return desc_.k; }
  const GemmDesc& desc() const noexcept { return desc_; }
  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  ironcl_weights_info info() const { return weights_.front().info(); }
  std::uint64_t device_bytes() const;
  void export_to(std::span<std::byte> data, std::span<std::byte> scales) const;

 private:
  struct Call {
    std::shared_ptr<Gemm> plan;
    std::size_t weights;  ///< Of weights_, those that the plan takes.
  };
  /// Rows, types of x and out, gated.
  using Key = std::tuple<std::int64_t, ironcl_dtype, ironcl_dtype, bool>;
  GemmDesc desc_for(const Key& key) const;
  std::size_t weights_for(const Gemm& plan);
  /// For up to `m` rows.
  Call& call(ironcl_dtype x_type, std::int64_t m, ironcl_dtype out_type, bool gated = false);
  void enqueue(const Call& call, std::int64_t m, ironcl_span a, ironcl_span d, ironcl_span rows);

  std::shared_ptr<Device> device_;
  GemmDesc desc_;
  std::optional<Layer> layer_;  ///< A checkpoint's layer, which gives the weights again.
  std::vector<Weights> weights_;
  Buffer bias_, input_scale_;
  std::map<Key, Call> calls_;
};

/// codes and scales of x, all tight in host memory, as the description says.
void quantize(Device& device, const QuantizeDesc& desc, const void* x, void* codes, std::uint64_t code_bytes,
              void* scales, std::uint64_t scale_bytes);

/// A whole layer of experts of a checkpoint.
class Experts {
 public:
  Experts(std::shared_ptr<Device> device, const Checkpoint& checkpoint, const std::string& name,
          const ExpertsChoices& choices);
  /// y [tokens, hidden] of x; `ids` s32 and `weights` f32 [tokens, top_k] where the caller routes, else null.
  void run(const void* x, std::int64_t tokens, const void* ids, const void* weights, void* y, bool torch);

  const ExpertsInfo& info() const noexcept { return info_; }
  const ExpertsChoices& choices() const noexcept { return choices_; }
  const std::shared_ptr<Device>& device() const noexcept { return device_; }

 private:
  std::shared_ptr<Device> device_;
  ExpertsInfo info_;
  ExpertsChoices choices_;
  ironcl::Experts experts_;
  /// The last call, for those that come again as it did; it keeps the memory that it was recorded with.
  struct Recorded {
    std::int64_t tokens = 0;
    bool routed = false;
    std::uint64_t generation = 0;
    std::vector<std::shared_ptr<void>> held;
    Sequence calls;
  } recorded_;
};

}  // namespace ironcl::python
