// SPDX-License-Identifier: Apache-2.0
// The table of the reference plugin: the adapter's, over the backend of backend.cpp. A planted fault of the boundary
// changes what goes into the adapter's function or what comes out of it.
#include "plugins/adapter/handles.h"
#include "plugins/adapter/plugin_definition.h"
#include "tests/conformance/plugins/objects.h"

namespace ironcl::adapter {

constinit const Definition plugin_definition{"reference", reference::make_backend};

}  // namespace ironcl::adapter

namespace ironcl::reference {
namespace {

constexpr ironcl_plugin kSound = adapter::make_table("reference", "test");

/// Faults that let pass what the adapter refuses with these words.
constexpr struct {
  Fault fault;
  const char* words;
} kLetPass[] = {
    {"second_load_accepted", "is loaded already"},
    {"tail_ignored", "leave the newer fields zero"},
    {"required_chain_ignored", "must be understood here"},
    {"unknown_values_ignored", "this plugin knows"},
    {"unknown_option_ignored", "no such option"},
    {"accepts_negative_sizes", " is -"},
    {"accepts_overflow", "beyond 2^63"},
    {"accepts_short_spans", "bytes, expected at least"},
    {"weights_of_any_shape", "the weights are"},
    {"overlap_accepted", "overlaps"},
    {"overlap_of_the_bias_accepted", "overlaps gemm_args.bias"},
    {"imports_off_the_alignment", "the device's buffer_alignment"},
    {"fork_ignored", "was forked from"},
};

/// What the caller is told of `status` and `error`, which the adapter has filled.
ironcl_status told(ironcl_status status, ironcl_error& error, ironcl_error* out) {
  for (const auto& [name, words] : kLetPass)
    if (fault(name) && std::strstr(error.message, words) != nullptr) return IRONCL_OK;
  if (status == IRONCL_INVALID_ARGUMENT && fault("operand_is_not_named"))
    boundary::copy_text(error.message, "something is wrong");
  if (status == IRONCL_INVALID_ARGUMENT && fault("refuses_with_internal")) status = IRONCL_INTERNAL;
  if (out == nullptr || fault("error_not_filled") || (status == IRONCL_OK && !fault("error_on_success")))
    return status;
  if (!fault("error_not_cut")) return boundary::fail(out, status, error.message, error.native_code);
  error.struct_size = out->struct_size;
  *out = error;
  return status;
}

/// `slot` with errors of its own, of which the caller is told.
template <auto slot, class = decltype(slot)>
struct Told {
  static constexpr auto call = slot;
};
template <auto slot, class... Args>
struct Told<slot, ironcl_status (*)(Args...)> {
  static ironcl_status call(Args... args) {
    ironcl_error error{};
    error.struct_size = sizeof error;
    const auto own = [&error]<class T>(T arg) {
      if constexpr (std::is_same_v<T, ironcl_error*>)
        return &error;
      else
        return arg;
    };
    const ironcl_status status = slot(own(args)...);
    return told(status, error, boundary::error_of(args...));
  }
};

ironcl_status enumerate(ironcl_device* out, uint32_t capacity, uint32_t* count, ironcl_error* error) {
  return kSound.enumerate(out, capacity + (out != nullptr && fault("capacity_ignored") ? 1 : 0), count, error);
}

ironcl_status device_props(ironcl_device device, ironcl_device_props* out, ironcl_error* error) {
  if (out == nullptr) return kSound.device_props(device, out, error);
  const std::uint32_t stated = out->struct_size;
  if (fault("writes_past_size")) out->struct_size = sizeof *out;
  const ironcl_status status = kSound.device_props(device, out, error);
  out->struct_size = stated;
  if (status != IRONCL_OK && fault("out_touched_on_failure")) *out = {};
  return status;
}

ironcl_status device_query(ironcl_device device, const char* key, const void* desc, char* out, uint64_t capacity,
                           uint64_t* size, ironcl_error* error) {
  return kSound.device_query(device, key, desc, out, capacity + (capacity != 0 && fault("query_not_cut") ? 1 : 0),
                             size, error);
}

void buffer_destroy(ironcl_buffer buffer) {
  if (buffer != nullptr && fault("buffers_go_at_once"))
    std::ranges::fill(static_cast<HostBuffer&>(*buffer->object).bytes, std::byte{0});
  kSound.buffer_destroy(buffer);
}

/// A description of a GEMM as a plugin sees it that does not know how structs grow.
class MisreadDesc {
 public:
  explicit MisreadDesc(const void* desc) : desc_(desc) {
    const auto* given = static_cast<const ironcl_gemm_desc*>(desc);
    const bool past = fault("reads_past_size"), chain = fault("optional_chain_refused");
    if ((!past && !chain) || given == nullptr || given->struct_size < 8 || given->struct_size > sizeof copy_) return;
    std::memcpy(&copy_, given, past ? sizeof copy_ : given->struct_size);
    copy_.struct_size = sizeof copy_;
    if (chain && copy_.next != nullptr) copy_.next = &part_;
    desc_ = &copy_;
  }
  const void* get() const { return desc_; }

 private:
  ironcl_gemm_desc copy_{};
  ironcl_chain part_{sizeof part_, IRONCL_CHAIN_REQUIRED | 0x7abc, nullptr};
  const void* desc_;
};

ironcl_status supports(ironcl_device device, const void* desc, ironcl_support* out, ironcl_error* error) {
  return kSound.supports(device, MisreadDesc(desc).get(), out, error);
}

ironcl_status op_create(ironcl_device device, const void* desc, ironcl_op* out, ironcl_error* error) {
  return kSound.op_create(device, MisreadDesc(desc).get(), out, error);
}

ironcl_status op_enqueue(ironcl_op op, ironcl_queue queue, const void* args, ironcl_event* out, ironcl_error* error) {
  if (out == nullptr && fault("unwatched_calls_are_dropped")) return IRONCL_OK;
  return kSound.op_enqueue(op, queue, args, out, error);
}

void op_destroy(ironcl_op op) {
  const auto* gemm = op == nullptr ? nullptr : std::get_if<adapter::GemmOp>(&op->operation);
  if (gemm != nullptr && fault("plans_go_at_once")) static_cast<HostGemm&>(*gemm->object).desc.k = 1;
  kSound.op_destroy(op);
}

constexpr ironcl_plugin kChanged = [] {
  ironcl_plugin table = kSound;
  table.enumerate = enumerate;
  table.device_props = device_props;
  table.device_query = device_query;
  table.buffer_destroy = buffer_destroy;
  table.supports = supports;
  table.op_create = op_create;
  table.op_enqueue = op_enqueue;
  table.op_destroy = op_destroy;
  return table;
}();

constexpr ironcl_plugin kTable = [] {
  ironcl_plugin table = kChanged;
#define IRONCL_TOLD(slot) table.slot = Told<kChanged.slot>::call;
  IRONCL_FOR_EACH_SLOT(IRONCL_TOLD)
#undef IRONCL_TOLD
  return table;
}();

}  // namespace
}  // namespace ironcl::reference

extern "C" IRONCL_EXPORT const ironcl_plugin* ironcl_plugin_query(uint32_t, uint32_t) {
  return &ironcl::reference::kTable;
}
