// SPDX-License-Identifier: Apache-2.0
// The two products of a layer of experts as grouped problems beside a loop of dense plans over the experts that are
// hit, taking turns, and the whole layer from ids to y.
//
// The loop is given what it would have to find out: its counts are on the host, its rows are permuted beforehand, and
// it has a plan for each number of rows. Each round has other tokens, so that weights come from memory. Ratios and
// shares of the copy rate are medians of the rounds', the latter both on the device's clock.
#include <boost/json.hpp>

#include "bench/experts_sides.h"

namespace ironcl::bench {
namespace {

constexpr std::int64_t kFewTokens = 8;

/// One round.
struct Round {
  double loop_s = 0, grouped_s = 0, layer_s = 0;
  double rate = 0;  ///< Bytes a second at which the grouped products read weights, on the device's clock.
  std::int64_t hit = 0;
};

/// The rounds of one number of tokens, and copies between them.
class Rounds {
 public:
  explicit Rounds(backend::Device& device) : device_(device), copy_before_(copy_rate()) {}

  void add(const Round& round) { rounds_.push_back(round); }

  /// The rounds since the last copy are compared with the mean of that and one now.
  void copy() {
    const double after = copy_rate();
    while (of_copy_.size() < rounds_.size())
      of_copy_.push_back(2 * rounds_[of_copy_.size()].rate / (copy_before_ + after));
    copy_before_ = after;
  }

  static void print_heading() {
    fmt::print("{:>6} {:>6} {:>10} {:>10} {:>7} {:>10} {:>10} {:>8}  {}\n", "T", "hit", "loop us", "grouped us",
               "ratio", "layer us", "GB/s", "of copy", "grouped with");
  }

  void print(std::int64_t tokens, const std::string& plans) const {
    const auto median_of = [&](auto&& value) {
      std::vector<double> values;
      for (const Round& round : rounds_) values.push_back(value(round));
      return median(values);
    };
    double hits = 0;
    for (const Round& round : rounds_) hits += static_cast<double>(round.hit);
    fmt::print("{:>6} {:>6.0f} {:>10.1f} {:>10.1f} {:>7.2f} {:>10.1f} {:>10.1f} {:>8.2f}  {}\n", tokens,
               hits / static_cast<double>(rounds_.size()), median_of([](const Round& r) { return r.loop_s; }) * 1e6,
               median_of([](const Round& r) { return r.grouped_s; }) * 1e6,
               median_of([](const Round& r) { return r.loop_s / r.grouped_s; }),
               median_of([](const Round& r) { return r.layer_s; }) * 1e6,
               median_of([](const Round& r) { return r.rate; }) / 1e9, median(of_copy_), plans);
    std::fflush(stdout);
  }

 private:
  /// Bytes a second that a copy reads and writes, now: on a shared machine it is another one a second later.
  double copy_rate() {
    return boost::json::parse(device_.query("ceilings", nullptr)).at("copy_bytes_per_s").to_number<double>();
  }

  backend::Device& device_;
  double copy_before_;
  std::vector<Round> rounds_;
  std::vector<double> of_copy_;
};

/// Both sides with one number of tokens.
class Comparison {
 public:
  Comparison(Layer& layer, std::int64_t tokens, int rounds)
      : layer_(layer),
        batches_(batches_of(layer, tokens, rounds)),
        buffers_{layer, tokens},
        grouped_(layer, buffers_),
        loop_(layer, buffers_, batches_) {}

  /// With the first batch; afterwards everything is warm. Ends the program where the sides differ.
  void check() {
    buffers_.write(batches_.front());
    loop_.enqueue(batches_.front());
    grouped_.products();
    grouped_.whole();
    grouped_.products();
    const double apart = difference(layer_.run.read(buffers_.out), layer_.run.read(buffers_.out_loop));
    if (!(apart < 0x1p-7)) {
      fmt::print("T = {}: grouped and dense differ by {} of the largest value\n", buffers_.tokens, apart);
      std::exit(1);
    }
  }

  /// A round for each of the other batches.
  void time(Rounds& rounds) {
    // Few tokens wait for memory: a copy before and after each of their rounds, else only before and after all.
    const bool few = buffers_.tokens <= kFewTokens;
    for (std::size_t i = 1; i < batches_.size(); ++i) {
      buffers_.write(batches_[i]);
      // The copy has left lines in the caches that are still to be written.
      if (few) timed([&] { grouped_.whole(); });
      rounds.add(round(batches_[i], i % 2 == 0));  // Each side is first in every second round.
      if (few || i + 1 == batches_.size()) rounds.copy();
    }
  }

  void print(const Rounds& rounds) const { rounds.print(buffers_.tokens, grouped_.plans()); }

 private:
  Round round(const Batch& batch, bool loop_first) {
    Round round;
    const auto time_loop = [&] { round.loop_s = timed([&] { loop_.enqueue(batch); }); };
    std::pair<Event, Event> both;
    if (loop_first) time_loop();
    round.grouped_s = timed([&] { both = grouped_.products(); });
    if (!loop_first) time_loop();
    round.layer_s = timed([&] { grouped_.whole(); });
    // On the device's clock, as copies: from the first kernel of dealing to the end of the last product.
    const double ns = static_cast<double>(both.second->profile().end_ns - both.first->profile().start_ns);
    round.hit = batch.hit();
    const std::int64_t bytes = round.hit * (layer_.gate_up.expert_bytes() + layer_.down.expert_bytes());
    round.rate = 1e9 * static_cast<double>(bytes) / ns;
    return round;
  }

  template <class Call>
  double timed(Call&& call) {
    const double start = now();
    call();
    layer_.run.queue()->finish();
    return now() - start;
  }

  Layer& layer_;
  std::vector<Batch> batches_;
  Buffers buffers_;
  Grouped grouped_;
  Loop loop_;
};

}  // namespace

void compare_layer(Run& run, const LayerSettings& settings) {
  const Model& model = settings.model;
  fmt::print("{}: {} of {} experts, top {}, {} x {} and {} x {}\n", model.name, settings.experts, model.experts,
             model.top_k, 2 * model.inner, model.hidden, model.hidden, model.inner);
  Layer layer{run, settings.experts, model.top_k, model.hidden, model.inner, settings.options};
  Rounds::print_heading();
  for (const std::int64_t tokens : settings.tokens) {
    Comparison comparison(layer, tokens, settings.rounds);
    Rounds rounds(run.device());  // The first copy comes before the check.
    comparison.check();
    comparison.time(rounds);
    comparison.print(rounds);
  }
}

}  // namespace ironcl::bench
