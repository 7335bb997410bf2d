// SPDX-License-Identifier: Apache-2.0
// The device of the reference plugin and its queues. Load options: fault=NAME, delay_us=N (before each GEMM).
#include <boost/asio/post.hpp>
#include <thread>

#include "backends/not_yet.h"
#include "host/boundary/structs.h"
#include "plugins/adapter/instance.h"
#include "tests/conformance/plugins/objects.h"

namespace ironcl::reference {
namespace {

using backend::Reason;
using backend::Refusal;
using std::chrono::nanoseconds;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// Why the device will not run `desc`, asked by supports() or by create_gemm().
std::optional<Refusal> refusal_of(const backend::GemmDesc& desc, bool asked_by_create) {
  if (!desc.options.empty())
    throw Error(Status::invalid_argument, "no such option: {}; there are none", desc.options[0].first);
  constexpr Reason kScales = Reason::scale_layout;
  const bool micro = desc.a_scale.dtype == DType::e8m0;
  if (micro && fault("supports_says_yes") && asked_by_create) return Refusal(kScales, "scales of A in e8m0");
  if (micro && fault("texts_differ")) return Refusal(kScales, asked_by_create ? "no e8m0" : "scales of A in e8m0");
  if (fault("refuses_the_floor") && desc.b_scale.grid.group_cols == 256) return Refusal(kScales, "blocks of 256");
  if (fault("refuses_grouped") && desc.grouping != Grouping::none) return Refusal(Reason::grouping, "groups");
  if (desc.b == DType::e2m1) return Refusal(Reason::dtype, "weights of four bits are not there");
  if (desc.b_scale.global) return Refusal(kScales, "global scales are not there");
  if (desc.d_scale.dtype == DType::e8m0 || desc.d_quantizer.given)
    return Refusal(kScales, "scales of D come in f32 only, and are made");
  if (desc.activation != backend::Activation::none) return Refusal(Reason::option, "activations of D are not there");
  if (desc.a_quantizer.given) return Refusal(kScales, "scales of an A that is quantised are made");
  return backend::not_yet(desc);
}

/// `run` with its description.
template <class Desc, class Args>
auto operation(const Desc& desc, void (*run)(const Desc&, const Args&)) {
  return std::make_shared<HostOperation<Desc, Args>>(desc, run);
}

class HostDevice final : public backend::Device {
 public:
  backend::DeviceProps props() const override {
    backend::DeviceProps props;
    props.type = backend::DeviceType::model;
    props.import_host_pointer = props.event_profiling = props.bitwise_repeatable = true;
    props.memory_bytes = props.max_buffer_bytes = std::uint64_t{1} << 32;
    props.buffer_alignment = 16;
    props.name = "host memory";
    props.driver = "reference";
    return props;
  }

  backend::Support supports(const backend::GemmDesc& desc) override {
    if (auto refusal = refusal_of(desc, false)) return std::move(*refusal);
    backend::Support support;
    support.workspace_bytes = workspace_bytes(desc);
    return support;
  }

  std::string query(std::string_view key, const backend::GemmDesc*) override {
    if (key == "features") return R"({"device": "host memory"})";
    if (key != "testing.fail_next_gemm")
      throw Error(Status::unimplemented, "known keys are features and testing.fail_next_gemm");
    fail_next_gemm = true;
    return "{}";
  }

  std::shared_ptr<backend::Queue> create_queue() override { return std::make_shared<HostQueue>(); }

  std::shared_ptr<backend::Buffer> create_buffer(std::uint64_t size) override {
    if (size > props().max_buffer_bytes) throw Error(Status::out_of_device_memory, "a buffer of {} bytes", size);
    return std::make_shared<HostBuffer>(size);
  }

  std::shared_ptr<backend::Buffer> import_buffer(Memory kind, void* handle, std::uint64_t size) override {
    if (kind != Memory::host_pointer) return Device::import_buffer(kind, handle, size);
    if (!fault("imports_copy")) return std::make_shared<HostBuffer>(handle, size);
    auto copy = std::make_shared<HostBuffer>(size);
    std::memcpy(copy->bytes.data(), handle, size);
    return copy;
  }

  std::shared_ptr<backend::Weights> prepare_weights(const backend::WeightsDesc& desc) override {
    return std::make_shared<DecodedWeights>(desc);
  }

  std::shared_ptr<backend::Gemm> create_gemm(const backend::GemmDesc& desc) override {
    if (const auto refusal = refusal_of(desc, true)) throw Error(Status::unsupported, refusal->text);
    return std::make_shared<HostGemm>(desc);
  }

