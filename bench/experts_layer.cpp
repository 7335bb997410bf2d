// SPDX-License-Identifier: Apache-2.0
// The two products of a layer of experts as grouped problems beside a loop of dense plans over the experts that are
// hit, taking turns, and the whole layer from ids to y.
//
// The loop is given what it would have to find out: its counts are on the host, its rows are permuted beforehand, and
// it has a plan for each number of rows. Each round has other tokens, so that weights come from memory. Ratios and
// shares of the copy rate are medians of the rounds', the latter both on the device's clock.
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "backends/numerics/experts.h"
#include "bench/experts.h"

namespace ironcl::bench {
namespace {

constexpr std::int64_t kFewTokens = 8;

/// Tokens of one round: their experts, and rows sorted by expert.
struct Tokens {
  std::vector<std::int32_t> ids, counts, index, rows;
  std::vector<float> weights;

  Tokens(const Model& model, std::int64_t experts, std::int64_t tokens, std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto slots = static_cast<std::size_t>(tokens * model.top_k);
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::vector<std::int32_t> chosen;
      while (static_cast<std::int64_t>(chosen.size()) < model.top_k) {
        const auto id = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(experts));
        if (std::find(chosen.begin(), chosen.end(), id) == chosen.end()) chosen.push_back(id);
      }
      ids.insert(ids.end(), chosen.begin(), chosen.end());
    }
    counts.resize(static_cast<std::size_t>(experts));
    index.resize(slots);
    rows.resize(slots);
    weights.assign(slots, 1.0f / static_cast<float>(model.top_k));
    numerics::sort_by_expert(ids, model.top_k, {0, experts, 0}, counts, index, rows);
  }
  std::int64_t hit() const {
    return static_cast<std::int64_t>(std::count_if(counts.begin(), counts.end(), [](int c) { return c > 0; }));
  }
};

/// Bytes a second that a copy reads and writes, now: on a shared machine it is another one a second later.
double copy_rate(backend::Device& device) {
  return boost::json::parse(device.query("ceilings", nullptr)).at("copy_bytes_per_s").to_number<double>();
}

}  // namespace

