// SPDX-License-Identifier: Apache-2.0
// The simulated TensorCore of core.h.
#include "backends/ironwood/core.h"

#include <cstring>

#include "backends/interface.h"

namespace ironcl::ironwood {

using backend::Error;
using backend::Status;

Core::Core(const Machine& machine, bool with_data, std::int64_t vmem_limit, Timeline* timeline)
    : machine_(machine), with_data_(with_data), vmem_limit_(vmem_limit), timeline_(timeline) {
  if (timeline_ != nullptr) {
    mxu_track_ = timeline_->track("MXU");
    vpu_track_ = timeline_->track("VPU");
  }
}

VmemBuffer& Core::allocate(const std::string& name, int slots, std::int64_t rows, std::int64_t cols,
                           std::uint32_t element_bytes) {
  const std::int64_t bytes = numerics::checked_mul(machine_.padded_bytes(rows, cols, element_bytes), slots);
  const std::int64_t total = numerics::checked_add(totals_.vmem_bytes, bytes);
  if (total > vmem_limit_) {
    throw Error(Status::unsupported,
                "VMEM: {} needs {} bytes more, {} in all, and the limit is {}; take smaller kernel_blocks", name,
                bytes, total, vmem_limit_);
  }
  totals_.vmem_bytes = total;
  VmemBuffer& buffer = buffers_.emplace_back(VmemBuffer{{name, slots, rows, cols, element_bytes, bytes}});
  buffer.filling.resize(static_cast<std::size_t>(slots));
  buffer.draining.resize(static_cast<std::size_t>(slots));
  if (with_data_) buffer.data = allocate_aligned(static_cast<std::uint64_t>(buffer.slot_bytes() * slots));
  return buffer;
}

int Core::semaphore(const std::string& name) {
  semaphores_.push_back({.name = name, .credit = 0, .pending = {}});
  return static_cast<int>(semaphores_.size()) - 1;
}

std::uint64_t Core::bytes_of(const Copy& copy) const {
  // At a ragged edge of the array the copy is rounded up to native tiles (pipeline.py, copy sizes).
  const VmemBuffer& buffer = *copy.buffer;
  const std::int64_t tile = machine_.sublane_tile(buffer.element_bytes);
  const std::int64_t lanes = machine_.tpu->lanes;
  std::int64_t rows = copy.region.rows, cols = copy.region.cols;
  if (rows < buffer.rows && buffer.rows % tile == 0 && !buffer.rows_apart) rows = numerics::round_up(rows, tile);
  if (cols < buffer.cols && buffer.cols % lanes == 0) cols = numerics::round_up(cols, lanes);
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols) * buffer.element_bytes;
}

std::uint64_t Core::start(Way way, const HbmArray& array, const Region& region, VmemBuffer& buffer, int at,
                          int semaphore, std::int64_t step, std::int64_t slot_row) {
  Copy copy{
      .in = way == Way::in, .array = &array, .region = region, .buffer = &buffer, .slot = at, .slot_row = slot_row};
  const bool inside = region.row >= 0 && region.col >= 0 && region.rows > 0 && region.cols > 0 &&
                      region.row + region.rows <= array.rows && region.col + region.cols <= array.cols &&
                      slot_row >= 0 && slot_row + region.rows <= buffer.rows && region.cols <= buffer.cols &&
                      at >= 0 && at < buffer.slots;
  if (!inside) {
    throw Error(Status::internal,
                "DMA of {} rows {}+{} cols {}+{} leaves the array {}x{} or slot {} of {} ({}x{} from row {})",
                array.name, region.row, region.rows, region.col, region.cols, array.rows, array.cols, at,
                buffer.slots, buffer.rows, buffer.cols, slot_row);
  }
  const auto slot = static_cast<std::size_t>(at);
  if (buffer.filling[slot] != 0 || (copy.in && buffer.draining[slot] != 0)) {
    throw Error(Status::internal, "DMA of {} at step {} meets another copy in flight in slot {}", array.name, step,
                at);
  }
  copy.bytes = bytes_of(copy);
  const double begin = std::max(now_ns_, hbm_free_ns_);
  const double duration = static_cast<double>(copy.bytes) / machine_.hbm_bytes_per_ns();
  hbm_free_ns_ = begin + duration;
  copy.done_ns = hbm_free_ns_ + machine_.assume.dma_latency_ns;
  totals_.transfer_ns += duration;
  (copy.in ? totals_.bytes_in : totals_.bytes_out) += copy.bytes;
  ++(copy.in ? buffer.filling : buffer.draining)[slot];
  if (timeline_ != nullptr) {
    const int track = timeline_->track(fmt::format("DMA {} {}", copy.in ? "in" : "out", array.name));
    timeline_->add({.track = track,
                    .step = step,
                    .start_ns = begin,
                    .duration_ns = duration,
                    .bytes = copy.bytes,
                    .label = timeline_->full()
                                 ? std::string()
                                 : fmt::format("{}{}{}[{}:{},{}:{}] slot {}", array.name,
                                               array.part.empty() ? "" : " of ", array.part, region.row,
                                               region.row + region.rows, region.col, region.col + region.cols, at)});
  }
  semaphores_.at(static_cast<std::size_t>(semaphore)).pending.push_back(copy);
  return copy.bytes;
}

