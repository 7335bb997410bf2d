// SPDX-License-Identifier: Apache-2.0
// A TensorCore as a kernel sees it: arrays in HBM, buffers in a VMEM of limited size, asynchronous copies with
// byte-counting semaphores, compute, and a modelled clock. Kernels are written on it directly (fused_experts.cpp) or
// through the grid pipeline (pipeline.h). A kernel that reads a slot before its copy was waited for, overwrites one
// that is still being stored, waits for what nobody signals, or ends with copies in flight gets an Error.
//
// NOTES: the order of a program's calls is its program order. Bytes of a copy arrive when it is waited for, never
// earlier, so a missing wait also shows in the numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "backends/ironwood/machine.h"

namespace ironcl::ironwood {

// --- What happened when: spans on named tracks. model_report.h makes a Chrome trace of them.

/// One busy stretch of a track. Times in modelled nanoseconds from the start of the kernel.
struct TimelineSpan {
  int track = 0;
  std::int64_t step = -1;  ///< Grid step that caused it; -1 outside the grid.
  double start_ns = 0;
  double duration_ns = 0;
  std::uint64_t bytes = 0;  ///< Bytes transferred; 0 for compute.
  std::string label;        ///< "x[0,3] -> slot 1", "dot 512x512x512".
};

/// Spans in the order in which they were caused; bounded, so that a long grid cannot fill memory.
struct Timeline {
  std::vector<std::string> tracks;
  std::vector<TimelineSpan> spans;
  std::size_t capacity = 100'000;
  std::uint64_t dropped = 0;  ///< Spans that did not fit.

