// SPDX-License-Identifier: Apache-2.0
// Opening a plugin file. The library is never closed: its threads may outlive unload() in a broken plugin.
#include "tests/conformance/suite/plugin.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace ironcl::conformance {
namespace {

template <class... A>
ironcl_status unimplemented(A...) {
  return IRONCL_UNIMPLEMENTED;
}
template <class... A>
void nothing(A...) {}

template <class... A>
void fill(ironcl_status (*&slot)(A...)) {
  if (slot == nullptr) slot = &unimplemented<A...>;
}
template <class... A>
void fill(void (*&slot)(A...)) {
  if (slot == nullptr) slot = &nothing<A...>;
}

void fill_all(ironcl_plugin& t) {
  fill(t.load), fill(t.unload), fill(t.enumerate), fill(t.device_props), fill(t.supports), fill(t.device_query);
  fill(t.queue_create), fill(t.queue_finish), fill(t.queue_wait), fill(t.queue_destroy);
  fill(t.buffer_create), fill(t.buffer_destroy), fill(t.write), fill(t.read);
  fill(t.weights_prepare), fill(t.weights_export), fill(t.weights_info), fill(t.weights_destroy);
  fill(t.op_create), fill(t.op_info), fill(t.op_enqueue), fill(t.op_destroy);
  fill(t.event_wait), fill(t.event_profile), fill(t.event_destroy), fill(t.device_import);
}

}  // namespace

Plugin::Plugin(const std::filesystem::path& file, const Options& options) {
  // NOTES: never destroyed, see the head of the file.
  static auto* const kept = new std::vector<std::unique_ptr<boost::dll::shared_library>>();
  const auto& library = kept->emplace_back(std::make_unique<boost::dll::shared_library>());
  try {
    library->load(std::filesystem::absolute(file), boost::dll::load_mode::rtld_now);
  } catch (const std::system_error& failure) {  // Its text has the loader's, which an error code would not.
    throw std::runtime_error(fmt::format("{}: cannot be opened: {}", file.string(), failure.what()));
  }
  if (!library->has(IRONCL_PLUGIN_QUERY_SYMBOL)) {
    throw std::runtime_error(
        fmt::format("{}: is a library, but exports no {}", file.string(), IRONCL_PLUGIN_QUERY_SYMBOL));
  }
  query_ = reinterpret_cast<ironcl_plugin_query_fn>(
      &library->get<const ironcl_plugin*(uint32_t, uint32_t)>(IRONCL_PLUGIN_QUERY_SYMBOL));
  raw_ = query_(IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR);
  if (raw_ == nullptr) {
    throw std::runtime_error(fmt::format("{}: cannot serve ABI {}.{}: its query function gave NULL", file.string(),
                                         IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR));
  }
  if (raw_->abi_major != IRONCL_ABI_MAJOR) {
    throw std::runtime_error(fmt::format("{}: speaks ABI {}.{}, this suite {}.{}", file.string(), raw_->abi_major,
                                         raw_->abi_minor, IRONCL_ABI_MAJOR, IRONCL_ABI_MINOR));
  }
  std::memcpy(&table_, raw_, std::min<std::size_t>(raw_->struct_size, sizeof table_));
  fill_all(table_);

  if (raw_->load != nullptr) {
    const ironcl_key_value unknown{"no_plugin_has_this_option", "1"};
    Error error;
    refused_option = table_.load(nullptr, &unknown, 1, &error);
    refused_option_text = error.message;
    if (refused_option == IRONCL_OK) table_.unload();

    std::vector<ironcl_key_value> pairs;
    for (const auto& [key, value] : options) pairs.push_back({key.c_str(), value.c_str()});
    Error load_error;
    loaded = table_.load(nullptr, pairs.data(), static_cast<uint32_t>(pairs.size()), &load_error);
    loaded_text = load_error.message;
    if (loaded != IRONCL_OK) return;
  }
  uint32_t count = 0;
  Error error;
  enumerated = table_.enumerate(nullptr, 0, &count, &error);
  if (enumerated == IRONCL_OK && count > 0) {
    devices_.resize(count);
    enumerated = table_.enumerate(devices_.data(), count, &count, &error);
    devices_.resize(std::min<std::size_t>(count, devices_.size()));
  }
  enumerated_text = error.message;
}

Plugin::~Plugin() {
  if (loaded == IRONCL_OK) table_.unload();
}

}  // namespace ironcl::conformance
