// SPDX-License-Identifier: Apache-2.0
// Group Grouped: many matrices in one call. Counts of every kind, right and wrong; rows that nobody has are neither
// read nor written; each matrix has its own grid, bias and scales; a row does not know its company.
#include <fmt/format.h>

#include <algorithm>

#include "tests/conformance/suite/grouped.h"
#include "tests/conformance/suite/groups.h"

namespace ironcl::conformance {
namespace {

using Counts = std::vector<std::int32_t>;

void run_grouped(Context& c, const GroupedProblem& p) {
  GroupedRig rig(c, p);
  for (int i = 0; i < 2; ++i) {
    rig.call();
    rig.expect_right();
  }
}

void add(Suite& suite, const std::string& name, const GroupedProblem& p, bool floor = true, bool heavy = false) {
  suite.add(
      "Grouped", name, Needs::grouped, [p](Context& c) { run_grouped(c, p); }, floor, heavy);
}

/// Rows dealt to `matrices` at random, evenly or by Zipf's law.
Counts random_counts(std::size_t matrices, int rows, bool zipf) {
  Random random(matrices * 1000 + static_cast<std::uint64_t>(rows));
  std::vector<double> until(matrices);
  double sum = 0;
  for (std::size_t g = 0; g < matrices; ++g) until[g] = sum += zipf ? 1.0 / static_cast<double>(g + 1) : 1.0;
  Counts counts(matrices);
  for (int row = 0; row < rows; ++row) {
    const auto found = std::lower_bound(until.begin(), until.end(), random.uniform() * sum);
    ++counts[static_cast<std::size_t>(std::min<std::ptrdiff_t>(found - until.begin(), std::ssize(counts) - 1))];
  }
  return counts;
}

Counts alternating(std::size_t matrices) {
  Counts counts(matrices);
  for (std::size_t g = 1; g < matrices; g += 2) counts[g] = 1;
  return counts;
}

// Some devices compile a kernel for a number of rows per matrix: plans that differ in something else have as many.

/// Of {4, 0, 19, 1, 9} and three rows that no matrix has, as types come scheduled; masked, so many of each matrix.
constexpr std::int64_t kFew = 36, kRoomForFew = 24;
/// Of the plans whose counts differ.
constexpr std::size_t kMatrices = 32;
constexpr std::int64_t kRows = 240, kRoom = 73;

/// The counts, then matrices without rows.
Counts among_many(Counts counts) {
  counts.resize(std::max(counts.size(), kMatrices));
  return counts;
}

/// A plan of kRows rows, called with those of the counts and `tail` that no matrix has.
GroupedProblem of_rows(const Counts& counts, std::int64_t tail = 0) {
  GroupedProblem p = contiguous(among_many(counts), tail);
  p.called = p.m, p.m = kRows;
  return p;
}

void add_counts(Suite& suite) {
  Counts last(kMatrices), middle(kMatrices);
  last.back() = middle[kMatrices / 2] = 70;
  const std::pair<const char*, Counts> all[] = {
      {"AllRowsToTheFirst", {70}},
      {"AllRowsToTheMiddle", middle},
      {"AllRowsToTheLast", last},
      {"ARowEach", Counts(kMatrices, 1)},
      {"EverySecondEmpty", alternating(kMatrices)},
      {"Around16", {15, 16, 17, 1, 15}},
      {"Around64", {63, 64, 65, 1, 47}},
      {"StraddlingTiles", {1, 14, 1, 30, 2, 62, 1, 126, 1}},
      {"Primes", {2, 3, 5, 7, 11, 13, 17, 19, 23}},
      {"DealtEvenly", random_counts(kMatrices, 150, false)},
      {"DealtByZipf", random_counts(kMatrices, 200, true)},
  };
  for (const auto& [name, counts] : all) {
    add(suite, fmt::format("Contiguous{}", name), of_rows(counts));
    const std::int32_t most = std::ranges::max(counts);
    if (most < kRoom)
      add(suite, fmt::format("Masked{}", name), masked(among_many(counts), most < kRoomForFew ? kRoomForFew : kRoom));
  }
  add(suite, "ContiguousAround128", contiguous({127, 128, 129}));
  add(suite, "ContiguousOneMatrixAlone", contiguous({45}));
  add(suite, "MaskedOneMatrixAlone", masked({33}, 36));
  add(suite, "ContiguousMoreMatricesThanRows", contiguous(random_counts(64, 9, false)));
  add(suite, "ContiguousAHundredMatrices", contiguous(random_counts(100, 300, true)));
  add(suite, "ContiguousAllEmpty", of_rows({}, 9));
  add(suite, "MaskedAllEmpty", masked(among_many({}), kRoom));
  add(suite, "MaskedFullToTheBrim", masked(Counts(5, kRoomForFew), kRoomForFew));
  add(suite, "ContiguousRowsLeftOver", of_rows({5, 0, 20, 1}, 4));
  add(suite, "ContiguousNoRows", of_rows({}));
}

void add_invalid_counts(Suite& suite) {
  constexpr std::int32_t kMost = 0x7fffffff, kLeast = -kMost - 1;
  const auto wrong = [&suite](const char* name, Counts counts) {
    GroupedProblem p = contiguous(counts);
    p.m = kFew;
    add(suite, fmt::format("Contiguous{}", name), p);
    p = masked(counts, kRoomForFew);
    add(suite, fmt::format("Masked{}", name), p);
    p.a_rows = 11;
    add(suite, fmt::format("MaskedGathered{}", name), p);
  };
  wrong("NegativeCounts", {5, -3, 7, kLeast, 2});
  wrong("CountsPastTheRows", {30, 5, 9, 4, 6});
  wrong("EnormousCounts", {3, kMost, kMost, 1, 2});
  wrong("CountsWhoseSumWraps", {1 << 30, 1 << 30, 1 << 30, 1 << 30, 4});
  GroupedProblem p = contiguous({9, 9, 0, 9, 9});
  p.a_rows = 7, p.wild_index = true;
  add(suite, "GatheredIndicesOutsideOfA", p);
}

void add_shapes(Suite& suite) {
  struct Shape {
    std::int64_t n, k;
  };
  // N and K that are no whole blocks: the grid of scales starts anew with each matrix.
  for (const Shape s : {Shape{96, 64}, Shape{192, 96}, Shape{576, 192}, Shape{1536, 256}, Shape{64, 768},
                        Shape{129, 2048}, Shape{1, 1}, Shape{3, 129}}) {
    GroupedProblem p = contiguous({4, 0, 19, 1, 9}, 3);
    p.dense.n = s.n, p.dense.k = s.k;
    add(suite, fmt::format("N{}K{}", s.n, s.k), p);
  }
  GroupedProblem large = contiguous(random_counts(16, 700, true));
  large.dense.n = 1536, large.dense.k = 2048;
  large.dense.fill = fill_heavy_tailed, large.dense.exact = false;
  add(suite, "LargeByZipf", large, true, true);
  large = contiguous(random_counts(8, 64, false));
  large.dense.n = 4096, large.dense.k = 7168;
  large.dense.fill = fill_heavy_tailed, large.dense.exact = false, large.spread_scales = false;
  add(suite, "LargeOfDeepSeek", large, true, true);
  // Who allows the weaker class gets results within the bound of the class that the plan has.
  large = contiguous({130, 0, 300, 1, 257}, 5);
  large.dense.n = 832, large.dense.k = 1024, large.dense.weakest_accuracy = IRONCL_ACCURACY_TENSOR14;
  large.dense.fill = fill_heavy_tailed, large.dense.exact = false;
  add(suite, "ContiguousWhereAWeakerClassIsAllowed", large, true, true);
  large.dense.d = DType::bf16, large.dense.bias = DType::f32, large.spread_scales = false;
  large.grouping = IRONCL_GROUPING_MASKED, large.m = 310;
  add(suite, "MaskedWhereAWeakerClassIsAllowed", large, true, true);
}

void add_types(Suite& suite) {
  const auto base = [] { return contiguous({4, 0, 19, 1, 9}, 3); };
  // How rows are scheduled does not depend on types: in the normal run those of the floor come scheduled in each way,
  // the others in one, with fewer rows, for which some devices compile a kernel in a third of the time.
  const auto each = [&suite](const std::string& name, const GroupedProblem& p, bool floor = false) {
    GroupedProblem other = p;
    if (!floor) other.counts = {1, 0, 4, 1, 2}, other.m = 9;
    add(suite, "Contiguous" + name, other, floor);
    other = p;
    other.grouping = IRONCL_GROUPING_MASKED, other.m = kRoomForFew, other.called = -1;
    add(suite, "Masked" + name, other, floor, !floor);
    other = p;
    other.a_rows = 13;
    add(suite, "Gathered" + name, other, floor, !floor);
  };
  GroupedProblem p = base();
  p.dense.d = DType::bf16;
  each("InBf16", p, true);
  p.dense.d = DType::f16, p.spread_scales = false;
  each("InF16", p, true);
  p = base(), p.dense.bias = DType::f32, p.spread_scales = false;
  each("WithBias", p);
  p = base(), p.dense.a_source = DType::bf16, p.dense.fill = fill_activations, p.dense.exact = false;
  each("QuantisedFromBf16", p, true);
  p.dense.a_source = DType::f32, p.dense.quantizer.rounding = numerics::ScaleRounding::power_of_two;
  each("QuantisedByPowersOfTwo", p);
  p = base(), p.dense.fill = fill_heavy_tailed, p.dense.exact = false;
  each("OfHeavyTails", p, true);
  p = base(), p.dense.a = DType::bf16, p.dense.a_scale = {DType::none, 0, 0, 0};
  each("WeightOnlyBf16", p);
  p.dense.b = DType::bf16, p.dense.b_scale = {DType::none, 0, 0, 0};
  each("UnquantisedBf16", p);
  p = base(), p.dense.a = p.dense.b = DType::i8;
  each("OfInt8", p);
  p = base(), p.dense.a = p.dense.b = DType::e5m2;
  each("OfE5m2", p);
  p = base(), p.dense.a_scale.cols = 64, p.dense.b_scale = {DType::f32, 64, 64, 0};
  each("Blocks64", p);
  p = base(), p.dense.a_scale.cols = 0, p.dense.b_scale = {DType::f32, 1, 0, 0};
  each("PerTokenAndChannel", p);
  p.dense.b_scale = {DType::f32, 0, 0, 0};
  each("PerTokenAndTensor", p);
  p = base(), p.dense.b_scale.dtype = DType::bf16;
  each("ScalesOfBInBf16", p);
  p = base(), p.dense.a_pad = 8, p.dense.d_pad = 5, p.dense.a_scale.pad = 1;
  each("WithGapsBetweenRows", p, true);
  p = base(), p.dense.d = DType::e4m3fn, p.d_scale = {DType::f32, 1, 128, 1};
  p.dense.fill = fill_heavy_tailed, p.dense.exact = false, p.spread_scales = false;
  each("QuantisedD", p);
}

/// The bits of a dense plan of the same operands.
void one_matrix_is_dense(Context& c, DType source) {
  GroupedProblem p = contiguous({45});
  p.dense.flags = IRONCL_GEMM_REPEATABLE;
  p.dense.fill = fill_heavy_tailed, p.dense.exact = false;
  if (source != DType::none) p.dense.a_source = source, p.dense.fill = fill_activations;
  GroupedRig rig(c, p);
  rig.call();
  const std::vector<std::byte> got = rig.used_bytes();
  Problem dense = p.dense;
  dense.m = 45;
  Operands operands = rig.operands().matrix[0];
  operands.a = rig.operands().a, operands.a_scale = rig.operands().a_scale;
  Rig alone(c, dense, operands);
  EXPECT_EQ(got, alone.call().bytes) << "one matrix of all rows is the dense problem, bit for bit";
}

GroupedProblem repeatable(Counts counts) {
  GroupedProblem p = contiguous(std::move(counts));
  p.dense.flags = IRONCL_GEMM_REPEATABLE;
  p.dense.k = 1100;
  p.dense.fill = fill_heavy_tailed, p.dense.exact = false;
  return p;
}

/// The bytes of row `row` of tight rows.
std::vector<std::byte> row_bytes(const std::vector<std::byte>& all, std::int64_t row, std::size_t bytes) {
  const auto from = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * bytes);
  return {from, from + static_cast<std::ptrdiff_t>(bytes)};
}

void a_row_has_no_company(Context& c) {
  const GroupedProblem crowd = repeatable({10, 3, 0, 19, 4});
  GroupedRig rig(c, crowd);
  rig.call();
  const auto all = rig.used_bytes();
  const std::size_t bytes = static_cast<std::size_t>(crowd.dense.n) * 4;
  for (const std::int64_t row : {0, 9, 10, 12, 30, 35}) {
    std::size_t g = 0;
    while (row >= rig.begin()[g] + rig.used()[g]) ++g;
    GroupedProblem alone = crowd;
    alone.counts.assign(crowd.counts.size(), 0);
    alone.counts[g] = 1;
    // The same plan, since one for fewer rows may have another kernel; the row comes first, the others have no
    // matrix.
    GroupedOperands operands = rig.operands();
    const auto first = [&](std::vector<std::byte>& rows) {
      const std::vector<std::byte> chosen = row_bytes(rows, row, rows.size() / static_cast<std::size_t>(crowd.m));
      std::ranges::copy(chosen, rows.begin());
    };
    first(operands.a);
    first(operands.a_scale);
    GroupedRig one(c, alone, operands);
    one.call();
    EXPECT_EQ(one.used_bytes(), row_bytes(all, row, bytes))
        << "row " << row << " of matrix " << g << " has other bits alone than among " << crowd.m;
  }
}

void order_of_tokens_does_not_matter(Context& c) {
  GroupedProblem p = repeatable({10, 0, 18, 7, 1});
  p.a_rows = 30;
  GroupedRig rig(c, p);
  rig.call();
  const auto before = rig.used_bytes();
  // Rows of each matrix turned round, in A's order and in the index.
  GroupedOperands turned = rig.operands();
  std::vector<std::int64_t> source(static_cast<std::size_t>(p.m));
  for (std::size_t g = 0; g < rig.begin().size(); ++g) {
    for (std::int64_t i = 0; i < rig.used()[g]; ++i) {
      const std::int64_t to = rig.begin()[g] + i, from = rig.begin()[g] + rig.used()[g] - 1 - i;
      source[static_cast<std::size_t>(to)] = from;
      turned.index[static_cast<std::size_t>(to)] =
          static_cast<std::int32_t>(p.a_rows) - 1 - rig.operands().index[static_cast<std::size_t>(from)];
    }
  }
  const auto reversed = [&](std::vector<std::byte>& rows) {
    const std::vector<std::byte> old = rows;
    const std::size_t bytes = old.size() / static_cast<std::size_t>(p.a_rows);
    for (std::int64_t row = 0; row < p.a_rows; ++row) {
      const auto from = row_bytes(old, p.a_rows - 1 - row, bytes);
      std::copy(from.begin(), from.end(),
                rows.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * bytes));
    }
  };
  reversed(turned.a);
  reversed(turned.a_scale);
  GroupedRig other(c, p, turned);
  other.call();
  const auto after = other.used_bytes();
  const std::size_t bytes = static_cast<std::size_t>(p.dense.n) * 4;
  for (std::int64_t row = 0; row < p.m; ++row) {
    ASSERT_EQ(row_bytes(after, row, bytes), row_bytes(before, source[static_cast<std::size_t>(row)], bytes))
        << "row " << row << " has other bits in another order of tokens";
  }
}

