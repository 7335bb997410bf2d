// SPDX-License-Identifier: Apache-2.0
// Experts over ranks: which operations of the list run where, and which values travel.
#include "host/ranks/experts.h"

#include "backends/words.h"

namespace ironcl::ranks {
namespace {

using layer::Graph;
using layer::ProductOp;
using layer::ValueId;
using numerics::DType;
using Bytes = std::vector<std::byte>;

/// The operations that lead from `given` to `wanted`; other values get no memory.
Graph cut(Graph list, const std::vector<std::string>& given, const std::string& wanted) {
  const auto have = words::each(given, [&list](const std::string& name) { return list.find(name); });
  list.result = list.find(wanted);
  std::vector<layer::Operation> kept;
  std::vector<bool> used(list.values.size());
  for (const std::size_t i : list.needed(have, list.result)) {
    for (const auto* values : {&list.operations[i].in, &list.operations[i].out})
      for (const ValueId id : *values)
        if (id != layer::kNoValue) used[id] = true;
    kept.push_back(std::move(list.operations[i]));
  }
  for (const ValueId id : have) used[id] = false;
  used[list.result] = false;
  for (ValueId id = 0; id < used.size(); ++id) list.values[id].brought = !used[id];
  list.operations = std::move(kept);
  return list;
}

/// The list with x as codes and scales, as each product would quantise it.
Graph with_codes(Graph list, const layer::ExpertsForm& form) {
  if (form.x.code == DType::none) return list;
  const ValueId x = list.find("x"), codes = list.find("x codes");
  list.values[x].dtype = form.x.code;
  list.values[x].scales = {DType::f32, form.x.grid};
  for (layer::Operation& operation : list.operations) {
    auto* product = std::get_if<ProductOp>(&operation.what);
    if (product == nullptr || product->matrix == layer::Projection::router) continue;
    ValueId& a = operation.in[ProductOp::kA];
    if (a != x && a != codes) continue;
    a = x;
    product->problem.a_source = DType::none;
    product->problem.a_quantizer = {};
  }
  return list;
}

/// The list with the plans of the whole layer's products, where the device supports them. There a shared expert may
/// be a matrix of the experts'.
Graph with_plans(const Device& device, Graph list, const Graph& whole) {
  for (layer::Operation& operation : list.operations)
    for (const layer::Operation& other : whole.operations) {
      auto* product = std::get_if<ProductOp>(&operation.what);
      const auto* same = std::get_if<ProductOp>(&other.what);
      if (product != nullptr && same != nullptr &&
          (other.name == operation.name ||
           (product->shared && same->shared_first && product->matrix == same->matrix)))
        product->problem.options =
            detail::like_whole(device, report::to_gemm_desc(same->problem), report::to_gemm_desc(product->problem))
                .options;
    }
  return list;
}

void append(Bytes& to, const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

}  // namespace

SpreadExperts::SpreadExperts(Group& group, const Device& device, const layer::ExpertsSource& source,
                             const layer::ExpertsChoices& choices, const std::string& digest)
    : group_(group), device_(device), form_(source.form()), choices_(choices) {
  form_.first_expert = 0;  // Its experts are spread, so a shared one is no matrix of theirs.
  const std::string record =
      text_of("ironcl ", ironcl_build_id(), " experts ", form_.name, " ", form_.experts.count, " of ",
              form_.experts.width, "x", form_.hidden, " tokens ", choices.tokens, " ", digest);
  group.together("creating a split of experts", record, [&] {
    queue_ = Queue(device);
    experts_ = Partition::even("experts", form_.experts.count, group.size());
    list_ = with_plans(device, graph_of(form_, choices, &device), graph_of(source.form(), choices, &device));
    plans_.resize(list_.operations.size());
    router_ = steps(source, list_, {"x"}, form_.shared_gate ? "shared weights" : "ids");
    if (form_.shared_gate) sort_ = steps(source, list_, {"x", "ids"}, "shared weights");
    if (form_.shared) shared_ = steps(source, list_, {"x"}, "shared expert, down");
    const Range mine = experts_.ranges[static_cast<std::size_t>(group.rank())];
    if (mine.size() == 0) return;
    const layer::LocalExperts local(source, mine.begin, mine.size(), false);
    local_ = steps(local, with_plans(device, with_codes(graph_of(local.form(), choices, &device), form_), list_),
                   {"x", "ids"}, "down");
  });
}

SpreadExperts::Steps SpreadExperts::steps(const layer::ExpertsSource& source, Graph list,
                                          const std::vector<std::string>& given, const std::string& wanted) {
  Steps made;
  made.runner = std::make_unique<layer::Runner>(device_, cut(std::move(list), given, wanted), choices_.tokens);
  layer::prepare(*made.runner, source);
  const std::vector<layer::PlanInfo> plans = made.runner->plans();
  for (std::size_t i = 0; i < plans.size(); ++i)
    for (std::size_t j = 0; j < list_.operations.size(); ++j)
      if (list_.operations[j].name == made.runner->graph().operations[i].name) plans_[j] = plans[i];
  return made;
}

std::span<const std::byte> SpreadExperts::call(Steps& steps, std::int64_t tokens, std::size_t rows,
                                               const std::vector<Given>& given) {
  const Graph& list = steps.runner->graph();
  steps.memory.resize(2 * given.size() + 1);
  const auto room = [&](Buffer& buffer, std::size_t bytes) -> ironcl_span {
    if (!buffer || buffer.size() < bytes) buffer = Buffer(device_, bytes);
    return buffer.span(0, bytes);
  };
  const auto put = [&](Buffer& buffer, const Parts& parts) -> ironcl_span {
    std::size_t bytes = 0, at = 0;
    for (const auto& part : parts) bytes += part.size();
    if (bytes == 0) return {};
    const ironcl_span all = room(buffer, bytes);
    for (const auto& part : parts) {
      if (!part.empty()) queue_.write(buffer.span(at, part.size()), part);
      at += part.size();
    }
    return all;
  };
  layer::Call made{tokens, {}, {}};
  for (std::size_t i = 0; i < given.size(); ++i)
    made.bound.push_back({list.find(given[i].name), put(steps.memory[2 * i], given[i].values),
                          put(steps.memory[2 * i + 1], given[i].scales), true});
  const layer::Value& result = list.values[list.result];
  const std::size_t row = layer::bytes_of_matrix(result.dtype, 1, result.cols);
  made.bound.push_back(
      {list.result, room(steps.memory.back(), static_cast<std::size_t>(result.rows_of(tokens)) * row)});
  const Event last = steps.runner->enqueue(queue_, made);
  if (steps.host.bytes().size() < rows * row) steps.host = HostMemory(device_, rows * row);
  const std::span<std::byte> to = steps.host.bytes().first(rows * row);
  if (rows != 0) queue_.read(steps.memory.back().span(0, to.size()), to).wait();
  last.wait();
  return to;
}

layer::RoutedTokens SpreadExperts::route(std::int64_t tokens, std::span<const std::byte> x,
                                         const layer::RoutedTokens* routed, std::vector<float>& shared_weights) {
  if (tokens == 0 || (routed != nullptr && !form_.shared_gate))
    return routed == nullptr ? layer::RoutedTokens() : *routed;
  Steps& steps = routed == nullptr ? router_ : sort_;
  std::vector<layer::Brought> brought = {{"x", {x.begin(), x.end()}}};
  if (routed != nullptr) brought.push_back({"ids", layer::bytes_of(routed->ids)});
  layer::Execution call(device_, *steps.runner, tokens, brought);
  const layer::Output output = call.compute();
  const Graph& list = steps.runner->graph();
  const auto values = [&](const char* name) {
    const ValueId id = list.find(name);
    return id == list.result ? layer::values_of<double>(list.values[id].dtype, output.d) : call.left(id, tokens);
  };
  if (form_.shared_gate) {
    const std::vector<double> shared = values("shared weights");
    shared_weights.assign(shared.begin(), shared.end());
  }
  if (routed != nullptr) return *routed;
  const std::vector<double> ids = values("ids"), weights = values("weights");
  return {{ids.begin(), ids.end()}, {weights.begin(), weights.end()}};
}

std::uint64_t SpreadExperts::weights_bytes() const {
  std::uint64_t bytes = 0;
  for (const Steps* one : {&router_, &sort_, &local_, &shared_})
    if (one->runner != nullptr) bytes += one->runner->weights_bytes();
  return bytes;
}

layer::RoutedTokens SpreadExperts::run(std::int64_t tokens, std::span<const std::byte> x, std::span<std::byte> y,
                                       const layer::RoutedTokens* routed) {
  const auto ranks = static_cast<std::size_t>(group_.size()), self = static_cast<std::size_t>(group_.rank());
  const auto top_k = static_cast<std::size_t>(form_.routing.top_k), hidden = static_cast<std::size_t>(form_.hidden);
  const bool quantised = form_.x.code != DType::none;
  const numerics::ScaleGrid grid = form_.x.grid;
  const std::size_t row = layer::bytes_of_matrix(quantised ? form_.x.code : choices_.x, 1, form_.hidden);
  const std::size_t scale_row =
      quantised ? sizeof(float) * static_cast<std::size_t>(grid.scale_cols(form_.hidden)) : 0;
  const std::size_t ids_row = top_k * sizeof(std::int32_t), down_row = hidden * sizeof(float);

  times_ = {};
  detail::Laps laps;
  const auto lap = [&](double Times::*phase) { times_.*phase += laps.next(); };

  // For each rank, the tokens to send there: each once, however many of that rank's experts it chose.
  layer::RoutedTokens chosen;
  std::vector<float> shared_weights;
  std::vector<std::vector<std::size_t>> sends(ranks);
  std::vector<std::size_t> slots_there(ranks);  // of this rank's tokens
  std::vector<Bytes> dispatch(ranks);
  const auto rank_at = [&](std::int32_t id) {  // of an expert; as many as there are ranks: there is no such expert
    const auto has = [id](const Range& one) { return one.begin <= id && id < one.end; };
    return static_cast<std::size_t>(std::ranges::find_if(experts_.ranges, has) - experts_.ranges.begin());
  };
  Failure failure;
  try {
    if (tokens < 0 || x.size() != layer::bytes_of_matrix(choices_.x, tokens, form_.hidden) ||
        y.size() != layer::bytes_of_matrix(choices_.out, tokens, form_.hidden))
      invalid(tokens, " tokens with ", x.size(), " bytes of x and ", y.size(), " of y");
    lap(&Times::compute);
    chosen = route(tokens, x, routed, shared_weights);
    lap(&Times::product);
    std::vector<std::uint8_t> codes(quantised ? static_cast<std::size_t>(tokens) * row : 0);
    std::vector<float> scales(quantised ? static_cast<std::size_t>(tokens * grid.scale_cols(form_.hidden)) : 0);
    if (quantised)
      numerics::quantize(choices_.x, x.data(), tokens, form_.hidden, form_.hidden, form_.x.code, grid,
                         form_.x.quantizer, codes, scales);
    const auto* rows = quantised ? reinterpret_cast<const std::byte*>(codes.data()) : x.data();
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(tokens) * top_k; ++slot) {
      const std::size_t rank = rank_at(chosen.ids[slot]), token = slot / top_k;
      if (rank == ranks) continue;
      ++slots_there[rank];
      if (sends[rank].empty() || sends[rank].back() != token) sends[rank].push_back(token);
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const std::size_t token : sends[rank]) append(dispatch[rank], rows + token * row, row);
      for (const std::size_t token : sends[rank])
        append(dispatch[rank], reinterpret_cast<const std::byte*>(scales.data()) + token * scale_row, scale_row);
      for (const std::size_t token : sends[rank]) append(dispatch[rank], chosen.ids.data() + token * top_k, ids_row);
    }
  } catch (...) {
    failure = failure_of(std::current_exception());
  }
  const auto counts =
      words::each(sends, [](const auto& tokens_there) -> std::uint64_t { return tokens_there.size(); });
  std::vector<std::span<const std::byte>> send(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) send[rank] = std::as_bytes(std::span(counts).subspan(rank, 1));
  lap(&Times::compute);
  Exchange counting(group_, "counts of tokens", send, std::vector<std::size_t>(ranks, sizeof counts[0]), failure);
  counting.finish();

