// SPDX-License-Identifier: Apache-2.0
// Layers spread over ranks against the same layer on one device, and against oracles. Names with a number are the
// cases of a sharded product that other programs get wrong.
#include <limits>
#include <random>
#include <set>

#include "backends/numerics/casts.h"
#include "tests/ranks/support.h"

namespace ironcl::ranks {
namespace {

using numerics::DType;

constexpr Group::Settings kSmall{std::chrono::seconds(60), 0};  ///< Every sum goes by way of owners.

std::string layer_of(int m, int k, int n, const char* d = "f32", const char* more = "") {
  return std::string("--src=bf16 --dt=e4m3fn:e4m3fn:") + d + " --scale=1x128:128x128 " + more + " " +
         std::to_string(m) + "x" + std::to_string(k) + ":" + std::to_string(k) + "x" + std::to_string(n);
}

TEST(Ranks01, OneRankIsTheWholeLayer) {
  for (const Device& device : devices()) {
    for (const char* d : {"f32", "bf16"}) {
      const Example example(layer_of(5, 384, 192, d, "--bias=f32"));
      for (const Split split : {Split::column, Split::row})
        EXPECT_TRUE(example.spread(device, 1, {.split = split}) == example.alone(device)) << device.uri() << d;
    }
  }
}

TEST(Ranks02, ColumnsOnBlocksHaveTheBitsOfTheWholeLayer) {
  for (const Device& device : devices()) {
    const Example example(layer_of(7, 512, 1024, "bf16", "--bias=bf16"));
    const Bytes whole = example.alone(device);
    for (const int ranks : {2, 3, 4})
      EXPECT_TRUE(example.spread(device, ranks, {}) == whole) << device.uri() << ranks;
  }
}

/// Ranks that begin inside a block share its row of scales: every block has another power of two.
TEST(Ranks03, ColumnsThatBeginInsideABlockHaveTheBitsOfTheWholeLayer) {
  for (const Device& device : devices()) {
    for (const int rows : {576, 192, 96, 80, 64, 300}) {
      for (const int ranks : {2, 3, 4, 8}) {
        if (ranks == 8 && rows > 300 && world() != nullptr) continue;  // threads of each process: as long as the rest
        Example example(layer_of(3, 256, rows * ranks));
        example.distinct_scales();
        const Choices ragged{.ragged = true};
        const Shards shards = shard(example.whole().problem, ranks, ragged);
        EXPECT_EQ(shards.width(ranks - 1), rows);
        EXPECT_TRUE(example.spread(device, ranks, ragged) == example.alone(device))
            << device.uri() << ": " << rows << " rows on each of " << ranks << " ranks";
      }
    }
  }
}

TEST(Ranks04, RowSplitsAreTheSerialSumAndWithinTheBoundOfTheWholeLayer) {
  for (const Device& device : devices()) {
    for (const auto& [blocks, ranks] : {std::pair{12, 8}, {7, 3}, {4, 2}}) {
      for (const char* d : {"f32", "bf16"}) {
        const Example example(layer_of(5, blocks * 128, 96, d, "--bias=f32"));
        const Choices row{.split = Split::row};
        const Bytes sum =
            serial_sum(device, example.whole(), shard(example.whole().problem, ranks, row), example.made.a);
        EXPECT_TRUE(example.spread(device, ranks, row) == sum) << device.uri() << blocks << d;
        EXPECT_TRUE(example.spread(device, ranks, row, kSmall) == sum)
            << "by way of owners: " << device.uri() << blocks;
        EXPECT_LE(example.error_over_bound(sum, 128), 1) << device.uri() << blocks << d;
      }
    }
  }
}

TEST(Ranks05, RaggedKIsAskedForAndHasItsOwnOracle) {
  const Example example(layer_of(4, 1152, 64));
  const std::string error = error_of([&] {
    (void)shard(example.whole().problem, 2, {.split = Split::row, .ranges = {{0, 576}, {576, 1152}}});
  });
  EXPECT_NE(error.find("rank 1 begins at k = 576, 64 elements inside a group of 128"), std::string::npos) << error;
  EXPECT_NE(error.find("whole groups, which may be uneven, or ask for ragged"), std::string::npos) << error;

  const Choices ragged{.split = Split::row, .ragged = true};
  const Shards shards = shard(example.whole().problem, 2, ragged);
  EXPECT_EQ(shards.cols.text(), "k 1152 = 0..575 | 576..1151, blocks of 128; ragged: 1");
  EXPECT_EQ(shards.extra_terms(), 1);
  const report::Problem& problem = example.problem;
  for (const int ranks : {2, 7}) {
    // The weights as they are in f64, and the activations quantised between the boundaries of groups and of ranks.
    const Shards cut = shard(example.whole().problem, ranks, ragged);
    std::set<std::int64_t> places = {problem.k};
    for (std::int64_t k = 0; k < problem.k; k += 128) places.insert(k);
    for (const Range& one : cut.cols.ranges) places.insert(one.begin);
    std::vector<double> a(static_cast<std::size_t>(problem.m * problem.k));
    for (auto end = std::next(places.begin()); end != places.end(); ++end) {
      report::Problem local = problem;
      const std::int64_t begin = *std::prev(end);
      local.k = *end - begin;
      Bytes x;
      for (std::int64_t row = 0; row < problem.m; ++row)
        x.insert(x.end(), example.made.a.begin() + (row * problem.k + begin) * 2,
                 example.made.a.begin() + (row * problem.k + *end) * 2);
      layer::Operands operands;
      operands.a = x;
      const layer::QuantizedA one = layer::quantize_a(local, operands);
      const std::vector<double> values = numerics::decode_operand(
          {DType::e4m3fn, one.codes.data(), local.m, local.k, local.k, DType::f32, one.scales.data(), {1, 0}, 1});
      for (std::int64_t row = 0; row < problem.m; ++row)
        std::copy_n(values.begin() + row * local.k, local.k, a.begin() + row * problem.k + begin);
    }
    const numerics::OracleResult want =
        numerics::oracle({DType::f64, a.data(), problem.m, problem.k, problem.k}, {DType::e4m3fn,
                                                                                   example.made.b.data(),
                                                                                   problem.n,
                                                                                   problem.k,
                                                                                   problem.k,
                                                                                   DType::f32,
                                                                                   example.made.b_scale.data(),
                                                                                   {128, 128},
                                                                                   problem.k / 128});
    for (const Device& device : devices()) {
      const Bytes d = example.spread(device, ranks, ragged);
      const auto* got = reinterpret_cast<const float*>(d.data());
      for (std::size_t i = 0; i < want.value.size(); ++i)
        ASSERT_LE(std::fabs(got[i] - want.value[i]),
                  0x1p-24 * (std::fabs(want.value[i]) +
                             (128 + 9 + 3 + static_cast<double>(cut.extra_terms())) * want.magnitude[i]))
            << device.uri() << " element " << i;
      EXPECT_FALSE(d == example.alone(device)) << "a group that is cut is another function";
    }
  }
  const Example token("--src=bf16 --dt=e4m3fn:e4m3fn:f32 --scale=1xall:1xall 4x512:512x64");
  EXPECT_NE(error_of([&] {
              (void)shard(token.whole().problem, 2, {.split = Split::row});
            }).find("a row of activations has one scale"),
            std::string::npos);
}

/// q, k and v with heads of 192 and 128 rows, key-value heads shared by ranks, and a gate that ends inside a block.
/// Every block has a scale of its own, and codes are 1: a row that read its neighbour's scale would show.
TEST(Ranks06, MergedMatricesKeepTheScalesOfTheirOwnRows) {
  struct Case {
    int n;
    std::vector<Part> parts;
    int ranks;
  };
  const Case cases[] = {
      {3072 + 192 * 2 + 128 * 2, {{3072, 192}, {192 * 2, 192, true}, {128 * 2, 128, true}}, 4},
      {2 * 576, {{576}, {576}}, 2},
      {2 * 300, {{300, 1}, {300, 1}}, 3},
  };
  for (const Device& device : devices()) {
    for (const Case& one : cases) {
      Example example(layer_of(3, 256, one.n));
      example.distinct_scales();
      std::fill(example.made.b.begin(), example.made.b.end(), std::byte{0x38});
      const Choices merged{.parts = one.parts};
      EXPECT_TRUE(example.spread(device, one.ranks, merged) == example.alone(device)) << device.uri() << one.n;
      const Shards shards = shard(example.whole().problem, one.ranks, merged);
      for (std::size_t part = 0; part < one.parts.size(); ++part)
        EXPECT_EQ(shards.rows[part].size, one.parts[part].rows);
    }
  }
  const Shards qkv = shard(Example(layer_of(1, 128, 3712)).whole().problem, 4, {.parts = cases[0].parts});
  EXPECT_EQ(qkv.rows_of(1), (std::vector<Range>{{768, 1536}, {3072, 3264}, {3456, 3584}}));
  EXPECT_EQ(qkv.rows_of(2), (std::vector<Range>{{1536, 2304}, {3264, 3456}, {3584, 3712}}));
}

/// gate and up by columns, down by rows: one sum, the bias of down once.
TEST(Ranks07, APairMakesOneSumAndAddsItsBiasOnce) {
  const Example gate(layer_of(5, 256, 640), 1), up(layer_of(5, 256, 640, "f32", "--bias=f32"), 2);
  const Example down("--src=f32 --dt=e4m3fn:e4m3fn:bf16 --scale=1x128:128x128 --bias=f32 5x640:640x96", 3);
  for (const Device& device : devices()) {
    const auto pair = [&](int ranks, const Choices& choices, Traffic* traffic = nullptr) {
      Bytes d(down.d_bytes());
      on_ranks(ranks, [&](Group& group) {
        Bytes own(d.size());
        GatedMlp mlp(group, turn(device, group.rank()), gate.whole(), up.whole(), down.whole(), choices);
        const Traffic before = group.sent();
        mlp.run(5, gate.made.a, own);
        if (group.rank() != 0) return;
        d = own;
        if (traffic != nullptr)
          *traffic = {group.sent().messages - before.messages, group.sent().bytes - before.bytes};
      });
      share(d);
      return d;
    };
    // One device: its gate and up, the activation in f32, its down.
    const Bytes g = gate.alone(device), u = Example::alone(device, up.whole(), gate.made.a);
    Bytes h(g.size());
    {
      Queue queue(device);
      ActivateDesc desc{.rows = 5, .cols = 640, .x = IRONCL_F32, .y = IRONCL_F32, .scale = {}};
      const Activate activate(device, desc);
      const Buffer gb(device, g.size()), ub(device, g.size()), hb(device, g.size());
      queue.write(gb, std::span(g));
      queue.write(ub, std::span(u));
      queue.run(activate, {.rows = 5, .gate = gb, .up = ub, .y = hb});
      queue.read(hb, std::span(h)).wait();
    }
    EXPECT_TRUE(pair(1, {}) == Example::alone(device, down.whole(), h)) << device.uri();
    Example middle = down;
    middle.made.a = h;
    Traffic traffic;
    EXPECT_TRUE(pair(2, {}, &traffic) == middle.spread(device, 2, {.split = Split::row})) << device.uri();
    if (world() == nullptr || world()->rank() == 0) {
      EXPECT_EQ(traffic.messages, 1u);
      EXPECT_EQ(traffic.bytes, 256u + 5 * 96 * 4);
    }
    EXPECT_TRUE(pair(3, {.chunks = 2}) == middle.spread(device, 3, {.split = Split::row})) << device.uri();

    // Boundaries inside groups: each rank has all of h's groups, and zeros for the columns of down that are others'.
    for (const int ranks : {2, 3, 7}) {
      const Partition cut = Partition::even("k", 640, ranks);
      std::vector<Bytes> partials;
      std::vector<const std::byte*> from;
      for (const Range& mine : cut.ranges) {
        Whole part = down.whole();
        Bytes codes(part.b.data.size());
        for (std::int64_t at = 0; at < std::ssize(codes); ++at)
          if (at % 640 >= mine.begin && at % 640 < mine.end)
            codes[static_cast<std::size_t>(at)] = part.b.data[static_cast<std::size_t>(at)];
        part.b.data = codes;
        part.problem.d = IRONCL_F32;
        if (mine.begin != 0) part.problem.bias = IRONCL_DTYPE_NONE;
        partials.push_back(Example::alone(device, part, h));
      }
      for (const Bytes& one : partials) from.push_back(one.data());
      Bytes sum(down.d_bytes());
      sum_in_order(from, 5 * 96, IRONCL_BF16, sum.data());
      const Bytes made = pair(ranks, {.ragged = true});
      EXPECT_TRUE(made == sum) << device.uri() << ' ' << ranks;
      EXPECT_LE(middle.error_over_bound(made, 128), 1) << device.uri() << ' ' << ranks;
    }
  }
}

TEST(Ranks08, ChunksAndIdleRanksChangeNoBit) {
  struct Case {
    int m, k, n, ranks;
  };
  for (const Device& device : devices()) {
    for (const Case& one :
         {Case{13, 512, 160, 3}, {2, 512, 96, 4}, {0, 256, 96, 2}, {3, 128, 96, 4}, {5, 256, 2, 4}}) {
      if (&device != &devices().front() && one.m == 3) continue;  // what is special of it is not the device's
      for (const Split split : {Split::column, Split::row}) {
        const Example example(layer_of(one.m, one.k, one.n, "bf16"));
        const Choices choices{.split = split};
        const Bytes want = split == Split::column || one.m == 0
                               ? example.alone(device)
                               : serial_sum(device, example.whole(),
                                            shard(example.whole().problem, one.ranks, choices), example.made.a);
        for (const int chunks : {1, 2, 4, 5})
          for (const Group::Settings& settings : {Group::Settings(), kSmall})
            EXPECT_TRUE(example.spread(device, one.ranks, {.split = split, .chunks = chunks}, settings) == want)
                << device.uri() << " m " << one.m << " k " << one.k << " n " << one.n << " chunks " << chunks;
      }
    }
  }
}

TEST(Ranks09, ANanOfOneRankIsInItsRowsOrColumnsOnEveryRank) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Example in_a(layer_of(6, 512, 256)), in_w(layer_of(6, 512, 256));
    numerics::encode(DType::bf16, std::span(&bad, 1),
                     in_a.made.a.data() + (2 * 512 + 300) * 2);  // row 2, second rank
    in_w.made.b[200 * 512 + 300] = std::byte{0x7f};              // e4m3fn has no infinity
    for (const Split split : {Split::column, Split::row}) {
      for (const bool rows : {true, false}) {
        const Bytes d = (rows ? in_a : in_w).spread(devices()[0], 2, {.split = split});
        const auto* got = reinterpret_cast<const float*>(d.data());
        for (int row = 0; row < 6; ++row)
          for (int col = 0; col < 256; ++col)
            ASSERT_EQ(std::isnan(got[row * 256 + col]), rows ? row == 2 : col == 200) << row << ' ' << col;
      }
    }
  }
}

