// SPDX-License-Identifier: Apache-2.0
// Ranks of a command, and who would hold what of a checkpoint.
#include "host/cli/ranks_options.h"

#include "backends/words.h"
#include "host/cli/command.h"
#include "host/cli/compare_report.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"
#include "host/layer/selection.h"
#include "host/report/table.h"

namespace ironcl::cli {

void RanksOptions::declare(CLI::App& app) {
  app.add_flag("--ranks", on_,
               "over ranks: the processes that mpirun started, or a thread for each --device\n(docs/ranks.md)");
  add_option(app, "--split column|row|auto|experts", split_, "how ranks share a layer (default: auto, by its name)")
      ->check(CLI::IsMember({"column", "row", "auto", "experts"}));
  app.add_flag("--ragged", ragged_, "even ranges for ranks, wherever blocks of scales begin");
  add_number(app, "--rank-timeout", timeout_, CLI::Range(0.001, 1e6), "seconds after which a silent rank has hung");
}

void RanksOptions::start() {
  if (!on_) {
    if (split_ != "auto" || ragged_ || timeout_ != 300)
      usage("--split, --ragged and --rank-timeout are about ranks; give --ranks too");
    return;
  }
  std::unique_ptr<ranks::Transport> processes = ranks::open_processes();
  if (!processes) return;
  launch_ = std::make_unique<ranks::Launch>(std::move(processes), group_settings());
  if (launch_->speaks()) return;
  for (std::FILE* stream : {stdout, stderr})
    if (std::freopen("/dev/null", "w", stream) == nullptr) usage("/dev/null cannot be opened");
}

checkpoint::Checkpoint RanksOptions::open(const std::function<checkpoint::Checkpoint()>& open) {
  if (!launch_) return open();
  std::optional<checkpoint::Checkpoint> opened;
  std::string what;
  try {
    launch_->together("opening the checkpoint", "", [&] {
      opened = open();
      std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
      const auto add = [&hash](const std::string& text) {
        for (const char one : text + "\n") hash = (hash ^ static_cast<unsigned char>(one)) * 0x100000001b3u;
      };
      for (const checkpoint::SafetensorsFile& file : opened->files())
        add(fmt::format("{} {}", file.path().filename().string(), file.file_size()));
      for (const checkpoint::LinearLayer& layer : opened->layers())
        add(fmt::format("{} {} {} {}", layer.name, layer.n, layer.k, layer.bytes));
      digest_ = fmt::format("files {:016x}", hash);
    });
    launch_->together("opening the checkpoint", digest_, [] {});
  } catch (const ironcl::Error& error) {
    throw CommandError(ExitStatus::bad_input, error.what());
  }
  return *std::move(opened);
}

std::vector<ironcl::Device> RanksOptions::devices(const ironcl::Registry& registry,
                                                  const std::vector<std::string>& uris) {
  std::vector<std::string> all;
  for (const std::string& some : uris)
    for (const std::string_view uri : words::split(some, ',')) all.emplace_back(uri);
  std::vector<ironcl::Device> found;
  if (all.empty()) found = real_devices(registry, {});
  for (const std::string& uri : all) found.push_back(find_devices(registry, {uri}).front());
  if (!launch_) {
    if (found.size() < 2)
      usage(
          "--ranks: this process is alone, and there is one device; start it with mpirun -n RANKS, or give a "
          "--device for each rank (one may be given several times)");
    launch_ = std::make_unique<ranks::Launch>(found, group_settings());
    return {found.front()};
  }
  const ironcl::Device mine = found[static_cast<std::size_t>(ranks::local_rank()) % found.size()];
  launch_->use(mine);
  return {mine};
}

std::string RanksOptions::command_tail(const std::vector<std::string>& uris) const {
  std::string tail;
  for (const std::string& uri : uris) tail += on_ ? " --device " + shell_word(uri) : "";
  return tail;
}

ranks::Group::Settings RanksOptions::group_settings() const {
  return {.timeout = std::chrono::milliseconds(std::llround(timeout_ * 1000))};
}

ranks::SpreadSettings RanksOptions::settings() const {
  ranks::SpreadSettings settings{.only_experts = split_ == "experts", .ragged = ragged_, .digest = digest_};
  if (split_ == "column") settings.split = ranks::Split::column;
  if (split_ == "row") settings.split = ranks::Split::row;
  return settings;
}

ranks::SpreadLayers* RanksOptions::substitute() { return launch_ ? &spread_.emplace(*launch_, settings()) : nullptr; }

std::string ranks_text(const checkpoint::Checkpoint& checkpoint, int count, bool ragged, std::size_t width) {
  struct Held {
    std::size_t layers = 0;
    std::string pattern, split, ranges, ragged;
  };
  std::vector<double> bytes(static_cast<std::size_t>(count));
  std::map<std::string, std::size_t> known;
  std::vector<Held> held;
  const auto add = [&](const std::string& name, const std::string& split, const std::string& ranges,
                       const std::vector<int>& inside) {
    Held one{1, layer::pattern_of(name), split, ranges, fmt::format("{}", fmt::join(inside, ", "))};
    const auto [at, is_new] = known.try_emplace(one.pattern + "\n" + ranges, held.size());
    if (is_new)
      held.push_back(std::move(one));
    else
      ++held[at->second].layers;
  };
  // Matrices of experts are whole; those of a shared expert, and routers, are on every rank.
  std::vector<bool> done(checkpoint.layers().size());
  for (const checkpoint::ExpertsLayer& one : checkpoint.experts()) {
    const ranks::Partition experts = ranks::Partition::even("experts", one.routing.experts, count);
    if (one.problem) continue;
    for (const auto* matrices : {&one.experts.gate_up, &one.experts.gate, &one.experts.up, &one.experts.down})
      for (std::size_t expert = 0; expert < matrices->size(); ++expert) {
        done[(*matrices)[expert]] = true;
        for (std::size_t rank = 0; rank < bytes.size(); ++rank)
          if (const auto id = static_cast<std::int64_t>(expert);
              id >= experts.ranges[rank].begin && id < experts.ranges[rank].end)
            bytes[rank] += static_cast<double>(checkpoint.layers()[(*matrices)[expert]].bytes);
      }
    if (one.shared)
      for (const auto* matrices : {&one.shared->gate_up, &one.shared->gate, &one.shared->up, &one.shared->down})
        for (const std::size_t matrix : *matrices) {
          done[matrix] = true;
          for (double& sum : bytes) sum += static_cast<double>(checkpoint.layers()[matrix].bytes);
        }
    for (double& sum : bytes) sum += static_cast<double>(one.router.data.size());
    add(one.name, "experts", experts.text(), {});
  }
  for (std::size_t i = 0; i < done.size(); ++i) {
    const checkpoint::LinearLayer& one = checkpoint.layers()[i];
    if (done[i] || one.problem) continue;
    const ironcl::GemmDesc problem = report::to_gemm_desc(layer::describe(one, layer::ProblemChoices{.m = 1}));
    const ranks::Choices choices = ranks::choices_for(one.name, problem, {.ragged = ragged});
    const ranks::Shards shards = ranks::shard(problem, count, choices);
    const bool row = choices.split == ranks::Split::row;
    for (std::size_t rank = 0; rank < bytes.size(); ++rank)
      bytes[rank] += static_cast<double>(ranks::bytes_of_part(problem, shards, static_cast<int>(rank)));
    add(one.name, row ? "row" : "column", shards.text(), row ? shards.cols.ragged() : shards.rows[0].ragged());
  }
  using report::Kind;
  report::Table layers, ranks;
  for (const Held& one : held)
    layers.add_fields({{{"layers", "layers", Kind::integer}, one.layers},
                       {{"pattern", "like"}, one.pattern},
                       {{"split", "split"}, one.split},
                       {{"ragged", "ragged ranks"}, one.ragged},
                       {{"ranges", "ranges by rank"}, one.ranges}});
  for (std::size_t rank = 0; rank < bytes.size(); ++rank)
    ranks.add_fields(
        {{{"rank", "rank", Kind::integer}, rank}, {{"bytes", "weights and scales", Kind::bytes}, bytes[rank]}});
  return report::to_text(layers, width) + "\n" + report::to_text(ranks, width);
}

}  // namespace ironcl::cli