/// A gather of all rows in their order is no gather; and one of rows quantised in the plan quantises each once.
void gathering_is_copying(Context& c) {
  for (const DType source : {DType::none, DType::bf16}) {
    GroupedProblem p = repeatable({12, 5, 0, 13, 6});
    if (source != DType::none) p.dense.a_source = source, p.dense.fill = fill_activations;
    p.a_rows = 20;
    GroupedRig rig(c, p);
    rig.call();
    GroupedProblem copied = p;
    copied.a_rows = 0;
    GroupedOperands operands = rig.operands();
    operands.a.clear(), operands.a_scale.clear(), operands.index.clear();
    const std::size_t bytes = rig.operands().a.size() / 20, scales = rig.operands().a_scale.size() / 20;
    for (const std::int32_t from : rig.operands().index) {
      const auto values = row_bytes(rig.operands().a, from, bytes);
      const auto row_scales = row_bytes(rig.operands().a_scale, from, scales);
      operands.a.insert(operands.a.end(), values.begin(), values.end());
      operands.a_scale.insert(operands.a_scale.end(), row_scales.begin(), row_scales.end());
    }
    GroupedRig plain(c, copied, operands);
    plain.call();
    EXPECT_EQ(rig.used_bytes(), plain.used_bytes()) << "rows that were gathered have other bits than rows copied";
  }
}