/// Rank 0 has a large number, rank 1 its negative and a little more: rounding partial results to bf16 loses that.
TEST(Ranks10, PartialResultsThatCancelStayWithinTheBound) {
  Example example(layer_of(1, 256, 128));
  std::fill(example.made.a.begin(), example.made.a.end(), std::byte{});
  std::fill(example.made.b.begin(), example.made.b.end(), std::byte{0x38});
  const auto put = [&](int k, float value) {
    numerics::encode(DType::bf16, std::span(&value, 1), example.made.a.data() + k * 2);
  };
  std::vector<float> ones(example.made.b_scale.size() / sizeof(float), 1.0f);
  std::memcpy(example.made.b_scale.data(), ones.data(), example.made.b_scale.size());
  put(0, 448);
  put(1, 7);  // 455 of rank 0, which bf16 has as 456
  put(128, -448);
  put(129, -6);
  const Bytes d = example.spread(devices()[0], 2, {.split = Split::row});
  EXPECT_EQ(*reinterpret_cast<const float*>(d.data()), 1.0f);
  EXPECT_LE(example.error_over_bound(d, 128), 1);
  std::vector<float> rounded;
  for (const float partial : {455.0f, -454.0f})
    rounded.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(to_bf16(partial)) << 16));
  std::vector<float> wrong(128, rounded[0] + rounded[1]);
  Bytes bytes(d.size());
  std::memcpy(bytes.data(), wrong.data(), bytes.size());
  EXPECT_GT(example.error_over_bound(bytes, 128), 1);
}

