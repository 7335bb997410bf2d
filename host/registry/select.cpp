// SPDX-License-Identifier: Apache-2.0
// Which device runs a problem, and why not the others. Next door: uri.h, docs/discovery.md.

#include <tuple>

#include "host/registry/registry.h"
#include "host/registry/uri.h"
#include "host/report/problem.h"

namespace ironcl::registry {
namespace {

// What was found about a device.
struct Finding {
  bool named = false;
  bool asked = false;
  std::uint32_t reason = IRONCL_REASON_NONE;
  std::uint32_t rank = UINT32_MAX;
  Result result{};
  ironcl_support support{};
};

/// The best first; what this library does not know yet comes last.
std::ptrdiff_t class_of_type(std::uint32_t type) {
  constexpr std::uint32_t kOrder[] = {IRONCL_DEVICE_GPU, IRONCL_DEVICE_ACCELERATOR, IRONCL_DEVICE_CPU};
  return std::ranges::find(kOrder, type) - std::begin(kOrder);
}

std::string text_of(const std::vector<Uri>& uris) { return join(words::each(uris, &Uri::text), ","); }

// `uris`: what was asked for; where a plugin of theirs has no device at all, the load report knows why.
[[noreturn]] void no_such_device(const Registry& registry, const std::vector<Uri>& uris,
                                 const std::vector<ironcl_device_info>& devices) {
  const std::string what = text_of(uris);
  if (devices.empty()) refuse(IRONCL_UNAVAILABLE, "{}: there is no device: {}", what, registry.why_no_device());
  std::string text =
      what + ": no such device; there are " + join(words::each(devices, &ironcl_device_info::uri), ", ");
  for (const Uri& uri : uris) {
    const auto of_it = [&](const ironcl_device_info& device) { return uri.plugin == device.plugin; };
    if (uri.is_auto() || std::ranges::any_of(devices, of_it)) continue;
    if (const std::string why = registry.why_no_device(uri.plugin); !why.empty()) text += "; " + why;
  }
  throw Refused(IRONCL_UNAVAILABLE, text);
}

// The prefix of desc that both sides know, the rest zero. The plugin checks the original.
ironcl_gemm_desc known_part(const ironcl_gemm_desc& desc) {
  ironcl_gemm_desc known{};
  std::memcpy(&known, &desc, std::min<std::size_t>(desc.struct_size, sizeof known));
  return known;
}

void ask(const ironcl_device_info& device, const ironcl_gemm_desc& desc, Finding& finding) {
  finding.support.struct_size = sizeof finding.support;
  finding.result = result_of([&] {
    call_plugin("supports", [&](ironcl_error* error) {
      return device.api->supports(device.handle, &desc, &finding.support, error);
    });
  });
  finding.support.struct_size = sizeof finding.support;
  finding.support.text[sizeof finding.support.text - 1] = '\0';
  finding.asked = finding.result.ok();  // else the answer was not written
  if (!finding.asked) {
    finding.reason = IRONCL_REASON_CALL_FAILED;
  } else if (finding.support.reason != IRONCL_REASON_NONE) {
    finding.reason = finding.support.reason;
    finding.result = {IRONCL_UNSUPPORTED, finding.support.text[0] ? finding.support.text : "it gives no reason"};
  } else if (const std::uint32_t weakest = known_part(desc).weakest_accuracy;
             finding.support.accuracy_class > weakest) {
    finding.reason = IRONCL_REASON_ACCURACY;
    finding.result = {
        IRONCL_UNSUPPORTED,
        fmt::format("its kernel is of accuracy class {}, weaker than the problem allows (weakest_accuracy {})",
                    finding.support.accuracy_class, weakest)};
  }
}

/// The devices to choose from, the best first, and who said so.
struct Preference {
  std::vector<Uri> uris;
  bool of_environment = false;

