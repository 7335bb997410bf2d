// SPDX-License-Identifier: Apache-2.0
// Writing lists down, and finding what of a list a call runs.
#include "host/layer/graph.h"

#include "host/layer/operands.h"

namespace ironcl::layer {

namespace {

using numerics::DType;

constexpr DType kBetween = DType::f32;  // of what lies between the products, but see rounds_rows()
/// So few are quantised by each product that reads them, inside its kernel or on the way to it: a launch less.
constexpr std::int64_t kFewTokens = 4;

void check(const ExpertsForm& form, const ExpertsChoices& choices) {
  if (choices.tokens < 1) invalid("tokens is {}; a layer of experts is made for at least 1", choices.tokens);
  const std::int64_t here = form.first_expert.value_or(0) + form.experts.count;
  if (form.hidden < 1 || form.experts.width < 1 || here > form.routing.experts ||
      (!form.first_expert && here != form.routing.experts))
    invalid("a layer of {} experts with {} matrices of [{}, {}]", form.routing.experts, form.experts.count,
            form.experts.width, form.hidden);
  for (const DType type : {choices.x, choices.out})
    if (!numerics::is_float(type)) invalid("x or y is {}; f32, f16 and bf16 are taken", numerics::name_of(type));
  const std::int64_t rows = numerics::checked_mul(choices.tokens, form.routing.top_k);
  if (rows > INT32_MAX)
    invalid("{} tokens for {} experts each are {} rows; at most 2^31 - 1 go into one call", choices.tokens,
            form.routing.top_k, rows);
}

/// Whether the matrices of both may be those of one product.
bool of_one_form(const GatedForm& a, const GatedForm& b) {
  return a.width == b.width && a.gate == b.gate && a.down == b.down && a.may_fuse() == b.may_fuse() &&
         a.may_split() == b.may_split();
}

class ExpertsWriter {
 public:
  ExpertsWriter(const ExpertsForm& form, const ExpertsChoices& choices, const Device* device)
      : form_(form), choices_(choices), device_(device) {}

  Graph write() {
    const std::int64_t hidden = form_.hidden, top_k = form_.routing.top_k;
    shared_first_ = form_.shared && !form_.first_expert && of_one_form(*form_.shared, form_.experts);
    const ValueId x = add({"x", choices_.x, hidden, 1});
    graph_.values[x].brought = true;
    route(x, top_k);
    ValueId a = x;
    const bool one_reads_x = (!form_.shared || shared_first_) && form_.experts.may_fuse();
    if (form_.x.code != DType::none && !one_reads_x && choices_.tokens > kFewTokens) {
      a = add({"x codes", form_.x.code, hidden, 1, 0, {DType::f32, form_.x.grid}});
      graph_.operations.push_back({"quantise", QuantizeOp{form_.x.quantizer}, {x}, {a}});
    }
    const ValueId down = mlp(a, false), shared = shared_first_ ? down : form_.shared ? mlp(a, true) : kNoValue;
    graph_.result = add({"y", choices_.out, hidden, 1});
    graph_.values[graph_.result].brought = true;
    graph_.operations.push_back(
        {"combine", CombineOp{}, {down, rows_, weights_, shared, shared_weights_}, {graph_.result}});
    return std::move(graph_);
  }

 private:
  ValueId add(Value value) { return graph_.add(std::move(value)); }

