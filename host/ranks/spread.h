// SPDX-License-Identifier: Apache-2.0
// Layers of a checkpoint over ranks, for commands: who the ranks are, how a layer is split, what the judge needs of a
// result. Next door: host/include/ironcl/ranks.hpp, experts.h, host/layer/judge.h.
#pragma once

#include "host/include/ironcl/ranks.hpp"
#include "host/layer/judge.h"

namespace ironcl::ranks {

/// The ranks of a command: processes, this one among them, or threads of this process. Each has a device.
class Launch {
 public:
  /// One rank per device; a device may appear several times.
  explicit Launch(std::vector<Device> devices, Group::Settings settings = {})
      : devices_(std::move(devices)), settings_(settings) {}
  /// This process's rank. Processes take the devices of their host in turn, by `local_rank`.
  Launch(std::unique_ptr<Transport> process, Group::Settings settings)
      : settings_(settings), process_(std::move(process)), group_(std::make_unique<Group>(*process_, settings)) {}
  void use(const Device& device) { devices_ = {device}; }

  int size() const { return process_ ? process_->size() : static_cast<int>(devices_.size()); }
  bool processes() const noexcept { return process_ != nullptr; }
  /// Whether this process prints and writes files.
  bool speaks() const { return !process_ || process_->rank() == 0; }
  /// Calls work on every rank; throws the same Error on each.
  void run(const std::function<void(Group&, const Device&)>& work);
  /// Calls work() in every process; a failure in one throws the same Error in all, whose message names the rank.
  template <class Work>
  void together(const std::string& phase, const std::string& record, Work work) {
    if (group_)
      group_->together(phase, record, work);
    else
      work();
  }

 private:
  std::vector<Device> devices_;
  Group::Settings settings_;
  std::unique_ptr<Transport> process_;
  std::unique_ptr<Group> group_;
};

/// A layer that has run, for callers that run it again. All but the figures is collective.
struct Again {
  Group& group;
  const Device& device;
  std::function<Times()> run, phases;                 ///< The same for experts, whose run() has phases anyway.
  std::uint64_t weights_bytes = 0, buffer_bytes = 0;  ///< On this rank's device.
};

struct SpreadSettings {
  std::optional<Split> split{};  ///< Unset: by the layer's name; layers of experts by experts.
  bool only_experts = false;     ///< Single matrices are refused.
  bool ragged = false;
  int chunks = 1;
  std::string digest{};
  std::function<void(const Again&)> again{};  ///< Called on every rank after a layer's call; throws the same on each.
};

/// The default split of a layer: by rows where ranks make its input ("o_proj", "down_proj") and k can be cut;
/// otherwise by columns.
Choices choices_for(const std::string& layer, const GemmDesc& problem, const SpreadSettings& settings);

/// A problem's operands, as a whole layer.
Whole whole_of(const report::Problem& problem, const layer::Operands& operands);

/// Computes the parts of all ranks on one device, one after another: D is the sum of partial results in rank order.
std::vector<std::byte> serial_sum(const Device& device, const Whole& whole, const Shards& shards,
                                  std::span<const std::byte> x);

/// Every rank's values, one rank's after another's; `counts`: of each rank. Collective.
template <class T>
std::vector<T> gathered(Group& group, const std::string& phase, std::span<const T> mine,
                        std::vector<std::size_t> counts) {
  std::vector<T> all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  for (std::size_t& count : counts) count *= sizeof(T);
  Exchange exchange = all_gather(group, phase, std::as_bytes(mine), counts);
  exchange.finish();
  auto* at = reinterpret_cast<std::byte*>(all.data());
  for (int rank = 0; rank < group.size(); ++rank)
    at = std::copy_n(exchange.from(rank).begin(), exchange.from(rank).size(), at);
  return all;
}
/// Every rank's value, by rank. Collective.
template <class T>
std::vector<T> gathered(Group& group, const T& mine) {
  return gathered<T>(group, "facts", std::span(&mine, 1),
                     std::vector<std::size_t>(static_cast<std::size_t>(group.size()), 1));
}

/// Bytes of codes and scales that a rank reads of a matrix: Slice::bytes_read, without reading.
std::uint64_t bytes_of_part(const GemmDesc& problem, const Shards& shards, int rank);

/// The transport between the processes that mpirun or srun started, this one among them; null in a process started
/// alone. The environment tells Open MPI from MPICH. Throws Error UNAVAILABLE where the library is missing.
std::unique_ptr<Transport> open_processes();
/// This process's number on its host.
int local_rank();

class SpreadLayers final : public layer::Substitute {
 public:
  /// Borrows the launch.
  SpreadLayers(Launch& launch, SpreadSettings settings) : launch_(launch), settings_(std::move(settings)) {}

  layer::Substituted run(const std::string& layer, const report::Problem& problem,
                         const layer::Operands& operands) override;
  layer::Substituted run(const layer::ExpertsSource& source, const layer::ExpertsInput& input,
                         const layer::ExpertsChoices& choices) override;

 private:
  Launch& launch_;
  SpreadSettings settings_;
};

}  // namespace ironcl::ranks