  std::shared_ptr<backend::Quantize> create_quantize(const backend::QuantizeDesc& desc) override {
    backend::refuse_not_yet(desc.code, desc.scale, "codes");
    if (desc.quantizer.given) throw Error(Status::unsupported, "scales of codes are made");
    return operation(desc, quantize);
  }
  std::shared_ptr<backend::Route> create_route(const backend::RouteDesc& desc) override {
    return operation(desc, route);
  }
  std::shared_ptr<backend::Activate> create_activate(const backend::ActivateDesc& desc) override {
    backend::refuse_not_yet(desc);
    return operation(desc, activate);
  }
  std::shared_ptr<backend::Combine> create_combine(const backend::CombineDesc& desc) override {
    return operation(desc, combine);
  }
};

class HostBackend final : public backend::Backend {
 public:
  std::vector<std::shared_ptr<backend::Device>> devices() override { return {std::make_shared<HostDevice>()}; }
};

}  // namespace

HostEvent::HostEvent(const Events& causes) {
  profile_.kind = fault("modelled_is_measured") ? backend::TimeKind::measured : backend::TimeKind::modelled;
  profile_.queued_ns = now_ns();
  if (fault("events_keep_their_causes")) kept_ = causes;
  if (fault("events_end_at_once")) promise_.set_value();
}

Status HostEvent::wait(nanoseconds timeout) {
  if (timeout == nanoseconds::max())
    end_.wait();
  else if (end_.wait_for(timeout) != std::future_status::ready || (seen_ && fault("event_ends_twice")))
    return Status::timeout;
  end_.get();  // throws what the command has thrown
  seen_ = true;
  return Status::ok;
}

void HostEvent::run(const Events& wait, const std::function<void()>& work) {
  std::exception_ptr failure;
  try {
    for (const auto& event : wait) {
      try {
        if (!fault("wait_list_ignored")) event->wait(nanoseconds::max());
      } catch (const Error& error) {
        if (!fault("status_of_dependants_lost"))
          throw Error(error.status(), "waited for a command that failed: {}", error.what());
      }
    }
    profile_.start_ns = now_ns();
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  profile_.end_ns = now_ns();
  if (fault("events_end_at_once")) return;
  failure ? promise_.set_exception(failure) : promise_.set_value();
}

std::shared_ptr<backend::Event> HostQueue::run(Events wait, std::function<void()> work) {
  auto event = std::make_shared<HostEvent>(wait);
  boost::asio::post(thread_, [event, wait = std::move(wait), work = std::move(work)] { event->run(wait, work); });
  return event;
}

void HostQueue::finish() {
  std::promise<void> last;
  boost::asio::post(thread_, [&last] { last.set_value(); });
  last.get_future().wait();
}

void HostQueue::wait_for(const std::shared_ptr<backend::Event>& event) {
  if (fault("queue_wait_ignored")) return;
  run({}, [event] {
    try {
      event->wait(nanoseconds::max());
    } catch (const Error&) {  // is told to those that name the event: here it orders only
    }
  });
}

std::shared_ptr<backend::Event> HostQueue::write(const backend::Span& dst, const void* src,
                                                 backend::HostSemantics semantics) {
  const auto* from = static_cast<const std::byte*>(src);
  const bool late = fault("write_keeps_the_pointer");
  const bool stable = semantics == backend::HostSemantics::stable_until_event && !fault("events_end_at_once");
  auto copy = std::make_shared<Bytes>();
  if (!stable && !late) copy->assign(from, from + dst.size);
  return run({}, [dst, from, late, copy] {
    if (late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::memcpy(address_of(dst), copy->empty() ? from : copy->data(), dst.size);
  });
}

std::shared_ptr<backend::Event> HostQueue::read(const backend::Span& src, void* dst) {
  const auto copy = [src, dst] { std::memcpy(dst, address_of(src), src.size - (fault("read_is_short") ? 1 : 0)); };
  // An event that ends at once lets the caller have its memory back at once: this copy is early, never late.
  if (!fault("events_end_at_once")) return run({}, copy);
  copy();
  return run({}, [] {});
}

std::unique_ptr<backend::Backend> make_backend(const backend::Options& options, backend::Log*) {
  adapter::check_option_names(options, {"fault", "delay_us"});
  const std::string name = adapter::setting(options, "fault", nullptr).value_or("");
  if (!plant(name)) boundary::invalid("load: there is no fault {}", name);
  delay_us = std::stoi(adapter::setting(options, "delay_us", nullptr).value_or("0"));
  return std::make_unique<HostBackend>();
}

}  // namespace ironcl::reference
