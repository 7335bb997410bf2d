// SPDX-License-Identifier: Apache-2.0
// The device "ironwood:0": what the interface asks of it.
#pragma once

#include <memory>

#include "backends/interface.h"
#include "backends/ironwood/plan.h"
#include "backends/ironwood/workers.h"

namespace ironcl::ironwood {

class ModelDevice final : public backend::Device {
 public:
  explicit ModelDevice(backend::Log* log) : log_(log), workers_(std::make_shared<Workers>()) {}

  backend::DeviceProps props() const override;
  backend::Support supports(const backend::GemmDesc& desc) override;
  /// Keys: "features", "options", "machines"; of a problem: "model", "trace" (Chrome JSON), "search"; of a layer of
  /// experts, by its first product: "fused", "fused_trace". All JSON.
  std::string query(std::string_view key, const backend::GemmDesc* desc) override;
  std::shared_ptr<backend::Queue> create_queue() override;
  std::shared_ptr<backend::Buffer> create_buffer(std::uint64_t size) override;
  std::shared_ptr<backend::Buffer> import_buffer(Memory kind, void* handle, std::uint64_t size) override;
  std::shared_ptr<backend::Weights> prepare_weights(const backend::WeightsDesc& desc) override;
  std::shared_ptr<backend::Gemm> create_gemm(const backend::GemmDesc& desc) override;
  std::shared_ptr<backend::Quantize> create_quantize(const backend::QuantizeDesc& desc) override;
  std::shared_ptr<backend::Route> create_route(const backend::RouteDesc& desc) override;
  std::shared_ptr<backend::Activate> create_activate(const backend::ActivateDesc& desc) override;
  std::shared_ptr<backend::Combine> create_combine(const backend::CombineDesc& desc) override;

 private:
  backend::Log* log_;
  std::shared_ptr<Workers> workers_;
};

}  // namespace ironcl::ironwood