/// A gather without a grouping: rows of one matrix.
void gathers_without_groups(Context& c) {
  const Problem p = base_problem();
  GroupedProblem grouped = contiguous({static_cast<std::int32_t>(p.m)});
  grouped.dense = p, grouped.a_rows = 9;
  Context same = c;
  const GroupedOperands operands = make_operands(same, grouped);
  ironcl_gemm_desc desc = p.desc();
  desc.a_rows = 9;
  const Op plan = make_plan(c, desc);
  Operands matrix = operands.matrix[0];
  const Weights weights = make_weights(c, p, matrix, plan.get());
  const Queue queue = make_queue(c);
  const Part a = part(c, queue.get(), operands.a), a_scale = part(c, queue.get(), operands.a_scale);
  const Part d = part(c, queue.get(), static_cast<std::uint64_t>(p.m * p.n * 4));
  const Part index = part(c, queue.get(), bytes_of(operands.index));
  auto args = sized<ironcl_gemm_args>();
  args.m = p.m, args.a_rows = 9, args.weights = weights.get();
  args.a = a.span(), args.a_scale = a_scale.span(), args.d = d.span(), args.a_index = index.span();
  run(c, plan.get(), queue.get(), &args);
  matrix.a.clear(), matrix.a_scale.clear();
  for (const std::int32_t from : operands.index) {
    const auto values = row_bytes(operands.a, from, operands.a.size() / 9);
    const auto scales = row_bytes(operands.a_scale, from, operands.a_scale.size() / 9);
    matrix.a.insert(matrix.a.end(), values.begin(), values.end());
    matrix.a_scale.insert(matrix.a_scale.end(), scales.begin(), scales.end());
  }
  const std::vector<std::byte> got = fetch(c, queue.get(), d, "D");
  std::vector<double> values;
  for (const float value : values_of<float>(got)) values.push_back(static_cast<double>(value));
  const std::string wrong = wrong_about(p, bound_terms(p, info_of(c, plan.get())), values, expect(p, matrix).oracle);
  EXPECT_EQ(wrong, "");
}

