// SPDX-License-Identifier: Apache-2.0
// The small kernels between products by themselves, with as many work-items as a GPU has: their bits are those of one
// work-item with vectors of 16, which the conformance suite judges on processors.
#include "backends/opencl/program.h"
#include "tests/opencl/harness.h"

namespace ironcl::opencl::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// A device with all that a kernel of a test needs.
struct Bench {
  cl::Context context;
  cl::CommandQueue queue;
  ProgramBuilder builder;
  explicit Bench(const cl::Device& device)
      : context(device), queue(context, device), builder({}, nullptr, context, device) {}

  template <class T>
  cl::Buffer upload(const std::vector<T>& values) {
    cl::Buffer buffer(context, CL_MEM_READ_WRITE, values.size() * sizeof(T));
    queue.enqueueWriteBuffer(buffer, CL_TRUE, 0, values.size() * sizeof(T), values.data());
    return buffer;
  }
  /// What the buffers hold, one after another.
  Bytes fetch(std::initializer_list<cl::Buffer> buffers) {
    Bytes all;
    for (const cl::Buffer& buffer : buffers) {
      Bytes bytes(buffer.getInfo<CL_MEM_SIZE>());
      queue.enqueueReadBuffer(buffer, CL_TRUE, 0, bytes.size(), bytes.data());
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
};

/// bf16 of 32 to 63.75, some negative where `signs`, with a NaN for the last: gates for which the sigmoid is 1.
std::vector<std::uint16_t> numbers(std::size_t count, bool signs) {
  std::vector<std::uint16_t> out(count);
  std::uint32_t state = 7;
  for (std::uint16_t& value : out) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<std::uint16_t>(0x4200 | state >> 25 | (signs && state % 3 == 0 ? 0x8000 : 0));
  }
  out.back() = 0x7fc0;
  return out;
}

constexpr int kRows = 5, kCols = 203;  // A group, and 75 columns of another: 18 fours and three.

Bytes activated(Bench& bench, int lanes, bool codes, std::size_t ld) {
  const Defines defines{{"LANES", std::to_string(lanes)},
                        {"CODE", codes ? "4" : "0"},
                        {"SOURCE", "1"},
                        {"X_TYPE", "3"},
                        {"Y_TYPE", "2"},
                        {"ACTIVATION", "1"},
                        {"GROUP_COLS", "128"},
                        {"GROUPED", "1"},
                        {"POWER_OF_TWO", "0"},
                        {"FMA_DIVIDE", "0"},
                        {"EXACT_DIVIDE", "0"},
                        {"USE_FMA", "1"}};
  cl::Kernel kernel(bench.builder.build("activate.cl", defines), "activate");
  const cl::Buffer gate = bench.upload(numbers(ld * kRows, false)), up = bench.upload(numbers(ld * kRows, true));
  const cl::Buffer y = bench.upload(Bytes(ld * kRows * 2, 0x5a)), scales = bench.upload(Bytes(2 * kRows * 4, 0x5a));
  const cl::Buffer counts = bench.upload(std::vector<std::int32_t>{3, -1, 1});  // The fifth row is nobody's.
  set_args(kernel, 0, cl_int{kRows}, cl_int{kCols}, cl_int{3}, cl_float{0}, cl_uint{0}, gate, cl_ulong{0},
           cl_ulong{ld}, up, cl_ulong{0}, cl_ulong{ld}, y, cl_ulong{0}, cl_ulong{ld}, scales, cl_ulong{0},
           cl_ulong{2}, counts, cl_ulong{0});
  const auto items = static_cast<std::size_t>(lanes);
  bench.queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(2 * items, 3), cl::NDRange(items, 1));
  return bench.fetch({y, scales});
}

TEST(OpenClWorkItems, ActivateAsOneDoes) {
  on_every_context([](const Context& on) {
    Bench bench(on.device);
    for (const bool codes : {false, true}) {
      for (const std::size_t ld : {204, 203}) {  // Fours are one read, or not.
        const Bytes one = activated(bench, 1, codes, ld);
        EXPECT_NE(one, Bytes(one.size(), 0x5a));
        for (const int lanes : {8, 32}) EXPECT_EQ(activated(bench, lanes, codes, ld), one) << lanes << ' ' << ld;
      }
    }
  });
}

