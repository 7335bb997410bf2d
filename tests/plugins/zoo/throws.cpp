// SPDX-License-Identifier: Apache-2.0
// Plugins that break rule 4: an exception leaves the entry ZOO_THROWS_IN (all slots after enumerate: "everywhere").
#include <ironcl/plugin.h>

#include <stdexcept>
#include <string>
#include <string_view>

struct ironcl_device_t {};

namespace {

constexpr std::string_view kThrowsIn = ZOO_THROWS_IN;
ironcl_device_t the_device;

void throw_in(std::string_view entry) {
  if (entry == kThrowsIn) throw std::runtime_error("the zoo's plugin throws in " + std::string(entry));
}

ironcl_status load(const ironcl_host*, const ironcl_key_value*, uint32_t, ironcl_error*) {
  throw_in("load");
  return IRONCL_OK;
}
void unload() { throw_in("unload"); }
ironcl_status enumerate(ironcl_device* out, uint32_t capacity, uint32_t* count, ironcl_error*) {
  throw_in("enumerate");
  if (capacity != 0) out[0] = &the_device;
  *count = 1;
  return IRONCL_OK;
}
ironcl_status device_props(ironcl_device, ironcl_device_props* out, ironcl_error*) {
  throw_in("device_props");
  out->type = IRONCL_DEVICE_MODEL;
  return IRONCL_OK;
}

/// A slot that does nothing but throw.
template <class Slot>
struct Thrower;
template <class Result, class... Args>
struct Thrower<Result (*)(Args...)> {
  static Result call(Args...) { throw std::runtime_error("the zoo's plugin throws in every entry"); }
};

constexpr ironcl_plugin make_table() {
  ironcl_plugin table{};
  table.struct_size = sizeof table;
  table.abi_major = IRONCL_ABI_MAJOR;
  table.abi_minor = IRONCL_ABI_MINOR;
  table.name = ZOO_NAME;
  table.build_id = "zoo";
  table.load = load;
  table.unload = unload;
  table.enumerate = enumerate;
  table.device_props = device_props;
  if (kThrowsIn == "everywhere") {
    table.supports = Thrower<decltype(table.supports)>::call;
    table.device_query = Thrower<decltype(table.device_query)>::call;
    table.queue_create = Thrower<decltype(table.queue_create)>::call;
    table.buffer_create = Thrower<decltype(table.buffer_create)>::call;
    table.weights_prepare = Thrower<decltype(table.weights_prepare)>::call;
    table.op_create = Thrower<decltype(table.op_create)>::call;
  }
  return table;
}

constinit const ironcl_plugin table = make_table();

}  // namespace

extern "C" IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t, uint32_t) {
  throw_in("query");
  return &table;
}
