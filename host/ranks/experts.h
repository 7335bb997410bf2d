// SPDX-License-Identifier: Apache-2.0
// A layer of experts over ranks: each rank holds whole experts and its own tokens. Tokens travel as codes with scales
// to the ranks of their experts, the experts' results come back in f32, and a token's rank adds them in the order of
// the slots, as one device does. Next door: host/include/ironcl/ranks.hpp, host/layer/graph.h.
#pragma once

#include "host/include/ironcl/ranks.hpp"
#include "host/layer/execution.h"
#include "host/layer/experts_source.h"
#include "host/layer/graph.h"
#include "host/layer/oracle.h"
#include "host/layer/runner.h"

namespace ironcl::ranks {

class SpreadExperts {
 public:
  /// Collective. Reads and prepares this rank's experts, and what every rank holds: router and shared expert.
  /// choices.tokens: the most tokens of all ranks together. Throws what layer::experts_on throws, the same on every
  /// rank.
  SpreadExperts(Group& group, const Device& device, const layer::ExpertsSource& source,
                const layer::ExpertsChoices& choices, const std::string& digest = {});

  /// Collective. Computes y [tokens, H] of this rank's own x; tokens may be 0, and may differ between ranks.
  /// `routed`: experts and weights of the tokens; null: the router chooses. Returns them.
  layer::RoutedTokens run(std::int64_t tokens, std::span<const std::byte> x, std::span<std::byte> y,
                          const layer::RoutedTokens* routed = nullptr);

  const Partition& experts() const noexcept { return experts_; }
  /// This rank's plans, by the operations of the whole layer's list.
  const std::vector<layer::PlanInfo>& plans() const noexcept { return plans_; }
  /// Of the last call: product, the devices with transfers; exchange, the messages; compute, the host's work.
  const Times& times() const noexcept { return times_; }
  std::uint64_t weights_bytes() const;  ///< Of prepared weights, on this rank's device.

 private:
  using Parts = std::vector<std::span<const std::byte>>;  ///< Spans that follow one another.
  /// A value that a call brings in.
  struct Given {
    const char* name;
    Parts values, scales;
  };
  /// Some operations of a list with their weights, and buffers that grow as calls need.
  struct Steps {
    std::unique_ptr<layer::Runner> runner;
    std::vector<Buffer> memory;
    HostMemory host;
  };

  Steps steps(const layer::ExpertsSource& source, layer::Graph list, const std::vector<std::string>& given,
              const std::string& wanted);
  /// The first `rows` rows of the wanted value, valid until the next call of these steps.
  std::span<const std::byte> call(Steps& steps, std::int64_t tokens, std::size_t rows,
                                  const std::vector<Given>& given);
  layer::RoutedTokens route(std::int64_t tokens, std::span<const std::byte> x, const layer::RoutedTokens* routed,
                            std::vector<float>& shared_weights);

  Group& group_;
  Device device_;
  Queue queue_;
  layer::ExpertsForm form_;
  layer::ExpertsChoices choices_;
  Partition experts_;
  layer::Graph list_;
  std::vector<layer::PlanInfo> plans_;
  Steps router_, sort_, local_, shared_;
  std::vector<std::vector<std::byte>> results_;  ///< By rank; memory that is new to the process costs more than sums.
  Times times_;
};

}  // namespace ironcl::ranks