  void route(ValueId x, std::int64_t top_k) {
    const ValueId logits = add({"logits", DType::f32, form_.logits(), 1});
    ProductOp router;
    router.problem = product(choices_.tokens, form_.logits(), form_.hidden, {choices_.x, {}}, form_.router);
    router.problem.weakest_accuracy = numerics::AccuracyClass::f32;
    router.matrix = Projection::router;
    const ValueId added = bias_of("router", form_.router, form_.logits(), 1);
    graph_.operations.push_back({"router", std::move(router), {x, kNoValue, kNoValue, added}, {logits}});
    const ValueId bias = form_.correction_bias ? add({"bias", DType::f32, form_.routing.experts, 0, 1}) : kNoValue;
    const ValueId ids = add({"ids", DType::s32, top_k, 1});
    weights_ = add({"weights", DType::f32, top_k, 1});
    counts_ = add({"counts", DType::s32, matrices(), 0, 1});
    index_ = add({"index", DType::s32, 1, rows_per_token(), 0, {}, true});
    rows_ = add({"rows", DType::s32, top_k, 1});
    if (form_.shared_gate) shared_weights_ = add({"shared weights", DType::f32, 1, 1});
    const RouteOp rule{form_.routing, form_.first_expert.value_or(0), shared_first_};
    graph_.operations.push_back(
        {"route", rule, {logits, bias, kNoValue}, {counts_, index_, rows_, shared_weights_, ids, weights_}});
    if (!form_.shared) shared_weights_ = kNoValue;  // Of a part whose shared expert is elsewhere.
    graph_.operations.push_back({"sort",
                                 rule,
                                 {shared_weights_ != kNoValue ? logits : kNoValue, kNoValue, ids},
                                 {counts_, index_, rows_, shared_weights_, kNoValue, kNoValue}});
  }

  report::Problem product(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixForm& a,
                          const MatrixForm& b) const {
    report::Problem problem;
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.a = a.code;
    problem.a_scale = a.scale;
    problem.b = b.code;
    problem.b_scale = b.scale;
    problem.d = kBetween;
    problem.bias = b.bias;
    problem.weakest_accuracy = choices_.weakest_accuracy;
    return problem;
  }

  /// The biases of a product's matrices, which belong to the layer as its weights do; kNoValue where it has none.
  ValueId bias_of(const std::string& product, const MatrixForm& matrix, std::int64_t n, std::int64_t matrices) {
    return matrix.bias == DType::none ? kNoValue : add({product + ", bias", matrix.bias, n, 0, matrices});
  }

  const GatedForm& gated(bool shared) const { return shared ? *form_.shared : form_.experts; }
  std::int64_t matrices() const { return form_.experts.count + (shared_first_ ? 1 : 0); }
  std::int64_t rows_per_token() const { return form_.routing.top_k + (shared_first_ ? 1 : 0); }

  /// One product of the experts' or the shared one's matrices: `to` of `a`.
  ProductOp product_of(bool shared, Projection matrix, ValueId a, ValueId to) const {
    const bool down = matrix == Projection::down;
    const Value &from = graph_.values[a], &d = graph_.values[to];
    ProductOp op;
    op.matrix = matrix;
    op.shared = shared;
    op.shared_first = !shared && shared_first_;
    op.problem = product(choices_.tokens * (shared ? 1 : rows_per_token()), d.cols, from.cols,
                         {from.dtype, from.scales}, down ? gated(shared).down : gated(shared).gate);
    op.problem.d = d.dtype;
    op.problem.d_scale = d.scales;
    if (d.scales.dtype != DType::none) op.problem.d_quantizer = form_.between.quantizer;
    if (matrix == Projection::gate_up) {
      op.problem.activation = form_.activation;
      op.problem.activation_limit = form_.activation_limit;
    }
    if (const ExpertsActivations& x = down ? form_.between : form_.x; x.code != DType::none && from.dtype != x.code) {
      op.problem.a_source = from.dtype;
      op.problem.a = x.code;
      op.problem.a_scale = {DType::f32, x.grid};
      op.problem.a_quantizer = x.quantizer;
    }
    if (!shared) {
      op.problem.grouping = Grouping::contiguous;
      op.problem.matrices = matrices();
      op.problem.options = choices_.options;
    }
    return op;
  }

  void multiply(const std::string& name, ProductOp op, ValueId a, ValueId to) {
    const bool down = op.matrix == Projection::down;
    const ValueId bias = bias_of(name, down ? gated(op.shared).down : gated(op.shared).gate, op.problem.b_rows(),
                                 op.shared ? 1 : matrices());
    const std::vector<ValueId> in = {a, op.shared ? kNoValue : counts_, op.shared || down ? kNoValue : index_, bias};
    graph_.operations.push_back({name, std::move(op), in, {to}});
  }

  bool takes(const ProductOp& op) const {
    if (device_ == nullptr) return true;
    GemmDesc desc = report::to_gemm_desc(op.problem);
    if (!op.shared) desc.a_rows = choices_.tokens;
    return static_cast<bool>(device_->supports(desc));
  }

