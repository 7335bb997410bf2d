// SPDX-License-Identifier: Apache-2.0
#include "host/python/device.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <new>

#include "ironcl/partition.hpp"

namespace ironcl::python {
namespace {

/// Plans are made for powers of two of rows, and a call brings as many as it has.
std::int64_t bucket(std::int64_t m) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(m, 1))));
}

const pid_t kProcess = getpid();  // A child that is forked from it has no workers, and would wait for them.

}  // namespace

Registry& registry() {
  static auto* const registry = new Registry(Registry::discover({.log = log_line}));
  return *registry;
}

std::shared_ptr<Device> Device::open(const std::string& uri) {
  static std::mutex mutex;
  static auto* const devices = new std::map<std::string, std::shared_ptr<Device>>();
  const GemmDesc layer{.m = 1, .n = 128, .k = 128};
  const ironcl::Device found = uri == "auto" ? registry().select(layer) : registry().device(uri);
  const std::lock_guard lock(mutex);
  auto& device = (*devices)[found.uri()];
  if (!device) device = std::make_shared<Device>(found);
  return device;
}

YieldingWorkers::YieldingWorkers() {
  using Start = void(void (*)(void*), void*, unsigned);
  // A parallel region, for the workers alone, of the runtime that torch has loaded for everyone.
  static auto* const start = reinterpret_cast<Start*>(dlsym(RTLD_DEFAULT, "GOMP_parallel_start"));
  static auto* const end = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "GOMP_parallel_end"));
  if (start == nullptr || end == nullptr || getpid() != kProcess) return;
  end_ = end;
  start(
      [](void* done) {
        while (!static_cast<std::atomic<bool>*>(done)->load(std::memory_order_acquire)) sched_yield();
      },
      &done_, 0);
}

YieldingWorkers::~YieldingWorkers() {
  done_.store(true, std::memory_order_release);
  if (end_ != nullptr) end_();
}

Device::Turn::Turn(Device& device, bool torch) : lock_(device.mutex_), device_(device) {
  if (torch && device.device_.props().type == IRONCL_DEVICE_CPU) yielding_.emplace();
}

Device::Turn::~Turn() {
  if (std::uncaught_exceptions() == exceptions_) return;
  try {
    device_.queue_.finish();
  } catch (const Error&) {  // the call's own failure is on its way
  }
}

template <class Description>
std::shared_ptr<Operation<Description>> Device::operation(const Description& desc) {
  const auto owner = desc.to_c();
  const auto* c = detail::pointer_to(owner);
  // What a chain holds is not among the bytes, and its address may be another one's next time.
  if (c->next != nullptr) return std::make_shared<Operation<Description>>(device_, desc);
  auto& made = operations_[std::string(reinterpret_cast<const char*>(c), sizeof *c)];
  if (!made) made = std::make_shared<Operation<Description>>(device_, desc);
  return std::static_pointer_cast<Operation<Description>>(made);
}

ironcl_span Device::staging(std::size_t which, std::uint64_t bytes) {
  while (staging_.size() <= which) staging_.emplace_back();
  Staging& staging = staging_[which];
  if (!staging.buffer || staging.buffer.size() < bytes) {
    ++generation_;
    staging.buffer.reset();
    staging.host.reset();
    const ironcl_device_props& props = device_.props();
    const std::uint64_t alignment = std::max<std::uint64_t>(props.buffer_alignment, 4096);
    const std::uint64_t size = std::max(std::bit_ceil(bytes), alignment);
    const bool in_place = props.type == IRONCL_DEVICE_CPU || props.type == IRONCL_DEVICE_MODEL;
    if (in_place && (props.caps & IRONCL_CAP_IMPORT_HOST_POINTER) != 0) {
      staging.host.reset(std::aligned_alloc(alignment, size), &std::free);
      if (staging.host == nullptr) throw std::bad_alloc();
      staging.buffer = Buffer::wrap(device_, IRONCL_MEMORY_HOST_POINTER, staging.host.get(), size);
    } else {
      staging.buffer = Buffer(device_, size);
    }
  }
  return staging.buffer.span(0, bytes);
}

ironcl_span Device::write(std::size_t which, const void* from, std::uint64_t bytes) {
  const ironcl_span span = staging(which, bytes);
  if (void* const host = staging_[which].host.get())
    std::memcpy(host, from, bytes);
  else
    write(span, from);
  return span;
}

