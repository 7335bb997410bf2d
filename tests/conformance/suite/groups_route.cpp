// SPDX-License-Identifier: Apache-2.0
// Group Route: from logits to experts, weights and rows. The choice is judged by what the scores' bound allows;
// counts, rows and tokens of rows must then follow from the ids to the letter, and nothing else is written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backends/numerics/casts.h"
#include "backends/numerics/experts_oracle.h"
#include "tests/conformance/suite/groups.h"
#include "tests/conformance/suite/parts.h"

namespace ironcl::conformance {
namespace {

using Ids = std::vector<std::int32_t>;
using Floats = std::vector<float>;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class Logits { random, wide, ties, steps, hard };

/// A router and its call.
struct Routed {
  numerics::Routing rule{.experts = 16, .top_k = 4};
  std::int64_t tokens = 37;
  std::int64_t called = -1;  ///< Tokens of the call; -1: tokens.
  std::int64_t pad = 0;      ///< Logits between two tokens' rows.
  std::int64_t capacity = 0, first = 0, local = 0;
  DType logits = DType::f32;
  Logits kind = Logits::random;
  Floats bias{};
  bool shared_gate = false, given = false, shared_expert = false;

  std::int64_t call_tokens() const { return called < 0 ? tokens : called; }
  std::int64_t here() const { return local == 0 ? rule.experts : local; }
  std::int64_t width() const { return rule.experts + (shared_gate ? 1 : 0); }
  std::int64_t slots() const { return call_tokens() * rule.top_k; }
  std::int64_t matrices() const { return here() + (shared_expert ? 1 : 0); }
  std::int64_t rows() const {
    return capacity != 0 ? here() * capacity : slots() + (shared_expert ? call_tokens() : 0);
  }
  bool has_logits() const { return !given || shared_gate; }
  ironcl_route_desc desc() const;
  std::string line() const;
};

ironcl_route_desc Routed::desc() const {
  auto d = sized<ironcl_route_desc>();
  if (given) d.flags |= IRONCL_ROUTE_GIVEN;
  if (rule.normalize && !given) d.flags |= IRONCL_ROUTE_NORMALIZE;
  if (shared_gate) d.flags |= IRONCL_ROUTE_SHARED_GATE;
  if (shared_expert) d.flags |= IRONCL_ROUTE_SHARED_EXPERT;
  if (rule.best_of_two) d.flags |= IRONCL_ROUTE_BEST_OF_TWO;
  d.tokens = tokens, d.capacity = capacity;
  d.logits_ld = pad == 0 ? 0 : width() + pad;
  d.experts = static_cast<std::uint32_t>(rule.experts), d.top_k = static_cast<std::uint32_t>(rule.top_k);
  d.first_expert = static_cast<std::uint32_t>(first), d.local_experts = static_cast<std::uint32_t>(local);
  d.score = given ? 0 : static_cast<std::uint32_t>(rule.score);
  if (rule.expert_groups > 1) {
    d.expert_groups = static_cast<std::uint32_t>(rule.expert_groups);
    d.top_groups = static_cast<std::uint32_t>(rule.top_groups);
  }
  d.scale = rule.scale == 1 ? 0 : rule.scale;
  if (has_logits()) d.logits_dtype = static_cast<ironcl_dtype>(logits);
  if (!bias.empty()) d.bias_dtype = IRONCL_F32;
  return d;
}

std::string Routed::line() const {
  return fmt::format("tokens={} of {} experts={} k={} score={} groups={}/{} capacity={} here={}+{} {}{}{}",
                     call_tokens(), tokens, rule.experts, rule.top_k, static_cast<int>(rule.score), rule.top_groups,
                     rule.expert_groups, capacity, first, here(), numerics::name_of(logits),
                     bias.empty() ? "" : " bias", given ? " given" : "");
}

/// What no router should say: some or all of a token's logits NaN or infinite, all the same, as far apart as f32 has
/// it.
float hard_logit(std::int64_t kind, std::int64_t expert, float usual) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  const float kinds[] = {usual,
                         expert % 5 == 2 ? kNaN : usual,
                         expert == 3 ? kInfinity : usual,
                         expert % 3 == 0 ? -kInfinity : usual,
                         -kInfinity,
                         kNaN,
                         kInfinity,
                         expert == 5 ? 0 : -kInfinity,
                         expert % 2 == 0 ? kLargest : -kLargest};
  return kinds[kind];
}

/// Logits [tokens, width], tight, in the router's type.
std::vector<std::byte> make_logits(Context& c, const Routed& r) {
  if (!r.has_logits()) return {};
  Random random(c.seed);
  std::vector<std::byte> out(at(r.call_tokens() * r.width()) * numerics::size_of(r.logits));
  for (std::int64_t i = 0; i < r.call_tokens() * r.width(); ++i) {
    float value = static_cast<float>(2 * random.normal());
    const std::int64_t expert = i % r.width(), token = i / r.width();
    if (r.kind == Logits::wide) value *= 40;
    if (r.kind == Logits::ties) value = std::round(value);
    // Far enough apart that no error of a score changes their order, in an order that changes with the token.
    if (r.kind == Logits::steps) value = static_cast<float>((expert * 7 + token * 3) % r.width()) * 0.0625f - 2;
    if (r.kind == Logits::hard) value = hard_logit(token % 9, expert, value);
    numerics::encode(r.logits, {&value, 1}, out.data() + at(i) * numerics::size_of(r.logits),
                     numerics::Overflow::plain);
  }
  return out;
}

Ids given_ids(Context& c, const Routed& r) {
  Random random(c.seed + 1);
  Ids ids(at(r.slots()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(random.between(0, r.rule.experts - 1));
    if (i % 11 == 5) ids[i] = -1;
    if (i % 13 == 7) ids[i] = static_cast<std::int32_t>(r.rule.experts);
    if (i % 29 == 3) ids[i] = std::numeric_limits<std::int32_t>::min();
  }
  return ids;
}

/// The spans of one call, made ready.
struct Bench {
  Queue queue;
  std::vector<std::byte> logit_bytes;
  Ids ids_given;
  Part logits, bias, ids, weights, counts, index, rows, shared;

  Bench(Context& c, const Routed& r) : queue(make_queue(c)), logit_bytes(make_logits(c, r)) {
    const ironcl_queue q = queue.get();
    const auto words = [&](std::int64_t count) { return part(c, q, at(count) * 4); };
    if (r.has_logits()) {
      logits = part(c, q, spread(r.logits, logit_bytes, r.call_tokens(), r.width(), r.width() + r.pad, 0));
    }
    if (!r.bias.empty()) bias = part(c, q, bytes_of(r.bias));
    if (r.given) ids_given = given_ids(c, r);
    ids = r.given ? part(c, q, bytes_of(ids_given)) : words(r.slots());
    weights = words(r.slots());
    counts = words(r.matrices());
    index = words(r.rows());
    rows = words(r.slots());
    if (r.shared_gate) shared = words(r.call_tokens());
  }
  ironcl_route_args args(const Routed& r) const {
    auto a = sized<ironcl_route_args>();
    a.tokens = r.call_tokens();
    a.logits = logits.span(), a.bias = bias.span(), a.ids = ids.span(), a.weights = weights.span();
    a.matrix_rows = counts.span(), a.a_index = index.span(), a.rows = rows.span(), a.shared_weights = shared.span();
    if (r.call_tokens() == 0) a.logits = a.bias = a.ids = a.weights = a.a_index = a.rows = a.shared_weights = {};
    return a;
  }
};

template <class T>
std::vector<T> read_back(Context& c, const Bench& bench, const Part& from, std::int64_t count, const char* name) {
  std::vector<T> out = values_of<T>(fetch(c, bench.queue.get(), from, name));
  out.resize(at(count));
  return out;
}

/// Experts and weights of each token, by the bound of its scores.
void expect_choice(const Routed& r, const Floats& logits, const Ids& ids, const Floats& weights) {
  const auto k = at(r.rule.top_k), width = at(r.width()), experts = at(r.rule.experts);
  for (std::size_t token = 0; token < at(r.call_tokens()); ++token) {
    const std::string wrong =
        numerics::judge_choice(r.rule, std::span(logits).subspan(token * width, experts), r.bias,
                               std::span(ids).subspan(token * k, k), std::span(weights).subspan(token * k, k));
    ASSERT_EQ(wrong, "") << "token " << token << "   [" << r.line() << "]";
  }
}

void expect_rows(Context& c, const Routed& r, const Bench& bench, const Ids& ids) {
  std::int32_t untouched = 0;
  std::memset(&untouched, static_cast<int>(kPattern), sizeof untouched);
  Ids counts(at(r.matrices())), tokens(at(r.rows()), untouched), rows(ids.size());
  numerics::sort_by_expert(ids, r.rule.top_k, {r.first, r.here(), r.capacity, r.shared_expert}, counts, tokens, rows);
  EXPECT_EQ(read_back<std::int32_t>(c, bench, bench.counts, r.matrices(), "matrix_rows"), counts) << r.line();
  if (r.call_tokens() == 0) return;
  EXPECT_EQ(read_back<std::int32_t>(c, bench, bench.index, r.rows(), "a_index"), tokens) << r.line();
  EXPECT_EQ(read_back<std::int32_t>(c, bench, bench.rows, r.slots(), "rows"), rows) << r.line();
}

void expect_right(Context& c, const Routed& r, const Bench& bench) {
  Floats logits(bench.logit_bytes.size() / std::max<std::size_t>(numerics::size_of(r.logits), 1));
  if (!logits.empty()) numerics::decode(r.logits, bench.logit_bytes.data(), std::span<float>(logits));
  const Ids ids = read_back<std::int32_t>(c, bench, bench.ids, r.slots(), "ids");
  const auto weights = read_back<float>(c, bench, bench.weights, r.slots(), "weights");
  if (r.given) {
    EXPECT_EQ(ids, bench.ids_given) << "given ids were written";
    const auto bits = read_back<std::uint32_t>(c, bench, bench.weights, r.slots(), "weights");
    EXPECT_TRUE(std::all_of(bits.begin(), bits.end(), [](std::uint32_t b) { return b == 0x5a5a5a5au; }))
        << "given weights were written";
  } else {
    expect_choice(r, logits, ids, weights);
  }
  expect_rows(c, r, bench, ids);
  if (!r.shared_gate) return;
  const auto shared = read_back<float>(c, bench, bench.shared, r.call_tokens(), "shared_weights");
  for (std::size_t token = 0; token < shared.size(); ++token) {
    const float logit = logits[(token + 1) * at(r.width()) - 1];
    const numerics::Within want = numerics::score_oracle(numerics::Score::sigmoid, {&logit, 1})[0];
    ASSERT_LE(std::fabs(shared[token] - want.value), want.error) << "shared_weights[" << token << "]";
  }
}

void route(Context& c, const Routed& r) {
  const Op router = make_op(c, r);
  const Bench bench(c, r);
  Ids first;
  for (int i = 0; i < 2; ++i) {
    call(c, r, router, bench);
    expect_right(c, r, bench);
    const Ids ids = read_back<std::int32_t>(c, bench, bench.ids, r.slots(), "ids");
    if (i == 0) first = ids;
    EXPECT_EQ(ids, first) << "the second call chose others";
  }
}

/// Widely spaced scores leave no choice: the ids are these and no others.
void exact_choice(Context& c) {
  Routed r;
  r.kind = Logits::steps;
  r.rule = {.experts = 16, .top_k = 4, .score = numerics::Score::sigmoid, .normalize = true};
  const Op router = make_op(c, r);
  const Bench bench(c, r);
  call(c, r, router, bench);
  const Ids ids = read_back<std::int32_t>(c, bench, bench.ids, r.slots(), "ids");
  for (std::int64_t token = 0; token < r.tokens; ++token) {
    for (std::int64_t j = 0; j < 4; ++j) {
      const std::int64_t id = ids[at(token * 4 + j)];
      ASSERT_EQ((id * 7 + token * 3) % 16, 15 - j) << "token " << token << " slot " << j << " has expert " << id;
    }
  }
}

/// A bias on one expert makes it everybody's; its weight stays that of its score.
void bias_chooses_and_does_not_weigh(Context& c) {
  Routed r;
  r.rule = {.experts = 16, .top_k = 2, .score = numerics::Score::sigmoid};
  r.bias.assign(16, 0.0f);
  r.bias[11] = 5;
  const Op router = make_op(c, r);
  const Bench bench(c, r);
  call(c, r, router, bench);
  expect_right(c, r, bench);
  const Ids ids = read_back<std::int32_t>(c, bench, bench.ids, r.slots(), "ids");
  const auto weights = read_back<float>(c, bench, bench.weights, r.slots(), "weights");
  for (std::size_t token = 0; token < at(r.tokens); ++token) {
    EXPECT_EQ(ids[token * 2], 11);
    EXPECT_LE(weights[token * 2], 1.0f) << "the bias was weighed";
  }
}

/// Biases near 34 that differ by 2^-18: in bf16, whose steps are 0.25 there, they would be one.
void bias_stays_f32(Context& c) {
  Routed r;
  r.rule = {.experts = 16, .top_k = 3, .score = numerics::Score::sigmoid};
  r.kind = Logits::ties;
  r.bias.resize(16);
  for (std::size_t e = 0; e < 16; ++e) r.bias[e] = 34 + static_cast<float>((e * 5) % 16) * 0x1p-18f;
  Bench bench(c, r);
  const Floats same(at(r.tokens * 16), 0.5f);
  upload(c, bench.queue.get(), bench.logits.buffer.get(), bench.logits.offset, bytes_of(same));
  call(c, r, make_op(c, r), bench);
  const Ids ids = read_back<std::int32_t>(c, bench, bench.ids, r.slots(), "ids");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ((ids[i] * 5) % 16, 15 - static_cast<int>(i % 3)) << "slot " << i << " has expert " << ids[i];
  }
}

void waits_for_its_list(Context& c) {
  const Routed r{.rule = {.experts = 40, .top_k = 4}, .tokens = 64};
  Bench bench(c, r);
  run_after_product(c, r, bench, r.tokens, r.width(), bench.logit_bytes, &ironcl_route_args::logits);
}

constexpr Wrong<ironcl_route_desc> kWrongRouters[] = {
    {"tokens", kInvalid, [](auto& d) { d.tokens = -1; }},
    {"tokens", kInvalid, [](auto& d) { d.tokens = 1 << 30; }},
    {"experts", kInvalid, [](auto& d) { d.experts = 0; }},
    {"experts", kInvalid, [](auto& d) { d.experts = 65537; }},
    {"top_k", kInvalid, [](auto& d) { d.top_k = 0; }},
    {"top_k", kInvalid, [](auto& d) { d.top_k = 17; }},
    {"top_k", kInvalid, [](auto& d) { d.experts = 128, d.top_k = 65; }},
    {"logits_ld", kInvalid, [](auto& d) { d.logits_ld = 15; }},
    {"logits_dtype", kInvalid, [](auto& d) { d.logits_dtype = IRONCL_F8_E4M3FN; }},
    {"bias_dtype", kInvalid, [](auto& d) { d.bias_dtype = IRONCL_BF16; }},
    {"score", kInvalid, [](auto& d) { d.score = 0; }},
    {"scale", kInvalid, [](auto& d) { d.scale = std::numeric_limits<float>::infinity(); }},
    {"expert_groups", kInvalid, [](auto& d) { d.expert_groups = 5, d.top_groups = 2; }},
    {"top_groups", kInvalid, [](auto& d) { d.expert_groups = 4; }},
    {"top_groups", kInvalid, [](auto& d) { d.expert_groups = 4, d.top_groups = 5; }},
    {"top_k", kInvalid, [](auto& d) { d.expert_groups = 16, d.top_groups = 3; }},
    {"BEST_OF_TWO", kInvalid,
     [](auto& d) { d.expert_groups = d.top_groups = 16, d.flags |= IRONCL_ROUTE_BEST_OF_TWO; }},
    {"first_expert", kInvalid, [](auto& d) { d.first_expert = 1; }},
    {"first_expert", kInvalid, [](auto& d) { d.first_expert = 9, d.local_experts = 8; }},
    {"capacity", kInvalid, [](auto& d) { d.capacity = -1; }},
    {"capacity", kInvalid, [](auto& d) { d.capacity = 0x7fffffff; }},
    {"SHARED_EXPERT", kInvalid, [](auto& d) { d.capacity = 8, d.flags |= IRONCL_ROUTE_SHARED_EXPERT; }},
    {"score", kInvalid, [](auto& d) { d.flags = IRONCL_ROUTE_GIVEN, d.logits_dtype = 0; }},
    {"flags", kUnknown, [](auto& d) { d.flags = 1u << 20; }},
    {"score", kUnknown, [](auto& d) { d.score = 77; }},
    {"logits_dtype", kUnknown, [](auto& d) { d.logits_dtype = 77; }},
};

void wrong_routers(Context& c) { expect_wrong(c, Routed{}.desc(), kWrongRouters); }

constexpr Wrong<ironcl_route_args> kWrongRouteCalls[] = {
    {"tokens", kInvalid, [](auto& a) { a.tokens += 1; }},
    {"tokens", kInvalid, [](auto& a) { a.tokens = -1; }},
    {"logits", kInvalid, [](auto& a) { a.logits = {}; }},
    {"ids", kInvalid, [](auto& a) { a.ids.size -= 1; }},
    {"weights", kInvalid, [](auto& a) { a.weights = {}; }},
    {"matrix_rows", kInvalid, [](auto& a) { a.matrix_rows = {}; }},
    {"a_index", kInvalid, [](auto& a) { a.a_index.size -= 1; }},
    {"rows", kInvalid, [](auto& a) { a.rows.offset |= 1; }},
    {"ids", kInvalid, [](auto& a) { a.ids.buffer = a.logits.buffer, a.ids.offset = a.logits.offset; }},
    {"wait", kInvalid, [](auto& a) { a.wait_count = 1; }},
};

void wrong_route_calls(Context& c) { expect_wrong_steps<Bench>(c, Routed{}, kWrongRouteCalls); }

void add_models(const std::function<void(const std::string&, const Routed&, bool)>& add) {
  Routed deepseek;
  deepseek.rule = {.experts = 256,
                   .top_k = 8,
                   .score = numerics::Score::sigmoid,
                   .expert_groups = 8,
                   .top_groups = 4,
                   .scale = 2.5f,
                   .normalize = true,
                   .best_of_two = true};
  deepseek.bias.resize(256);
  for (std::size_t e = 0; e < 256; ++e) deepseek.bias[e] = static_cast<float>((e * 37) % 64) * 0.01f;
  deepseek.tokens = 64;
  add("DeepSeekV3", deepseek, true);
  deepseek.logits = DType::bf16;
  add("DeepSeekV3FromBf16", deepseek, true);
  Routed qwen;
  qwen.rule = {.experts = 128, .top_k = 8, .normalize = true};
  qwen.tokens = 130;
  add("Qwen3", qwen, true);
  qwen.rule = {.experts = 512, .top_k = 10, .normalize = true};
  qwen.shared_gate = true, qwen.logits = DType::bf16;
  add("Qwen3NextWithASharedGate", qwen, true);
  Routed mixtral;
  mixtral.rule = {.experts = 8, .top_k = 2, .normalize = true};
  add("Mixtral", mixtral, true);
  Routed deepseek4;
  deepseek4.rule = {
      .experts = 64, .top_k = 6, .score = numerics::Score::sqrt_softplus, .scale = 1.5f, .normalize = true};
  add("DeepSeekV4", deepseek4, true);
}

}  // namespace