/// Ranks that have pauses of any length between them.
class Slow final : public Transport {
 public:
  Slow(Transport& transport, unsigned seed) : transport_(transport), random_(seed) {}
  int rank() const override { return transport_.rank(); }
  int size() const override { return transport_.size(); }
  std::unique_ptr<Message> send(int to, std::span<const std::byte> bytes) override {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
    return transport_.send(to, bytes);
  }
  std::unique_ptr<Message> receive(int from, std::span<std::byte> bytes) override {
    return transport_.receive(from, bytes);
  }

 private:
  Transport& transport_;
  std::mt19937 random_;
};

TEST(Ranks11, ArrivalInAnyOrderGivesTheSameBitsAHundredTimes) {
  const Example example(layer_of(4, 512, 64));
  const Bytes want = example.spread(devices()[0], 3, {.split = Split::row});
  on_transports(3, [&](Transport& transport) {
    Slow slow(transport, static_cast<unsigned>(transport.rank()));
    Group group(slow, kSmall);
    Linear linear(group, devices()[0], example.whole(), {.split = Split::row, .chunks = 2});
    for (int i = 0; i < 100; ++i) {
      Bytes d(example.d_bytes());
      linear.run(4, example.made.a, d);
      ASSERT_TRUE(d == want) << "call " << i;
    }
  });
}

