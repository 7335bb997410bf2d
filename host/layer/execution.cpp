// SPDX-License-Identifier: Apache-2.0
// A list on a device with what its calls bring.
#include "host/layer/execution.h"

#include "host/report/units.h"

namespace ironcl::layer {
namespace {

using numerics::DType;
using report::now_ns;

/// A pattern that no kernel writes by computing: a NaN with a payload, in f32, and in f16 and bf16 alike.
constexpr std::array<std::byte, 4> kPoison{std::byte{0xa5}, std::byte{0xa5}, std::byte{0xa5}, std::byte{0x7f}};
constexpr std::array<std::byte, 1> kPoisonOfAByte{std::byte{0xff}};

std::span<const std::byte> poison_of(DType type) {
  const std::size_t size = numerics::size_of(type);
  return size == 1 ? std::span<const std::byte>(kPoisonOfAByte) : std::span(kPoison).last(size);
}

std::int64_t count_poisoned(DType type, const std::vector<std::byte>& bytes) {
  const auto pattern = poison_of(type);
  std::int64_t count = 0;
  for (auto at = bytes.begin(); at != bytes.end(); at += std::ssize(pattern))
    count += std::equal(pattern.begin(), pattern.end(), at) ? 1 : 0;
  return count;
}

/// The time of all steps of a call together, the last one's event apart; of a model the sum of their times.
Timing time_of(const std::vector<Event>& steps, const Event& last) {
  Timing timing;
  std::uint64_t begin = UINT64_MAX, end = 0;
  double sum = 0;
  for (std::size_t i = 0; i <= steps.size(); ++i) {
    try {
      const ironcl_event_profile profile = (i < steps.size() ? steps[i] : last).profile();
      timing.time_kind = profile.time_kind;
      begin = std::min(begin, profile.start_ns);
      end = std::max(end, profile.end_ns);
      sum += static_cast<double>(profile.end_ns - profile.start_ns);
    } catch (const Error& error) {
      // A device that cannot say how long a step took still computed.
      if (!error.is_refusal()) throw;
      return {};
    }
  }
  if (begin > end) return timing;
  timing.device_ns = timing.time_kind == IRONCL_TIME_MODELLED ? sum : static_cast<double>(end - begin);
  return timing;
}

}  // namespace

std::string time_kind_name(std::uint32_t time_kind) {
  return time_kind == IRONCL_TIME_MEASURED ? "measured" : time_kind == IRONCL_TIME_MODELLED ? "modelled" : "";
}

Execution::Execution(const Device& device, const report::Problem& problem, const Operands& operands,
                     const ExecutionSettings& settings)
    : problem_(problem), device_(device), queue_(device) {
  const double before_plan = now_ns();
  own_ = std::make_unique<Runner>(device, graph_of(problem), problem.m);
  runner_ = own_.get();
  plan_ns_ = now_ns() - before_plan;
  prepare(operands, settings);
  if (const report::Scales& scales = problem.d_scale; scales.dtype != DType::none) {
    if (problem.d_quantizer.given || scales.grid.group_rows != 1)
      throw Error(IRONCL_UNSUPPORTED, 0,
                  "a D whose scales are given or shared by rows is not judged here; ask for scales of single rows, "
                  "such as 1x128, that the plan makes");
    d_scale_ = Buffer(device, bytes_of_matrix(scales.dtype, problem.m, scales.grid.scale_cols(problem.n)));
  }
  if (const std::uint64_t bytes = plan().info().workspace_bytes; bytes != 0) workspace_ = Buffer(device, bytes);
  call_.workspace = workspace_.span();
  bind_result(problem.m);
  // Few distinct copies of A are enough: it is rewritten or small beside the weights that pass between two uses.
  bring("x", operands.a, operands.a_scale, std::min<std::size_t>(copies(), 4));
  if (problem.bias != DType::none) bring("bias", operands.bias);
  if (problem.grouping != Grouping::none) bring("counts", std::as_bytes(operands.counts));
  queue_.finish();
}

Execution::Execution(const Device& device, Runner& runner, std::int64_t tokens, const std::vector<Brought>& brought)
    : device_(device), queue_(device), runner_(&runner) {
  bind_result(tokens);
  for (const Brought& one : brought) bring(one.value, one.data, one.scales);
  queue_.finish();
}

Execution::Execution(const Device& device, Runner& experts, const ExpertsInput& input)
    : Execution(device, experts, input.tokens, brought_by(input)) {
  if (input.routed) return;
  for (const char* name : {"ids", "weights"}) {
    const ValueId id = runner_->graph().find(name);
    made_.emplace_back(device, runner_->graph().values[id].bytes(input.tokens));
    call_.bound.push_back({id, made_.back().span()});
  }
}

void Execution::bind_result(std::int64_t tokens) {
  const Graph& graph = runner_->graph();
  d_ = Buffer(device_, graph.values[graph.result].bytes(tokens));
  call_.tokens = tokens;
  call_.bound.push_back({graph.result, d_.span(), d_scale_.span()});
}

void Execution::bring(const std::string& name, std::span<const std::byte> values, std::span<const std::byte> scales,
                      std::size_t copies) {
  const ValueId id = runner_->graph().find(name);
  if (id == kNoValue || values.size() != runner_->graph().values[id].bytes(call_.tokens))
    throw std::invalid_argument("execution: " + name + " is no value of the list, or has another size");
  Given& given = given_.emplace_back(Given{id, {}, {}});
  for (std::size_t copy = 0; copy < copies; ++copy) {
    given.values.push_back(upload(values));
    given.scales.push_back(upload(scales));
  }
}

void Execution::prepare(const Operands& operands, const ExecutionSettings& settings) {
  const std::uint64_t one = std::max<std::uint64_t>(operands.b.size(), 1);
  const std::uint64_t wanted =
      std::max<std::uint64_t>(settings.copies, std::min<std::uint64_t>((settings.rotate_bytes + one - 1) / one, 64));
  Runner::Copies& weights = runner_->weights(0);
  if (settings.pool != nullptr && settings.pool->contains(settings.layout))
    weights = settings.pool->at(settings.layout);
  while (weights->size() < wanted) {
    const double before = now_ns();
    runner_->prepare(0, operands.b, operands.b_scale, operands.b_global);
    if (prepare_ns_ == 0) prepare_ns_ = now_ns() - before;
  }
  if (settings.pool != nullptr) (*settings.pool)[settings.layout] = weights;
}

Buffer Execution::upload(std::span<const std::byte> values) {
  Buffer buffer(device_, values.size());
  if (!values.empty()) queue_.write(buffer, values);
  return buffer;
}

Call Execution::next_call() {
  Call call = call_;
  call.copy = next_++;
  for (const Given& one : given_) {
    const std::size_t copy = call.copy % one.values.size();
    call.bound.push_back({one.value, one.values[copy].span(), one.scales[copy].span(), true});
  }
  return call;
}

void Execution::record() {
  SequenceDesc call;
  record(call);
  sequence_ = {device_, call};
}

Timing Execution::run(const Call& call) {
  std::vector<Event> steps;
  const double before = now_ns();
  if (sequence_) {
    queue_.run(sequence_, {}).wait();
    return {.host_ns = now_ns() - before};
  }
  const Event last = runner_->enqueue(queue_, call, tells_times_ ? &steps : nullptr);
  last.wait();
  const double after = now_ns();
  Timing timing = tells_times_ ? time_of(steps, last) : Timing{};
  timing.host_ns = after - before;
  tells_times_ = timing.time_kind != IRONCL_TIME_NONE;
  return timing;
}

Timing Execution::run() { return run(next_call()); }

template <class T>
std::vector<T> Execution::fetch(const ironcl_span& span) {
  std::vector<T> values(static_cast<std::size_t>(span.size) / sizeof(T));
  if (!values.empty()) queue_.read(span, std::span(values)).wait();
  return values;
}

std::vector<double> Execution::left(ValueId id, std::int64_t rows) {
  const Value& value = runner_->graph().values[id];
  if (rows == 0) return {};
  ironcl_span span = runner_->span(id, call_.tokens);
  // Up to the last element of the last row that is wanted.
  span.size = bytes_of_matrix(value.dtype, rows, value.cols);
  std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  const bool scaled = value.scales.dtype != DType::none;
  return decoded(value, fetch<std::byte>(span),
                 fetch<std::byte>(scaled ? runner_->scales(id, call_.tokens) : ironcl_span{}), all);
}

Output Execution::compute(bool show_quantized, const std::function<Timing()>& instead) {
  Output output;
  const Graph& graph = runner_->graph();
  const DType out = graph.values[graph.result].dtype;
  for (std::size_t i = 0; const PlanInfo& plan : runner_->plans()) {
    const auto* product = std::get_if<ProductOp>(&graph.operations[i++].what);
    if (product == nullptr || product->matrix == Projection::router) continue;
    output.accuracy = std::max(output.accuracy, plan.accuracy);
    if (!output.variant.empty()) continue;
    output.variant = plan.variant;
    output.accumulation_length = plan.accumulation_length;
    if (own_ != nullptr) output.tuning = plan.tuning;
  }
  const auto pattern = poison_of(out);
  output.d.resize(static_cast<std::size_t>(d_.size()));
  for (std::size_t i = 0; i < output.d.size(); ++i) output.d[i] = pattern[i % pattern.size()];
  if (d_.size() != 0) queue_.write(d_, std::span<const std::byte>(output.d)).wait();

  Call call = next_call();
  Buffer codes, scales;
  output.shows_quantized = own_ != nullptr && show_quantized && plan_makes_scales(problem_);
  if (output.shows_quantized) {
    const numerics::ScaleGrid grid = problem_.a_scale.grid;
    codes = Buffer(device_, bytes_of_matrix(problem_.a, problem_.m, problem_.k));
    scales = Buffer(device_, bytes_of_matrix(DType::f32, grid.scale_rows(problem_.m), grid.scale_cols(problem_.k)));
    call.bound.push_back({graph.find("x codes"), codes.span(), scales.span()});
  }
  output.timing = instead ? instead() : run(call);
  output.d = fetch<std::byte>(d_.span());
  output.d_scales = fetch<std::byte>(d_scale_.span());
  output.quantized = {fetch<std::uint8_t>(codes.span()), fetch<float>(scales.span())};
  if (out != DType::i8) output.unwritten = count_poisoned(out, output.d);  // Of i8 it is a code like any other.
  const auto find = [&](const char* name) { return std::ranges::find(call.bound, graph.find(name), &Bound::value); };
  if (const auto ids = find("ids"), weights = find("weights");
      ids != call.bound.end() && weights != call.bound.end()) {
    output.routed = {fetch<std::int32_t>(ids->span), fetch<float>(weights->span)};
    if (!ids->given) output.logits = fetch<float>(runner_->span(graph.find("logits"), call.tokens));
  }
  return output;
}

Check Execution::check(const Expected& expected, const std::function<Timing()>& instead) {
  const Output output = compute(false, instead);
  return layer::check(expected, output.d, output.unwritten, runner_->plans(), output.d_scales);
}

}  // namespace ironcl::layer
