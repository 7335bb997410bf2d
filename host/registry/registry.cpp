// SPDX-License-Identifier: Apache-2.0
#include "host/registry/registry.h"

#include <dlfcn.h>

#include <cstdlib>

namespace ironcl::registry {
namespace {

constexpr const char* kShutDown = "this registry is shut down; make another one";

/// A line of the report about a file that is not to be opened.
ReportRecord not_opened(std::uint32_t outcome, const Candidate& candidate, Result result) {
  return {outcome,           IRONCL_STEP_FOUND,
          candidate.source,  candidate.path.string(),
          std::move(result), outcome == IRONCL_REPORT_REMARK ? "" : plugin_name_of_file(candidate.path)};
}

}  // namespace

std::unique_ptr<Registry> Registry::create(Options options) {
  std::optional<std::string> verbose;  // what IRONCL_VERBOSE says
  if ((options.flags & IRONCL_REGISTRY_IGNORE_ENVIRONMENT) == 0) {
    const auto text_of = [](const char* name) -> std::string {
      const char* value = ::secure_getenv(name);
      return value ? value : "";
    };
    options.plugin_files += ":" + text_of("IRONCL_PLUGIN_FILES");
    options.plugin_dirs += ":" + text_of("IRONCL_PLUGIN_DIRS");
    options.disable += "," + text_of("IRONCL_DISABLE");
    options.device = text_of("IRONCL_DEVICE");
    if (const std::string text = text_of("IRONCL_VERBOSE"); !text.empty()) verbose = text;
  }
  Verbosity verbosity;
  Result complaint;
  if (options.verbose) {
    verbosity = parse_verbosity(*options.verbose);
  } else if (verbose) {
    // A typing error in a variable must not stop a program that works; it is said once, and warnings are shown.
    complaint = result_of([&] { verbosity = parse_verbosity(*verbose); });
    if (!complaint.ok()) verbosity.kinds = kError | kWarn;
  } else if (options.log) {
    verbosity.kinds = kError | kWarn;
  }
  auto logger = std::make_shared<Logger>(std::move(verbosity), options.log, options.log_context);
  if (!complaint.ok()) logger->write(kError, csv_field("IRONCL_VERBOSE: " + complaint.message));
  return std::unique_ptr<Registry>(new Registry(std::move(options), std::move(logger)));
}

Registry::Registry(Options options, std::shared_ptr<Logger> logger)
    : options_(std::move(options)), logger_(std::move(logger)) {
  for (std::string& name : split(options_.disable, ',')) disabled_.insert(std::move(name));
  logger_->write(kLoad, csv_field(ironcl_build_id()) + ",outcome,step,status,plugin,path,reason");
}

Registry::~Registry() {
  shutdown();
  logger_->close();
}

void Registry::load_file(const std::string& path) {
  check_not_shut_down();
  const Candidate candidate = candidate_file(path, IRONCL_SOURCE_LOAD_FILE);
  if (candidate.problem.ok() && is_taken_file(candidate.id)) {
    report(not_opened(IRONCL_REPORT_DUPLICATE, candidate, {IRONCL_INVALID_ARGUMENT, "this file is loaded already"}));
    boundary::invalid("{}: this file is loaded already", candidate.path.string());
  }
  check(consider(candidate));
}

void Registry::discover() {
  check_not_shut_down();
  auto candidates = words::each(split(options_.plugin_files, ':'),
                                [](const std::string& file) { return candidate_file(file, IRONCL_SOURCE_FILES); });
  const auto add_directory = [&](const std::string& folder, std::uint32_t source) {
    std::ranges::move(candidate_directory(folder, source), std::back_inserter(candidates));
  };
  for (const std::string& folder : split(options_.plugin_dirs, ':')) add_directory(folder, IRONCL_SOURCE_DIRS);
  if (const auto beside = directory_beside_library(); !beside.empty())
    add_directory(beside.string(), IRONCL_SOURCE_BESIDE);

  std::set<FileId> seen;
  for (const Candidate& candidate : candidates) {
    if (candidate.remark) {
      report(not_opened(IRONCL_REPORT_REMARK, candidate, candidate.problem));
    } else if (candidate.problem.ok() && (is_taken_file(candidate.id) || !seen.insert(candidate.id).second)) {
      report(not_opened(IRONCL_REPORT_DUPLICATE, candidate, {IRONCL_OK, "the same file was read before"}));
    } else {
      consider(candidate);
    }
  }
}

Result Registry::consider(const Candidate& candidate) {
  auto record = std::make_unique<PluginRecord>();
  ReportRecord outcome = load(candidate, *record);
  std::vector<std::string> remarks;
  if (outcome.outcome == IRONCL_REPORT_TAKEN) {
    outcome.step = IRONCL_STEP_REGISTER;
    remarks = std::move(record->remarks);
    std::unique_lock lock(mutex_);
    if (shut_down_) {  // while this file was loaded: shutdown() knew nothing of it
      lock.unlock();
      record->share.reset();
      return {IRONCL_INVALID_ARGUMENT, outcome.path + ": " + kShutDown};
    }
    const auto plugin_index = static_cast<std::uint32_t>(plugins_.size());
    // Everything that can fail comes before the first list is changed.
    devices_.reserve(devices_.size() + record->devices.size());
    plugins_.reserve(plugins_.size() + 1);
    files_.insert(candidate.id);
    for (const DeviceRecord& device : record->devices) {
      devices_.push_back({.struct_size = sizeof(ironcl_device_info),
                          .index = static_cast<std::uint32_t>(devices_.size()),
                          .plugin_index = plugin_index,
                          .plugin_device = device.number,
                          .api = &record->table,
                          .handle = device.handle,
                          .uri = device.uri.c_str(),
                          .plugin = record->name.c_str(),
                          .props = &device.props});
    }
    plugins_.push_back(std::move(record));
  }
  report(outcome);
  if (outcome.outcome != IRONCL_REPORT_TAKEN)
    return {outcome.result.status,
            outcome.path + ": " + ironcl_step_name(outcome.step) + ": " + outcome.result.message,
            outcome.result.native_code};
  for (std::string& remark : remarks) {
    outcome.outcome = IRONCL_REPORT_REMARK;
    outcome.step = IRONCL_STEP_ENUMERATE;
    outcome.result = {IRONCL_INTERNAL, std::move(remark)};
    report(outcome);
  }
  return {};
}

void Registry::shutdown() {
  std::vector<std::unique_ptr<PluginRecord>> plugins;
  {
    const std::lock_guard lock(mutex_);
    shut_down_ = true;
    plugins.swap(plugins_);
    devices_.clear();
    files_.clear();
    names_.clear();
  }
  while (!plugins.empty()) {  // the last one first
    PluginRecord& plugin = *plugins.back();
    const bool unloaded = plugin.share.reset();
    if (unloaded)
      logger_->write(kLoad, "unloaded,shutdown,OK," + csv_field(plugin.name) + "," + csv_field(plugin.path) + ",");
    const bool asked = (options_.flags & IRONCL_REGISTRY_UNLOAD) != 0;
    if (asked && (plugin.table.flags & IRONCL_PLUGIN_UNLOADABLE) != 0) ::dlclose(plugin.library);
    plugins.pop_back();
  }
}

void Registry::report(ReportRecord record) {
  const Kind kind = record.outcome == IRONCL_REPORT_REMARK && record.step != IRONCL_STEP_FOUND ? kWarn : kLoad;
  if (logger_->wants(kind)) {
    logger_->write(
        kind, fmt::format("{},{},{},{},{},{}", ironcl_outcome_name(record.outcome), ironcl_step_name(record.step),
                          ironcl_status_name(record.result.status), csv_field(record.plugin), csv_field(record.path),
                          csv_field(record.result.message)));
  }
  const std::lock_guard lock(mutex_);
  report_.push_back(std::move(record));
}

void Registry::check_not_shut_down() const {
  const std::lock_guard lock(mutex_);
  if (shut_down_) boundary::invalid("{}", kShutDown);
}

bool Registry::is_taken_file(const FileId& id) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(id);
}

