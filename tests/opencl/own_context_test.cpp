// SPDX-License-Identifier: Apache-2.0
// An application with an OpenCL context of its own hands its buffers to the plugin, through ironcl.hpp and the
// plugin's own file: products and quantisation in the application's cl_mems, and what is refused.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "backends/numerics/quantize.h"
#include "host/include/ironcl/ironcl.hpp"
#include "host/include/ironcl/ranks.hpp"
#include "tests/errors.h"

namespace {

constexpr std::int64_t kM = 7, kN = 96, kK = 200, kGroups = 2;

/// The application: the first device of the first platform that has one, a context and a queue.
class OwnContext : public ::testing::Test {
 protected:
  void SetUp() override {
    cl_uint count = 0;
    std::vector<cl_platform_id> platforms(16);
    if (clGetPlatformIDs(16, platforms.data(), &count) != CL_SUCCESS || count == 0) GTEST_SKIP() << "no platform";
    for (cl_uint i = 0; i < count && device_ == nullptr; ++i) {
      if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device_, nullptr) != CL_SUCCESS) device_ = nullptr;
    }
    if (device_ == nullptr) GTEST_SKIP() << "no device";
    context_ = make_context();
    cl_int status = 0;
    queue_ = clCreateCommandQueue(context_, device_, 0, &status);
    ASSERT_EQ(status, CL_SUCCESS);
    ironcl::Registry::Options options;
    options.use_environment = false;
    registry_ = ironcl::Registry(options);
    registry_.load_file(IRONCL_TEST_PLUGIN);
  }
  void TearDown() override {
    if (queue_ != nullptr) clReleaseCommandQueue(queue_);
    if (context_ != nullptr) clReleaseContext(context_);
  }

  cl_context make_context() const {
    cl_int status = 0;
    cl_context context = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
    EXPECT_EQ(status, CL_SUCCESS);
    return context;
  }

  template <class T>
  cl_mem upload(const std::vector<T>& values, cl_mem_flags flags = CL_MEM_READ_WRITE) {
    cl_int status = 0;
    cl_mem memory = clCreateBuffer(context_, flags, values.size() * sizeof(T), nullptr, &status);
    EXPECT_EQ(status, CL_SUCCESS);
    EXPECT_EQ(clEnqueueWriteBuffer(queue_, memory, CL_FALSE, 0, values.size() * sizeof(T), values.data(), 0, nullptr,
                                   nullptr),
              CL_SUCCESS);
    EXPECT_EQ(clFinish(queue_), CL_SUCCESS);  // order between the two sides is the application's
    memories_.push_back(memory);
    return memory;
  }
  template <class T>
  std::vector<T> download(cl_mem memory, std::size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(clEnqueueReadBuffer(queue_, memory, CL_TRUE, 0, count * sizeof(T), values.data(), 0, nullptr, nullptr),
              CL_SUCCESS);
    return values;
  }
  static cl_uint references(cl_mem memory) {
    cl_uint count = 0;
    EXPECT_EQ(clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof count, &count, nullptr), CL_SUCCESS);
    return count;
  }

  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::vector<cl_mem> memories_;  // left to the end of the process, with the driver's own
  ironcl::Registry registry_;
};