/// Two layers and two groups take turns, and the caller sends messages of its own.
TEST(Ranks12, LayersGroupsAndTheCallersOwnMessagesDoNotMix) {
  const Example first(layer_of(3, 256, 128)), second(layer_of(3, 384, 128), 9);
  const Device& device = devices()[0];
  const Choices row{.split = Split::row};
  const Bytes want_first = first.spread(device, 2, row), want_second = second.spread(device, 2, row);
  on_ways(2, 3, [&](const std::vector<Transport*>& ways) {
    const int self = ways[0]->rank();
    Group group(*ways[0]), second_group(*ways[1]);
    Linear a(group, device, first.whole(), row), b(group, device, second.whole(), row),
        c(second_group, device, second.whole(), row);
    Bytes mine(256, std::byte(self)), theirs(256);
    const auto sent = ways[2]->send(1 - self, mine);
    const auto coming = ways[2]->receive(1 - self, theirs);
    // Two exchanges of one group on their way at once, finished in the other order.
    const auto each = [&](int value) {
      const Bytes payload(8, std::byte(value + self));
      return all_gather(group, "test", payload, {8, 8});
    };
    Exchange early = each(10), late = each(20);
    late.finish();
    early.finish();
    EXPECT_EQ(early.from(1 - self)[0], std::byte(11 - self));
    EXPECT_EQ(late.from(1 - self)[0], std::byte(21 - self));
    for (int i = 0; i < 3; ++i) {
      Bytes d(first.d_bytes());
      a.run(3, first.made.a, d);
      EXPECT_TRUE(d == want_first);
      for (Linear* layer : {&b, &c}) {
        layer->run(3, second.made.a, d);
        EXPECT_TRUE(d == want_second);
      }
    }
    while (!coming->done()) std::this_thread::yield();
    EXPECT_EQ(theirs[0], std::byte(1 - self));
  });
}