  /// Whether rows of many tokens are rounded to y's bf16 before they are weighed and added, as other libraries do: on
  /// a GPU, whose memory bounds both, in a class whose sums have 14 bits. The launch of few tokens, or one, adds f32.
  bool rounds_rows() const {
    return choices_.tokens > 1 && device_ != nullptr && device_->props().type == IRONCL_DEVICE_GPU &&
           choices_.out == DType::bf16 && choices_.weakest_accuracy != numerics::AccuracyClass::f32;
  }

  /// The two steps of a gated MLP over all experts, or the shared one; what comes out of them. Where gate and up are
  /// no one product, they are two, and their activation a step of its own.
  ValueId mlp(ValueId a, bool shared) {
    const GatedForm& own = gated(shared);
    const std::string of = shared ? "shared expert, " : "";
    const auto value = [&](const char* name, DType dtype, std::int64_t cols) {
      return add({of + name, dtype, cols, shared ? 1 : rows_per_token(), 0, {}, !shared});
    };
    const ValueId h = value("activation", kBetween, own.width);
    const auto as_codes = [&] {
      if (form_.between.code == DType::none) return;
      graph_.values[h].dtype = form_.between.code;
      graph_.values[h].scales = {DType::f32, form_.between.grid};
    };
    const auto rows = static_cast<double>(choices_.tokens * (shared ? 1 : form_.routing.top_k));
    const bool few =
        hands_on_codes(device_, choices_.tokens, rows / static_cast<double>(own.count), choices_.weakest_accuracy);
    if (few) as_codes();
    if (ProductOp both = product_of(shared, Projection::gate_up, a, h); own.may_fuse() && takes(both)) {
      multiply(of + "gate and up", std::move(both), a, h);
    } else {
      if (!own.may_split())
        throw Error(IRONCL_UNSUPPORTED, 0,
                    fmt::format("{}: gate and up are one matrix of {} rows whose blocks of {} rows span both, and "
                                "the device takes no product with an activation",
                                form_.name, 2 * own.width, own.gate.scale.grid.group_rows));
      const ValueId gate = value("gate", kBetween, own.width), up = value("up", kBetween, own.width);
      multiply(of + "gate", product_of(shared, Projection::gate, a, gate), a, gate);
      multiply(of + "up", product_of(shared, Projection::up, a, up), a, up);
      as_codes();
      graph_.operations.push_back({of + "activation",
                                   ActivateOp{form_.activation, form_.activation_limit, form_.between.quantizer},
                                   {gate, up, shared ? kNoValue : counts_},
                                   {h}});
    }
    const ValueId down = value("down", !few && rounds_rows() ? choices_.out : kBetween, form_.hidden);
    multiply(of + "down", product_of(shared, Projection::down, h, down), h, down);
    return down;
  }

