// SPDX-License-Identifier: Apache-2.0
// ranks.hpp: layers spread over ranks, exactly. A rank is a process (of mpirun, srun) or a thread, with a device.
// Each holds a part of the weights; the result is that of the whole layer, within the whole layer's bound.
// Header-only, over ironcl.hpp. Its parts: partition.hpp (who holds what), transport.hpp (messages). Next door:
// docs/ranks.md, host/examples/sharded_layer.cpp.
//
//   ironcl::ranks::ThreadRanks threads(2);
//   threads.run([&](ironcl::ranks::Transport& transport) {
//     ironcl::ranks::Group group(transport);
//     ironcl::ranks::Linear down(group, devices[group.rank()], {problem, weights}, {.split = Split::row});
//     down.run(m, x, d);   // every rank: all of x in, all of d out
//   });
//
// Collective calls: every rank of the group calls constructors and run(), in the same order and with the same sizes.
// Errors: a failure on one rank throws the same Error on every rank, which names the rank. Threads: a group and its
// layers belong to one thread. Ownership: group and transport must outlive the layers.
#pragma once

#include <functional>

#include "ironcl.hpp"
#include "transport.hpp"

namespace ironcl::ranks {

enum class Split { column, row };

/// A product with the weights of the whole layer, all borrowed: a rank reads its own part of mapped files only.
struct Whole {
  GemmDesc problem;  ///< m: the largest number of rows of a call.
  WeightsDesc b;
  std::span<const std::byte> bias{};     ///< [n] of problem.bias.
  std::span<const std::byte> a_scale{};  ///< One f32, where all of A has one static scale.
};

/// One of several matrices that B stacks by rows, such as gate and up, or q, k and v.
struct Part {
  std::int64_t rows = 0;
  std::int64_t unit = 0;  ///< Rows that stay together, such as a head's; 0: a block of scales, or a row where ragged.
  bool replicate = false;  ///< Where units are fewer than ranks, ranks share them (key-value heads).
};

struct Choices {
  Split split = Split::column;
  bool ragged = false;          ///< Even ranges, whose boundaries may cut blocks.
  std::vector<Part> parts{};    ///< Of a column split; empty: one part with all rows.
  std::vector<Range> ranges{};  ///< One range per rank; empty: they are computed.
  bool own_columns = false;     ///< Column: d receives this rank's columns only. Row: x has them only.
  int chunks = 1;               ///< Parts into which rows are cut: one travels while the next is computed.
  std::string digest{};         ///< What else ranks must agree on, such as a digest of files.
};

/// How a matrix is divided between ranks: one partition, or one per part of a merged matrix.
struct Shards {
  Split split = Split::column;
  std::vector<Partition> rows;  ///< Within each part.
  Partition cols;
  std::vector<std::int64_t> first;  ///< Each part's first row in B.

