// SPDX-License-Identifier: Apache-2.0
// One OpenCL device behind the backend interface.
#pragma once

#include <mutex>

#include "backends/opencl/context.h"

namespace ironcl::opencl {

class Device final : public backend::Device {
 public:
  /// Makes the device's context, or shares the application's; the probes run when they are first needed.
  Device(const cl::Platform& platform, const cl::Device& device, const Config& config, backend::Log* log,
         std::shared_ptr<const tuned::Tables> tables = nullptr, const cl::Context& imported = {});

  backend::DeviceProps props() const override;
  backend::Support supports(const backend::GemmDesc& desc) override;
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
  std::shared_ptr<backend::Sequence> create_sequence(std::vector<backend::RecordedCall> calls) override;

  /// The shared context, probes done. For tests.
  const ContextPtr& context();

 private:
  /// The answer, and what was chosen where it is yes: asked once per plan.
  backend::Support supports(const backend::GemmDesc& desc, Choice& choice);

  ContextPtr context_;
  bool imported_ = false;  ///< The context is the application's: cl_mems of it can be imported.
  std::once_flag probed_;
};

}  // namespace ironcl::opencl
