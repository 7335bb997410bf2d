// SPDX-License-Identifier: Apache-2.0
// Where weights and tokens lie that tensor cores read: byte by byte, on every device. Next door:
// tensor_cores_test.cpp.
#include <cmath>
#include <cstring>
#include <set>

#include "backends/numerics/casts.h"
#include "backends/opencl/device.h"
#include "backends/opencl/forms/forms.h"
#include "tests/opencl/harness.h"
#include "tests/opencl/usual_settings.h"

namespace ironcl::opencl::testing {
namespace {

std::vector<std::uint8_t> random_codes(std::int64_t count, std::uint32_t seed) {
  Random random(seed);
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
  for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random.next() >> 8);
  return codes;
}

TEST(OpenClTensorCores, SwizzledWeightsLieWhereTheFormSays) {
  const WeightFormPtr form = swizzled_form();
  for (const auto& [n, k] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {64, 128}, {130, 300}, {200, 513}}) {
    const std::vector<std::uint8_t> codes = random_codes(n * (k + 3), 7);
    const WeightExtent extent = form->extent(n, k, 3);
    ASSERT_EQ(extent.n_pad % 128, 0);
    ASSERT_EQ(extent.k_pad % 256, 0);
    std::vector<std::uint8_t> packed(extent.code_bytes.bytes(), 0xee);
    form->pack(n, k, codes.data(), k + 3, packed.data());
    // Every byte of the memory, by the definition in the header read the other way round.
    for (std::size_t at = 0; at < packed.size(); ++at) {
      const auto slot = static_cast<std::int64_t>(at) / 8192, in_slot = static_cast<std::int64_t>(at) % 8192;
      const std::int64_t line = in_slot / 128, piece = in_slot % 128 / 16 ^ (line & 7);
      const std::int64_t i = line / 16, a = line / 8 % 2, t = line / 2 % 4, e = line % 2;
      const std::int64_t row = slot / (extent.k_pad / 128) * 64 + 16 * i + 4 * t + 2 * a + e;
      const std::int64_t column = slot % (extent.k_pad / 128) * 128 + piece * 16 + in_slot % 16;
      const std::uint8_t want = row < n && column < k ? codes[static_cast<std::size_t>(row * (k + 3) + column)] : 0;
      ASSERT_EQ(packed[at], want) << "byte " << at << " of " << n << "x" << k;
    }
    std::vector<std::uint8_t> back(static_cast<std::size_t>(n * k), 0xee);
    form->unpack(n, k, packed.data(), back.data());
    for (std::int64_t row = 0; row < n; ++row)
      EXPECT_EQ(std::memcmp(back.data() + row * k, codes.data() + row * (k + 3), static_cast<std::size_t>(k)), 0);
    std::set<std::int64_t> places;
    for (std::int64_t row = 0; row < n; ++row) {
      for (std::int64_t group = 0; group < 3; ++group) {
        const std::int64_t at = form->scale_at(extent, row, group);
        EXPECT_EQ(at, (row / 128 * 3 + group) * 128 + row % 128);
        EXPECT_LT(at, extent.scales.value());
        EXPECT_TRUE(places.insert(at).second);
      }
    }
  }
}

/// Packs codes [m, k] with scales 1 x 128 through cl/pack_wgmma.cl.
struct PackedTokens {
  std::vector<std::uint8_t> data;
  std::vector<float> scales;
  std::vector<std::uint32_t> counters;
};