  /// Rows of B that a rank holds, part by part; none for a rank without columns.
  std::vector<Range> rows_of(int rank) const {
    std::vector<Range> all;
    for (std::size_t part = 0; part < rows.size() && cols_of(rank).size() != 0; ++part)
      if (const Range one = rows[part].ranges[static_cast<std::size_t>(rank)]; one.size() != 0)
        all.push_back({first[part] + one.begin, first[part] + one.end});
    return all;
  }
  Range cols_of(int rank) const { return cols.ranges[static_cast<std::size_t>(rank)]; }
  /// Number of rows that a rank holds.
  std::int64_t width(int rank) const {
    std::int64_t sum = 0;
    for (const Range& one : rows_of(rank)) sum += one.size();
    return sum;
  }
  /// Ranks that hold anything.
  std::vector<int> active() const {
    std::vector<int> all;
    for (int rank = 0; rank < static_cast<int>(cols.ranges.size()); ++rank)
      if (width(rank) != 0) all.push_back(rank);
    return all;
  }
  /// How many terms the bound gains: a group of k that a boundary cuts counts on both sides.
  std::int64_t extra_terms() const { return cols.ragged().empty() ? 0 : cols.active() - 1; }
  std::string text() const {
    if (split == Split::row) return cols.text();
    std::string all;
    for (const Partition& one : rows) all += (all.empty() ? "" : "; ") + one.text();
    return all;
  }
};

/// The type that activations come in.
inline ironcl_dtype x_type(const GemmDesc& problem) {
  return problem.a_source != IRONCL_DTYPE_NONE ? problem.a_source : problem.a;
}

/// Elements along k that share a scale in both operands; 0: one scale spans all of k.
inline std::int64_t k_block(const GemmDesc& whole) {
  const bool quantised = whole.a_scale.dtype != IRONCL_DTYPE_NONE;
  const std::int64_t a = quantised ? whole.a_scale.cols : 1;
  const std::int64_t b = whole.b_scale.cols == 0 ? 1 : whole.b_scale.cols;
  const bool given = whole.a_quantizer.scales == IRONCL_SCALES_GIVEN || whole.a_source == IRONCL_DTYPE_NONE;
  return a == 0 ? (given ? b : 0) : std::lcm(a, b);
}

/// How a product is divided between `ranks` ranks. Throws Error INVALID_ARGUMENT where the parts do not add up to B,
/// the ranges do not cover an axis, or, unless `ragged`, a boundary cuts a group of k.
inline Shards shard(const GemmDesc& whole, int ranks, const Choices& choices) {
  const auto check = [&](Partition& made) {
    if (choices.ranges.empty()) return;
    made.ranges = choices.ranges;
    std::int64_t end = 0;
    for (const Range& one : made.ranges) end = one.begin == end && one.end >= end ? one.end : -1;
    if (end != made.size || made.ranges.size() != static_cast<std::size_t>(ranks))
      invalid("the ranges of ", made.text(), " are not ", ranks, " contiguous ones from 0");
  };
  if (whole.activation != 0) invalid("a product with an activation is not split; split gate and up as parts");
  Shards shards;
  shards.split = choices.split;
  const std::int64_t row_block = std::max<std::int64_t>(whole.b_scale.rows, 1);
  if (choices.split == Split::column) {
    shards.cols = {"k", whole.k, 1, std::vector<Range>(static_cast<std::size_t>(ranks), {0, whole.k})};
    std::int64_t first = 0;
    for (const Part& part : choices.parts.empty() ? std::vector<Part>{{whole.n}} : choices.parts) {
      const std::int64_t unit = part.unit != 0 ? part.unit : choices.ragged ? 1 : row_block;
      shards.rows.push_back(Partition::even("n", part.rows, ranks, unit, row_block, part.replicate));
      shards.first.push_back(first);
      first += part.rows;
    }
    if (first != whole.n) invalid("the parts have ", first, " rows together, B has ", whole.n);
    if (shards.rows.size() == 1) check(shards.rows[0]);
    return shards;
  }
  const std::int64_t block = k_block(whole), pair = whole.b == IRONCL_F4_E2M1 ? 2 : 1;
  if (block == 0 && !choices.ragged && ranks > 1)
    invalid(
        "k cannot be split: a row of activations has one scale, and each rank would compute its own. Split columns, "
        "or ask for ragged ranges, which compute another function");
  shards.cols = Partition::even("k", whole.k, ranks, choices.ragged || block == 0 ? pair : std::lcm(block, pair),
                                std::max<std::int64_t>(block, 1));
  check(shards.cols);
  if (const std::vector<int> ragged = shards.cols.ragged(); !ragged.empty() && !choices.ragged) {
    const std::int64_t begin = shards.cols_of(ragged[0]).begin;
    invalid("rank ", ragged[0], " begins at k = ", begin, ", ", begin % block, " elements inside a group of ", block,
            ": activations would be quantised in other groups than in the whole layer. Give ranges of whole groups, "
            "which may be uneven, or ask for ragged ranges, which compute another function");
  }
  shards.rows = {{"n", whole.n, row_block, std::vector<Range>(static_cast<std::size_t>(ranks), {0, whole.n})}};
  shards.first = {0};
  return shards;
}

/// Times of one call, in seconds of this rank's clock.
struct Times {
  double compute = 0, waiting = 0;  ///< Until all is computed, with messages in flight; after that.
  /// Of phases(), which run one by one: x to the device, the product, D back, messages with the work on them.
  double write = 0, product = 0, read = 0, exchange = 0;
};

namespace detail {

using Poll = std::function<void()>;

/// Seconds since construction or the previous call.
class Laps {
 public:
  double next() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// The part with the variant and tunables of the whole product, and so with its bits, where the device supports them.
inline GemmDesc like_whole(const Device& device, const GemmDesc& whole, const GemmDesc& part) {
  if (!part.options.empty()) return part;
  try {
    const ironcl_op_info info = Gemm(device, whole).info();
    GemmDesc same = part;
    same.options = {{"variant", info.variant}};
    for (std::string_view rest = info.tuning; !rest.empty();) {
      const std::string_view one = rest.substr(0, rest.find(','));
      const std::size_t equals = std::min(one.find('='), one.size());
      same.options.emplace_back(one.substr(0, equals), one.substr(std::min(equals + 1, one.size())));
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    }
    if (device.supports(same)) return same;
  } catch (const Error&) {  // The part gets a plan of its own.
  }
  return part;
}

/// A rank's part of a product on its device; empty where the rank has none.
class Product {
 public:
  Product() = default;
  /// `back`: columns of x after these, which are multiplied by 0.
  Product(const Device& device, Queue& queue, const Whole& whole, const std::vector<Range>& rows, Range cols,
          ironcl_dtype d, bool with_bias, std::int64_t back = 0) {
    // A group of k that a boundary cuts keeps its place: zeros stand for the elements of other ranks.
    if (const std::int64_t block = k_block(whole.problem); block != 0) front_ = cols.begin % block;
    const Slice b = slice(whole.b, rows, cols, front_, back);
    if (b.n == 0 || b.k == 0) return;
    bytes_read_ = b.bytes_read;
    GemmDesc desc = whole.problem;
    desc.n = b.n;
    desc.k = b.k;
    desc.lda = desc.ldd = 0;
    desc.b_scale = b.scale;
    desc.d = d;
    if (!with_bias) desc.bias = IRONCL_DTYPE_NONE;
    GemmDesc all = whole.problem;
    all.d = d;
    gemm_ = Gemm(device, desc.n != all.n && desc.k == all.k ? like_whole(device, all, desc) : desc);
    weights_ = Weights(device, b.desc(), &gemm_);
    problem_ = desc;
    d_ = Buffer(device, bytes_of_elements(d, desc.m * desc.n));
    x_ = Buffer(device, bytes_of_elements(x_type(), desc.m * desc.k));
    host_d_ = HostMemory(device, bytes_of_elements(d, desc.m * desc.n));
    device_ = device;
    if (desc.bias != IRONCL_DTYPE_NONE) {
      if (whole.bias.size() != bytes_of_elements(desc.bias, whole.problem.n))
        invalid("the bias has ", whole.bias.size(), " bytes, the layer has ", whole.problem.n, " rows");
      std::vector<std::byte> bias;
      for (const Range& range : rows) {
        const auto part =
            whole.bias.subspan(bytes_of_elements(desc.bias, range.begin), bytes_of_elements(desc.bias, range.size()));
        bias.insert(bias.end(), part.begin(), part.end());
      }
      bias_ = Buffer(device, bias.size());
      queue.write(bias_, std::span<const std::byte>(bias));
    }
    if (!whole.a_scale.empty()) {
      scale_ = Buffer(device, whole.a_scale.size());
      queue.write(scale_, whole.a_scale);
    }
    queue.finish();
  }

