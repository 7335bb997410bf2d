// SPDX-License-Identifier: Apache-2.0
// sharded_layer: one layer of a checkpoint over ranks, each a thread with its part of the weights; split by columns
// and by rows, and compared with the whole layer on one device.
//
//   sharded_layer CHECKPOINT LAYER [RANKS] [DEVICE...]     ranks take the devices in turn (default: 2, auto)
//
// With processes of mpirun a rank has a Transport over MPI instead; the rest stays as it is.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ironcl/checkpoint.hpp"
#include "ironcl/ranks.hpp"

namespace {

constexpr std::int64_t kRows = 4;

using Floats = std::vector<float>;

Floats product(const ironcl::Layer& layer, const std::vector<ironcl::Device>& devices, int count,
               ironcl::ranks::Split split, const Floats& x) {
  const ironcl::GemmDesc problem = layer.problem({.m = kRows, .x = IRONCL_F32, .d = IRONCL_F32});
  const float fixed = layer.info().input_scale;
  Floats result;
  ironcl::ranks::ThreadRanks threads(count);
  threads.run([&](ironcl::ranks::Transport& transport) {
    ironcl::ranks::Group group(transport);
    const int rank = group.rank();
    const ironcl::Device& device = devices[static_cast<std::size_t>(rank) % devices.size()];
    Floats d(static_cast<std::size_t>(kRows * layer.n()));
    layer.with_weights([&](const ironcl::WeightsDesc& b) {
      ironcl::ranks::Whole whole{problem, b, layer.bias()};
      if (layer.is_static()) whole.a_scale = std::as_bytes(std::span(&fixed, 1));
      ironcl::ranks::Linear linear(group, device, whole, {.split = split});  // reads its part of the file
      linear.run(kRows, std::as_bytes(std::span(x)), std::as_writable_bytes(std::span(d)));
      if (rank == 0 && count > 1)
        std::printf("%s: %s; rank 0 has read %llu of %llu bytes, sent %llu\n", layer.name().c_str(),
                    linear.shards().text().c_str(), static_cast<unsigned long long>(linear.bytes_read()),
                    static_cast<unsigned long long>(b.data.size()) + b.scales.size(),
                    static_cast<unsigned long long>(group.sent().bytes));
    });
    if (rank == 0) result = d;
  });
  return result;
}

int run(const std::string& path, const std::string& name, int count, const std::vector<std::string>& uris) {
  const ironcl::Checkpoint checkpoint(path);
  const ironcl::Layer layer = checkpoint.layer(name);
  const ironcl::Registry registry = ironcl::Registry::discover();
  std::vector<ironcl::Device> devices;
  devices.reserve(uris.size());
  for (const std::string& uri : uris) devices.push_back(registry.select(layer.problem({.m = kRows}), uri));
  Floats x(static_cast<std::size_t>(kRows * layer.k()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i % 977));

  const Floats whole = product(layer, devices, 1, ironcl::ranks::Split::column, x);
  const Floats columns = product(layer, devices, count, ironcl::ranks::Split::column, x);
  const Floats sums = product(layer, devices, count, ironcl::ranks::Split::row, x);
  double largest = 0, off = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(whole[i])));
    off = std::max(off, std::fabs(static_cast<double>(whole[i]) - static_cast<double>(sums[i])));
  }
  std::printf("columns have %s bits of the whole layer; sums of partial results are %.2g of its largest value off\n",
              columns == whole ? "the" : "OTHER", largest == 0 ? off : off / largest);
  return columns == whole && off <= 1e-5 * largest ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: sharded_layer CHECKPOINT LAYER [RANKS] [DEVICE...]\n");
    return 2;
  }
  std::vector<std::string> uris(arguments + std::min(count, 4), arguments + count);
  if (uris.empty()) uris.emplace_back("auto");
  try {
    return run(arguments[1], arguments[2], count > 3 ? std::max(1, std::atoi(arguments[3])) : 2, uris);
  } catch (const ironcl::Error& error) {
    std::fprintf(stderr, "sharded_layer: %s\n", error.what());
    return error.status() == IRONCL_UNAVAILABLE ? 4 : 1;
  }
}
