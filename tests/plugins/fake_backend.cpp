// SPDX-License-Identifier: Apache-2.0
// The scripted backend of the adapter's tests. Next door: fake_backend.h.
#include "tests/plugins/fake_backend.h"

#include <cstring>

#include "tests/plugins/host_memory.h"

namespace ironcl::fake {

using namespace backend;

namespace {
std::unique_ptr<Script>& current() {
  static std::unique_ptr<Script> instance;
  return instance;
}
}  // namespace

Script& script() { return *current(); }

void reset_script() {
  current() = std::make_unique<Script>();
  script().live_objects = 0;  // what the old script still held was counted down here
}

void Script::enter(const std::string& method) {
  ++calls[method];
  if (const auto found = before.find(method); found != before.end() && found->second) found->second();
}

namespace {

/// Counts the objects that are alive.
struct Alive {
  Alive() { ++script().live_objects; }
  ~Alive() { --script().live_objects; }
};

class FakeEvent final : public Event, Alive {
 public:
  Status wait(std::chrono::nanoseconds) override {
    script().enter("event_wait");
    return script().end_of_commands ? Status::ok : Status::timeout;
  }
  Profile profile() override {
    script().enter("event_profile");
    return {TimeKind::modelled, 1, 2, 5};
  }
};

class FakeBuffer final : public test::HostBuffer, Alive {
 public:
  using HostBuffer::HostBuffer;
};

class FakeQueue final : public Queue, Alive {
 public:
  void finish() override { script().enter("queue_finish"); }
  void wait_for(const std::shared_ptr<Event>&) override { script().enter("queue_wait"); }
  std::shared_ptr<Event> write(const Span& dst, const void* src, HostSemantics) override {
    script().enter("write");
    std::memcpy(test::address_of(dst), src, dst.size);
    return std::make_shared<FakeEvent>();
  }
  std::shared_ptr<Event> read(const Span& src, void* dst) override {
    script().enter("read");
    std::memcpy(dst, test::address_of(src), src.size);
    return std::make_shared<FakeEvent>();
  }
};

class FakeWeights final : public Weights, Alive {
 public:
  std::uint64_t device_bytes() const noexcept override { return 100; }
  std::string form() const override { return script().enter("weights_info"), "row_major"; }
  std::uint64_t data_bytes() const noexcept override { return 16; }
  std::uint64_t scale_bytes() const noexcept override { return 4; }
  void export_to(std::byte* data, std::byte* scales) override {
    script().enter("weights_export");
    std::memset(data, 1, 16);
    std::memset(scales, 2, 4);
  }
};

class FakeGemm final : public Gemm, Alive {
 public:
  GemmInfo info() const override {
    script().enter("gemm_info");
    return {AccuracyClass::tensor14, 128, 64, "fake", "tile_m=1"};
  }
  std::shared_ptr<Event> enqueue(const std::shared_ptr<Queue>&, const GemmArgs& args) override {
    script().enter("gemm_enqueue");
    script().gemm_args = args;
    return args.wants_event ? std::make_shared<FakeEvent>() : nullptr;
  }
};

/// An operation besides the product: remembers its arguments in the script.
template <class Operation, class Args, Args Script::*kArgs>
class FakeStep final : public Operation, Alive {
 public:
  explicit FakeStep(const char* enqueue) : enqueue_(enqueue) {}
  std::shared_ptr<Event> enqueue(const std::shared_ptr<Queue>&, const Args& args) override {
    script().enter(enqueue_);
    script().*kArgs = args;
    return std::make_shared<FakeEvent>();
  }

 private:
  const char* enqueue_;
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(int index) : index_(index) {}
  DeviceProps props() const override {
    script().enter("device_props");
    DeviceProps props;
    props.type = DeviceType::accelerator;
    props.event_profiling = true;
    props.memory_bytes = 1 << 20;
    props.buffer_alignment = 16;
    props.name = "fake " + std::to_string(index_);
    props.driver = std::string(126, 'd') + "\xc3\xa9" + "tail";  // a two-byte character across the end of driver[128]
    return props;
  }
  Support supports(const GemmDesc& desc) override {
    script().enter("supports");
    script().gemm_desc = desc;
    return script().support;
  }
  std::string query(std::string_view, const GemmDesc*) override {
    script().enter("device_query");
    return script().query_text;
  }
  std::shared_ptr<Queue> create_queue() override {
    script().enter("queue_create");
    return std::make_shared<FakeQueue>();
  }
  std::shared_ptr<Buffer> create_buffer(std::uint64_t size) override {
    script().enter("buffer_create");
    return std::make_shared<FakeBuffer>(size);
  }
  std::shared_ptr<Buffer> import_buffer(Memory kind, void* handle, std::uint64_t size) override {
    if (!script().imports) return Device::import_buffer(kind, handle, size);
    return std::make_shared<FakeBuffer>(size);
  }
  std::shared_ptr<Weights> prepare_weights(const WeightsDesc& desc) override {
    script().enter("weights_prepare");
    script().weights_desc = desc;
    return std::make_shared<FakeWeights>();
  }
  std::shared_ptr<Gemm> create_gemm(const GemmDesc& desc) override {
    script().enter("gemm_create");
    script().gemm_desc = desc;
    if (script().support.reason != Reason::none) throw Error(Status::unsupported, script().support.text);
    return std::make_shared<FakeGemm>();
  }
  std::shared_ptr<Quantize> create_quantize(const QuantizeDesc& desc) override {
    script().enter("quantize_create");
    script().quantize_desc = desc;
    return std::make_shared<FakeStep<Quantize, QuantizeArgs, &Script::quantize_args>>("quantize_enqueue");
  }
  std::shared_ptr<Route> create_route(const RouteDesc& desc) override {
    script().enter("route_create");
    script().route_desc = desc;
    return std::make_shared<FakeStep<Route, RouteArgs, &Script::route_args>>("route_enqueue");
  }
  std::shared_ptr<Activate> create_activate(const ActivateDesc& desc) override {
    script().enter("activate_create");
    script().activate_desc = desc;
    return std::make_shared<FakeStep<Activate, ActivateArgs, &Script::activate_args>>("activate_enqueue");
  }
  std::shared_ptr<Combine> create_combine(const CombineDesc& desc) override {
    script().enter("combine_create");
    script().combine_desc = desc;
    return std::make_shared<FakeStep<Combine, CombineArgs, &Script::combine_args>>("combine_enqueue");
  }

 private:
  int index_;
};

class FakeBackend final : public Backend {
 public:
  std::vector<std::shared_ptr<Device>> devices() override {
    script().enter("enumerate");
    std::vector<std::shared_ptr<Device>> all;
    for (int i = 0; i < script().devices; ++i) all.push_back(std::make_shared<FakeDevice>(i));
    return all;
  }
  std::shared_ptr<Device> import_device(const NativeDevice& native) override {
    script().enter("device_import");
    if (imported_ == nullptr || native.context != script().native.context) {
      imported_ = std::make_shared<FakeDevice>(99);
    }
    script().native = native;
    return imported_;
  }

 private:
  std::shared_ptr<Device> imported_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(const Options& options, Log* log) {
  script().load_options = options;
  script().log = log;
  script().enter("load");
  return std::make_unique<FakeBackend>();
}

}  // namespace ironcl::fake