PackedTokens pack(Device& device, const std::string& kernel_name, const std::vector<std::uint8_t>& codes,
                  const std::vector<float>& scales, std::int64_t m, std::int64_t k, std::int64_t lda,
                  std::size_t element) {
  const auto context = device.context();
  const std::int64_t blocks = numerics::ceil_div(k, std::int64_t{256}) * 2,
                     rows = numerics::ceil_div(m, std::int64_t{256}) * 256;
  PackedTokens out;
  out.data.assign(static_cast<std::size_t>(rows * blocks * 128) * element, 0xee);
  std::vector<float> all(static_cast<std::size_t>(kPartCounters + rows * blocks), -7.0f);
  cl::Buffer a(context->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, codes.size(),
               const_cast<std::uint8_t*>(codes.data()));
  cl::Buffer sa(context->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, scales.size() * 4,
                const_cast<float*>(scales.data()));
  cl::Buffer data(context->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, out.data.size(), out.data.data());
  cl::Buffer places(context->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, all.size() * 4, all.data());
  Defines defines = device_defines(context->features);
  defines.merge(usual_settings("pack_wgmma.cl"));
  cl::Kernel kernel(context->builder->build("pack_wgmma.cl", defines), kernel_name.c_str());
  set_args(kernel, 0, static_cast<cl_int>(m), static_cast<cl_int>(k), static_cast<cl_int>(blocks), a, cl_ulong{0},
           static_cast<cl_ulong>(lda), sa, cl_ulong{0},
           static_cast<cl_ulong>(numerics::ceil_div(k, std::int64_t{128})), 1, 128, data, cl_ulong{0}, places,
           static_cast<cl_ulong>(kPartCounters));
  const cl::CommandQueue queue(context->context, context->device);
  queue.enqueueNDRangeKernel(
      kernel, cl::NullRange,
      cl::NDRange(static_cast<std::size_t>(blocks * numerics::ceil_div(m, std::int64_t{64})) * 128),
      cl::NDRange(128));
  queue.enqueueReadBuffer(data, CL_TRUE, 0, out.data.size(), out.data.data());
  queue.enqueueReadBuffer(places, CL_TRUE, 0, all.size() * 4, all.data());
  out.counters.resize(static_cast<std::size_t>(kPartCounters));
  std::memcpy(out.counters.data(), all.data(), out.counters.size() * 4);
  out.scales.assign(all.begin() + kPartCounters, all.end());
  return out;
}

/// Of lines of codes: where the code of `row` in column c is: tile and K block, line, piece of 16 bytes, byte; and
/// where a scale is.
std::size_t place_in_lines(std::int64_t row, std::int64_t c, std::int64_t blocks) {
  const std::int64_t in = c % 128;
  return static_cast<std::size_t>((row / 64 * blocks + c / 128) * 8192 + row % 64 * 128 + (in / 16 ^ row % 8) * 16 +
                                  in % 16);
}

std::size_t place_of_scale(std::int64_t row, std::int64_t block, std::int64_t blocks) {
  return static_cast<std::size_t>((row / 128 * blocks + block) * 128 + row % 128 / 16 * 16 + row % 8 * 2 +
                                  row % 16 / 8);
}

TEST(OpenClTensorCores, TokensLieWhereTheFormsSay) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  for (const auto& device : devices()) {
    for (const auto& [m, k] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {70, 300}, {130, 129}, {66, 251}}) {
      // Rows that may be read by 16 bytes, by four, and by one.
      const std::int64_t lda = m == 130     ? k + 7
                               : m % 2 == 0 ? numerics::ceil_div(k, std::int64_t{16}) * 16
                                            : k + 5,
                         groups = numerics::ceil_div(k, std::int64_t{128}),
                         blocks = numerics::ceil_div(k, std::int64_t{256}) * 2;
      const std::vector<std::uint8_t> codes = random_codes(m * lda, 11);
      std::vector<float> scales(static_cast<std::size_t>(m * groups));
      for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 1.0f + static_cast<float>(i);
      auto& ours = dynamic_cast<Device&>(*device);
      const PackedTokens half = pack(ours, "pack_wgmma_f16", codes, scales, m, k, lda, 2);
      const PackedTokens plain = pack(ours, "pack_wgmma_fp8", codes, scales, m, k, lda, 1);
      for (const std::uint32_t counter : half.counters) ASSERT_EQ(counter, 0u);
      for (const std::uint32_t counter : plain.counters) ASSERT_EQ(counter, 0u);
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t c = 0; c < blocks * 128; ++c) {
          const std::uint8_t code = c < k ? codes[static_cast<std::size_t>(row * lda + c)] : std::uint8_t{0};
          const std::int64_t block = c / 128, in = c % 128, place = row / 64 * blocks + block;
          // Half: the half of the K block, then 16 t + 2 piece + e.
          const std::int64_t w = in % 64, piece = w % 16 / 2 ^ (row & 7);
          const std::int64_t at =
              place * 16384 + in / 64 * 8192 + row % 64 * 128 + piece * 16 + w / 16 * 4 + w % 2 * 2;
          std::uint16_t bits = 0;
          std::memcpy(&bits, half.data.data() + at, 2);
          const float want = numerics::decode_e4m3fn(code), got = numerics::decode_f16(bits);
          ASSERT_TRUE(want == got || (std::isnan(want) && std::isnan(got))) << row << ", " << c;
          ASSERT_EQ(plain.data[place_in_lines(row, c, blocks)], code) << row << ", " << c;
          const float scale = block < groups ? scales[static_cast<std::size_t>(row * groups + block)] : 0.0f;
          ASSERT_EQ(half.scales[static_cast<std::size_t>(place * 64 + row % 64)], scale) << row << ", " << c;
          ASSERT_EQ(plain.scales[place_of_scale(row, block, blocks)], scale) << row << ", " << c;
        }
      }
    }
  }
}