/// Counts come from a command of another queue that ends late: they are read when the call runs, not before.
void counts_are_read_in_time(Context& c) {
  const GroupedProblem p = contiguous({11, 0, 17, 6, 2});
  GroupedRig rig(c, p);
  Problem slow = base_problem();
  slow.m = 64, slow.n = 640, slow.k = 1024;
  Rig busy(c, slow);
  const Queue other = make_queue(c);
  for (int i = 0; i < 3; ++i) {
    rig.reset();
    busy.reset();
    const Counts nonsense{36, -1, 0, 77, 5};
    upload(c, rig.queue(), rig.counts().buffer.get(), rig.counts().offset, bytes_of(nonsense));
    const Event before = busy.enqueue(other.get());
    const std::vector<std::byte> right = bytes_of(p.counts);
    ironcl_event written = nullptr;
    Error error;
    require(c.table.write(other.get(), rig.counts().span(), right.data(), IRONCL_HOST_COPIED_BEFORE_RETURN, &written,
                          &error),
            error, "write of the counts");
    const Event owner(c.table, written);
    const ironcl_event list[] = {written};
    const Event called = rig.enqueue(rig.queue(), list);
    wait(c, called.get(), "op_enqueue after the counts");
    rig.expect_right();
  }
}

/// Counts change between two calls of one plan: nothing of the first is left in the second.
void counts_change_between_calls(Context& c) {
  GroupedRig rig(c, contiguous({12, 12, 12, 0, 0}));
  rig.call();
  rig.expect_right();
  for (const Counts& counts : {Counts{0, 0, 0, 0, 36}, Counts{35, 1, 0, 0, 0}, Counts(5), Counts{18, 18, 18, 0, 0}}) {
    GroupedProblem p = contiguous(counts);
    p.m = kFew;
    GroupedRig next(c, p);
    const ironcl_gemm_args args = next.args();
    run(c, rig.plan(), next.queue(), &args);  // the first rig's plan with the second one's operands
    next.expect_right();
  }
}

