// SPDX-License-Identifier: Apache-2.0
// The life of the commands that are no plan: tokens are quantised, routed to experts, activated and combined, on two
// queues; codes, choices, rows and sums against what backends/numerics says.
#include <algorithm>
#include <cstring>
#include <span>

#include "backends/numerics/casts.h"
#include "backends/numerics/quantize.h"
#include "host/include/ironcl/plugin_ops.h"
#include "tests/activated.h"
#include "tests/faulty_opencl/living.h"

namespace ironcl::faulty {
namespace {

using numerics::DType;
constexpr std::int64_t kTokens = 9, kExperts = 8, kTopK = 2, kSlots = kTokens * kTopK, kCols = 256, kGroup = 128;
const numerics::Routing kRule{.experts = kExperts, .top_k = kTopK, .normalize = true};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Operands on the host, and what they must become.
struct Data {
  std::vector<float> logits;                   ///< [kTokens, kExperts]
  std::vector<std::uint16_t> x, gate, up, x2;  ///< bf16: [kTokens, kCols], then [kSlots, kCols] each.
  std::vector<std::uint8_t> codes;             ///< x quantised, with its scales.
  std::vector<float> scales;
  numerics::Bounded activated{kSlots, kCols, {}, {}};
};

Data make_data() {
  std::uint32_t state = 91;
  const auto next = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) * 0x1p-22f - 2.0f;
  };
  const auto bf16 = [&](std::int64_t count) {
    std::vector<float> values(at(count));
    for (float& v : values) v = next();
    std::vector<std::uint16_t> out(values.size());
    numerics::encode(DType::bf16, values, out.data());
    return out;
  };
  Data d;
  d.logits.resize(at(kTokens * kExperts));
  for (float& v : d.logits) v = next();
  d.x = bf16(kTokens * kCols);
  d.gate = bf16(kSlots * kCols), d.up = bf16(kSlots * kCols), d.x2 = bf16(kSlots * kCols);
  d.codes.resize(d.x.size());
  d.scales.resize(at(kTokens * kCols / kGroup));
  numerics::quantize(DType::bf16, d.x.data(), kTokens, kCols, kCols, DType::e4m3fn, {1, kGroup}, {}, d.codes,
                     d.scales);
  for (std::int64_t i = 0; i < kSlots * kCols; ++i)
    testing::append(d.activated, numerics::activation_oracle(numerics::Activation::silu,
                                                             numerics::load_as_f64(DType::bf16, d.gate.data(), i),
                                                             numerics::load_as_f64(DType::bf16, d.up.data(), i), 0));
  return d;
}

class Steps final : public Living {
 public:
  Steps(const Surroundings& around, const Data& data) : Living(around), data_(data) {}

 private:
  /// A buffer with the bytes of a vector that the host has too.
  template <class T>
  struct Mirror {
    ironcl_buffer buffer = nullptr;
    std::vector<T> host;
    std::uint64_t bytes() const { return host.size() * sizeof(T); }
    ironcl_span span() const { return {buffer, 0, bytes()}; }
  };