void Device::write(ironcl_span to, const void* from) {
  detail::check(device_.api().write, queue_.handle(), to, from, std::uint32_t{IRONCL_HOST_STABLE_UNTIL_EVENT},
                nullptr);
}

void Device::read(std::size_t which, void* to, std::uint64_t bytes) {
  if (const void* const host = staging_[which].host.get()) {
    queue_.finish();
    std::memcpy(to, host, bytes);
  } else {
    queue_.read(staging(which, bytes), std::span(static_cast<std::byte*>(to), bytes)).wait();
  }
}

Linear::Linear(std::shared_ptr<Device> device, GemmDesc desc, const WeightsDesc& weights, const void* bias,
               bool gated)
    : device_(std::move(device)), desc_(std::move(desc)) {
  const Device::Turn turn(*device_);
  const auto plan = device_->operation(desc_for({1, IRONCL_BF16, IRONCL_BF16, gated}));
  weights_.emplace_back(device_->device_, weights, plan.get());
  if (bias == nullptr) return;
  const std::int64_t matrices = std::max<std::int64_t>(desc_.matrices, 1);
  bias_ = Buffer(device_->device_, ranks::bytes_of_elements(desc_.bias, matrices * desc_.n));
  device_->write(bias_, bias);
  device_->queue_.finish();
}

Linear::Linear(std::shared_ptr<Device> device, const Layer& layer, std::uint32_t accuracy)
    : device_(std::move(device)), desc_(layer.problem({.m = 1, .weakest_accuracy = accuracy})), layer_(layer) {
  const Device::Turn turn(*device_);
  const auto plan = device_->operation(desc_for({1, IRONCL_BF16, IRONCL_BF16, false}));
  weights_.push_back(layer.prepare(device_->device_, plan.get()));
  if (!layer.bias().empty()) {
    bias_ = Buffer(device_->device_, layer.bias().size());
    device_->write(bias_, layer.bias().data());
  }
  if (layer.is_static()) {
    input_scale_ = Buffer(device_->device_, sizeof(float));
    const float scale = layer.info().input_scale;
    device_->queue_.write(input_scale_, std::span(&scale, 1));
  }
  device_->queue_.finish();
}

GemmDesc Linear::desc_for(const Key& key) const {
  const auto& [m, x_type, out_type, gated] = key;
  GemmDesc desc = desc_;
  desc.m = m;
  desc.d = out_type;
  if (desc.a_scale.dtype == IRONCL_DTYPE_NONE)
    desc.a = x_type;
  else
    desc.a_source = x_type;
  desc.n = n(gated);
  if (gated) desc.activation = IRONCL_ACTIVATION_SILU;
  return desc;
}

/// Weights in the form that the plan reads: plans of other rows than the first may read another one, which is a copy
/// more.
std::size_t Linear::weights_for(const Gemm& plan) {
  const std::string_view form = plan.info().form;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    if (form.empty() || form == weights_[i].info().form) return i;
  if (layer_) {
    weights_.push_back(layer_->prepare(device_->device_, &plan));
    return weights_.size() - 1;
  }
  const ironcl_weights_info info = weights_.front().info();
  std::vector<std::byte> data(info.data_bytes), scales(info.scale_bytes);
  weights_.front().export_to(data, scales);
  weights_.emplace_back(device_->device_,
                        WeightsDesc{.n = n(),
                                    .k = k(),
                                    .matrices = desc_.matrices,
                                    .dtype = desc_.b,
                                    .scale = desc_.b_scale,
                                    .data = data,
                                    .scales = scales},
                        &plan);
  return weights_.size() - 1;
}

Linear::Call& Linear::call(ironcl_dtype x_type, std::int64_t m, ironcl_dtype out_type, bool gated) {
  const Key key{bucket(m), x_type, out_type, gated};
  if (const auto found = calls_.find(key); found != calls_.end()) return found->second;
  auto plan = device_->operation(desc_for(key));
  const std::size_t weights = weights_for(*plan);
  return calls_.emplace(key, Call{std::move(plan), weights}).first->second;
}