/// Rows of a grouped problem packed by cl/pack_wgmma.cl in tiles of 128, with fewer work-groups than there is to do.
struct PackedGroups {
  std::vector<std::int32_t> scheduled;
  std::vector<std::uint8_t> data;
  std::vector<float> scales;
};

/// deals: the kernel deals the rows itself; else cl/schedule.cl has dealt them.
PackedGroups pack_groups(Device& device, const std::vector<std::int32_t>& counts, std::int64_t m, bool masked,
                         bool deals, const std::vector<std::uint8_t>& codes, const std::vector<float>& scales,
                         std::int64_t k) {
  const auto context = device.context();
  const std::int64_t blocks = numerics::ceil_div(k, std::int64_t{256}) * 2;
  Problem p;
  p.m = m;
  p.matrices = static_cast<std::int64_t>(counts.size());
  p.grouping = masked ? backend::Grouping::masked : backend::Grouping::contiguous;
  const ScheduleLists lists(p, m, {128, 1});
  const std::int64_t rows = most_tiles(p, m, 128) * 128;
  PackedGroups out;
  out.scheduled.assign(static_cast<std::size_t>(lists.elements), -1);
  out.data.assign(static_cast<std::size_t>(rows * blocks * 128), 0xee);
  out.scales.assign(static_cast<std::size_t>(kPartCounters + rows * blocks), -7.0f);
  const auto buffer = [&](const auto& values) {
    return cl::Buffer(context->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, values.size() * sizeof values[0],
                      const_cast<std::remove_cvref_t<decltype(values[0])>*>(values.data()));
  };
  const cl::Buffer a = buffer(codes), sa = buffer(scales), count = buffer(counts), dealt = buffer(out.scheduled),
                   data = buffer(out.data), places = buffer(out.scales);
  const cl::CommandQueue queue(context->context, context->device);
  const auto matrices = static_cast<cl_int>(counts.size());
  const cl_int is_masked = masked ? 1 : 0, tiles_at = static_cast<cl_int>(lists.tiles_at),
               blocks_at = static_cast<cl_int>(lists.blocks_at);
  Defines defines = device_defines(context->features);
  defines.merge(usual_settings("pack_wgmma.cl"));
  if (!deals) {
    cl::Kernel deal(context->builder->build("schedule.cl", usual_settings("schedule.cl")), "schedule");
    set_args(deal, 0, static_cast<cl_int>(m), matrices, is_masked, 128, 1, count, cl_ulong{0}, dealt, cl_ulong{0},
             tiles_at, blocks_at);
    queue.enqueueNDRangeKernel(deal, cl::NullRange, cl::NDRange(1), cl::NDRange(1));
  }
  defines["GROUPED"] = "1";
  defines["SCHEDULED_ROWS"] = "128";
  if (deals) defines["SCHEDULES"] = "1";
  cl::Kernel kernel(context->builder->build("pack_wgmma.cl", defines), "pack_wgmma_fp8");
  set_args(kernel, 0, static_cast<cl_int>(m), static_cast<cl_int>(k), static_cast<cl_int>(blocks), a, cl_ulong{0},
           static_cast<cl_ulong>(k), sa, cl_ulong{0}, static_cast<cl_ulong>(numerics::ceil_div(k, std::int64_t{128})),
           1, 128, data, cl_ulong{0}, places, static_cast<cl_ulong>(kPartCounters), dealt, cl_ulong{0});
  if (deals)
    set_args(kernel, 17, matrices, is_masked, count, cl_ulong{0}, tiles_at, blocks_at, cl::Local(counts.size() * 32));
  queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(3 * 128), cl::NDRange(128));
  queue.enqueueReadBuffer(dealt, CL_TRUE, 0, out.scheduled.size() * 4, out.scheduled.data());
  queue.enqueueReadBuffer(data, CL_TRUE, 0, out.data.size(), out.data.data());
  queue.enqueueReadBuffer(places, CL_TRUE, 0, out.scales.size() * 4, out.scales.data());
  return out;
}

