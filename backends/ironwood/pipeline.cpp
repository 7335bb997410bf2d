// SPDX-License-Identifier: Apache-2.0
// The step order of pipeline.h.
#include "backends/ironwood/pipeline.h"

#include "backends/interface.h"

namespace ironcl::ironwood {
namespace {

/// Goes on to the next step of the grid; false where there is none, and `index` is the first one again.
bool advance(GridIndex& index, const Grid& grid) {
  for (std::size_t dim = grid.size(); dim-- > 0;) {
    if (++index[dim] < grid[dim]) return true;
    index[dim] = 0;
  }
  return false;
}

}  // namespace

Region block_region(const HbmArray& array, std::int64_t block_rows, std::int64_t block_cols,
                    const BlockIndex& block) {
  Region region{.row = block.row * block_rows, .col = block.col * block_cols};
  region.rows = std::min(block_rows, array.rows - region.row);
  region.cols = std::min(block_cols, array.cols - region.col);
  if (block.row < 0 || block.col < 0 || region.rows <= 0 || region.cols <= 0) {
    throw backend::Error(backend::Status::internal,
                         "the index map of {} gives block ({},{}), which is outside of {}x{} in blocks of {}x{}",
                         array.name, block.row, block.col, array.rows, array.cols, block_rows, block_cols);
  }
  return region;
}

Inputs::Inputs(Core& core, const Grid& grid, std::vector<Window> windows)
    : core_(core),
      grid_(grid),
      steps_(grid[0] * grid[1] * grid[2]),
      windows_(std::move(windows)),
      streams_(windows_.size()) {
  step_.windows.resize(windows_.size());
  for (std::size_t w = 0; w < windows_.size(); ++w) {
    const Window& window = windows_[w];
    const int slots = window.once ? 1 : window.buffers;
    streams_[w].slots =
        Slots(core_, window.array->name, slots, window.block_rows, window.block_cols, window.array->element_bytes);
    deepest_ = std::max(deepest_, slots);
  }
}

const Step* Inputs::next() {
  if (step_.number + 1 == steps_) return nullptr;
  if (++step_.number == 0) {
    for (std::size_t w = 0; w < windows_.size(); ++w) {
      if (!windows_[w].once) continue;
      const Block block = windows_[w].map(step_.index);
      streams_[w].slots.copy_in(0, *block.array, block.region, -1);
      streams_[w].slots.wait(0);
    }
  } else {
    advance(step_.index, grid_);
  }
  core_.advance(core_.machine().assume.step_overhead_ns);
  // Nearest steps first, so that no block waits behind one that is needed later.
  for (int ahead = 0; ahead < deepest_; ++ahead) {
    for (std::size_t w = 0; w < windows_.size(); ++w) prefetch(w, ahead);
  }
  for (std::size_t w = 0; w < windows_.size(); ++w) enter(w);
  return &step_;
}

void Inputs::prefetch(std::size_t w, int ahead) {
  Stream& stream = streams_[w];
  if (windows_[w].once || windows_[w].with >= 0) return;
  const std::int64_t until = std::min(step_.number + std::min(ahead, stream.slots.count() - 1), steps_ - 1);
  while (stream.looked_at < until) {
    if (stream.looked_at >= 0) advance(stream.ahead, grid_);
    ++stream.looked_at;
    const Block block = windows_[w].map(stream.ahead);
    if (stream.looked_at > 0 && block == stream.last_issued) continue;
    stream.last_issued = block;
    stream.slots.copy_in(stream.issued, *block.array, block.region, stream.looked_at);
    for (std::size_t other = 0; other < windows_.size(); ++other) {
      if (windows_[other].with != static_cast<int>(w)) continue;
      const Block along = windows_[other].map(stream.ahead);
      streams_[other].slots.copy_in(stream.issued, *along.array, along.region, stream.looked_at, &stream.slots);
    }
    ++stream.issued;
  }
}

void Inputs::enter(std::size_t w) {
  const Window& window = windows_[w];
  Stream& stream = streams_[w];
  BlockView& view = step_.windows[w];
  const Block block = window.map(step_.index);
  view.changed = step_.number == 0 || block != stream.current;
  if (window.with >= 0) {
    stream.block = streams_[static_cast<std::size_t>(window.with)].block;
  } else if (view.changed) {
    ++stream.block;
    if (!window.once) stream.slots.wait(stream.block);
  }
  stream.current = block;
  view.region = block.region;
  view.in = stream.slots.readable(stream.block);
}

PipelineTotals Inputs::totals(const Slots& out) const {
  PipelineTotals totals{.steps = steps_, .windows = {}};
  for (const Stream& stream : streams_) totals.windows.push_back(stream.slots.moved);
  totals.windows.push_back(out.moved);
  return totals;
}

PipelineTotals run_pipeline(Inputs& inputs, Slots& out, const BlockMap& out_map, const Body& body,
                            const char* label) {
  Block current;
  std::int64_t block = -1, stores = 0;
  while (const Step* step = inputs.next()) {
    GridIndex next = step->index;
    const bool last = !advance(next, inputs.grid());
    if (const Block now = out_map(step->index); block < 0 || now != current) {
      ++block;
      current = now;
    }
    inputs.core().compute(body(*step, out.writable(block)), step->number, label);
    if (last || out_map(next) != current) {
      out.copy_out(block, *current.array, current.region, step->number);
      ++stores;
    }
    // With one slot its own store must end here too, before the next block is written.
    out.wait_before(out.count() == 1 ? stores : block);
  }
  out.wait_before(stores);
  return inputs.totals(out);
}

}  // namespace ironcl::ironwood