void layer(Run& run, const Model& model, std::int64_t experts, const std::vector<std::int64_t>& all_tokens,
           int rounds, const Options& options) {
  const std::int64_t wide = 2 * model.inner, h = model.hidden, inner = model.inner;
  fmt::print("{}: {} of {} experts, top {}, {} x {} and {} x {}\n", model.name, experts, model.experts, model.top_k,
             wide, h, h, inner);
  const auto w13 = random_codes(experts * wide * h, 1), w2 = random_codes(experts * h * inner, 2);
  const std::vector<float> s13(static_cast<std::size_t>(experts * numerics::ceil_div(wide, kBlock) * (h / kBlock)),
                               0x1p-6f);
  const std::vector<float> s2(static_cast<std::size_t>(experts * (h / kBlock) * numerics::ceil_div(inner, kBlock)),
                              0x1p-6f);
  std::map<std::string, std::shared_ptr<backend::Weights>> grouped_weights;
  std::map<std::string, std::vector<std::shared_ptr<backend::Weights>>> dense_weights;
  fmt::print("{:>6} {:>6} {:>10} {:>10} {:>7} {:>10} {:>10} {:>8}  {}\n", "T", "hit", "loop us", "grouped us",
             "ratio", "layer us", "GB/s", "of copy", "grouped with");
  for (const std::int64_t tokens : all_tokens) {
    const std::int64_t slots = tokens * model.top_k;
    const auto create = [&](backend::GemmDesc desc) {
      desc.options = options;
      return run.device().create_gemm(desc);
    };
    const auto up = create(grouped(product(slots, wide, h, DType::bf16), experts, tokens));
    const auto down = create(grouped(product(slots, h, inner, DType::bf16), experts));
    const auto of = [&](const std::shared_ptr<backend::Gemm>& plan, const auto& codes, const auto& scales) {
      auto& held = grouped_weights[plan->info().variant + std::to_string(plan->desc().k)];
      if (held == nullptr) held = run.weights(plan, codes, scales);
      return held;
    };
    const auto up_weights = of(up, w13, s13), down_weights = of(down, w2, s2);
    // The loop's plans: one for each number of rows, weights for each expert.
    std::map<std::int64_t, std::pair<std::shared_ptr<backend::Gemm>, std::shared_ptr<backend::Gemm>>> plans;
    const auto dense_of = [&](const std::shared_ptr<backend::Gemm>& plan, const auto& codes,
                              const auto& scales) -> auto& {
      auto& held = dense_weights[std::to_string(plan->desc().k)];
      if (held.empty())
        for (std::int64_t e = 0; e < experts; ++e) held.push_back(run.weights(plan, codes, scales, e));
      return held;
    };
    std::vector<Tokens> batches;
    batches.reserve(static_cast<std::size_t>(rounds) + 1);
    for (int i = 0; i < rounds + 1; ++i)
      batches.emplace_back(model, experts, tokens, static_cast<std::uint32_t>(10 + i));
    for (const Tokens& batch : batches)
      for (const std::int32_t count : batch.counts)
        if (count > 0 && plans.find(count) == plans.end())
          plans[count] = {run.device().create_gemm(product(count, wide, h, DType::bf16)),
                          run.device().create_gemm(product(count, h, inner, DType::bf16))};
    const auto& dense13 = dense_of(plans.begin()->second.first, w13, s13);
    const auto& dense2 = dense_of(plans.begin()->second.second, w2, s2);

    const auto x = random_bf16(tokens * h, 7);
    const backend::Span x_span = run.upload(x), ids = run.buffer(slots * 4), counts = run.buffer(experts * 4),
                        index = run.buffer(slots * 4), rows = run.buffer(slots * 4), weights = run.buffer(slots * 4),
                        permuted = run.buffer(slots * h * 2), wide_rows = run.buffer(slots * wide * 2),
                        middle = run.upload(random_bf16(slots * inner, 8)), codes = run.buffer(slots * inner),
                        scales = run.buffer(slots * numerics::ceil_div(inner, kBlock) * 4),
                        out = run.buffer(slots * h * 2), out_loop = run.buffer(slots * h * 2),
                        y = run.buffer(tokens * h * 2);
    // The layer's steps between the products.
    backend::RouteDesc route_desc;
    route_desc.tokens = tokens;
    route_desc.experts = route_desc.local_experts = experts;
    route_desc.top_k = model.top_k;
    route_desc.given = true;
    const auto route = run.device().create_route(route_desc);
    backend::ActivateDesc act;
    act.rows = slots;
    act.cols = act.y_ld = inner;
    act.gate_ld = act.up_ld = wide;
    act.x = DType::bf16;
    act.y = DType::e4m3fn;
    act.grouping = Grouping::contiguous;
    act.matrices = experts;
    act.scale = {DType::f32, {1, kBlock}, numerics::ceil_div(inner, kBlock)};
    const auto activate = run.device().create_activate(act);
    const auto down_codes = create(grouped(product(slots, h, inner, DType::none), experts));
    const auto combine =
        run.device().create_combine({tokens, h, slots, model.top_k, h, h, h, DType::bf16, DType::none, DType::bf16});
    const auto down_codes_weights = of(down_codes, w2, s2);

    const auto products = [&] {
      backend::GemmArgs a;
      a.m = slots;
      a.a_rows = tokens;
      a.weights = up_weights;
      a.a = x_span;
      a.d = wide_rows;
      a.matrix_rows = counts;
      a.a_index = index;
      const auto first = up->enqueue(run.queue(), a);
      a.a_rows = 0;
      a.a_index = {};
      a.weights = down_weights;
      a.a = middle;
      a.d = out;
      return std::pair{first, down->enqueue(run.queue(), a)};
    };
    const auto loop = [&](const Tokens& batch) {
      std::int64_t first = 0;
      for (std::size_t e = 0; e < batch.counts.size(); ++e) {
        const std::int64_t m = batch.counts[e];
        if (m == 0) continue;
        const auto part = [&](const backend::Span& span, std::int64_t row_bytes) {
          return backend::Span{span.buffer, static_cast<std::uint64_t>(first * row_bytes),
                               static_cast<std::uint64_t>(m * row_bytes)};
        };
        backend::GemmArgs a;
        a.m = m;
        a.weights = dense13[e];
        a.a = part(permuted, h * 2);
        a.d = part(wide_rows, wide * 2);
        plans[m].first->enqueue(run.queue(), a);
        a.weights = dense2[e];
        a.a = part(middle, inner * 2);
        a.d = part(out_loop, h * 2);
        plans[m].second->enqueue(run.queue(), a);
        first += m;
      }
    };
    const auto whole = [&] {
      backend::RouteArgs r;
      r.tokens = tokens;
      r.ids = ids;
      r.matrix_rows = counts;
      r.a_index = index;
      r.rows = rows;
      route->enqueue(run.queue(), r);
      backend::GemmArgs a;
      a.m = slots;
      a.a_rows = tokens;
      a.weights = up_weights;
      a.a = x_span;
      a.d = wide_rows;
      a.matrix_rows = counts;
      a.a_index = index;
      up->enqueue(run.queue(), a);
      backend::ActivateArgs s;
      s.rows = slots;
      s.gate = wide_rows;
      s.up = {wide_rows.buffer, static_cast<std::uint64_t>(inner * 2),
              wide_rows.size - static_cast<std::uint64_t>(inner * 2)};
      s.y = codes;
      s.scales = scales;
      s.matrix_rows = counts;
      activate->enqueue(run.queue(), s);
      backend::GemmArgs b;
      b.m = slots;
      b.weights = down_codes_weights;
      b.a = codes;
      b.a_scale = scales;
      b.d = out;
      b.matrix_rows = counts;
      down_codes->enqueue(run.queue(), b);
      backend::CombineArgs c;
      c.tokens = tokens;
      c.x = out;
      c.rows = rows;
      c.weights = weights;
      c.y = y;
      combine->enqueue(run.queue(), c);
    };
    // Few tokens wait for memory: a copy before and after each of their rounds, else only before and after all.
    const bool few = tokens <= kFewTokens;
    double before = copy_rate(run.device());
    std::vector<double> loop_s, grouped_s, layer_s, ratios, rates, of_copy;
    std::int64_t hits = 0;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const Tokens& batch = batches[i];
      const auto write = [&](const backend::Span& span, const auto& values) {
        run.queue()->write(span, values.data(), backend::HostSemantics::copied_before_return);
      };
      write(ids, batch.ids);
      write(counts, batch.counts);
      write(index, batch.index);
      write(rows, batch.rows);
      write(weights, batch.weights);
      std::vector<std::uint16_t> sorted;
      for (const std::int32_t token : batch.index)
        sorted.insert(sorted.end(), x.begin() + token * h, x.begin() + (token + 1) * h);
      write(permuted, sorted);
      run.queue()->finish();
      const auto timed = [&](auto&& call) {
        const double start = now();
        call();
        run.queue()->finish();
        return now() - start;
      };
      if (i == 0) {  // Checked, and everything is warm.
        loop(batch);
        products();
        whole();
        products();
        const double apart = difference(run.read(out), run.read(out_loop));
        if (!(apart < 0x1p-7)) {
          fmt::print("T = {}: grouped and dense differ by {} of the largest value\n", tokens, apart);
          std::exit(1);
        }
        continue;
      }
      if (few) timed(whole);  // The copy has left lines in the caches that are still to be written.
      const auto time_loop = [&] { loop_s.push_back(timed([&] { loop(batch); })); };
      if (i % 2 == 0) time_loop();  // Each side is first in every second round.
      decltype(products()) both;
      grouped_s.push_back(timed([&] { both = products(); }));
      if (i % 2 == 1) time_loop();
      layer_s.push_back(timed(whole));
      ratios.push_back(loop_s.back() / grouped_s.back());
      // On the device's clock, as copies: from the first kernel of dealing to the end of the last product.
      const double ns = static_cast<double>(both.second->profile().end_ns - both.first->profile().start_ns);
      rates.push_back(1e9 * static_cast<double>(batch.hit() * (wide * h + h * inner)) / ns);
      hits += batch.hit();
      if (few || i + 1 == batches.size()) {
        const double after = copy_rate(run.device());
        while (of_copy.size() < rates.size()) of_copy.push_back(2 * rates[of_copy.size()] / (before + after));
        before = after;
      }
    }
    fmt::print("{:>6} {:>6.0f} {:>10.1f} {:>10.1f} {:>7.2f} {:>10.1f} {:>10.1f} {:>8.2f}  {} {}; {} {}\n", tokens,
               static_cast<double>(hits) / rounds, median(loop_s) * 1e6, median(grouped_s) * 1e6, median(ratios),
               median(layer_s) * 1e6, median(rates) / 1e9, median(of_copy), up->info().variant, up->info().config,
               down->info().variant, down->info().config);
    std::fflush(stdout);
  }
}

}  // namespace ironcl::bench