constexpr Wrong<ironcl_gemm_desc> kWrongGrouped[] = {
    {"matrices", kInvalid, [](auto& d) { d.matrices = 0; }},
    {"a_scale.group_rows", kInvalid, [](auto& d) { d.a_scale.group_rows = 128; }},
    {"a_scale.group_rows", kInvalid, [](auto& d) { d.a_scale.group_rows = 0; }},
    {"d_scale.group_rows", kInvalid,
     [](auto& d) {
       d.d_dtype = IRONCL_F8_E4M3FN;
       d.d_scale = {IRONCL_F32, 128, 128, 0, 0, 0, 0};
     }},
    {"a_rows", kInvalid, [](auto& d) { d.a_rows = -1; }},
    {"a_rows", kInvalid, [](auto& d) { d.a_rows = int64_t{1} << 31; }},
    {"b_dtype", kInvalid, [](auto& d) { d.b_dtype = IRONCL_BF16, d.b_scale = {}; }},
};

void wrong_grouped(Context& c) { expect_wrong(c, contiguous({4, 0, 19, 1, 9}, 3).desc(), kWrongGrouped); }

constexpr Wrong<ironcl_gemm_args> kWrongGroupedCalls[] = {
    {"matrix_rows", kInvalid, [](auto& a) { a.matrix_rows = {}; }},
    {"matrix_rows", kInvalid, [](auto& a) { a.matrix_rows.size = 11; }},
    {"a_index", kInvalid, [](auto& a) { a.a_index = {}; }},
    {"a_index", kInvalid, [](auto& a) { a.a_index.size -= 1; }},
    {"a_rows", kInvalid, [](auto& a) { a.a_rows = 0; }},
    {"a_rows", kInvalid, [](auto& a) { a.a_rows = 8; }},
    {"bias", kInvalid, [](auto& a) { a.bias.size -= 1; }},
    {"a_index", kInvalid, [](auto& a) { a.a_index.buffer = a.d.buffer, a.a_index.offset = a.d.offset; }},
    {"matrix_rows", kInvalid, [](auto& a) { a.matrix_rows.buffer = a.d.buffer, a.matrix_rows.offset = a.d.offset; }},
};

