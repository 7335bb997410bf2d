// SPDX-License-Identifier: Apache-2.0
// The life of a plan: description, plan, weights, calls on two queues, D against the oracle, weights back.
#include <algorithm>
#include <cstring>
#include <map>

#include "backends/numerics/bounds.h"
#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "tests/faulty_opencl/living.h"

namespace ironcl::faulty {
namespace {

using numerics::DType;
constexpr std::int64_t kGroup = testing::F8Product::kGroup;

/// The problem's bytes on the host and what D must be.
struct Data {
  std::vector<std::uint8_t> a, a_scales, b, b_scales, rows;
  std::vector<numerics::OracleResult> want;  ///< Of each matrix' rows.
};

Data make_data(const Problem& p) {
  std::uint32_t state = 77;
  const auto next = [&] { return state = state * 1664525u + 1013904223u; };
  const auto scales = [&](std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& v : values) v = 0.25f + static_cast<float>(next() >> 8) * 0x1p-24f;
    return values;
  };
  const auto codes = [&](std::int64_t count) {
    std::vector<std::uint8_t> values(static_cast<std::size_t>(count));
    for (auto& v : values) v = static_cast<std::uint8_t>((next() >> 24) & 0xbf);
    return values;
  };
  Data data;
  std::vector<std::uint8_t> a_codes = codes(p.m * p.k);
  std::vector<float> sa = scales(p.m * p.k_groups()), sb = scales(p.matrices() * p.b_scales_of_a_matrix());
  data.b = codes(p.matrices() * p.n * p.k);
  if (p.dynamic) {
    std::vector<float> x(static_cast<std::size_t>(p.m * p.k));
    for (float& v : x) v = static_cast<float>(next() >> 8) * 0x1p-22f - 2.0f;
    data.a.resize(x.size() * 2);
    numerics::encode(DType::bf16, x, data.a.data());
    numerics::quantize(DType::bf16, data.a.data(), p.m, p.k, p.k, DType::e4m3fn, {1, kGroup}, {}, a_codes, sa);
  } else {
    data.a = a_codes;
    data.a_scales.resize(sa.size() * sizeof(float));
    std::memcpy(data.a_scales.data(), sa.data(), data.a_scales.size());
  }
  data.b_scales.resize(sb.size() * sizeof(float));
  std::memcpy(data.b_scales.data(), sb.data(), data.b_scales.size());
  data.rows.resize(p.rows.size() * sizeof(std::int32_t));
  if (!p.rows.empty()) std::memcpy(data.rows.data(), p.rows.data(), data.rows.size());
  std::int64_t first = 0;
  for (std::int64_t g = 0; g < p.matrices(); ++g) {
    data.want.push_back(p.oracle(g, first, a_codes, sa, data.b, sb));
    first += p.rows_of(g);
  }
  return data;
}

ironcl_gemm_desc describe(const Problem& p, ironcl_options& options) {
  ironcl_gemm_desc d = p.desc();
  options = {};
  options.chain = {sizeof(options), IRONCL_CHAIN_OPTIONS, nullptr};
  options.count = static_cast<std::uint32_t>(p.options.size());
  options.items = p.options.data();
  if (!p.options.empty()) d.next = &options.chain;
  return d;
}

class Product final : public Living {
 public:
  Product(const Surroundings& around, const Problem& problem, const Data& data)
      : Living(around), problem_(problem), data_(data) {}