void Core::land(Copy& copy) {
  VmemBuffer& buffer = *copy.buffer;
  --(copy.in ? buffer.filling : buffer.draining)[static_cast<std::size_t>(copy.slot)];
  if (!with_data_) return;
  const Region& region = copy.region;
  const std::int64_t pitch = buffer.cols * buffer.element_bytes;
  std::byte* slot = buffer.data.get() + buffer.slot_bytes() * copy.slot + copy.slot_row * pitch;
  if (copy.in && (region.rows < buffer.rows || region.cols < buffer.cols)) {
    // What lies beyond an array's edge is unspecified on the TPU: all ones is NaN in every floating-point type, so
    // a program that used it would be found out.
    std::memset(slot, 0xff, static_cast<std::size_t>(buffer.slot_bytes()));
  }
  const HbmArray& array = *copy.array;
  const auto row_size = static_cast<std::size_t>(region.cols) * array.element_bytes;
  for (std::int64_t row = region.row; row < region.row + region.rows; ++row, slot += pitch) {
    const std::int64_t at = array.row_index != nullptr ? array.row_index[row] : row;
    std::byte* hbm = array.data + at * array.row_bytes + region.col * array.element_bytes;
    if (copy.in) {
      std::memcpy(slot, hbm, row_size);
    } else {
      std::memcpy(hbm, slot, row_size);
    }
  }
}

void Core::wait(int semaphore, std::uint64_t bytes) {
  Semaphore& sem = semaphores_.at(static_cast<std::size_t>(semaphore));
  while (sem.credit < bytes) {
    if (sem.pending.empty()) {
      throw Error(Status::internal, "deadlock: {} bytes are waited for on semaphore {} and {} were signalled", bytes,
                  sem.name, sem.credit);
    }
    Copy& copy = sem.pending.front();
    now_ns_ = std::max(now_ns_, copy.done_ns);
    land(copy);
    sem.credit += copy.bytes;
    sem.pending.pop_front();
  }
  sem.credit -= bytes;
}

void Core::compute(const Work& work, std::int64_t step, std::string_view label) {
  if (timeline_ != nullptr) {
    for (const auto& [track, ns] : {std::pair{mxu_track_, work.mxu_ns}, std::pair{vpu_track_, work.vpu_ns}}) {
      if (ns <= 0) continue;
      timeline_->add(
          {.track = track, .step = step, .start_ns = now_ns_, .duration_ns = ns, .label = std::string(label)});
    }
  }
  const double longest = std::max(work.mxu_ns, work.vpu_ns);
  now_ns_ += longest;
  totals_.mxu_ns += work.mxu_ns;
  totals_.vpu_ns += work.vpu_ns;
  totals_.compute_ns += longest;
}

const std::byte* Core::readable(const VmemBuffer& buffer, int slot) const {
  if (buffer.filling.at(static_cast<std::size_t>(slot)) != 0) {
    throw Error(Status::internal, "{} slot {} is read before its copy was waited for", buffer.name, slot);
  }
  return with_data_ ? buffer.data.get() + buffer.slot_bytes() * slot : nullptr;
}

std::byte* Core::writable(VmemBuffer& buffer, int slot) const {
  if (buffer.filling.at(static_cast<std::size_t>(slot)) != 0 ||
      buffer.draining.at(static_cast<std::size_t>(slot)) != 0) {
    throw Error(Status::internal, "{} slot {} is written while a copy uses it", buffer.name, slot);
  }
  return with_data_ ? buffer.data.get() + buffer.slot_bytes() * slot : nullptr;
}

CoreTotals Core::finish() {
  for (const Semaphore& sem : semaphores_) {
    if (!sem.pending.empty() || sem.credit != 0) {
      throw Error(Status::internal, "the kernel ends with {} copies in flight on semaphore {}", sem.pending.size(),
                  sem.name);
    }
  }
  totals_.end_ns = now_ns_;
  return totals_;
}

Slots::Slots(Core& core, const std::string& name, int count, std::int64_t rows, std::int64_t cols,
             std::uint32_t element_bytes, bool rows_apart)
    : moved{.name = name},
      core_(&core),
      buffer_(&core.allocate(name, count, rows, cols, element_bytes)),
      bytes_(static_cast<std::size_t>(count)) {
  buffer_->rows_apart = rows_apart;
  for (int slot = 0; slot < count; ++slot) semaphores_.push_back(core.semaphore(fmt::format("{}[{}]", name, slot)));
}

void Slots::copy(Core::Way way, std::int64_t number, const HbmArray& array, const Region& region, std::int64_t step,
                 std::int64_t slot_row, Slots& waited) {
  const auto at = static_cast<std::size_t>(slot(number));
  const std::uint64_t bytes =
      core_->start(way, array, region, *buffer_, slot(number), waited.semaphores_[at], step, slot_row);
  waited.bytes_[at] += bytes;
  ++moved.copies;
  moved.bytes += bytes;
}

void Slots::wait(std::int64_t number) {
  const auto at = static_cast<std::size_t>(slot(number));
  core_->wait(semaphores_[at], std::exchange(bytes_[at], 0));
}

void Slots::wait_before(std::int64_t number) {
  for (; waited_ < number; ++waited_) wait(waited_);
}

}  // namespace ironcl::ironwood