  std::vector<std::size_t> receive(ranks), here(ranks);
  std::size_t all = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::uint64_t count = 0;
    std::memcpy(&count, counting.from(static_cast<int>(rank)).data(), sizeof count);
    here[rank] = static_cast<std::size_t>(count);
    all += here[rank];
    receive[rank] = here[rank] * (row + scale_row + ids_row);
    send[rank] = dispatch[rank];
  }
  Exchange coming(group_, "dispatch of tokens", send, receive);
  coming.finish();
  lap(&Times::exchange);

  // This rank's experts compute the tokens that are here; of each token its slots in order.
  Given codes{"x", {}, {}};
  std::vector<std::int32_t> slots(all * top_k), at(slots.size()), index(slots.size());
  results_.resize(ranks);
  std::size_t all_theirs = 0;
  for (std::size_t rank = 0, slot = 0; rank < ranks; ++rank) {
    const std::span<const std::byte> from = coming.from(static_cast<int>(rank));
    codes.values.push_back(from.first(here[rank] * row));
    codes.scales.push_back(from.subspan(here[rank] * row, here[rank] * scale_row));
    std::ranges::copy(from.last(here[rank] * ids_row), reinterpret_cast<std::byte*>(slots.data() + slot));
    std::size_t theirs = 0;
    for (const std::size_t end = slot + here[rank] * top_k; slot < end; ++slot)
      theirs += rank_at(slots[slot]) == self;
    all_theirs += theirs;
    results_[rank].resize(theirs * down_row);
    send[rank] = results_[rank];
    receive[rank] = slots_there[rank] * down_row;
  }
  std::span<const std::byte> shared;
  try {
    lap(&Times::compute);
    if (all != 0) {
      const std::span<const std::byte> down =
          call(local_, static_cast<std::int64_t>(all), all_theirs,
               {std::move(codes), {"ids", {std::as_bytes(std::span(slots))}, {}}});
      lap(&Times::product);
      const Range mine = experts_.ranges[self];
      std::vector<std::int32_t> per_expert(static_cast<std::size_t>(mine.size()));
      numerics::sort_by_expert(slots, form_.routing.top_k, {mine.begin, mine.size(), 0}, per_expert, index, at);
      for (std::size_t rank = 0, slot = 0; rank < ranks; ++rank) {
        std::byte* to = results_[rank].data();
        for (const std::size_t end = slot + here[rank] * top_k; slot < end; ++slot)
          if (at[slot] >= 0)
            to = std::copy_n(down.data() + static_cast<std::size_t>(at[slot]) * down_row, down_row, to);
      }
    }
    lap(&Times::compute);
    if (form_.shared && tokens != 0)
      shared = call(shared_, tokens, static_cast<std::size_t>(tokens), {{"x", {x}, {}}});
    lap(&Times::product);
  } catch (...) {
    failure = failure_of(std::current_exception());
  }
  Exchange back(group_, "results of experts", send, receive, failure);
  back.finish();
  lap(&Times::exchange);
  // A rank's results lie in the order of the tokens and slots that it got.
  std::vector<const std::byte*> next;
  for (std::size_t rank = 0; rank < ranks; ++rank) next.push_back(back.from(static_cast<int>(rank)).data());
  std::vector<float> sum(hidden), added(hidden);
  for (std::size_t token = 0; token < static_cast<std::size_t>(tokens); ++token) {
    std::ranges::fill(sum, 0.0f);
    for (std::size_t slot = token * top_k; slot < (token + 1) * top_k; ++slot) {
      const std::size_t rank = rank_at(chosen.ids[slot]);
      if (rank == ranks) continue;
      const std::byte*& from = next[rank];
      std::memcpy(added.data(), from, down_row);
      from += down_row;
      numerics::add_weighted(chosen.weights[slot], added, sum);
    }
    if (!shared.empty()) {
      std::memcpy(added.data(), shared.data() + token * down_row, down_row);
      numerics::add_weighted(shared_weights.empty() ? 1.0f : shared_weights[token], added, sum);
    }
    numerics::encode(choices_.out, std::span<const float>(sum),
                     y.data() + token * layer::bytes_of_matrix(choices_.out, 1, form_.hidden));
  }
  lap(&Times::compute);
  return chosen;
}

}  // namespace ironcl::ranks