 private:
  void steps() override {
    ironcl_options options;
    const ironcl_gemm_desc desc = describe(problem_, options);
    attempt([&] {
      auto props = sized<ironcl_device_props>();
      need("device_props", [&](Error* e) { return p_.device_props(device_, &props, e); });
    });
    attempt([&] {
      auto support = sized<ironcl_support>();
      need("supports", [&](Error* e) { return p_.supports(device_, &desc, &support, e); });
      if (support.reason != 0) throw Refused{support.text};
    });
    attempt([&] { make_op(plan_, desc); });
    attempt([&] { queues(); });
    attempt([&] {
      buffer(a_, data_.a.size());
      if (!data_.a_scales.empty()) buffer(a_scales_, data_.a_scales.size());
      if (!data_.rows.empty()) buffer(rows_, data_.rows.size());
      buffer(d_, d_bytes());
    });
    attempt([&] {
      put(queue_, a_, data_.a.data(), data_.a.size());
      if (!data_.a_scales.empty()) put(queue_, a_scales_, data_.a_scales.data(), data_.a_scales.size());
      if (!data_.rows.empty()) put(queue_, rows_, data_.rows.data(), data_.rows.size());
    });
    attempt([&] { prepare(); });
    attempt([&] { call(queue_, nullptr); });
    attempt([&] {
      // Another queue, told to wait for the first one's command; both use the plan's own workspace.
      fresh_second_queue();
      call(second_, multiply(queue_, problem_.m));
    });
    attempt([&] {
      wait(multiply(queue_, 0), 1'000'000'000);
      need("queue_finish", [&](Error* e) { return p_.queue_finish(queue_, e); });
    });
    attempt([&] { export_back(); });
  }

  std::size_t d_bytes() const { return static_cast<std::size_t>(problem_.m * problem_.n) * sizeof(float); }

  void prepare() {
    const ironcl_weights_desc w = problem_.weights(data_.b, data_.b_scales.data(), plan_);
    make("weights_prepare", weights_, [&](auto* out, Error* e) { return p_.weights_prepare(device_, &w, out, e); });
  }

  ironcl_event multiply(ironcl_queue queue, std::int64_t rows) {
    auto args = sized<ironcl_gemm_args>();
    args.m = rows;
    args.weights = weights_;
    args.a = {a_, 0, data_.a.size()};
    if (!data_.a_scales.empty()) args.a_scale = {a_scales_, 0, data_.a_scales.size()};
    if (!data_.rows.empty()) args.matrix_rows = {rows_, 0, data_.rows.size()};
    args.d = {d_, 0, d_bytes()};
    return enqueue(plan_, queue, args);
  }

  /// Poisons D, multiplies on `queue`, reads D back and compares every element.
  void call(ironcl_queue queue, ironcl_event before) {
    if (before != nullptr) need("queue_wait", [&](Error* e) { return p_.queue_wait(queue, before, e); });
    poison(queue, d_, d_bytes());
    const ironcl_event done = multiply(queue, problem_.m);
    wait(done, kForEver);
    auto profile = sized<ironcl_event_profile>();
    need("event_profile", [&](Error* e) { return p_.event_profile(done, &profile, e); });
    std::vector<float> got(static_cast<std::size_t>(problem_.m * problem_.n));
    fetch(queue, d_, got.data(), d_bytes());
    std::int64_t first = 0;
    for (const numerics::OracleResult& want : data_.want) {
      const auto count = static_cast<std::int64_t>(want.value.size());
      const std::vector<double> values(got.begin() + first, got.begin() + first + count);
      const auto verdict =
          compare(values, bounded(want, {DType::f32, numerics::AccuracyClass::f32, problem_.k, kGroup}));
      if (!verdict.pass) {
        throw Wrong{"D is wrong at [" + std::to_string(first / problem_.n + verdict.first_row) + ", " +
                    std::to_string(verdict.first_col) + "] and " + std::to_string(verdict.out_of_bounds - 1) +
                    " other elements, and every call said OK"};
      }
      first += count;
    }
  }

  void export_back() {
    std::vector<std::uint8_t> codes(data_.b.size()), scales(data_.b_scales.size());
    need("weights_export", [&](Error* e) {
      return p_.weights_export(weights_, codes.data(), codes.size(), scales.data(), scales.size(), e);
    });
    if (codes != data_.b || scales != data_.b_scales) throw Wrong{"the weights came back changed"};
  }

  void destroy() override {
    p_.weights_destroy(weights_);
    p_.op_destroy(plan_);
  }

  const Problem& problem_;
  const Data& data_;
  ironcl_op plan_ = nullptr;
  ironcl_buffer a_ = nullptr, a_scales_ = nullptr, rows_ = nullptr, d_ = nullptr;
  ironcl_weights weights_ = nullptr;
};

}  // namespace

Life live_product(const Surroundings& around, const Problem& problem) {
  static std::map<std::string, Data> made;
  auto found = made.find(problem.name);
  if (found == made.end()) found = made.emplace(problem.name, make_data(problem)).first;
  return Product(around, problem, found->second).live();
}

}  // namespace ironcl::faulty