  explicit operator bool() const noexcept { return static_cast<bool>(gemm_); }
  ironcl_dtype x_type() const { return ranks::x_type(problem_); }
  const GemmDesc& problem() const noexcept { return problem_; }
  const Gemm& gemm() const noexcept { return gemm_; }
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  const Weights& weights() const noexcept { return weights_; }
  /// Bytes of the buffers for a call with the most rows: x, D, bias, scale of A, workspace.
  std::uint64_t buffer_bytes() const {
    return x_.size() + d_.size() + bias_.size() + scale_.size() + (gemm_ ? gemm_.info().workspace_bytes : 0);
  }
  /// Host memory for all rows of D.
  std::span<std::byte> host_d() const noexcept { return host_d_.bytes(); }
  ironcl_span d(std::int64_t m) const { return d_.span(0, bytes_of_elements(problem_.d, m * problem_.n)); }

  /// Copies this part's columns of m rows of x to where the product reads A. The previous call must have ended.
  void write(Queue& queue, std::span<const std::byte> x, std::int64_t m, std::int64_t ld, std::int64_t first_col) {
    const std::size_t zeros = bytes_of_elements(x_type(), front_), step = bytes_of_elements(x_type(), ld);
    const std::size_t row = bytes_of_elements(x_type(), problem_.k) - zeros;
    const ironcl_span to = x_.span(0, (zeros + row) * static_cast<std::size_t>(m));
    const std::uint32_t type = device_.props().type;
    if (zeros == 0 && row == step && (type == IRONCL_DEVICE_CPU || type == IRONCL_DEVICE_MODEL)) {
      queue.write(to, x);
      return;
    }
    if (host_x_.bytes().empty()) host_x_ = HostMemory(device_, x_.size());
    const std::span<std::byte> own = host_x_.bytes();
    std::byte* at = own.data();
    for (std::size_t i = 0; i < static_cast<std::size_t>(m); ++i) {
      at = std::fill_n(at, zeros, std::byte{});
      at = std::copy_n(x.data() + i * step + bytes_of_elements(x_type(), first_col), row, at);
    }
    queue.write(to, own.first(to.size), IRONCL_HOST_STABLE_UNTIL_EVENT);
  }
  /// Enqueues m rows of `x`, or of what write() copied.
  Event run(Queue& queue, std::int64_t m, ironcl_span x = {}) {
    GemmArgs args;
    args.m = m;
    args.weights = weights_;
    args.a = x.buffer != nullptr ? x : x_.span(0, bytes_of_elements(x_type(), m * problem_.k));
    if (scale_) args.a_scale = scale_;
    if (bias_) args.bias = bias_;
    args.d = d(m);
    return queue.run(gemm_, args);
  }