/// Bytes and messages of a call are those of docs/ranks.md.
TEST(Traffic, IsThatOfTheFormulas) {
  constexpr std::uint64_t m = 12, n = 96, ranks = 3, head = 256;
  const Example example(layer_of(m, 384, n, "bf16"));
  struct Case {
    Choices choices;
    Group::Settings settings;
    std::uint64_t messages, bytes;
  };
  const Case cases[] = {
      {{.split = Split::row}, {}, ranks - 1, (ranks - 1) * (head + 4 * m * n)},
      {{.split = Split::row}, kSmall, 2 * (ranks - 1), (ranks - 1) * (2 * head + (4 + 2) * m / ranks * n)},
      {{.split = Split::row, .chunks = 2}, {}, 2 * (ranks - 1), (ranks - 1) * (2 * head + 4 * m * n)},
      {{.parts = {{n, 32}}}, {}, ranks - 1, (ranks - 1) * (head + 2 * m * n / ranks)},
      {{.parts = {{n, 32}}, .own_columns = true}, {}, ranks - 1, (ranks - 1) * head},
  };
  for (const Case& one : cases) {
    on_ranks(
        ranks,
        [&](Group& group) {
          Linear linear(group, devices()[0], example.whole(), one.choices);
          const Traffic before = group.sent();
          Bytes d(one.choices.own_columns ? example.d_bytes() / ranks : example.d_bytes());
          linear.run(m, example.made.a, d);
          EXPECT_EQ(group.sent().messages - before.messages, one.messages);
          EXPECT_EQ(group.sent().bytes - before.bytes, one.bytes);
        },
        one.settings);
  }
}

