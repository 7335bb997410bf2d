// SPDX-License-Identifier: Apache-2.0
// Reading x and routings.
#include "host/layer/experts_input.h"

#include <cmath>

#include "host/checkpoint/matrix.h"

namespace ironcl::layer {
namespace {

using checkpoint::ErrorKind;
using checkpoint::Tensor;
using numerics::DType;

std::vector<std::int32_t> read_ids(const Tensor& tensor, std::int64_t count, std::int64_t experts) {
  const bool wide = tensor.dtype_name == "I64";
  if (!wide && tensor.dtype != DType::s32)
    throw checkpoint::Error(ErrorKind::dtype, tensor, "is {}; ids of experts are I32 or I64", tensor.dtype_name);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t id = wide ? tensor.element<std::int64_t>(at) : tensor.element<std::int32_t>(at);
    if (id >= experts)
      throw checkpoint::Error(ErrorKind::value, tensor, "has id {} at {}; the layer has {} experts", id, i, experts);
    ids[i] = static_cast<std::int32_t>(std::max<std::int64_t>(id, -1));
  }
  return ids;
}

RoutedTokens load_routing(const std::string& text, std::int64_t tokens, const ExpertsForm& form) {
  const auto ref = checkpoint::parse_tensor_ref(text, 2);
  const auto file = checkpoint::SafetensorsFile::open(ref.file);
  const Tensor &ids = file.at(ref.tensors[0]), &weights = file.at(ref.tensors[1]);
  for (const Tensor* tensor : {&ids, &weights}) {
    if (tensor->shape.size() != 2 || tensor->shape[0] < tokens || tensor->shape[1] != form.routing.top_k)
      throw checkpoint::Error(ErrorKind::shape, *tensor,
                              "is {}, expected [{}, {}]: {} experts for each of x's tokens", tensor->shape_text(),
                              tokens, form.routing.top_k, form.routing.top_k);
  }
  if (weights.dtype != DType::f32)
    throw checkpoint::Error(ErrorKind::dtype, weights, "is {}; weights of experts are F32", weights.dtype_name);
  const std::int64_t count = tokens * form.routing.top_k;
  RoutedTokens routed{
      read_ids(ids, count, form.routing.experts),
      values_of<float>(weights.dtype, weights.data.first(static_cast<std::size_t>(count) * sizeof(float)))};
  for (std::size_t i = 0; i < routed.weights.size(); ++i)
    if (!std::isfinite(routed.weights[i]))
      throw checkpoint::Error(ErrorKind::value, weights, "has {} at {}; a weight is finite", routed.weights[i], i);
  return routed;
}

/// Rows of x that are finite and not all zero.
std::vector<std::int64_t> telling_rows(const ExpertsForm& form, const ExpertsInput& input) {
  std::vector<std::int64_t> rows;
  std::vector<double> values(static_cast<std::size_t>(form.hidden));
  for (std::int64_t row = 0; row < input.tokens; ++row) {
    numerics::decode(input.x_dtype, input.x.data(), row * form.hidden, std::span<double>(values));
    const bool finite = std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
    if (finite && std::ranges::any_of(values, [](double value) { return value != 0; })) rows.push_back(row);
  }
  return rows;
}

}  // namespace

ExpertsInput load_experts_input(const ActivationSource& source, const std::string& routing, const ExpertsForm& form) {
  // x is not quantised by the host: to the reader it is the input of an unquantised matrix [H, H].
  checkpoint::LinearLayer entry;
  entry.name = form.name;
  entry.n = entry.k = form.hidden;
  entry.activations = checkpoint::ActivationScheme::none;
  Activations a = load_activations(source, entry);
  ExpertsInput input{a.problem.m, a.problem.a, std::move(a.data), std::move(a.origin), {}};
  if (!routing.empty()) input.routed = load_routing(routing, input.tokens, form);
  return input;
}

std::vector<Brought> brought_by(const ExpertsInput& input) {
  std::vector<Brought> brought = {{"x", input.x}};
  if (!input.routed) return brought;
  brought.push_back({"ids", bytes_of(input.routed->ids)});
  brought.push_back({"weights", bytes_of(input.routed->weights)});
  return brought;
}

Oracle oracle_of(const ExpertsSource& source, const ExpertsInput& input) {
  std::vector<Brought> brought = brought_by(input);
  if (source.form().correction_bias) brought.push_back({"bias", bytes_of(source.correction_bias())});
  return {[&source](const ProductOp& product, std::int64_t number) { return matrix_of(source, product, number); },
          input.tokens, std::move(brought)};
}

std::vector<std::int32_t> unchosen_experts(const ExpertsForm& form, const RoutedTokens& routed) {
  const std::set<std::int32_t> chosen(routed.ids.begin(), routed.ids.end());
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < form.routing.experts; ++id)
    if (!chosen.contains(id)) ids.push_back(id);
  return ids;
}

std::vector<ExpertsInput> inputs_of_the_unchosen(const ExpertsForm& form, const ExpertsInput& input,
                                                 const RoutedTokens& routed) {
  const std::vector<std::int32_t> ids = unchosen_experts(form, routed);
  const std::vector<std::int64_t> rows = telling_rows(form, input);
  std::vector<ExpertsInput> inputs;
  if (rows.empty()) return inputs;
  const auto top_k = static_cast<std::size_t>(form.routing.top_k);
  const std::size_t width = bytes_of_matrix(input.x_dtype, 1, form.hidden);
  for (std::size_t at = 0, token = 0; at < ids.size(); at += top_k, ++token) {
    if (inputs.empty() || inputs.back().tokens == input.tokens) {
      inputs.push_back({0, input.x_dtype, {}, input.origin, RoutedTokens{}});
    }
    ExpertsInput& one = inputs.back();
    ++one.tokens;
    const auto row = std::span(input.x).subspan(static_cast<std::size_t>(rows[token % rows.size()]) * width, width);
    one.x.insert(one.x.end(), row.begin(), row.end());
    for (std::size_t j = 0; j < top_k; ++j) {
      const bool is = at + j < ids.size();
      one.routed->ids.push_back(is ? ids[at + j] : -1);
      one.routed->weights.push_back(is ? 1.0f : 0.0f);
    }
  }
  return inputs;
}

}  // namespace ironcl::layer