 private:
  Device device_;
  GemmDesc problem_;
  Gemm gemm_;
  Weights weights_;
  Buffer x_, scale_, bias_, d_;
  HostMemory host_x_, host_d_;
  std::int64_t front_ = 0;
  std::uint64_t bytes_read_ = 0;
};

/// Reads what the commands `made` have made, and lets messages make progress meanwhile. Throws where one of them
/// failed.
inline void read(Queue& queue, const std::vector<Event>& made, ironcl_span from, std::span<std::byte> to,
                 const Poll& poll) {
  const Event done = queue.read(from, to);
  while (!done.wait_for(200'000)) poll();
  for (const Event& one : made) one.wait();
}

/// Calls `commands`; where it throws, waits for what is on `queue`, which else might still use a call's host memory.
template <class F>
void settled(Queue& queue, F&& commands) {
  try {
    commands();
  } catch (...) {
    try {
      queue.finish();
    } catch (const Error&) {  // The first failure is the call's.
    }
    throw;
  }
}

/// Cuts rows 0 to m into `chunks` parts. compute(rows, local, poll) fills `row_bytes` bytes per row of this rank's
/// `memory`; post(rows, local, failure) starts to send them while the next part is computed; take(rows, exchange)
/// uses what has arrived. A failure is thrown once the messages of every part have arrived, so that none is left for
/// a later call.
template <class Compute, class Post, class Take>
Times in_chunks(std::int64_t m, int chunks, std::span<std::byte> memory, std::size_t row_bytes, Failure failure,
                Compute compute, Post post, Take take) {
  struct Chunk {
    Range rows;
    Exchange way;
  };
  std::vector<Chunk> all;
  Times times;
  Laps laps;
  if (failure) m = 0;
  for (const Range& rows : Partition::even("m", m, std::max(chunks, 1)).ranges) {
    const std::span<std::byte> local = memory.subspan(static_cast<std::size_t>(rows.begin) * row_bytes,
                                                      static_cast<std::size_t>(rows.size()) * row_bytes);
    try {
      const Poll poll = [&all] {
        for (Chunk& one : all) one.way.poll();
      };
      if (!failure && rows.size() != 0 && row_bytes != 0) compute(rows, local, poll);
    } catch (...) {
      failure = failure_of(std::current_exception());
    }
    Exchange way = post(rows, std::span<const std::byte>(local), failure);
    all.push_back({rows, std::move(way)});
  }
  times.compute = laps.next();
  Failure first;
  for (Chunk& one : all) {
    one.way.wait();
    if (!first) first = one.way.failure();
  }
  if (first) throw Error(first.status, first.native, first.text);
  for (Chunk& one : all) take(one.rows, one.way);
  times.waiting = laps.next();
  return times;
}

/// What ranks must agree on in a call.
inline std::string rows_of(std::int64_t m) { return text_of("a call of ", m, " rows"); }

/// What is wrong with a call of x [m, x_cols] and d [m, d_cols]; nothing where their bytes are right.
struct CallSizes {
  ironcl_dtype x = IRONCL_DTYPE_NONE, d = IRONCL_DTYPE_NONE;
  std::int64_t x_cols = 0, d_cols = 0, most = 0;

  Failure check(std::int64_t m, std::size_t x_bytes, std::size_t d_bytes) const {
    if (m >= 0 && m <= most && x_bytes == bytes_of_elements(x, m * x_cols) &&
        d_bytes == bytes_of_elements(d, m * d_cols))
      return {};
    return {IRONCL_INVALID_ARGUMENT, 0,
            text_of(rows_of(m), " with ", x_bytes, " bytes of x and ", d_bytes, " of d; x is [m, ", x_cols,
                    "], d is [m, ", d_cols, "], m at most ", most)};
  }
};

/// Makes D [m, n] of type `out` on every rank: adds the f32 partial results of the ranks `from` in rank order and
/// rounds once. A single rank has computed D itself. `memory`, `compute`: see in_chunks. Ranks must have the
/// same `record` once compute has ended.
template <class Compute>
Times reduce(Group& group, std::int64_t m, std::int64_t n, ironcl_dtype out, const std::vector<int>& from, int chunks,
             std::span<std::byte> memory, Failure wrong, const std::string& record, Compute compute,
             std::span<std::byte> d) {
  const int ranks = group.size(), self = group.rank();
  const bool alone = from.size() == 1;
  const ironcl_dtype type = alone ? out : ironcl_dtype{IRONCL_F32};
  const std::size_t row = bytes_of_elements(type, n), out_row = bytes_of_elements(out, n);
  const auto contributes = [&](int rank) { return std::ranges::find(from, rank) != from.end(); };
  const auto bytes = [](Range rows, std::size_t width) { return static_cast<std::size_t>(rows.size()) * width; };
  const auto shared = [&](Range rows) { return !alone && bytes(rows, row) > group.settings().gather_bytes; };
  // The rows of a chunk that a rank adds up: all of them, or its share.
  const auto owned = [&](Range rows, int rank) -> Range {
    if (!shared(rows)) return rows;
    const Range share = Partition::even("m", rows.size(), ranks).ranges[static_cast<std::size_t>(rank)];
    return {rows.begin + share.begin, rows.begin + share.end};
  };
  std::vector<Range> shares;
  Laps laps;
  Times times = in_chunks(
      m, chunks, memory, contributes(self) ? row : 0, std::move(wrong), compute,
      [&](Range rows, std::span<const std::byte> local, const Failure& failure) {
        std::vector<std::span<const std::byte>> send;
        std::vector<std::size_t> receive;
        for (int rank = 0; rank < ranks; ++rank) {
          const Range theirs = owned(rows, rank);
          const std::size_t at = static_cast<std::size_t>(theirs.begin - rows.begin) * row;
          send.push_back(contributes(self) ? local.subspan(at, bytes(theirs, row)) : local);
          receive.push_back(contributes(rank) ? bytes(owned(rows, self), row) : 0);
        }
        return Exchange(group, "sum of partial results", send, receive, failure, record);
      },
      [&](Range rows, Exchange& way) {
        const Range mine = owned(rows, self);
        const auto to = d.subspan(static_cast<std::size_t>(mine.begin) * out_row, bytes(mine, out_row));
        std::vector<const std::byte*> partials;
        partials.reserve(from.size());
        for (const int rank : from) partials.push_back(way.from(rank).data());
        if (alone)
          std::copy_n(partials[0], to.size(), to.begin());
        else
          sum_in_order(partials, static_cast<std::size_t>(mine.size() * n), out, to.data());
        if (shared(rows)) shares.push_back(rows);
      });
  std::vector<Exchange> sums;
  for (const Range& rows : shares) {
    std::vector<std::size_t> receive;
    receive.reserve(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) receive.push_back(bytes(owned(rows, rank), out_row));
    const Range mine = owned(rows, self);
    sums.push_back(all_gather(group, "sums of partial results",
                              d.subspan(static_cast<std::size_t>(mine.begin) * out_row, bytes(mine, out_row)),
                              receive));
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i].finish();
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != self)
        std::ranges::copy(sums[i].from(rank),
                          d.data() + static_cast<std::size_t>(owned(shares[i], rank).begin) * out_row);
  }
  times.waiting = laps.next() - times.compute;
  return times;
}

/// A line with everything that ranks must agree on.
inline std::string record_of(const char* kind, const GemmDesc& whole, const Choices& choices) {
  const auto scale = [](const Scale& one) { return text_of(one.dtype, ":", one.rows, "x", one.cols); };
  return text_of("ironcl ", ironcl_build_id(), " ", kind, " ", whole.m, "x", whole.k, ":", whole.k, "x", whole.n,
                 " types ", whole.a_source, ":", whole.a, ":", whole.b, ":", whole.d, " scales ",
                 scale(whole.a_scale), ",", scale(whole.b_scale), choices.ragged ? " ragged" : "", " chunks ",
                 choices.chunks, " ", choices.digest);
}

}  // namespace detail

/// One linear layer over the ranks of a group: each makes columns of D, or partial sums over its part of k.
class Linear {
 public:
  /// Collective. Reads and prepares this rank's part of the weights.
  Linear(Group& group, const Device& device, const Whole& whole, const Choices& choices)
      : group_(&group), choices_(choices), problem_(whole.problem) {
    group.together(row() ? "creating a row split" : "creating a column split",
                   detail::record_of(row() ? "row" : "column", whole.problem, choices), [&] {
                     // Rows that share scales would be quantised differently in chunks.
                     if (choices.chunks > 1 && problem_.a_scale.dtype != IRONCL_DTYPE_NONE &&
                         problem_.a_scale.rows != 1 && whole.a_scale.empty())
                       invalid("rows of A share scales and cannot be cut into chunks; give chunks = 1");
                     if (problem_.a_scale.dtype != IRONCL_DTYPE_NONE && problem_.a_source == IRONCL_DTYPE_NONE)
                       invalid(
                           "activations that are already quantised cannot be spread over ranks; give f32, f16 or "
                           "bf16, which the plan quantises");
                     shards_ = shard(whole.problem, group.size(), choices);
                     active_ = shards_.active();
                     queue_ = Queue(device);
                     const bool partial = row() && active_.size() > 1;
                     product_ = detail::Product(
                         device, queue_, whole, shards_.rows_of(group.rank()), shards_.cols_of(group.rank()),
                         partial ? ironcl_dtype{IRONCL_F32} : problem_.d, !row() || active_.front() == group.rank());
                   });
  }

