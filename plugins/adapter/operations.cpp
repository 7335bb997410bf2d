// SPDX-License-Identifier: Apache-2.0
// Entries about operations of all kinds: whether a device runs one, making it, running it. Next door: entries.cpp,
// validate.h (what is checked).

#include "plugins/adapter/entries.h"
#include "plugins/adapter/handles.h"
#include "plugins/adapter/validate.h"

namespace ironcl::adapter::entries {

namespace {

/// The first eight bytes of every description and of all arguments.
struct Head {
  std::uint32_t struct_size = 0, kind = 0;
};

std::uint32_t kind_of(const void* in, std::string_view what) {
  require(what, in);
  Head head;
  std::memcpy(&head.struct_size, in, sizeof head.struct_size);
  if (head.struct_size < sizeof head)
    invalid("{}.struct_size is {}; set it to sizeof of the struct", what, head.struct_size);
  std::memcpy(&head, in, sizeof head);
  if (head.kind == 0) invalid("{}.kind is 0; set it to an IRONCL_OP_*", what);
  if (head.kind > IRONCL_OP_SEQUENCE)
    unimplemented("{}.kind is {}; this plugin knows 1 to {}", what, head.kind, +IRONCL_OP_SEQUENCE);
  return head.kind;
}

template <class Op>
Operation described_as(const void* desc, const std::shared_ptr<DeviceState>& device) {
  Op op;
  op.device = device;
  op.desc = adapter::read(static_cast<const typename Op::CDesc*>(desc));
  return op;
}

std::uint32_t kind_of(const Operation& operation) { return static_cast<std::uint32_t>(operation.index()) + 1; }

/// Checks that the arguments of a call of `operation` are of its kind. `what` names them.
void check_kind(const void* args, const Operation& operation, std::string_view what) {
  if (const std::uint32_t kind = kind_of(args, what); kind != kind_of(operation)) {
    invalid("{}.kind is {}, but the operation's is {}; give the arguments of that kind", what, kind,
            kind_of(operation));
  }
}

/// Call `i` of a sequence.
backend::RecordedCall recorded(const ironcl_sequence_desc& desc, std::uint32_t i, const DeviceState* device) {
  const std::string of = fmt::format("sequence_desc.args[{}]", i);
  const ironcl_op_t& op = usable(desc.ops[i], fmt::format("sequence_desc.ops[{}]", i));
  if (op.device.get() != device) invalid("sequence_desc.ops[{}] is of another device; create it on this one", i);
  check_kind(desc.args[i], op.operation, of);
  return std::visit(
      [&]<class Known>(const Known& known) -> backend::RecordedCall {
        try {
          auto args = adapter::read(static_cast<const typename Known::CArgs*>(desc.args[i]), known, device);
          if (!args.wait.empty())
            invalid("wait_count is {}, expected 0: a sequence waits as a whole", args.wait.size());
          return backend::Recorded<decltype(args)>{known.object, std::move(args)};
        } catch (const Refused& refused) {
          throw Refused(refused.status(), of + ": " + refused.what(), refused.native_code());
        }
      },
      op.operation);
}

template <>
Operation described_as<SequenceOp>(const void* in, const std::shared_ptr<DeviceState>& device) {
  constexpr std::uint32_t kMost = 65536;
  const auto desc = read_struct(static_cast<const ironcl_sequence_desc*>(in), "sequence_desc");
  check_flags(desc.flags, 0, "sequence_desc");
  if (desc.count == 0 || desc.count > kMost)
    invalid("sequence_desc.count is {}, expected 1 to {} calls", desc.count, kMost);
  require("sequence_desc.ops or .args", desc.ops, desc.args);
  SequenceOp op;
  op.device = device;
  for (std::uint32_t i = 0; i < desc.count; ++i) op.desc.push_back(recorded(desc, i, device.get()));
  return op;
}

/// An operation without its object: the description, checked.
Operation described(const void* desc, const std::shared_ptr<DeviceState>& device) {
  static constexpr Operation (*kKinds[])(const void*, const std::shared_ptr<DeviceState>&) = {
      &described_as<GemmOp>,     &described_as<QuantizeOp>, &described_as<RouteOp>,
      &described_as<ActivateOp>, &described_as<CombineOp>,  &described_as<SequenceOp>};
  return kKinds[kind_of(desc, "desc") - 1](desc, device);
}

/// Makes the object of a described operation.
void make_object(Operation& operation) {
  std::visit(
      []<class Known>(Known& op) {
        op.object = made(((*op.device->device).*Known::kCreate)(op.desc), "operation");
        if constexpr (requires { op.workspace_bytes; }) op.workspace_bytes = op.object->info().workspace_bytes;
      },
      operation);
}

/// A GEMM is asked about; the other kinds have no choice of kernels, so that making one and dropping it is the
/// answer.
backend::Support support_of(Operation& operation, backend::Device& device) {
  if (const auto* gemm = std::get_if<GemmOp>(&operation)) return device.supports(gemm->desc);
  backend::Support support;
  try {
    make_object(operation);
  } catch (const backend::Error& error) {
    if (error.status() != backend::Status::unsupported) throw;
    support.reason = backend::Reason::device_feature;
    support.text = error.what();
  }
  return support;
}

}  // namespace

void supports(ironcl_device device, const void* desc, ironcl_support* out_support, ironcl_error*) {
  const auto& state = state_of(device);
  check_out(out_support, "support");
  Operation operation = described(desc, state);
  const backend::Support support = support_of(operation, *state->device);
  ironcl_support full{};
  full.reason = static_cast<std::uint32_t>(support.reason);
  full.accuracy_class = static_cast<std::uint32_t>(support.accuracy);
  full.estimate_kind = static_cast<std::uint32_t>(support.estimate_kind);
  full.estimate_ns = support.estimate_ns;
  full.workspace_bytes = support.workspace_bytes;
  copy_text(full.text, support.text);
  write_struct(out_support, full);
}

void op_create(ironcl_device device, const void* desc, ironcl_op* out_op, ironcl_error*) {
  const auto& state = state_of(device);
  require("out_op", out_op);
  auto handle = std::make_unique<ironcl_op_t>();
  handle->device = state;
  handle->operation = described(desc, state);
  make_object(handle->operation);
  *out_op = handle.release();
}

void op_info(ironcl_op op, ironcl_op_info* out_info, ironcl_error*) {
  usable(op, "op");
  check_out(out_info, "op_info");
  ironcl_op_info full{};
  full.kind = kind_of(op->operation);
  if (const auto* gemm = std::get_if<GemmOp>(&op->operation)) {
    const backend::GemmInfo info = gemm->object->info();
    full.accuracy_class = static_cast<std::uint32_t>(info.accuracy);
    full.accumulation_length = info.accumulation_length;
    full.workspace_bytes = info.workspace_bytes;
    copy_text(full.variant, info.variant);
    copy_text(full.tuning, info.tuning);
    copy_text(full.form, info.form);
  } else if (const auto* sequence = std::get_if<SequenceOp>(&op->operation)) {
    copy_text(full.variant, sequence->object->variant());
  }
  write_struct(out_info, full);
}

void op_enqueue(ironcl_op op, ironcl_queue queue, const void* args, ironcl_event* out_event, ironcl_error*) {
  usable(op, "op");
  usable(queue, "queue");
  check_kind(args, op->operation, "args");
  std::visit(
      [&]<class Op>(const Op& known) {
        auto call = adapter::read(static_cast<const typename Op::CArgs*>(args), known, queue->device.get());
        call.wants_event = out_event != nullptr;
        enqueue_with_event(*queue, out_event, [&] { return known.object->enqueue(queue->object, call); });
      },
      op->operation);
}

void op_destroy(ironcl_op op) { destroy(op); }

}  // namespace ironcl::adapter::entries