  /// Runs `function`; what it is refused with names the variable where that is where the preference came from: nobody
  /// has just typed that.
  template <class Function>
  void blame(Function&& function) const {
    Result result = result_of(function);
    if (of_environment) result.message = "IRONCL_DEVICE: " + result.message;
    check(result);
  }
};

Preference preference_of(const Registry& registry, const ironcl_select_options& options) {
  Preference preference;
  const std::string_view own = options.preference ? options.preference : "";
  const bool is_own = !own.empty() && own != "auto";
  const std::string& device = registry.options().device;
  preference.of_environment = !is_own && !device.empty() && (options.flags & IRONCL_SELECT_IGNORE_ENVIRONMENT) == 0;
  preference.blame([&] {
    preference.uris = parse_uri_list(is_own ? own : preference.of_environment ? std::string_view(device) : "auto");
  });
  return preference;
}

/// A problem as verbose lines, benchmarks and bug reports write it; null: "any problem".
std::string problem_line(const ironcl_gemm_desc* desc) {
  if (desc == nullptr) return "any problem";
  try {
    return report::to_line(report::from_desc(known_part(*desc)));
  } catch (const std::exception&) {  // a malformed description: the device's answer says what is wrong about it
    return "a malformed problem";
  }
}

void tell(const Registry& registry, const ironcl_select_options& options, const ironcl_device_info& device,
          const Finding& finding, bool chosen) {
  const auto [verdict, word] = chosen           ? std::pair(IRONCL_VERDICT_CHOSEN, "chosen")
                               : finding.reason ? std::pair(IRONCL_VERDICT_REFUSED, "refused")
                                                : std::pair(IRONCL_VERDICT_USABLE, "usable");
  const ironcl_candidate candidate{.struct_size = sizeof(ironcl_candidate),
                                   .verdict = static_cast<std::uint32_t>(verdict),
                                   .rank = finding.rank,
                                   .reason = finding.reason,
                                   .status = finding.result.status,
                                   .reserved = 0,
                                   .device = &device,
                                   .support = finding.asked ? &finding.support : nullptr,
                                   .text = finding.result.message.c_str()};
  if (registry.logger().wants(kDispatch))
    registry.logger().write(kDispatch,
                            fmt::format("{},{},{},{},{}", word, device.uri, ironcl_reason_name(finding.reason),
                                        csv_field(finding.result.message), csv_field(problem_line(options.desc))));
  if (options.visit) options.visit(options.visit_context, &candidate);
}

/// The devices that `uri` names, in the order in which they are tried; "auto" by the rule of ironcl_registry_select.
std::vector<std::uint32_t> match_uri(const Uri& uri, const std::vector<ironcl_device_info>& devices) {
  std::vector<std::uint32_t> matches;
  for (const auto& device : devices) {
    if (uri.is_auto() ? device.props->type == IRONCL_DEVICE_MODEL : uri.plugin != device.plugin) continue;
    if (uri.type != 0 && uri.type != device.props->type) continue;
    if (uri.type == 0 && uri.index && *uri.index != device.plugin_device) continue;
    matches.push_back(device.index);
  }
  if (uri.is_auto()) {
    std::ranges::stable_sort(matches, [&](std::uint32_t a, std::uint32_t b) {
      const auto key = [&](std::uint32_t i) {
        const ironcl_device_info& device = devices[i];
        return std::tuple(class_of_type(device.props->type), ~device.props->memory_bytes,
                          std::string_view(device.plugin), device.plugin_device);
      };
      return key(a) < key(b);
    });
  } else if (uri.type != 0 && uri.index) {  // the index counts devices of the type
    matches = *uri.index < matches.size() ? std::vector{matches[*uri.index]} : std::vector<std::uint32_t>{};
  }
  return matches;
}

}  // namespace

ironcl_device_info find_device(const Registry& registry, std::string_view text) {
  const Uri uri = parse_uri(text);
  if (uri.is_auto()) {
    ironcl_select_options options{};
    options.struct_size = sizeof options;
    return select_device(registry, options);
  }
  const std::vector<ironcl_device_info> devices = registry.devices();
  const std::vector<std::uint32_t> matches = match_uri(uri, devices);
  if (matches.empty()) no_such_device(registry, {uri}, devices);
  return devices[matches.front()];
}

ironcl_device_info select_device(const Registry& registry, const ironcl_select_options& options) {
  const Preference preference = preference_of(registry, options);
  const std::vector<Uri>& uris = preference.uris;
  const std::vector<ironcl_device_info> devices = registry.devices();
  const bool by_rule = std::ranges::any_of(uris, &Uri::is_auto);

  std::vector<Finding> findings(devices.size());
  std::vector<std::uint32_t> order;
  for (const Uri& uri : uris) {
    for (const std::uint32_t index : match_uri(uri, devices)) {
      if (!std::exchange(findings[index].named, true)) order.push_back(index);
    }
  }
  std::uint32_t usable = 0;
  for (const std::uint32_t index : order) {
    if (options.desc) ask(devices[index], *options.desc, findings[index]);
    if (findings[index].reason == IRONCL_REASON_NONE) findings[index].rank = usable++;
  }

  std::vector<std::string> reasons;
  bool all_invalid = !order.empty();
  for (const ironcl_device_info& device : devices) {
    Finding& finding = findings[device.index];
    if (!finding.named) {
      const bool model = by_rule && device.props->type == IRONCL_DEVICE_MODEL;
      finding.reason = model ? IRONCL_REASON_MODEL_DEVICE : IRONCL_REASON_NOT_NAMED;
      finding.result = {IRONCL_UNSUPPORTED,
                        model ? "a model is never chosen automatically; name it: " + std::string(device.uri)
                              : (preference.of_environment ? "IRONCL_DEVICE=" : "the preference ") + text_of(uris) +
                                    " does not name it"};
    } else if (finding.reason != IRONCL_REASON_NONE && finding.result.status != IRONCL_INVALID_ARGUMENT) {
      all_invalid = false;
    }
    if (finding.reason != IRONCL_REASON_NONE && (finding.named || finding.reason == IRONCL_REASON_MODEL_DEVICE))
      reasons.push_back(std::string(device.uri) + ": " + finding.result.message);
    tell(registry, options, device, finding, finding.rank == 0);
  }
  if (usable > 0)
    return devices[*std::ranges::find_if(order, [&](std::uint32_t index) { return findings[index].rank == 0; })];
  if (devices.empty() || (order.empty() && !by_rule))
    preference.blame([&] { no_such_device(registry, uris, devices); });
  if (order.empty()) refuse(IRONCL_UNAVAILABLE, "no device can be chosen automatically: {}", join(reasons, "; "));
  if (all_invalid) throw Refused(IRONCL_INVALID_ARGUMENT, join(reasons, "; "));
  refuse(IRONCL_UNSUPPORTED, "no device runs {}: {}", problem_line(options.desc), join(reasons, "; "));
}

}  // namespace ironcl::registry