  /// Collective. Computes D [m, n] of x [m, k], both row-major without gaps. With choices.own_columns, one of them
  /// has this rank's columns only.
  void run(std::int64_t m, std::span<const std::byte> x, std::span<std::byte> d) {
    spread(m, d, choices_.chunks, sizes().check(m, x.size(), d.size()),
           [&](Range rows, std::span<std::byte> to, const detail::Poll& poll) {
             detail::settled(queue_, [&] {
               write(rows, x);
               std::vector<Event> made;
               made.push_back(product_.run(queue_, rows.size()));
               detail::read(queue_, made, product_.d(rows.size()), to, poll);
             });
           });
  }
  /// Collective. Like run() in one chunk, but phases wait for one another, so that times() has each by itself.
  void phases(std::int64_t m, std::span<const std::byte> x, std::span<std::byte> d) {
    Failure wrong = sizes().check(m, x.size(), d.size());
    Times alone;
    group_->together("phases of a call", "", [&] {
      if (!product_ || wrong || m == 0) return;
      detail::Laps laps;
      write({0, m}, x);
      queue_.finish();
      alone.write = laps.next();
      product_.run(queue_, m).wait();
      alone.product = laps.next();
    });
    spread(m, d, 1, std::move(wrong), [&](Range, std::span<std::byte> to, const detail::Poll& poll) {
      detail::Laps laps;
      detail::read(queue_, {}, product_.d(m), to, poll);
      alone.read = laps.next();
    });
    alone.exchange = times_.compute + times_.waiting - alone.read;
    times_ = alone;
  }