Bytes quantised(Bench& bench, int lanes, int group_rows, std::size_t ld) {
  const Defines defines{{"LANES", std::to_string(lanes)},
                        {"CODE", "4"},
                        {"SOURCE", "3"},
                        {"SCALE_TYPE", "1"},
                        {"POWER_OF_TWO", "0"},
                        {"FMA_DIVIDE", "0"},
                        {"EXACT_DIVIDE", "0"},
                        {"USE_FMA", "1"}};
  cl::Kernel kernel(bench.builder.build("quantize.cl", defines), "quantize");
  const cl::Buffer x = bench.upload(numbers(ld * kRows, true));
  const cl::Buffer codes = bench.upload(Bytes((ld + 4) * kRows, 0x5a)),
                   scales = bench.upload(Bytes(2 * kRows * 4, 0x5a));
  set_args(kernel, 0, cl_int{kRows}, cl_int{kCols}, cl_int{kCols + 1}, cl_int{group_rows}, cl_int{128}, cl_uint{0}, x,
           cl_ulong{0}, cl_ulong{ld}, codes, cl_ulong{0}, cl_ulong{ld + 4}, scales, cl_ulong{0}, cl_ulong{2});
  const auto items = static_cast<std::size_t>(lanes);
  bench.queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(2 * items, kRows), cl::NDRange(items, 1));
  return bench.fetch({codes, scales});
}

TEST(OpenClWorkItems, QuantiseAsOneDoes) {
  on_every_context([](const Context& on) {
    Bench bench(on.device);
    for (const int group_rows : {1, 2}) {
      for (const std::size_t ld : {204, 203}) {
        const Bytes one = quantised(bench, 1, group_rows, ld);
        EXPECT_NE(one, Bytes(one.size(), 0x5a));
        for (const int lanes : {8, 32}) EXPECT_EQ(quantised(bench, lanes, group_rows, ld), one) << lanes << ' ' << ld;
      }
    }
  });
}

Bytes combined(Bench& bench, int width, int x_rows, std::size_t ld) {
  const Defines defines{{"WIDTH", std::to_string(width)},
                        {"X_TYPE", "3"},
                        {"Y_TYPE", "1"},
                        {"ADD_TYPE", "2"},
                        {"WEIGH_ADD", "1"},
                        {"USE_FMA", "1"}};
  constexpr int kTopK = 6;
  cl::Kernel kernel(bench.builder.build("combine.cl", defines), "combine");
  std::vector<std::int32_t> rows(kRows * kTopK);  // Slots whose row is not there are among them.
  std::vector<float> weights(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<std::int32_t>(i * 5 % 9) - 1;
    weights[i] = 0.1f * static_cast<float>(i % 7) - 0.25f;
  }
  const cl::Buffer x = bench.upload(numbers(ld * 6, true)), add = bench.upload(numbers(ld * kRows, true));
  const cl::Buffer of_rows = bench.upload(rows), of_weights = bench.upload(weights),
                   add_weights = bench.upload(std::vector<float>(kRows, 0.75f)),
                   y = bench.upload(Bytes(ld * kRows * 4, 0x5a));
  set_args(kernel, 0, cl_int{kRows}, cl_int{kCols}, cl_int{x_rows}, cl_int{kTopK}, x, cl_ulong{0}, cl_ulong{ld},
           of_rows, cl_ulong{0}, of_weights, cl_ulong{0}, add, cl_ulong{0}, cl_ulong{ld}, add_weights, cl_ulong{0}, y,
           cl_ulong{0}, cl_ulong{ld});
  bench.queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange(64, kRows), cl::NDRange(16, 1));
  return bench.fetch({y});
}

TEST(OpenClWorkItems, CombineFourColumnsAsOneCombinesSixteen) {
  on_every_context([](const Context& on) {
    Bench bench(on.device);
    for (const std::size_t ld : {204, 203}) {
      for (const int x_rows : {0, 6}) {
        const Bytes sixteen = combined(bench, 16, x_rows, ld);
        EXPECT_NE(sixteen, Bytes(sixteen.size(), 0x5a));
        EXPECT_EQ(combined(bench, 4, x_rows, ld), sixteen) << x_rows << ' ' << ld;
      }
    }
  });
}

}  // namespace
}  // namespace ironcl::opencl::testing