  void steps() override {
    attempt([&] { create(); });
    attempt([&] { queues(); });
    attempt([&] { buffers(); });
    attempt([&] { call(queue_, nullptr); });
    attempt([&] {  // On another queue, after all that the first one still does.
      fresh_second_queue();
      const ironcl_event before = run(queue_, kTokens, nullptr).back();
      call(second_, before);
    });
    attempt([&] {
      for (const ironcl_event none : run(queue_, 0, nullptr)) wait(none, 1'000'000'000);
      need("queue_finish", [&](Error* e) { return p_.queue_finish(queue_, e); });
    });
  }

  void create() {
    auto q = sized<ironcl_quantize_desc>();
    q.rows = kTokens, q.cols = kCols;
    q.x_dtype = IRONCL_BF16, q.code_dtype = IRONCL_F8_E4M3FN, q.scale = {IRONCL_F32, 1, kGroup, 0, 0, 0, 0};
    make_op(quantize_, q);
    auto r = sized<ironcl_route_desc>();
    r.flags = IRONCL_ROUTE_NORMALIZE, r.tokens = kTokens;
    r.experts = kExperts, r.top_k = kTopK, r.score = IRONCL_SCORE_SOFTMAX, r.logits_dtype = IRONCL_F32;
    make_op(route_, r);
    auto a = sized<ironcl_activate_desc>();
    a.rows = kSlots, a.cols = kCols, a.x_dtype = IRONCL_BF16, a.y_dtype = IRONCL_F32;
    a.activation = IRONCL_ACTIVATION_SILU, a.grouping = IRONCL_GROUPING_CONTIGUOUS, a.matrices = kExperts;
    make_op(activate_, a);
    auto c = sized<ironcl_combine_desc>();
    c.tokens = kTokens, c.cols = kCols, c.rows = kSlots, c.top_k = kTopK;
    c.x_dtype = IRONCL_BF16, c.y_dtype = IRONCL_F32;
    make_op(combine_, c);
  }

  void buffers() {
    const auto given = [&](auto& mirror, const auto& values) {
      mirror.host = values;
      buffer(mirror.buffer, mirror.bytes());
      put(queue_, mirror.buffer, mirror.host.data(), mirror.bytes());
    };
    given(logits_, data_.logits);
    given(x_, data_.x);
    given(gate_, data_.gate), given(up_, data_.up), given(x2_, data_.x2);
    const auto made = [&](auto& mirror, std::int64_t count) {
      mirror.host.resize(at(count));
      buffer(mirror.buffer, mirror.bytes());
    };
    made(codes_, kTokens * kCols), made(scales_, kTokens * kCols / kGroup);
    made(ids_, kSlots), made(weights_, kSlots), made(sizes_, kExperts), made(index_, kSlots), made(rows_, kSlots);
    made(activated_, kSlots * kCols), made(y_, kTokens * kCols);
  }

  /// One after another on `queue`, the first after `before`; their events.
  std::vector<ironcl_event> run(ironcl_queue queue, std::int64_t tokens, ironcl_event before) {
    std::vector<ironcl_event> done;
    const auto enqueue_next = [&](ironcl_op op, const auto& args) { done.push_back(enqueue(op, queue, args)); };
    auto q = sized<ironcl_quantize_args>();
    q.rows = tokens, q.x = x_.span(), q.codes = codes_.span(), q.scales = scales_.span();
    q.wait_count = before != nullptr ? 1 : 0, q.wait = &before;
    enqueue_next(quantize_, q);
    auto r = sized<ironcl_route_args>();
    r.tokens = tokens, r.logits = logits_.span(), r.ids = ids_.span();
    r.weights = weights_.span(), r.matrix_rows = sizes_.span(), r.a_index = index_.span(), r.rows = rows_.span();
    enqueue_next(route_, r);
    auto a = sized<ironcl_activate_args>();
    a.rows = tokens * kTopK, a.gate = gate_.span(), a.up = up_.span();
    a.y = activated_.span(), a.matrix_rows = sizes_.span();
    enqueue_next(activate_, a);
    auto c = sized<ironcl_combine_args>();
    c.tokens = tokens, c.x = x2_.span(), c.rows = rows_.span(), c.weights = weights_.span();
    c.y = y_.span();
    enqueue_next(combine_, c);
    return done;
  }

  /// Poisons what the steps make, takes them on `queue`, reads all of it back and judges it.
  void call(ironcl_queue queue, ironcl_event before) {
    if (before != nullptr) need("queue_wait", [&](Error* e) { return p_.queue_wait(queue, before, e); });
    const auto each = [&](const auto& what) {
      what(codes_), what(scales_), what(ids_), what(weights_), what(sizes_), what(index_), what(rows_);
      what(activated_), what(y_);
    };
    each([&](auto& mirror) { poison(queue, mirror.buffer, mirror.bytes()); });
    for (const ironcl_event event : run(queue, kTokens, before)) wait(event, kForEver);
    each([&](auto& mirror) { fetch(queue, mirror.buffer, mirror.host.data(), mirror.bytes()); });
    judge();
  }

  void judge() const {
    const auto must = [](bool right, const char* what) {
      if (!right) throw Wrong{std::string(what) + ", and every call said OK"};
    };
    must(codes_.host == data_.codes && scales_.host == data_.scales, "codes or scales are wrong");
    for (std::size_t t = 0; t < at(kTokens); ++t) {
      const auto of = [&](const auto& values, std::int64_t width) {
        return std::span(values).subspan(t * at(width), at(width));
      };
      const std::string wrong = numerics::judge_choice(kRule, of(data_.logits, kExperts), {}, of(ids_.host, kTopK),
                                                       of(weights_.host, kTopK));
      must(wrong.empty(), wrong.c_str());
    }
    std::vector<std::int32_t> sizes(at(kExperts)), index(at(kSlots)), rows(at(kSlots));
    numerics::sort_by_expert(ids_.host, kTopK, {0, kExperts, 0}, sizes, index, rows);
    must(sizes == sizes_.host && index == index_.host && rows == rows_.host, "rows are not those of the choice");
    const std::vector<double> activated(activated_.host.begin(), activated_.host.end());
    must(compare(activated, data_.activated).pass, "activations are wrong");
    std::vector<float> sum(at(kCols));
    for (std::size_t t = 0; t < at(kTokens); ++t) {
      numerics::combine_token(std::span(rows).subspan(t * at(kTopK), at(kTopK)),
                              std::span(weights_.host).subspan(t * at(kTopK), at(kTopK)), DType::bf16,
                              data_.x2.data(), kSlots, kCols, sum);
      must(std::memcmp(sum.data(), y_.host.data() + t * sum.size(), sum.size() * sizeof(float)) == 0,
           "a token's sum is wrong");
    }
  }

  void destroy() override {
    for (const ironcl_op op : {quantize_, route_, activate_, combine_}) p_.op_destroy(op);
  }

  const Data& data_;
  ironcl_op quantize_ = nullptr, route_ = nullptr, activate_ = nullptr, combine_ = nullptr;
  Mirror<float> logits_, scales_, weights_, activated_, y_;
  Mirror<std::uint16_t> x_, gate_, up_, x2_;
  Mirror<std::uint8_t> codes_;
  Mirror<std::int32_t> ids_, sizes_, index_, rows_;
};

}  // namespace

Life live_steps(const Surroundings& around) {
  static const Data data = make_data();
  return Steps(around, data).live();
}

}  // namespace ironcl::faulty