  const Shards& shards() const noexcept { return shards_; }
  const Times& times() const noexcept { return times_; }  ///< Of the last call.
  /// Bytes of weights that this rank has read.
  std::uint64_t bytes_read() const noexcept { return product_.bytes_read(); }
  /// This rank's plan; empty where it has no part.
  const Gemm& plan() const noexcept { return product_.gemm(); }
  const GemmDesc& local_problem() const noexcept { return product_.problem(); }
  const Weights& weights() const noexcept { return product_.weights(); }  ///< Likewise.
  /// Bytes of this rank's device buffers for a call with the most rows, without weights.
  std::uint64_t buffer_bytes() const { return product_.buffer_bytes(); }

 private:
  bool row() const noexcept { return choices_.split == Split::row; }
  bool own_x() const noexcept { return row() && choices_.own_columns; }
  /// Columns of x and of d as the caller passes them.
  std::int64_t x_cols() const { return own_x() ? shards_.cols_of(group_->rank()).size() : problem_.k; }
  std::int64_t d_cols() const { return !row() && choices_.own_columns ? shards_.width(group_->rank()) : problem_.n; }
  detail::CallSizes sizes() const { return {x_type(problem_), problem_.d, x_cols(), d_cols(), problem_.m}; }
  std::size_t x_bytes(std::int64_t rows) const { return bytes_of_elements(x_type(problem_), rows * x_cols()); }
  void write(Range rows, std::span<const std::byte> x) {
    product_.write(queue_, x.subspan(x_bytes(rows.begin), x_bytes(rows.size())), rows.size(), x_cols(),
                   own_x() ? 0 : shards_.cols_of(group_->rank()).begin);
  }
  /// `compute`: see in_chunks. Its results go to the other ranks.
  template <class Compute>
  void spread(std::int64_t m, std::span<std::byte> d, int chunks, Failure wrong, Compute compute) {
    const int self = group_->rank();
    const std::int64_t width = shards_.width(self), ld = d_cols();
    if (row()) {
      times_ = detail::reduce(*group_, m, problem_.n, problem_.d, active_, chunks, product_.host_d(),
                              std::move(wrong), detail::rows_of(m), compute, d);
      return;
    }
    const std::size_t element = bytes_of_elements(problem_.d, 1);
    const auto place = [&](Range rows, int rank, std::span<const std::byte> from) {
      const Range all{0, width};
      const std::vector<Range> to = choices_.own_columns ? std::vector{all} : shards_.rows_of(rank);
      for (auto i = static_cast<std::size_t>(rows.begin); i < static_cast<std::size_t>(rows.end); ++i)
        for (const Range& range : to) {
          const std::size_t bytes = static_cast<std::size_t>(range.size()) * element;
          const std::size_t at = i * static_cast<std::size_t>(ld) + static_cast<std::size_t>(range.begin);
          std::copy_n(from.begin(), bytes, d.data() + at * element);
          from = from.subspan(bytes);
        }
    };
    times_ = detail::in_chunks(
        m, chunks, product_.host_d(), static_cast<std::size_t>(width) * element, std::move(wrong), compute,
        [&](Range rows, std::span<const std::byte> local, const Failure& failure) {
          std::vector<std::size_t> receive;
          receive.reserve(static_cast<std::size_t>(group_->size()));
          for (int rank = 0; rank < group_->size(); ++rank)
            receive.push_back(choices_.own_columns && rank != self
                                  ? 0
                                  : static_cast<std::size_t>(rows.size() * shards_.width(rank)) * element);
          std::vector<std::span<const std::byte>> send(receive.size(), choices_.own_columns ? local.first(0) : local);
          send[static_cast<std::size_t>(self)] = local;
          return Exchange(*group_, "columns of D", send, receive, failure, detail::rows_of(m));
        },
        [&](Range rows, Exchange& way) {
          for (int rank = 0; rank < group_->size(); ++rank)
            if (!choices_.own_columns || rank == self) place(rows, rank, way.from(rank));
        });
  }