std::string Registry::why_no_device(std::string_view plugin) const {
  const std::lock_guard lock(mutex_);
  if (report_.empty())
    return "no plugin was found: put libironcl_<name>.so into the folder ironcl-plugins beside libironcl, or name "
           "folders in IRONCL_PLUGIN_DIRS";
  std::vector<std::string> reasons;
  for (const ReportRecord& record : report_) {
    if (record.result.message.empty() || record.outcome == IRONCL_REPORT_DUPLICATE) continue;
    if (!plugin.empty() && !record.plugin.empty() && record.plugin != plugin) continue;
    reasons.push_back(std::filesystem::path(record.path).filename().string() + ": " + record.result.message);
  }
  return join(reasons, "; ");
}

std::vector<ironcl_report_entry> Registry::report_entries() const {
  const std::lock_guard lock(mutex_);
  return words::each(report_, [](const ReportRecord& record) -> ironcl_report_entry {
    return {.struct_size = sizeof(ironcl_report_entry),
            .outcome = record.outcome,
            .step = record.step,
            .source = record.source,
            .status = record.result.status,
            .reserved = 0,
            .path = record.path.c_str(),
            .plugin = record.plugin.c_str(),
            .build_id = record.build_id.c_str(),
            .reason = record.result.message.c_str()};
  });
}

std::vector<ironcl_plugin_info> Registry::plugins() const {
  const std::lock_guard lock(mutex_);
  std::vector<ironcl_plugin_info> infos;
  std::uint32_t first_device = 0;
  for (const auto& plugin : plugins_) {
    const auto devices = static_cast<std::uint32_t>(plugin->devices.size());
    infos.push_back({.struct_size = sizeof(ironcl_plugin_info),
                     .abi_major = plugin->table.abi_major,
                     .abi_minor = plugin->table.abi_minor,
                     .flags = plugin->table.flags,
                     .api = &plugin->table,
                     .name = plugin->name.c_str(),
                     .build_id = plugin->build_id.c_str(),
                     .path = plugin->path.c_str(),
                     .device_count = devices,
                     .first_device = first_device,
                     .source = plugin->source,
                     .enumerate_status = plugin->enumerate.status,
                     .enumerate_reason = plugin->enumerate.message.c_str()});
    first_device += devices;
  }
  return infos;
}

std::vector<ironcl_device_info> Registry::devices() const {
  const std::lock_guard lock(mutex_);
  return devices_;
}

}  // namespace ironcl::registry