  const ExpertsForm& form_;
  const ExpertsChoices& choices_;
  const Device* device_;
  Graph graph_;
  bool shared_first_ = false;
  ValueId weights_ = kNoValue, counts_ = kNoValue, index_ = kNoValue, rows_ = kNoValue, shared_weights_ = kNoValue;
};

}  // namespace

bool hands_on_codes(const Device* device, std::int64_t tokens, double rows, numerics::AccuracyClass weakest) {
  const double most = weakest == numerics::AccuracyClass::f32 ? 32 : 16;
  return device != nullptr && device->props().type == IRONCL_DEVICE_GPU && tokens > 1 && rows <= most;
}

std::size_t Value::bytes(std::int64_t tokens) const { return bytes_of_matrix(dtype, rows_of(tokens), cols); }

std::size_t Value::scale_bytes(std::int64_t tokens) const {
  return bytes_of_matrix(scales.dtype, scales.grid.scale_rows(rows_of(tokens)), scales.grid.scale_cols(cols));
}

ValueId Graph::add(Value value) {
  values.push_back(std::move(value));
  return values.size() - 1;
}

ValueId Graph::find(std::string_view name) const noexcept {
  const auto at = std::ranges::find(values, name, &Value::name);
  return at == values.end() ? kNoValue : static_cast<ValueId>(at - values.begin());
}

std::vector<std::size_t> Graph::needed(const std::vector<ValueId>& given, ValueId wanted) const {
  std::vector<bool> is_given(values.size()), is_needed(values.size());
  for (const ValueId value : given) is_given[value] = true;
  is_needed[wanted] = true;
  std::vector<std::size_t> order;
  for (std::size_t i = operations.size(); i-- > 0;) {
    const Operation& operation = operations[i];
    if (std::holds_alternative<RouteOp>(operation.what)) {
      const ValueId ids = operation.in[RouteOp::kIds];
      if (ids != kNoValue && !is_given[ids]) continue;
    }
    bool runs = false;
    for (const ValueId value : operation.out) runs = runs || (value != kNoValue && is_needed[value]);
    if (!runs) continue;
    order.push_back(i);
    for (const ValueId value : operation.out)
      if (value != kNoValue) is_needed[value] = false;
    for (const ValueId value : operation.in)
      if (value != kNoValue && !is_given[value]) is_needed[value] = true;
  }
  std::ranges::reverse(order);
  return order;
}

Graph graph_of(const report::Problem& problem) {
  const bool makes_scales = plan_makes_scales(problem);
  Graph graph;
  Value x{"x", problem.a_source != DType::none ? problem.a_source : problem.a, problem.k};
  if (!makes_scales) x.scales = problem.a_scale;
  const ValueId a = graph.add(std::move(x));
  const ValueId counts =
      problem.grouping == Grouping::none ? kNoValue : graph.add({"counts", DType::s32, problem.matrices, 0, 1});
  const ValueId bias = problem.bias == DType::none
                           ? kNoValue
                           : graph.add({"bias", problem.bias, problem.b_rows(), 0, matrices_of(problem)});
  ProductOp op;
  op.problem = problem;
  if (makes_scales) {
    op.quantized_a = graph.add({"x codes", problem.a, problem.k, 1, 0, {DType::f32, problem.a_scale.grid}});
  }
  Value d{"d", problem.d, problem.n};
  d.scales = problem.d_scale;
  graph.result = graph.add(std::move(d));
  for (Value& value : graph.values) value.brought = true;
  graph.operations.push_back({"product", std::move(op), {a, counts, kNoValue, bias}, {graph.result}});
  return graph;
}

Graph graph_of(report::Problem both, report::Problem down) {
  Graph graph;
  const ValueId x =
      graph.add({"x", both.a_source != DType::none ? both.a_source : both.a, both.k, 1, 0, {}, false, true});
  const ValueId h = graph.add({"h", both.d, both.n, 1, 0, both.d_scale});
  graph.result = graph.add({"d", down.d, down.n, 1, 0, {}, false, true});
  ProductOp first{std::move(both), Projection::gate_up}, second{std::move(down), Projection::down};
  graph.operations.push_back({"gate and up", std::move(first), {x, kNoValue, kNoValue, kNoValue}, {h}});
  graph.operations.push_back({"down", std::move(second), {h, kNoValue, kNoValue, kNoValue}, {graph.result}});
  return graph;
}

StackedMatrices matrix_of(const ExpertsSource& source, const ProductOp& product, std::int64_t number) {
  const bool shared = product.shared || (product.shared_first && number == 0);
  return matrix_of(source, shared, product.matrix, product.shared_first && !shared ? number - 1 : number);
}

StackedMatrices matrices_of(const ExpertsSource& source, const ProductOp& product) {
  const report::Problem& p = product.problem;
  StackedMatrices all{p.b_rows(), p.k, {}, {}};
  all.codes.reserve(static_cast<std::size_t>(
      numerics::checked_mul(layer::matrices_of(p), numerics::checked_mul(p.b_rows(), numerics::bytes_of(p.b, p.k)))));
  for (std::int64_t number = 0; number < layer::matrices_of(p); ++number)
    append(all, matrix_of(source, product, number));
  return all;
}

Graph graph_of(const ExpertsForm& form, const ExpertsChoices& choices, const Device* device) {
  check(form, choices);
  return ExpertsWriter(form, choices, device).write();
}

}  // namespace ironcl::layer