TEST_F(OwnContext, ProductsReadAndWriteTheApplicationsBuffers) {
  const ironcl::Device device = registry_.import_opencl("opencl", device_, context_);
  EXPECT_TRUE(device.props().caps & IRONCL_CAP_IMPORT_CL_MEM);
  EXPECT_EQ(registry_.import_opencl("opencl", device_, context_).handle(), device.handle());

  // Integers and powers of two: exact.
  std::vector<std::uint8_t> a(kM * kK), b(kN * kK);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = i % 3 == 0 ? 0x38 : i % 3 == 1 ? 0x40 : 0xb8;  // 1, 2, -1
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = i % 7 == 0 ? 0x40 : i % 2 == 0 ? 0x38 : 0x00;
  const auto value = [](std::uint8_t code) {
    return code == 0x38 ? 1.0 : code == 0x40 ? 2.0 : code == 0xb8 ? -1.0 : 0.0;
  };
  std::vector<float> a_scales(kM * kGroups), b_scales(kGroups);
  for (std::size_t i = 0; i < a_scales.size(); ++i) a_scales[i] = std::ldexp(1.0f, static_cast<int>(i % 5) - 2);
  for (std::size_t i = 0; i < b_scales.size(); ++i) b_scales[i] = std::ldexp(1.0f, static_cast<int>(i) - 3);

  const cl_mem a_memory = upload(a), scale_memory = upload(a_scales);
  const cl_mem d_memory = upload(std::vector<float>(kM * kN, NAN));
  const cl_uint before = references(d_memory);
  {
    const ironcl::Gemm gemm(device, {.m = kM, .n = kN, .k = kK});
    const ironcl::Weights weights(
        device, {.n = kN, .k = kK, .data = ironcl::bytes_of(b), .scales = ironcl::bytes_of(b_scales)}, &gemm);
    const auto wrap = [&](cl_mem memory, std::size_t bytes) {
      return ironcl::Buffer::wrap(device, IRONCL_MEMORY_CL_MEM, memory, bytes);
    };
    const ironcl::Buffer a_buffer = wrap(a_memory, a.size()), d_buffer = wrap(d_memory, kM * kN * 4),
                         scale_buffer = wrap(scale_memory, a_scales.size() * 4);
    ironcl::Queue queue(device);
    queue.run(gemm, {.m = kM, .weights = weights, .a = a_buffer, .a_scale = scale_buffer, .d = d_buffer}).wait();
  }
  const auto d = download<float>(d_memory, kM * kN);
  for (std::int64_t m = 0; m < kM; ++m) {
    for (std::int64_t n = 0; n < kN; ++n) {
      double want = 0;
      for (std::int64_t k = 0; k < kK; ++k) {
        want += value(a[static_cast<std::size_t>(m * kK + k)]) * value(b[static_cast<std::size_t>(n * kK + k)]) *
                a_scales[static_cast<std::size_t>(m * kGroups + k / 128)] *
                b_scales[static_cast<std::size_t>(k / 128)];
      }
      ASSERT_EQ(d[static_cast<std::size_t>(m * kN + n)], want) << m << ", " << n;
    }
  }
  EXPECT_EQ(references(d_memory), before) << "the plugin kept a share of the application's buffer";
}

TEST_F(OwnContext, ItsBuffersAreQuantised) {
  const ironcl::Device device = registry_.import_opencl("opencl", device_, context_);
  std::vector<float> x(kM * kK);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(std::sin(static_cast<float>(i)), static_cast<int>(i % 23) - 11);
  std::vector<std::uint8_t> want(x.size());
  std::vector<float> want_scales(kM * kGroups);
  namespace numerics = ironcl::numerics;
  numerics::quantize(numerics::DType::f32, x.data(), kM, kK, kK, numerics::DType::e4m3fn, {1, 128}, {}, want,
                     want_scales);

  const cl_mem x_memory = upload(x), code_memory = upload(std::vector<std::uint8_t>(x.size())),
               scale_memory = upload(std::vector<float>(want_scales.size()));
  const auto wrap = [&](cl_mem memory, std::size_t bytes) {
    return ironcl::Buffer::wrap(device, IRONCL_MEMORY_CL_MEM, memory, bytes);
  };
  const ironcl::Buffer x_buffer = wrap(x_memory, x.size() * 4), codes = wrap(code_memory, x.size()),
                       scales = wrap(scale_memory, want_scales.size() * 4);
  const ironcl::Quantize quantize(device, {.rows = kM, .cols = kK, .x = IRONCL_F32});
  ironcl::Queue queue(device);
  queue.run(quantize, {.rows = kM, .x = x_buffer, .codes = codes, .scales = scales}).wait();
  EXPECT_EQ(download<std::uint8_t>(code_memory, x.size()), want);
  EXPECT_EQ(download<float>(scale_memory, want_scales.size()), want_scales);
  ironcl::expect_error<ironcl::Error>(IRONCL_INVALID_ARGUMENT, "code_dtype", [&] {
    const ironcl::Quantize no(device, {.rows = kM, .cols = kK, .code = IRONCL_F32});
  });
}