  Group* group_;
  Choices choices_;
  GemmDesc problem_;
  Shards shards_;
  std::vector<int> active_;
  Queue queue_;
  detail::Product product_;
  Times times_;
};

/// down( activation(gate x) * up x ) over the ranks of a group: gate and up by columns, down by rows, and one sum.
class GatedMlp {
 public:
  /// Collective. gate and up [I, H] with d f32 and the same x; down [H, I] whose x is f32. choices: chunks, digest.
  /// A group of down's k that ragged ranges cut is made, and quantised, as a whole by each rank that has some of it:
  /// the function is that of one device, and each rank but one adds a term to the bound. Where one scale spans a row
  /// of h, each rank makes its own, as Linear does: another function.
  GatedMlp(Group& group, const Device& device, const Whole& gate, const Whole& up, const Whole& down,
           const Choices& choices = {}, std::uint32_t activation = IRONCL_ACTIVATION_SILU, float limit = 0)
      : group_(&group), choices_(choices), x_(gate.problem), y_(down.problem) {
    group.together("creating a pair of splits", detail::record_of("pair", down.problem, choices), [&] {
      for (const Whole* one : {&gate, &up})
        if (one->problem.n != down.problem.k || one->problem.d != IRONCL_F32 || one->problem.k != gate.problem.k ||
            one->problem.m != down.problem.m)
          invalid("gate and up are [", one->problem.n, ", ", one->problem.k,
                  "] and make f32, as many rows as down has columns: ", down.problem.k);
      if (x_type(down.problem) != IRONCL_F32) invalid("down takes f32: describe its problem with x = IRONCL_F32");
      Choices row = choices;
      row.split = Split::row;
      row.parts.clear();
      shards_ = shard(down.problem, group.size(), row);
      active_ = shards_.active();
      const Range mine = shards_.cols_of(group.rank());
      if (mine.size() == 0) return;
      const std::int64_t block = std::max<std::int64_t>(k_block(down.problem), 1);
      const Range made{mine.begin - mine.begin % block,
                       std::min((mine.end + block - 1) / block * block, down.problem.k)};
      queue_ = Queue(device);
      gate_ = detail::Product(device, queue_, gate, {made}, {0, gate.problem.k}, IRONCL_F32, true);
      up_ = detail::Product(device, queue_, up, {made}, {0, up.problem.k}, IRONCL_F32, true);
      down_ = detail::Product(device, queue_, down, {{0, down.problem.n}}, mine,
                              active_.size() > 1 ? ironcl_dtype{IRONCL_F32} : down.problem.d,
                              active_.front() == group.rank(), made.end - mine.end);
      activate_ = Activate(device, {.rows = down.problem.m,
                                    .cols = made.size(),
                                    .x = IRONCL_F32,
                                    .y = IRONCL_F32,
                                    .activation = activation,
                                    .limit = limit,
                                    .scale = {}});
      between_ = Buffer(device, bytes_of_elements(IRONCL_F32, down.problem.m * made.size()));
    });
  }

