// SPDX-License-Identifier: Apache-2.0
// ranks_experts.hpp: a checkpoint's layer of experts over ranks. Header-only, over ranks.hpp and checkpoint.hpp.
//
//   ironcl::ranks::Experts experts(group, device, checkpoint, "model.layers.3.mlp", {.tokens = 16});
//   experts.run(16, x, y);   // every rank: all of x in, all of y out
#pragma once

#include "checkpoint.hpp"
#include "ranks.hpp"

namespace ironcl::ranks {

/// A layer of experts over the ranks of a group: whole experts on each, the shared expert on the first. Every rank
/// has all tokens, so that none travel; what each rank's experts make of y is summed in f32 in the order of ranks,
/// and rounded once: a term more in the bound for each rank but one. (`ironcl --split experts` sends tokens instead.)
class Experts {
 public:
  /// Collective. `name` and `choices` as of ironcl::Experts, but for which experts are here. Throws Error
  /// INVALID_ARGUMENT for fewer experts than ranks.
  Experts(Group& group, const Device& device, const Checkpoint& checkpoint, const std::string& name,
          const ExpertsChoices& choices)
      : group_(&group), choices_(choices) {
    const std::string record = text_of("ironcl ", ironcl_build_id(), " experts ", name, " tokens ", choices.tokens,
                                       " types ", choices.x, ":", choices.y);
    group.together("creating a split of experts", record, [&] {
      for (ExpertsInfo& one : checkpoint.experts())
        if (one.name == name) info_ = std::move(one);
      experts_ = Partition::even("experts", info_.experts, group.size());
      const Range mine = experts_.ranges[static_cast<std::size_t>(group.rank())];
      if (mine.size() == 0 && info_.experts != 0)
        invalid(name, " has ", info_.experts, " experts for ", group.size(), " ranks");
      ExpertsChoices own = choices;
      own.first_expert = static_cast<std::uint32_t>(mine.begin);
      own.local_experts = static_cast<std::uint32_t>(mine.size());
      if (group.size() > 1) own.y = IRONCL_F32;
      layer_.emplace(checkpoint, name, device, own);  // Says why not, where there is no such layer.
      queue_ = Queue(device);
      x_ = Buffer(device, bytes_of_elements(choices.x, choices.tokens * info_.hidden));
      y_ = Buffer(device, bytes_of_elements(own.y, choices.tokens * info_.hidden));
      host_y_ = HostMemory(device, y_.size());
      ids_ = Buffer(device, bytes_of_elements(IRONCL_S32, choices.tokens * info_.top_k));
      weights_ = Buffer(device, ids_.size());
      for (int rank = 0; rank < group.size(); ++rank) all_.push_back(rank);
    });
  }

  /// Collective. y [tokens, H] of x [tokens, H]. `ids`, `weights` [tokens, k]: the caller's choice of experts; empty:
  /// the router's, whose ids are the same on every rank, or an Error says that they are not.
  void run(std::int64_t tokens, std::span<const std::byte> x, std::span<std::byte> y,
           std::span<const std::int32_t> ids = {}, std::span<const float> weights = {}) {
    const auto slots = static_cast<std::size_t>(std::max<std::int64_t>(tokens, 0)) * info_.top_k;
    const detail::CallSizes sizes{choices_.x, choices_.y, info_.hidden, info_.hidden, choices_.tokens};
    Failure wrong = sizes.check(tokens, x.size(), y.size());
    if (!wrong && (ids.size() != weights.size() || (!ids.empty() && ids.size() != slots)))
      wrong = {IRONCL_INVALID_ARGUMENT, 0,
               text_of(detail::rows_of(tokens), "; ids and weights are [m, ", info_.top_k, "] or absent")};
    std::string record = detail::rows_of(tokens);
    const auto compute = [&](Range, std::span<std::byte> to, const detail::Poll& poll) {
      ExpertsArgs args{.tokens = tokens, .x = x_.span(0, x.size()), .y = y_.span(0, to.size())};
      args.ids = ids_.span(0, slots * sizeof(std::int32_t));
      args.weights = weights_.span(0, args.ids.size);
      std::vector<std::int32_t> chosen(slots);
      detail::settled(queue_, [&] {
        queue_.write(args.x, x);
        if (!ids.empty()) {
          args.routed = IRONCL_ROUTED_BY_CALLER;
          queue_.write(args.ids, std::as_bytes(ids));
          queue_.write(args.weights, std::as_bytes(weights));
        }
        std::vector<Event> made;
        made.push_back(layer_->enqueue(queue_, args));
        made.push_back(queue_.read(args.ids, std::as_writable_bytes(std::span(chosen))));
        detail::read(queue_, made, args.y, to, poll);
      });
      const std::string_view ids_made(reinterpret_cast<const char*>(chosen.data()), args.ids.size);
      record += " for experts " + std::to_string(std::hash<std::string_view>{}(ids_made));
    };
    times_ = detail::reduce(*group_, tokens, info_.hidden, choices_.y, all_, 1, host_y_.bytes(), std::move(wrong),
                            record, compute, y);
  }

  const ExpertsInfo& info() const noexcept { return info_; }
  const Partition& experts() const noexcept { return experts_; }
  const Times& times() const noexcept { return times_; }  ///< Of the last call.

 private:
  Group* group_;
  ExpertsChoices choices_;
  ExpertsInfo info_;
  Partition experts_;
  std::vector<int> all_;
  Queue queue_;
  std::optional<ironcl::Experts> layer_;
  Buffer x_, y_, ids_, weights_;
  HostMemory host_y_;
  Times times_;
};

}  // namespace ironcl::ranks