void Linear::enqueue(const Call& call, std::int64_t m, ironcl_span a, ironcl_span d, ironcl_span rows) {
  device_->queue_.submit(*call.plan, {.m = m,
                                      .weights = weights_[call.weights],
                                      .a = a,
                                      .a_scale = input_scale_,
                                      .d = d,
                                      .bias = bias_,
                                      .matrix_rows = rows});
}

void Linear::run(const Args& args) {
  const auto& [x, x_type, m, out, out_type, rows, torch, gated, down] = args;
  if (m == 0) return;
  const Device::Turn turn(*device_, torch);
  const ironcl_dtype between = down == nullptr ? out_type : ironcl_dtype{IRONCL_F32};
  const Call& first = call(x_type, m, between, gated);
  const Call* second = down == nullptr ? nullptr : &down->call(between, m, out_type);
  const ironcl_span a = device_->write(0, x, ranks::bytes_of_elements(x_type, m * k()));
  ironcl_span counts{};
  if (rows != nullptr) counts = device_->write(2, rows, sizeof(std::int32_t) * desc_.matrices);
  const ironcl_span d =
      device_->staging(1, ranks::bytes_of_elements(out_type, m * (down == nullptr ? n(gated) : down->n())));
  const ironcl_span h = down == nullptr ? d : device_->staging(3, ranks::bytes_of_elements(between, m * n(gated)));
  enqueue(first, m, a, h, counts);
  if (down != nullptr) down->enqueue(*second, m, h, d, counts);
  device_->read(1, out, d.size);
}

std::uint64_t Linear::device_bytes() const {
  std::uint64_t bytes = 0;
  for (const Weights& weights : weights_) bytes += weights.info().device_bytes;
  return bytes;
}

void Linear::export_to(std::span<std::byte> data, std::span<std::byte> scales) const {
  weights_.front().export_to(data, scales);
}

void quantize(Device& device, const QuantizeDesc& desc, const void* x, void* codes, std::uint64_t code_bytes,
              void* scales, std::uint64_t scale_bytes) {
  const Device::Turn turn(device);
  QuantizeDesc most = desc;
  if (desc.scale.rows == 1) most.rows = bucket(desc.rows);
  const auto op = device.operation(most);
  const QuantizeArgs args{.rows = desc.rows,
                          .x = device.write(0, x, ranks::bytes_of_elements(desc.x, desc.rows * desc.cols)),
                          .codes = device.staging(1, code_bytes),
                          .scales = device.staging(2, scale_bytes)};
  device.queue_.submit(*op, args);
  device.read(2, scales, scale_bytes);
  device.read(1, codes, code_bytes);
}

Experts::Experts(std::shared_ptr<Device> device, const Checkpoint& checkpoint, const std::string& name,
                 const ExpertsChoices& choices)
    : device_(std::move(device)), choices_(choices), experts_(checkpoint, name, device_->device(), choices) {
  for (ExpertsInfo& info : checkpoint.experts())
    if (info.name == name) info_ = std::move(info);
}

void Experts::run(const void* x, std::int64_t tokens, const void* ids, const void* weights, void* y, bool torch) {
  if (tokens == 0) return;
  const Device::Turn turn(*device_, torch);
  ExpertsArgs args{.tokens = tokens};
  args.x = device_->write(0, x, ranks::bytes_of_elements(choices_.x, tokens * info_.hidden));
  args.y = device_->staging(1, ranks::bytes_of_elements(choices_.y, tokens * info_.hidden));
  if (ids != nullptr) {
    args.routed = IRONCL_ROUTED_BY_CALLER;
    const std::uint64_t slots = static_cast<std::uint64_t>(tokens) * info_.top_k;
    args.ids = device_->write(2, ids, 4 * slots);
    args.weights = device_->write(3, weights, 4 * slots);
  }
  if (recorded_.tokens != tokens || recorded_.routed != (ids != nullptr) ||
      recorded_.generation != device_->generation_) {
    // Before the memory that it names goes; no call brings no tokens.
    recorded_.calls.reset();
    recorded_.tokens = 0;
    recorded_ = {tokens, ids != nullptr, device_->generation_, {}, experts_.record(args)};
    for (const Device::Staging& staging : device_->staging_) recorded_.held.push_back(staging.host);
  }
  device_->queue_.submit(recorded_.calls, {});
  device_->read(1, y, ranks::bytes_of_elements(choices_.y, tokens * info_.hidden));
}

}  // namespace ironcl::python
