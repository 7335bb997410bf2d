// SPDX-License-Identifier: Apache-2.0
// Files that other people's code wrote: the ones of tests/data, and those of IRONCL_TEST_DATA where it is set.
#include <cstdlib>

#include "backends/numerics/casts.h"
#include "host/checkpoint/matrix.h"
#include "host/checkpoint/model.h"
#include "tests/checkpoint/support.h"

namespace ironcl::checkpoint {
namespace {

const std::filesystem::path kData = IRONCL_TESTS_DATA;

void expect_all_usable(const Checkpoint& checkpoint) {
  for (const LinearLayer& layer : checkpoint.layers())
    EXPECT_FALSE(layer.problem.has_value()) << layer.problem->what();
}

TEST(RealData, LayerFilesNameTheirBlocksInMetadata) {
  struct Case {
    const char* file;
    std::int64_t n, k, block;
    DType scale;
  };
  for (const Case& c : {Case{"block128-bf16scale-m16-n448-k1152", 448, 1152, 128, DType::bf16},
                        Case{"block128-m7-n576-k2048", 576, 2048, 128, DType::f32},
                        Case{"block256-m33-n512-k1024", 512, 1024, 256, DType::f32}}) {
    SCOPED_TRACE(c.file);
    const Checkpoint checkpoint = Checkpoint::open(kData / (std::string(c.file) + ".safetensors"));
    const LinearLayer& layer = checkpoint.layer("weight");
    EXPECT_EQ(layer.n, c.n);
    EXPECT_EQ(layer.k, c.k);
    EXPECT_EQ(layer.weight_grid, (ScaleGrid{c.block, c.block}));
    EXPECT_EQ(layer.activation_grid, (ScaleGrid{1, c.block}));
    EXPECT_EQ(layer.block_source, BlockSource::metadata);
    EXPECT_EQ(layer.scale.dtype, c.scale);
  }
}

/// The first element of y_f64, computed here from codes and scales by hand: scales multiply, in the place they have.
TEST(RealData, ScalesMultiplyAsTheirAuthorsMeant) {
  const std::filesystem::path file = kData / "block128-m7-n576-k2048.safetensors";
  const Checkpoint checkpoint = Checkpoint::open(file);
  const LinearLayer& layer = checkpoint.layer("weight");
  const Matrix x = load_matrix(file, "x_q"), want = load_matrix(file, "y_f64");
  const Matrix x_scale = load_scales(file, "x_scale", x.rows, x.cols, layer.activation_grid);
  const std::vector<double> q = x.to_f64(), s = x_scale.to_f64(), y = want.to_f64();
  for (const auto& [m, n] : {std::pair{0L, 0L}, {6L, 575L}, {3L, 200L}}) {
    double sum = 0;
    for (std::int64_t k = 0; k < layer.k; ++k)
      sum += q[m * x.cols + k] * s[m * x_scale.cols + k / 128] *
             numerics::load_as_f64(layer.weight.dtype, layer.weight.data.data(), n * layer.k + k) *
             numerics::load_as_f64(layer.scale.dtype, layer.scale.data.data(),
                                   layer.weight_grid.row_of(n) * layer.weight_grid.scale_cols(layer.k) + k / 128);
    EXPECT_NEAR(sum, y[m * want.cols + n], 1e-9 * std::abs(sum) + 1e-12) << m << ", " << n;
  }
}

TEST(RealData, TinyQwen3HasSevenLayersWithAScaleInAnotherShard) {
  const Checkpoint checkpoint = Checkpoint::open(kData / "tiny-qwen3-fp8");
  expect_all_usable(checkpoint);
  ASSERT_EQ(checkpoint.layers().size(), 7u);
  EXPECT_EQ(checkpoint.files().size(), 2u);
  const LinearLayer& down = checkpoint.layer("model.layers.0.mlp.down_proj");
  EXPECT_EQ(down.k, 448) << "3.5 blocks";
  EXPECT_EQ(down.scale.dtype, DType::bf16);
  EXPECT_NE(down.weight.file(), down.scale.file());
  EXPECT_EQ(down.activation_rounding, ScaleRounding::exact);
  EXPECT_EQ(checkpoint.unquantized().size(), 7u);
}

TEST(RealData, TinyCompressedTensorsHasBlocksAndChannels) {
  const Checkpoint checkpoint = Checkpoint::open(kData / "tiny-compressed-tensors");
  expect_all_usable(checkpoint);
  ASSERT_EQ(checkpoint.layers().size(), 3u);
  EXPECT_EQ(checkpoint.layer("model.layers.0.mlp.up_proj").weight_grid, (ScaleGrid{128, 128}));
  const LinearLayer& down = checkpoint.layer("model.layers.0.mlp.down_proj");
  EXPECT_EQ(down.weight_grid, (ScaleGrid{1, 0}));
  EXPECT_EQ(down.activation_grid, (ScaleGrid{1, 0}));
}

TEST(RealData, TinyDeepSeekRoundsActivationScalesToPowersOfTwo) {
  const Checkpoint checkpoint = Checkpoint::open(kData / "tiny-deepseek-fp8");
  expect_all_usable(checkpoint);
  ASSERT_EQ(checkpoint.layers().size(), 3u);
  for (const LinearLayer& layer : checkpoint.layers())
    EXPECT_EQ(layer.activation_rounding, ScaleRounding::power_of_two) << layer.name;
  EXPECT_EQ(checkpoint.layer("model.layers.0.mlp.down_proj").k, 72);
}

TEST(RealData, EveryFileOfTheDataFolderOpens) {
  const char* folder = std::getenv("IRONCL_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "IRONCL_TEST_DATA is not set";
  int layers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors" && !entry.is_directory()) continue;
    SCOPED_TRACE(entry.path());
    const Checkpoint checkpoint = Checkpoint::open(entry.path());
    expect_all_usable(checkpoint);
    layers += static_cast<int>(checkpoint.layers().size());
  }
  EXPECT_GE(layers, 12);
}

}  // namespace
}  // namespace ironcl::checkpoint
