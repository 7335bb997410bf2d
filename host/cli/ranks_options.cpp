// SPDX-License-Identifier: Apache-2.0
// Ranks of a command.
#include "host/cli/ranks_options.h"

#include "backends/words.h"
#include "host/cli/device_list.h"
#include "host/cli/parse_option.h"

namespace ironcl::cli {

void RanksOptions::declare(CLI::App& app) {
  app.add_flag("--ranks", on_,
               "over ranks: the processes that mpirun started, or a thread for each --device\n(docs/ranks.md)");
  add_value(app, "--split column|row|auto|experts", split_, "how ranks share a layer (default: auto, by its name)")
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
      std::string facts;
      for (const checkpoint::SafetensorsFile& file : opened->files())
        facts += fmt::format("{} {}\n", file.path().filename().string(), file.file_size());
      for (const checkpoint::LinearLayer& layer : opened->layers())
        facts += fmt::format("{} {} {} {}\n", layer.name, layer.n, layer.k, layer.bytes);
      digest_ = fmt::format("files {:016x}", std::hash<std::string>()(facts));
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

}  // namespace ironcl::cli