TEST_F(OwnContext, WhatDoesNotFitIsRefusedByName) {
  const ironcl::Device device = registry_.import_opencl("opencl", device_, context_);
  const auto wrap = [&](const ironcl::Device& on, cl_mem memory, std::size_t bytes) {
    const auto buffer = ironcl::Buffer::wrap(on, IRONCL_MEMORY_CL_MEM, memory, bytes);
  };
  const cl_mem memory = upload(std::vector<float>(64));
  wrap(device, memory, 256);
  ironcl::expect_error<ironcl::Error>(IRONCL_INVALID_ARGUMENT, "has 256 bytes", [&] { wrap(device, memory, 257); });
  const cl_mem read_only = upload(std::vector<float>(64), CL_MEM_READ_ONLY);
  ironcl::expect_error<ironcl::Error>(IRONCL_INVALID_ARGUMENT, "CL_MEM_READ_WRITE",
                                      [&] { wrap(device, read_only, 256); });

  const cl_context other = make_context();
  const ironcl::Device elsewhere = registry_.import_opencl("opencl", device_, other);
  EXPECT_NE(elsewhere.handle(), device.handle());
  ironcl::expect_error<ironcl::Error>(IRONCL_INVALID_ARGUMENT, "another OpenCL context",
                                      [&] { wrap(elsewhere, memory, 256); });
  clReleaseContext(other);

  const ironcl::Device listed = registry_.device("opencl:0");
  EXPECT_FALSE(listed.props().caps & IRONCL_CAP_IMPORT_CL_MEM);
  ironcl::expect_error<ironcl::Error>(IRONCL_UNSUPPORTED, "device_import", [&] { wrap(listed, memory, 256); });
  ironcl::expect_error<ironcl::Error>(IRONCL_INVALID_ARGUMENT, "no plugin \"nobody\"",
                                      [&] { registry_.import_opencl("nobody", device_, context_); });
}

/// Two ranks, each on a part of the device that the application has cut off.
TEST_F(OwnContext, SubDevicesAreRanks) {
  const cl_device_partition_property halves[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, 1,
                                                 CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
  std::array<cl_device_id, 2> parts{};
  if (clCreateSubDevices(device_, halves, 2, parts.data(), nullptr) != CL_SUCCESS)
    GTEST_SKIP() << "a device that cannot be cut";
  std::array<cl_context, 2> contexts{};
  std::array<ironcl::Device, 2> devices;
  for (std::size_t i = 0; i < 2; ++i) {
    cl_int status = 0;
    contexts[i] = clCreateContext(nullptr, 1, &parts[i], nullptr, nullptr, &status);
    ASSERT_EQ(status, CL_SUCCESS);
    devices[i] = registry_.import_opencl("opencl", parts[i], contexts[i]);
  }
  namespace ranks = ironcl::ranks;
  constexpr std::int64_t kLong = 512;
  std::vector<std::uint8_t> codes(kN * kLong);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 37 % 0x7f);
  const std::vector<float> scales{0.5f, 2.0f, 1.0f, 0.25f};
  std::vector<float> x(kM * kLong);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const ranks::Whole whole{
      {.m = kM, .n = kN, .k = kLong, .a_source = IRONCL_F32},
      {.n = kN, .k = kLong, .data = ironcl::bytes_of(codes), .scales = ironcl::bytes_of(scales)}};
  const auto made = [&](int count, ranks::Split split) {
    std::vector<float> d(kM * kN);
    ranks::ThreadRanks(count).run([&](ranks::Transport& transport) {
      ranks::Group group(transport);
      ranks::Linear linear(group, devices[static_cast<std::size_t>(group.rank())], whole,
                           {.split = split, .ragged = split == ranks::Split::column});
      std::vector<float> own(d.size());
      linear.run(kM, std::as_bytes(std::span(x)), std::as_writable_bytes(std::span(own)));
      if (group.rank() == 0) d = own;
    });
    return d;
  };
  const std::vector<float> one = made(1, ranks::Split::column);
  EXPECT_EQ(made(2, ranks::Split::column), one);
  const std::vector<float> sum = made(2, ranks::Split::row);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(sum[i], one[i], 1e-5f * std::fabs(one[i]) + 1e-3f);
  for (std::size_t i = 0; i < 2; ++i) {
    clReleaseContext(contexts[i]);
    clReleaseDevice(parts[i]);
  }
}

}  // namespace
