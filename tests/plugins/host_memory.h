// SPDX-License-Identifier: Apache-2.0
// What test backends share that compute in host memory: buffers, weights as they came, a queue whose commands are
// done at once. Next door: fake_backend.h (a scripted backend that computes nothing).
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/interface.h"
#include "backends/numerics/oracle.h"

namespace ironcl::test {

class DoneEvent final : public backend::Event {
 public:
  /// Of a command that ran from `start_ns` to `end_ns`.
  explicit DoneEvent(std::uint64_t start_ns = 0, std::uint64_t end_ns = 0) : start_ns_(start_ns), end_ns_(end_ns) {}
  backend::Status wait(std::chrono::nanoseconds) override { return backend::Status::ok; }
  backend::Profile profile() override { return {backend::TimeKind::measured, 0, start_ns_, end_ns_}; }

 private:
  std::uint64_t start_ns_, end_ns_;
};

/// The bytes of a buffer: its own, or the host's.
struct HostBuffer : backend::Buffer {
  explicit HostBuffer(std::uint64_t size) : own(size), bytes(own) {}
  HostBuffer(void* host, std::uint64_t size) : bytes(static_cast<std::byte*>(host), size) {}
  std::uint64_t size() const noexcept override { return bytes.size(); }
  std::vector<std::byte> own;
  const std::span<std::byte> bytes;
};

/// Where a span begins; null where it is absent.
inline std::byte* address_of(const backend::Span& span) {
  return span ? static_cast<HostBuffer&>(*span.buffer).bytes.data() + span.offset : nullptr;
}

class HostQueue final : public backend::Queue {
 public:
  void finish() override {}
  void wait_for(const std::shared_ptr<backend::Event>&) override {}
  std::shared_ptr<backend::Event> write(const backend::Span& dst, const void* src, backend::HostSemantics) override {
    std::memcpy(address_of(dst), src, dst.size);
    return std::make_shared<DoneEvent>();
  }
  std::shared_ptr<backend::Event> read(const backend::Span& src, void* dst) override {
    std::memcpy(dst, address_of(src), src.size);
    return std::make_shared<DoneEvent>();
  }
};

/// Rows of `cols` elements without what lies between them.
inline std::vector<std::byte> tight(backend::DType type, const std::byte* from, std::int64_t rows, std::int64_t cols,
                                    std::int64_t ld) {
  const auto row = static_cast<std::size_t>(numerics::bytes_of(type, cols));
  std::vector<std::byte> out;
  for (std::int64_t i = 0; i < rows && row != 0; ++i) {
    const std::byte* begin = from + i * numerics::bytes_of(type, ld);
    out.insert(out.end(), begin, begin + row);
  }
  return out;
}

/// Codes and scales as given, tight, one matrix after another.
class HostWeights : public backend::Weights {
 public:
  explicit HostWeights(const backend::WeightsDesc& d)
      : data(tight(d.dtype, d.data, d.matrices * d.n, d.k, d.ld)),
        scales(tight(d.scale.dtype, d.scales, d.matrices * d.scale.grid.scale_rows(d.n), d.scale.grid.scale_cols(d.k),
                     d.scale.ld)) {}
  std::uint64_t device_bytes() const noexcept override { return data.size() + scales.size(); }
  std::string form() const override { return "row_major"; }
  std::uint64_t data_bytes() const noexcept override { return data.size(); }
  std::uint64_t scale_bytes() const noexcept override { return scales.size(); }
  void export_to(std::byte* to, std::byte* to_scales) override {
    std::copy(data.begin(), data.end(), to);
    std::copy(scales.begin(), scales.end(), to_scales);
  }
  std::vector<std::byte> data, scales;
};

/// A in a call, as the oracle takes it, where it comes as codes; B.
inline numerics::Operand a_of(const backend::GemmDesc& desc, const backend::GemmArgs& args) {
  const Scales& scale = desc.a_scale;
  return {desc.a,      address_of(args.a),       args.m,     desc.k,  desc.lda,
          scale.dtype, address_of(args.a_scale), scale.grid, scale.ld};
}
inline numerics::Operand b_of(const backend::GemmDesc& desc, const HostWeights& weights,
                              const std::vector<std::byte>& scales) {
  const Scales& scale = desc.b_scale;
  return {desc.b,     weights.data.data(),          desc.n, desc.k, desc.k, scale.dtype, scales.data(),
          scale.grid, scale.grid.scale_cols(desc.k)};
}

/// A device of that name, whose memory is the host's and whose events say times.
class HostDevice : public backend::Device {
 public:
  HostDevice(std::string name, std::string driver) : name_(std::move(name)), driver_(std::move(driver)) {}
  backend::DeviceProps props() const override {
    backend::DeviceProps props;
    props.memory_bytes = props.max_buffer_bytes = 1u << 30;
    props.name = name_;
    props.driver = driver_;
    props.event_profiling = true;
    return props;
  }
  std::shared_ptr<backend::Queue> create_queue() override { return std::make_shared<HostQueue>(); }
  std::shared_ptr<backend::Buffer> create_buffer(std::uint64_t size) override {
    return std::make_shared<HostBuffer>(size);
  }
  std::shared_ptr<backend::Weights> prepare_weights(const backend::WeightsDesc& desc) override {
    return std::make_shared<HostWeights>(desc);
  }

 private:
  std::string name_, driver_;
};

}  // namespace ironcl::test