void add_route_tests(Suite& suite) {
  const auto add = [&suite](const std::string& name, const Routed& r, bool floor) {
    suite.add(
        "Route", name, Needs::experts, [r](Context& c) { route(c, r); }, floor);
  };
  add_models(add);
  for (const auto score : {numerics::Score::softmax, numerics::Score::sigmoid, numerics::Score::sqrt_softplus}) {
    const char* name = score == numerics::Score::softmax   ? "Softmax"
                       : score == numerics::Score::sigmoid ? "Sigmoid"
                                                           : "SqrtSoftplus";
    Routed r;
    r.rule.score = score;
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      r.logits = type;
      add(fmt::format("{}Of{}", name, numerics::name_of(type)), r, true);
    }
    r.logits = DType::f32;
    r.kind = Logits::wide;
    add(fmt::format("{}OfLargeLogits", name), r, true);
    r.kind = Logits::ties;
    add(fmt::format("{}OfTies", name), r, true);
    r.kind = Logits::hard;
    add(fmt::format("{}OfNanAndInfinity", name), r, true);
    r.kind = Logits::ties, r.rule.normalize = true, r.rule.scale = 2.5f;
    r.rule.expert_groups = 4, r.rule.top_groups = 2;
    add(fmt::format("{}InGroups", name), r, true);
    r.rule.best_of_two = true;
    add(fmt::format("{}InGroupsByTheirTwoBest", name), r, true);
    r.kind = Logits::hard;
    add(fmt::format("{}InGroupsOfNan", name), r, true);
  }
  Routed r;
  r.rule = {.experts = 12, .top_k = 12, .normalize = true};
  add("EveryExpert", r, true);
  r.rule = {.experts = 1, .top_k = 1};
  add("OneExpert", r, true);
  r.rule = {.experts = 60, .top_k = 4};
  add("SixtyExperts", r, true);
  r.rule = {.experts = 97, .top_k = 64};
  add("SixtyFourOfNinetySeven", r, true);
  r.rule = {.experts = 4096, .top_k = 3}, r.tokens = 5;
  add("ManyExperts", r, false);
  r = {};
  for (const std::int64_t tokens : {1, 2, 63, 64, 65, 1000}) {
    r.tokens = tokens;
    add(fmt::format("Tokens{}", tokens), r, true);
  }
  r.tokens = 37;
  r.called = 9;
  add("FewerTokensThanDescribed", r, true);
  r.called = 0;
  add("NoTokensCountNoRows", r, true);
  r.called = -1, r.pad = 3;
  add("GapsBetweenTokens", r, true);
  r.pad = 0, r.first = 5, r.local = 7;
  add("SomeExpertsAreElsewhere", r, true);
  r.capacity = 6;
  add("CapacityDropsRowsOfSome", r, true);
  r.tokens = 1;
  add("OneTokenOfWhichSomeExpertsAreElsewhere", r, true);
  r.tokens = 37, r.first = 0, r.local = 0;
  add("CapacityDropsRows", r, true);
  r.capacity = 1000;
  add("CapacityForAll", r, true);
  r.tokens = 1, r.capacity = 0, r.shared_expert = true;
  add("OneTokenWithASharedExpert", r, true);
  r.tokens = 130, r.first = 5, r.local = 7;
  add("ASharedExpertBeforeSome", r, true);
  r.called = 0;
  add("NoTokensOfASharedExpert", r, true);
  r = {};
  r.given = true;
  add("GivenIds", r, true);
  r.first = 3, r.local = 6, r.capacity = 5;
  add("GivenIdsWithCapacity", r, true);
  r.shared_gate = true;
  add("GivenIdsWithASharedGate", r, true);
  suite.add("Route", "StepsLeaveNoChoice", Needs::experts, exact_choice);
  suite.add("Route", "BiasChoosesAndDoesNotWeigh", Needs::experts, bias_chooses_and_does_not_weigh);
  suite.add("Route", "BiasStaysF32", Needs::experts, bias_stays_f32);
  suite.add("Route", "WaitsForItsWaitList", Needs::experts, waits_for_its_list);
  suite.add("Route", "WrongDescriptionsAreNamed", Needs::experts, wrong_routers);
  suite.add("Route", "WrongCallsAreNamed", Needs::experts, wrong_route_calls);
}

}  // namespace ironcl::conformance
