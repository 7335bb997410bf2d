// SPDX-License-Identifier: Apache-2.0
// Layers over ranks, with what the judge needs.
#include "host/ranks/spread.h"

#include "host/ranks/experts.h"

namespace ironcl::ranks {
namespace {

/// What the bound depends on, of a rank's plan.
struct PlanFacts {
  std::int64_t k = 0, accumulation_length = 0, accuracy = 0;
  std::int64_t terms() const {
    const std::int64_t length = accumulation_length == 0 ? k : accumulation_length;
    return length + numerics::ceil_div(k, std::max<std::int64_t>(length, 1));
  }
};

/// A plan of one device with the bound of the sum over ranks: its accumulation length is the ranks' largest, or the
/// next one that gives as many terms.
layer::PlanInfo plan_of(const std::vector<PlanFacts>& facts, std::int64_t k, bool sums) {
  layer::PlanInfo plan;
  std::int64_t terms = 0, active = 0;
  for (const PlanFacts& one : facts) {
    if (one.k == 0) continue;
    ++active;
    plan.accuracy = std::max(plan.accuracy, static_cast<numerics::AccuracyClass>(one.accuracy));
    plan.accumulation_length = std::max(plan.accumulation_length, one.accumulation_length);
    terms = std::max(terms, one.terms());
  }
  if (sums) terms += active - 1;
  while (plan.accumulation_length > 0 && PlanFacts{k, plan.accumulation_length}.terms() < terms)
    ++plan.accumulation_length;
  return plan;
}

/// A [m, k] quantised as by ranks that have some columns each: each takes the others' columns for 0.
std::vector<double> quantised_by_parts(const report::Problem& problem, const layer::Operands& operands,
                                       const std::vector<Range>& parts) {
  std::vector<double> a(static_cast<std::size_t>(problem.m * problem.k));
  const auto width = static_cast<std::int64_t>(numerics::size_of(problem.a_source));
  const numerics::ScaleGrid grid = problem.a_scale.grid;
  for (const Range& cols : parts) {
    std::vector<std::byte> x(operands.a.size());
    for (std::int64_t row = 0; row < problem.m; ++row)
      std::copy_n(operands.a.begin() + (row * problem.k + cols.begin) * width, cols.size() * width,
                  x.begin() + (row * problem.k + cols.begin) * width);
    layer::Operands some = operands;
    some.a = x;
    const layer::QuantizedA quantized = layer::quantize_a(problem, some);
    const std::vector<double> values =
        numerics::decode_operand(layer::operand_of(problem.a, quantized.codes.data(), problem.m, problem.k,
                                                   {numerics::DType::f32, grid}, quantized.scales.data()));
    for (std::int64_t row = 0; row < problem.m; ++row)
      std::copy_n(values.begin() + row * problem.k + cols.begin, cols.size(),
                  a.begin() + row * problem.k + cols.begin);
  }
  return a;
}

}  // namespace

void Launch::run(const std::function<void(Group&, const Device&)>& work) {
  if (group_) return work(*group_, devices_.front());
  ThreadRanks threads(size());
  threads.run([&](Transport& transport) {
    Group group(transport, settings_);
    work(group, devices_[static_cast<std::size_t>(group.rank())]);
  });
}

Choices choices_for(const std::string& layer, const GemmDesc& problem, const SpreadSettings& settings) {
  const std::string leaf = layer.substr(layer.rfind('.') + 1);
  constexpr std::array kRows = {"o_proj", "down_proj", "out_proj", "wo", "w2", "fc2", "c_proj", "dense_4h_to_h"};
  const bool row = std::ranges::find(kRows, leaf) != kRows.end() && (settings.ragged || k_block(problem) != 0);
  return {.split = settings.split.value_or(row ? Split::row : Split::column),
          .ragged = settings.ragged,
          .chunks = settings.chunks,
          .digest = settings.digest};
}

std::uint64_t bytes_of_part(const GemmDesc& problem, const Shards& shards, int rank) {
  const auto blocks = [](Range range, std::uint32_t origin, std::uint32_t group) -> std::int64_t {
    if (range.size() == 0 || group == 0) return range.size() == 0 ? 0 : 1;
    return (origin + range.end - 1) / group - (origin + range.begin) / group + 1;
  };
  const Scale& scale = problem.b_scale;
  const Range cols = shards.cols_of(rank);
  std::uint64_t bytes = 0;
  for (const Range& rows : shards.rows_of(rank)) {
    bytes += static_cast<std::uint64_t>(rows.size()) * bytes_of_elements(problem.b, cols.size());
    if (scale.dtype != IRONCL_DTYPE_NONE)
      bytes += bytes_of_elements(
          scale.dtype, blocks(rows, scale.row_origin, scale.rows) * blocks(cols, scale.col_origin, scale.cols));
  }
  return bytes;
}

Whole whole_of(const report::Problem& problem, const layer::Operands& operands) {
  return {report::to_gemm_desc(problem),
          {.n = problem.b_rows(),
           .k = problem.k,
           .dtype = static_cast<ironcl_dtype>(problem.b),
           .scale = report::to_desc(problem.b_scale),
           .data = operands.b,
           .scales = operands.b_scale,
           .global_scales = operands.b_global},
          operands.bias,
          problem.a_quantizer.given ? operands.a_scale : std::span<const std::byte>()};
}

std::vector<std::byte> serial_sum(const Device& device, const Whole& whole, const Shards& shards,
                                  std::span<const std::byte> x) {
  const GemmDesc& desc = whole.problem;
  const std::vector<int> active = shards.active();
  const ironcl_dtype type = active.size() > 1 ? ironcl_dtype{IRONCL_F32} : desc.d;
  Queue queue(device);
  std::vector<std::vector<std::byte>> parts;
  std::vector<const std::byte*> from;
  for (const int rank : active) {
    const Range cols = shards.cols_of(rank);
    detail::Product product(device, queue, whole, shards.rows_of(rank), cols, type, rank == active.front());
    parts.emplace_back(bytes_of_elements(type, desc.m * desc.n));
    detail::settled(queue, [&] {
      product.write(queue, x, desc.m, desc.k, cols.begin);
      product.run(queue, desc.m);
      queue.read(product.d(desc.m), std::span(parts.back())).wait();
    });
    from.push_back(parts.back().data());
  }
  if (from.size() == 1) return parts.front();
  std::vector<std::byte> d(bytes_of_elements(desc.d, desc.m * desc.n));
  sum_in_order(from, static_cast<std::size_t>(desc.m * desc.n), desc.d, d.data());
  return d;
}

layer::Substituted SpreadLayers::run(const std::string& layer, const report::Problem& problem,
                                     const layer::Operands& operands) {
  const Whole whole = whole_of(problem, operands);
  if (settings_.only_experts)
    throw Error(IRONCL_UNSUPPORTED, 0, layer + " is no layer of experts; split it by columns or rows");
  const Choices choices = choices_for(layer, whole.problem, settings_);
  const bool row = choices.split == Split::row;
  layer::Substituted made;
  launch_.run([&](Group& group, const Device& device) {
    Linear linear(group, device, whole, choices);
    std::vector<std::byte> d(layer::bytes_of_matrix(problem.d, problem.m, problem.n));
    linear.run(problem.m, operands.a, d);
    PlanFacts mine;
    layer::Output output;
    if (linear.plan()) {
      const ironcl_op_info info = linear.plan().info();
      mine = {linear.local_problem().k, info.accumulation_length, info.accuracy_class};
      output.variant = info.variant;
    }
    const std::vector<PlanFacts> facts = gathered(group, mine);
    const Times times = linear.times();
    if (settings_.again)
      settings_.again({group, device,
                       [&] {
                         linear.run(problem.m, operands.a, d);
                         return linear.times();
                       },
                       [&] {
                         linear.phases(problem.m, operands.a, d);
                         return linear.times();
                       },
                       linear.weights() ? linear.weights().info().device_bytes : 0, linear.buffer_bytes()});
    if (group.rank() != 0 && !launch_.processes()) return;
    const layer::PlanInfo plan = plan_of(facts, problem.k, row);
    output.d = std::move(d);
    output.accuracy = plan.accuracy;
    output.accumulation_length = plan.accumulation_length;
    output.timing.host_ns = (times.compute + times.waiting) * 1e9;
    const std::int64_t extra = linear.shards().extra_terms();
    made = {fmt::format("{} ranks by {}{}", group.size(), row ? "rows" : "columns",
                        extra != 0 ? fmt::format(", bound + {}", extra) : ""),
            std::move(output),
            {plan},
            {}};
    if (row && layer::plan_makes_scales(problem) && !linear.shards().cols.ragged().empty())
      made.a = quantised_by_parts(problem, operands, linear.shards().cols.ranges);
  });
  return made;
}

layer::Substituted SpreadLayers::run(const layer::ExpertsSource& source, const layer::ExpertsInput& input,
                                     const layer::ExpertsChoices& choices) {
  if (settings_.split)
    throw Error(IRONCL_UNSUPPORTED, 0, source.form().name + " is a layer of experts; split it by experts");
  layer::Substituted made;
  launch_.run([&](Group& group, const Device& device) {
    SpreadExperts experts(group, device, source, choices, settings_.digest);
    const Partition tokens = Partition::even("m", input.tokens, group.size());
    const Range mine = tokens.ranges[static_cast<std::size_t>(group.rank())];
    const auto part = [&](auto all) {
      const std::size_t width = all.size() / static_cast<std::size_t>(std::max<std::int64_t>(input.tokens, 1));
      return all.subspan(static_cast<std::size_t>(mine.begin) * width, static_cast<std::size_t>(mine.size()) * width);
    };
    layer::RoutedTokens routed;
    if (input.routed) {
      const auto ids = part(std::span(input.routed->ids));
      const auto weights = part(std::span(input.routed->weights));
      routed = {{ids.begin(), ids.end()}, {weights.begin(), weights.end()}};
    }
    const std::size_t y_row = layer::bytes_of_matrix(choices.out, 1, source.form().hidden);
    std::vector<std::byte> own(static_cast<std::size_t>(mine.size()) * y_row);
    routed = experts.run(mine.size(), part(std::span(input.x)), own, input.routed ? &routed : nullptr);
    if (settings_.again) {
      const auto call = [&] {
        experts.run(mine.size(), part(std::span(input.x)), own, &routed);
        return experts.times();
      };
      settings_.again({group, device, call, call, experts.weights_bytes(), 0});
    }
    const auto all = [&]<class T>(const std::vector<T>& values, std::size_t per_token) {
      std::vector<std::size_t> counts;
      for (const Range& one : tokens.ranges) counts.push_back(static_cast<std::size_t>(one.size()) * per_token);
      return gathered<T>(group, "rows of y", values, std::move(counts));
    };
    const auto top_k = static_cast<std::size_t>(source.form().routing.top_k);
    std::vector<std::byte> y = all(own, y_row);
    routed = {all(routed.ids, top_k), all(routed.weights, top_k)};
    if (group.rank() != 0 && !launch_.processes()) return;
    made.name = fmt::format("{} ranks by experts", group.size());
    made.plans = experts.plans();
    for (const layer::PlanInfo& plan : made.plans)
      made.output.accuracy = std::max(made.output.accuracy, plan.accuracy);
    made.output.d = std::move(y);
    made.output.routed = std::move(routed);
  });
  return made;
}

}  // namespace ironcl::ranks