void wrong_grouped_calls(Context& c) {
  GroupedProblem p = contiguous({4, 0, 19, 1, 9}, 3);
  p.a_rows = 7, p.dense.bias = DType::f32;
  GroupedRig rig(c, p);
  expect_wrong_calls(c, rig.plan(), rig.queue(), rig.args(), kWrongGroupedCalls);
  rig.call();
  rig.expect_right();
}

}  // namespace

void add_grouped_tests(Suite& suite) {
  add_counts(suite);
  add_invalid_counts(suite);
  add_shapes(suite);
  add_types(suite);
  const auto behaviour = [&suite](const char* name, std::function<void(Context&)> body) {
    suite.add("Grouped", name, Needs::grouped, std::move(body));
  };
  behaviour("OneMatrixHasTheBitsOfADensePlan", [](Context& c) { one_matrix_is_dense(c, DType::none); });
  behaviour("OneMatrixHasTheBitsOfADensePlanFromBf16", [](Context& c) { one_matrix_is_dense(c, DType::bf16); });
  behaviour("ARowHasTheSameBitsInAnyCompany", a_row_has_no_company);
  behaviour("TheOrderOfTokensDoesNotMatter", order_of_tokens_does_not_matter);
  behaviour("GatheredRowsHaveTheBitsOfCopiedOnes", gathering_is_copying);
  behaviour("GathersWithoutGroups", gathers_without_groups);
  behaviour("CountsAreReadWhenTheCallRuns", counts_are_read_in_time);
  behaviour("CountsChangeBetweenCalls", counts_change_between_calls);
  behaviour("WrongDescriptionsAreNamed", wrong_grouped);
  behaviour("WrongCallsAreNamed", wrong_grouped_calls);
}

}  // namespace ironcl::conformance
