// SPDX-License-Identifier: Apache-2.0
#include "tests/opencl/grouped.h"

#include <algorithm>

#include "backends/opencl/device.h"
#include "backends/opencl/variant.h"

namespace ironcl::opencl::testing {

Case allowed(Case c) {
  for (const auto& [key, value] : c.options)
    if (const Variant* named = key == "variant" ? find_variant(value) : nullptr)
      c.weakest = std::max(c.weakest, named->accuracy);  // Null: one of a test.
  return c;
}

int check_grouped(const Case& asked) {
  const Case c = allowed(asked);
  const Data data = make_data(c);
  int ran = 0;
  for (const auto& device : devices()) {
    if (device->supports(c.desc()).reason != backend::Reason::none) continue;
    expect_right(run(*device, c, data), c, device->props().name);
    ++ran;
  }
  return ran;
}

void expect_right_in_both_layouts(backend::Device& device, Case c, std::int64_t m, std::int64_t capacity) {
  c = allowed(c);
  for (const bool masked : {false, true}) {
    c.masked = masked;
    c.m = masked ? capacity : m;
    c.a_rows = masked ? 0 : 17;
    const Outcome outcome = run(device, c, make_data(c));
    EXPECT_EQ(outcome.info.variant, c.options.front().second);
    expect_right(outcome, c, device.props().name);
  }
}

int devices_with_room_for_a_panel() {
  constexpr std::int64_t kLeast = (2 * 128 + 16) * 32 * 4;  // gemm_panel.cl, the lowest blocks.
  return static_cast<int>(std::count_if(devices().begin(), devices().end(), [](const auto& device) {
    return dynamic_cast<Device&>(*device).context()->features.local_bytes >= kLeast;
  }));
}

std::vector<backend::Options> grouped_variants() {
  std::vector<backend::Options> all;
  for (const Variant& variant : variants()) {
    if (variant.schedule == nullptr) continue;
    backend::Options options{{"variant", variant.name}};
    if (variant.name == "gemm_tiled")
      options.insert(options.end(), {{"tile_m", "16"}, {"tile_n", "32"}, {"tile_k", "16"}, {"work_m", "2"}});
    if (variant.name == "gemm_skinny")
      options.insert(options.end(), {{"tile_m", "2"}, {"lanes", "4"}, {"slices", "2"}, {"split_k", "2"}});
    if (variant.name == "gemm_panel")
      options.insert(options.end(), {{"tile_m", "3"}, {"block_m", "2"}, {"block_n", "64"}});
    if (variant.name == "gemm_stream")
      options.insert(options.end(), {{"tile_m", "3"}, {"block_m", "2"}, {"split_k", "2"}});
    if (variant.name == "gemm_stream_bf16") options.insert(options.end(), {{"tile_m", "3"}, {"block_m", "2"}});
    // Named, so that a few programs serve all numbers of rows.
    if (variant.name == "gemm_bf16")
      options.insert(options.end(), {{"tile_m", "14"}, {"block_m", "2"}, {"block_n", "32"}});
    if (variant.name == "gemm_amx") options.insert(options.end(), {{"block_m", "2"}, {"block_n", "64"}});
    if (variant.name == "gemm_mma_stream") {
      all.push_back({{"variant", variant.name}, {"tile_m", "2"}, {"warps", "4"}});
      options.insert(options.end(), {{"tile_m", "16"}, {"columns", "32"}, {"depth", "3"}});
    }
    all.push_back(options);
    // Even so few tiles are made in parts of K then.
    if (std::any_of(variant.tunables.begin(), variant.tunables.end(),
                    [](const Tunable& t) { return t.name == "share"; }))
      all.push_back({{"variant", variant.name}, {"share", "1"}});
  }
  return all;
}

}  // namespace ironcl::opencl::testing