TEST(OpenClTensorCores, PackingDealsRowsAsTheirOwnKernelDoes) {
  if (devices().empty()) GTEST_SKIP() << why_no_devices();
  const std::int64_t k = 300, groups = 3, blocks = 4;
  struct Case {
    std::vector<std::int32_t> counts;
    std::int64_t m;
    bool masked;
  };
  std::vector<std::int32_t> many(200);  // More than work-items of a work-group.
  for (std::size_t g = 0; g < many.size(); ++g) many[g] = static_cast<std::int32_t>(g % 4);
  const std::vector<Case> cases{
      {{0, 130, -5, 1, 128, 0, 64}, 330, false},  // One is negative, seven rows are left over.
      {{200, 70, 300}, 310, false},               // More than there are.
      {{5}, 5, false},
      {{0, 0, 0}, 9, false},
      {many, 300, false},
      {{129, 0, 400, 3, -1}, 140, true}};
  for (const auto& device : devices()) {
    auto& ours = dynamic_cast<Device&>(*device);
    for (const Case& c : cases) {
      SCOPED_TRACE(::testing::PrintToString(c.counts));
      const std::int64_t rows = c.masked ? c.m * static_cast<std::int64_t>(c.counts.size()) : c.m;
      const std::vector<std::uint8_t> codes = random_codes(rows * k, 12);
      std::vector<float> scales(static_cast<std::size_t>(rows * groups));
      for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 1.0f + static_cast<float>(i);
      const PackedGroups own = pack_groups(ours, c.counts, c.m, c.masked, true, codes, scales, k),
                         after = pack_groups(ours, c.counts, c.m, c.masked, false, codes, scales, k);
      EXPECT_EQ(own.scheduled, after.scheduled);
      EXPECT_EQ(own.data, after.data);
      EXPECT_EQ(own.scales, after.scales);
      std::int64_t row = 0, tile = 0;
      for (std::size_t g = 0; g < c.counts.size(); ++g) {
        if (c.masked) row = static_cast<std::int64_t>(g) * c.m;
        const std::int64_t there = std::clamp<std::int64_t>(c.counts[g], 0, c.masked ? c.m : c.m - row);
        for (std::int64_t i = 0; i < there; ++i, ++row) {
          const std::int64_t packed = tile * 128 + i;
          for (std::int64_t col = 0; col < k; ++col)
            ASSERT_EQ(own.data[place_in_lines(packed, col, blocks)], codes[static_cast<std::size_t>(row * k + col)])
                << g << ": " << i << ", " << col;
          for (std::int64_t block = 0; block < groups; ++block)
            ASSERT_EQ(own.scales[static_cast<std::size_t>(kPartCounters) + place_of_scale(packed, block, blocks)],
                      scales[static_cast<std::size_t>(row * groups + block)])
                << g << ": " << i << ", " << block;
        }
        tile += numerics::ceil_div(there, std::int64_t{128});
      }
      EXPECT_EQ(own.scheduled[0], tile);
    }
  }
}

}  // namespace
}  // namespace ironcl::opencl::testing