  int track(const std::string& name) {
    const auto place = std::find(tracks.begin(), tracks.end(), name) - tracks.begin();
    if (place == std::ssize(tracks)) tracks.push_back(name);
    return static_cast<int>(place);
  }
  bool full() const noexcept { return spans.size() >= capacity; }
  void add(TimelineSpan span) {
    if (full()) {
      ++dropped;
    } else {
      spans.push_back(std::move(span));
    }
  }
};

/// A row-major two-dimensional array in HBM. Owns nothing; `data` null: only time is simulated.
struct HbmArray {
  std::string name;
  std::byte* data = nullptr;
  std::int64_t rows = 0, cols = 0;  ///< Elements.
  std::int64_t row_bytes = 0;       ///< Distance from one row to the next.
  std::uint32_t element_bytes = 1;
  std::string part = {};  ///< The part of the whole, such as "expert 3": follows the name in a timeline's labels.
  /// Null, or where each of `rows` rows lies, in rows of row_bytes: a gather. Outlives the array; trusted.
  const std::int32_t* row_index = nullptr;
};

/// A tight array without data.
inline HbmArray tight_array(std::string name, std::int64_t rows, std::int64_t cols, std::uint32_t element_bytes) {
  const std::int64_t row_bytes = cols * element_bytes;
  return {
      .name = std::move(name), .rows = rows, .cols = cols, .row_bytes = row_bytes, .element_bytes = element_bytes};
}

/// A rectangle of an array, in elements.
struct Region {
  std::int64_t row = 0, col = 0, rows = 0, cols = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

/// Memory on a 64-byte boundary.
inline constexpr std::align_val_t kAlignment{64};
struct AlignedDelete {
  void operator()(std::byte* data) const noexcept { ::operator delete[](data, kAlignment); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

/// `bytes` of it, not initialised. Throws std::bad_alloc.
inline AlignedBytes allocate_aligned(std::uint64_t bytes) { return AlignedBytes(new (kAlignment) std::byte[bytes]); }

/// `slots` buffers of rows x cols elements in VMEM, row-major with pitch cols.
struct VmemPart {
  std::string name;
  int slots = 1;
  std::int64_t rows = 0, cols = 0;
  std::uint32_t element_bytes = 1;
  std::int64_t bytes = 0;  ///< Bytes of all slots, in native tiles.
};

/// The same with what is in them.
struct VmemBuffer : VmemPart {
  bool rows_apart = false;      ///< Each row lies in tiles of its own, so that copies of some rows are not rounded.
  AlignedBytes data{};          ///< Null where only time is simulated.
  std::vector<int> filling{};   ///< Copies into each slot that were not waited for.
  std::vector<int> draining{};  ///< Copies out of each slot that were not waited for.

  std::int64_t slot_bytes() const noexcept { return rows * cols * element_bytes; }
};

/// Modelled work of one stretch of compute. The vector unit runs beside the MXU (one bundle issues to both).
struct Work {
  double mxu_ns = 0;
  double vpu_ns = 0;
};

/// Sums over a run.
struct CoreTotals {
  double end_ns = 0;
  double mxu_ns = 0, vpu_ns = 0;
  double compute_ns = 0;   ///< Sum over steps of max(mxu, vpu).
  double transfer_ns = 0;  ///< Time in which the HBM was busy.
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::int64_t vmem_bytes = 0;  ///< Allocated, padded to native tiles.
};

class Core {
 public:
  /// `with_data` false: nothing is allocated or moved and only the clock runs. `timeline` may be null.
  /// `vmem_limit` in bytes.
  Core(const Machine& machine, bool with_data, std::int64_t vmem_limit, Timeline* timeline);

  bool with_data() const noexcept { return with_data_; }
  bool tracing() const noexcept { return timeline_ != nullptr && !timeline_->full(); }
  const Machine& machine() const noexcept { return machine_; }

  /// Throws Error(unsupported) with both numbers where the VMEM limit would be passed. The reference stays valid.
  VmemBuffer& allocate(const std::string& name, int slots, std::int64_t rows, std::int64_t cols,
                       std::uint32_t element_bytes);

  /// A new DMA semaphore.
  int semaphore(const std::string& name);

  enum class Way { in, out };
  /// Starts a copy of `region` (which must lie in `array`, which outlives it) to or from the rows of a slot that
  /// begin at `slot_row`, at their left; signals `semaphore` with its bytes when done. The bytes moved are the
  /// region's, rounded up to native tiles where `region` is a partial edge. Returns the bytes to wait for. `step`:
  /// the grid step that needs the copy, for the timeline; -1: none.
  std::uint64_t start(Way way, const HbmArray& array, const Region& region, VmemBuffer& buffer, int slot,
                      int semaphore, std::int64_t step, std::int64_t slot_row = 0);
  /// Waits until `semaphore` has counted `bytes`, then takes them off it; several copies may be waited for at once.
  void wait(int semaphore, std::uint64_t bytes);

  /// Spends modelled time on compute. `label` is used only where a timeline is kept.
  void compute(const Work& work, std::int64_t step, std::string_view label);
  /// Spends modelled time on scalar work.
  void advance(double ns) { now_ns_ += ns; }

  /// A slot that may be read: nothing is being copied into it. Null without data.
  const std::byte* readable(const VmemBuffer& buffer, int slot) const;
  /// A slot that may be written: no copy touches it. Null without data.
  std::byte* writable(VmemBuffer& buffer, int slot) const;

  /// Ends the kernel: every copy must have been waited for.
  CoreTotals finish();
  /// All that was allocated, in order.
  const std::deque<VmemBuffer>& buffers() const noexcept { return buffers_; }

 private:
  struct Copy {
    bool in = true;
    const HbmArray* array = nullptr;  ///< Outlives the copy.
    Region region;
    VmemBuffer* buffer = nullptr;
    int slot = 0;
    std::int64_t slot_row = 0;  ///< Row of the slot where the region begins.
    std::uint64_t bytes = 0;
    double done_ns = 0;
  };
  struct Semaphore {
    std::string name;
    std::uint64_t credit = 0;
    std::deque<Copy> pending;
  };

  void land(Copy& copy);
  std::uint64_t bytes_of(const Copy& copy) const;

  Machine machine_;
  bool with_data_;
  std::int64_t vmem_limit_;
  Timeline* timeline_;
  double now_ns_ = 0;
  double hbm_free_ns_ = 0;  ///< When the HBM has moved everything issued so far.
  int mxu_track_ = 0, vpu_track_ = 0;
  std::deque<VmemBuffer> buffers_;
  std::vector<Semaphore> semaphores_;
  CoreTotals totals_;
};

/// How often an operand's blocks were fetched or stored.
struct WindowTotals {
  std::string name;
  bool output = false;
  std::int64_t copies = 0;
  std::uint64_t bytes = 0;
};

/// The slots of a buffer, a semaphore each, for copies with numbers: number i uses slot i % count().
class Slots {
 public:
  Slots() = default;
  /// `rows_apart`: of VmemBuffer.
  Slots(Core& core, const std::string& name, int count, std::int64_t rows, std::int64_t cols,
        std::uint32_t element_bytes, bool rows_apart = false);

  int count() const noexcept { return buffer_->slots; }
  /// Starts copy `number`. `with`: the slots whose copy of that number this one belongs to; both are waited for
  /// there.
  void copy_in(std::int64_t number, const HbmArray& array, const Region& region, std::int64_t step,
               Slots* with = nullptr) {
    copy(Core::Way::in, number, array, region, step, 0, with != nullptr ? *with : *this);
  }
  /// Copies from the slot's rows from `slot_row` on.
  void copy_out(std::int64_t number, const HbmArray& array, const Region& region, std::int64_t step,
                std::int64_t slot_row = 0) {
    copy(Core::Way::out, number, array, region, step, slot_row, *this);
  }
  /// Waits for all copies of that number.
  void wait(std::int64_t number);
  /// Waits for those of every number below `number`.
  void wait_before(std::int64_t number);
  const std::byte* readable(std::int64_t number) const { return core_->readable(*buffer_, slot(number)); }
  std::byte* writable(std::int64_t number) { return core_->writable(*buffer_, slot(number)); }

  WindowTotals moved;

 private:
  void copy(Core::Way way, std::int64_t number, const HbmArray& array, const Region& region, std::int64_t step,
            std::int64_t slot_row, Slots& waited);
  int slot(std::int64_t number) const { return static_cast<int>(number % buffer_->slots); }

  Core* core_ = nullptr;
  VmemBuffer* buffer_ = nullptr;
  std::vector<int> semaphores_;
  std::vector<std::uint64_t> bytes_;  ///< Started into or out of each slot, and not waited for.
  std::int64_t waited_ = 0;           ///< Numbers below it were waited for.
};

}  // namespace ironcl::ironwood