  /// Collective. d [m, H] of x [m, H], all of both on every rank.
  void run(std::int64_t m, std::span<const std::byte> x, std::span<std::byte> d) {
    const ironcl_dtype type = x_type(x_);
    Failure wrong = detail::CallSizes{type, y_.d, x_.k, y_.n, y_.m}.check(m, x.size(), d.size());
    const auto compute = [&](Range rows, std::span<std::byte> to, const detail::Poll& poll) {
      const auto part =
          x.subspan(bytes_of_elements(type, rows.begin * x_.k), bytes_of_elements(type, rows.size() * x_.k));
      detail::settled(queue_, [&] {
        std::vector<Event> made;
        for (detail::Product* one : {&gate_, &up_}) {
          one->write(queue_, part, rows.size(), x_.k, 0);
          made.push_back(one->run(queue_, rows.size()));
        }
        const ironcl_span up_d = up_.d(rows.size()), h = between_.span(0, up_d.size);
        made.push_back(
            queue_.run(activate_, {.rows = rows.size(), .gate = gate_.d(rows.size()), .up = up_d, .y = h}));
        made.push_back(down_.run(queue_, rows.size(), h));
        detail::read(queue_, made, down_.d(rows.size()), to, poll);
      });
    };
    times_ = detail::reduce(*group_, m, y_.n, y_.d, active_, choices_.chunks, down_.host_d(), std::move(wrong),
                            detail::rows_of(m), compute, d);
  }

  const Shards& shards() const noexcept { return shards_; }  ///< Of down; gate and up have its columns as rows.
  const Times& times() const noexcept { return times_; }
  std::uint64_t bytes_read() const noexcept { return gate_.bytes_read() + up_.bytes_read() + down_.bytes_read(); }

 private:
  Group* group_;
  Choices choices_;
  GemmDesc x_, y_;
  Shards shards_;
  std::vector<int> active_;
  Queue queue_;
  detail::Product gate_, up_, down_;
  Activate activate_;
  Buffer between_;
  Times times_;
};

}  // namespace ironcl::ranks
