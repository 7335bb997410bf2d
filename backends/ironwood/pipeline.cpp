// SPDX-License-Identifier: Apache-2.0
// The step order of pipeline.h.
#include "backends/ironwood/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/interface.h"

namespace ironcl::ironwood {
bool advance(GridIndex& index, const Grid& grid) {
  for (int dim = 2; dim >= 0; --dim) {
    const auto d = static_cast<std::size_t>(dim);
    if (++index[d] < grid[d]) return true;
    index[d] = 0;
  }
  return false;
}

namespace {

using backend::Error;
using backend::Status;

/// A window with its slots and how far its copies have come.
struct Stream {
  const Window* window = nullptr;
  Slots slots;
  bool trivial = false;
  std::int64_t issued = 0;      // blocks whose copy in was started
  std::int64_t looked_at = -1;  // the last step whose block was issued or found unchanged
  BlockIndex last_issued{};
  GridIndex ahead{};        // index of step looked_at
  std::int64_t block = -1;  // number of the current block: its slot is block % slots
  BlockIndex current{};
  std::int64_t stores = 0;  // copies out started
  std::int64_t stored = 0;  // copies out waited for
};

Region region_of(const Window& window, const BlockIndex& block) {
  return block_region(*window.array, window.block_rows, window.block_cols, block);
}

class Run {
 public:
  Run(Core& core, const Grid& grid, const std::vector<Window>& windows, const char* label)
      : core_(core), grid_(grid), label_(label) {
    streams_.reserve(windows.size());
    for (const Window& window : windows) {
      Stream stream;
      stream.window = &window;
      stream.trivial = window.trivial();
      const int slots = stream.trivial ? 1 : window.output ? std::clamp(window.buffers, 1, 2) : window.buffers;
      stream.slots =
          Slots(core_, window.array->name, slots, window.block_rows, window.block_cols, window.array->element_bytes);
      stream.slots.moved.output = window.output;
      if (!window.output) deepest_ = std::max(deepest_, slots);
      streams_.push_back(std::move(stream));
    }
    step_.windows.resize(windows.size());
  }

  PipelineTotals run(const Body& body) {
    const std::int64_t steps = grid_[0] * grid_[1] * grid_[2];
    load_trivial();
    GridIndex next = step_.index;
    for (std::int64_t s = 0; s < steps; ++s) {
      step_.number = s;
      const bool last = !advance(next, grid_);
      core_.advance(core_.machine().assume.step_overhead_ns);
      // Nearest steps first, so that no block waits behind one that is needed later.
      for (int ahead = 0; ahead < deepest_; ++ahead) {
        for (std::size_t w = 0; w < streams_.size(); ++w) prefetch(w, s, ahead, steps);
      }
      for (std::size_t w = 0; w < streams_.size(); ++w) {
        streams_[w].window->output ? enter_output(w) : enter_input(w);
      }
      core_.compute(body(step_), s, label_);
      for (std::size_t w = 0; w < streams_.size(); ++w) {
        if (streams_[w].window->output) leave_output(w, last ? nullptr : &next);
      }
      step_.index = next;
    }
    PipelineTotals totals{.steps = steps, .windows = {}};
    for (Stream& stream : streams_) {
      while (stream.stored < stream.stores) wait_store(stream);
      totals.windows.push_back(stream.slots.moved);
    }
    return totals;
  }

 private:
  void issue(std::size_t w, const BlockIndex& block, std::int64_t step) {
    Stream& stream = streams_[w];
    stream.slots.copy_in(stream.issued++, *stream.window->array, region_of(*stream.window, block), step);
  }

  void load_trivial() {
    for (std::size_t w = 0; w < streams_.size(); ++w) {
      Stream& stream = streams_[w];
      if (!stream.trivial) continue;
      issue(w, {}, -1);
      stream.slots.wait(0);
    }
  }

  void prefetch(std::size_t w, std::int64_t s, int ahead, std::int64_t steps) {
    Stream& stream = streams_[w];
    if (stream.window->output || stream.trivial) return;
    const std::int64_t until = std::min(s + std::min(ahead, stream.slots.count() - 1), steps - 1);
    while (stream.looked_at < until) {
      if (stream.looked_at >= 0) advance(stream.ahead, grid_);
      ++stream.looked_at;
      const BlockIndex block = stream.window->map(stream.ahead);
      if (stream.looked_at > 0 && block == stream.last_issued) continue;
      stream.last_issued = block;
      issue(w, block, stream.looked_at);
    }
  }

  /// Goes on to the stream's block of this step; whether that is another than before.
  bool enter_block(Stream& stream, BlockView& view) {
    const BlockIndex block = stream.window->map(step_.index);
    view.changed = stream.block < 0 || !(block == stream.current);
    if (view.changed) {
      ++stream.block;
      stream.current = block;
      view.region = region_of(*stream.window, block);
    }
    return view.changed;
  }

  void enter_input(std::size_t w) {
    Stream& stream = streams_[w];
    BlockView& view = step_.windows[w];
    if (enter_block(stream, view) && !stream.trivial) {
      stream.slots.wait(stream.block);
    }
    view.in = stream.slots.readable(stream.block);
  }

  void enter_output(std::size_t w) {
    Stream& stream = streams_[w];
    BlockView& view = step_.windows[w];
    enter_block(stream, view);
    view.out = stream.slots.writable(stream.block);
  }

  void leave_output(std::size_t w, const GridIndex* next) {
    Stream& stream = streams_[w];
    if (next == nullptr || !(stream.window->map(*next) == stream.current)) {
      stream.slots.copy_out(stream.block, *stream.window->array, step_.windows[w].region, step_.number);
      ++stream.stores;
    }
    // Blocks are stored in order, so block number stream.block has stream.block stores before it. With one slot its
    // own store must end here too, before the next block is written.
    const std::int64_t must_have_ended =
        stream.slots.count() == 1 ? stream.stores : std::min(stream.stores, stream.block);
    while (stream.stored < must_have_ended) wait_store(stream);
  }

  void wait_store(Stream& stream) { stream.slots.wait(stream.stored++); }

  Core& core_;
  const Grid grid_;
  const char* label_;
  int deepest_ = 1;  // most buffers of an input
  std::vector<Stream> streams_;
  Step step_;
};

}  // namespace

Region block_region(const HbmArray& array, std::int64_t block_rows, std::int64_t block_cols,
                    const BlockIndex& block) {
  Region region{.row = block.row * block_rows, .col = block.col * block_cols};
  region.rows = std::min(block_rows, array.rows - region.row);
  region.cols = std::min(block_cols, array.cols - region.col);
  if (block.row < 0 || block.col < 0 || region.rows <= 0 || region.cols <= 0) {
    throw Error(Status::internal,
                "the index map of {} gives block ({},{}), which is outside of {}x{} in blocks of {}x{}", array.name,
                block.row, block.col, array.rows, array.cols, block_rows, block_cols);
  }
  return region;
}

PipelineTotals run_pipeline(Core& core, const Grid& grid, const std::vector<Window>& windows, const Body& body,
                            const char* label) {
  return Run(core, grid, windows, label).run(body);
}

}  // namespace ironcl::ironwood