/// What a rank keeps to itself: columns of D of a column split, columns of x of a row split.
TEST(Linear, LocalColumnsOfOneSplitAreTheInputOfTheNext) {
  const Example first(layer_of(4, 256, 384, "bf16")), second(layer_of(4, 384, 64), 4);
  for (const Device& device : devices()) {
    const Bytes middle = first.alone(device);
    Example chained = second;
    chained.made.a = middle;
    const Bytes want = chained.spread(device, 3, {.split = Split::row});
    on_ranks(3, [&](Group& group) {
      Linear column(group, turn(device, group.rank()), first.whole(), {.own_columns = true});
      Linear row(group, turn(device, group.rank()), second.whole(), {.split = Split::row, .own_columns = true});
      Bytes own(middle.size() / 3), d(second.d_bytes());
      column.run(4, first.made.a, own);
      row.run(4, own, d);
      EXPECT_TRUE(d == want) << device.uri();
    });
  }
}

/// On which its bits depend: by themselves the parts have other tunables on a CPU with AMX.
TEST(Linear, ColumnsHaveThePlanOfTheWholeLayer) {
  const auto text = [](const Gemm& gemm) {
    const ironcl_op_info info = gemm.info();
    return std::string(info.variant) + ' ' + std::string(info.tuning);
  };
  for (const Device& device : devices()) {
    for (const int rows : {128, 640}) {
      const Example example(layer_of(200, 512, 4 * rows));
      const std::string whole = text(Gemm(device, example.whole().problem));
      on_ranks(4, [&](Group& group) {
        const Linear linear(group, turn(device, group.rank()), example.whole(), {});
        EXPECT_EQ(text(linear.plan()), whole) << device.uri() << ' ' << rows;
      });
    }
  }
}

TEST(Linear, SaysWhatDoesNotFit) {
  const Example example(layer_of(4, 256, 128));
  const auto said = [&](const Choices& choices) {
    return error_of([&] { (void)shard(example.whole().problem, 2, choices); });
  };
  EXPECT_NE(said({.parts = {{64}, {32}}}).find("the parts have 96 rows together, B has 128"), std::string::npos);
  EXPECT_NE(said({.ranges = {{0, 64}, {96, 128}}}).find("are not 2 contiguous ones"), std::string::npos);
  EXPECT_NE(said({.ranges = {{0, 128}}}).find("are not 2"), std::string::npos);
  on_ranks(2, [&](Group& group) {
    Linear linear(group, devices()[0], example.whole(), {});
    Bytes d(4);
    EXPECT_NE(error_of([&] { linear.run(4, example.made.a, d); }).find("d is [m, 128]"), std::string::npos);
  });
}

}  // namespace
}  // namespace ironcl::ranks
