// SPDX-License-Identifier: Apache-2.0
//
// DEVX entry points: the kernel's rules, then dispatch to one handler per opcode, of core or
// extras.
#include "softnic/abi/core/devx.h"

#include <cerrno>
#include <cstring>
#include <functional>
#include <vector>

#include "softnic/abi/extras/extras.h"

namespace peal::softnic::abi::devx {
namespace {

using prm::CommandOpcode;

struct Mailboxes {
  const void* in;
  size_t in_bytes;
  void* out;
  size_t out_bytes;
};

/// Runs one command on a copy of `in`. A firmware refusal goes into `out` and becomes an errno.
void execute(VerbsContext& context, const Mailboxes& boxes,
             const std::function<void(CommandOpcode, const DevxCommand&)>& handler) {
  require_devx(context);
  if (boxes.in == nullptr || boxes.out == nullptr) refuse(EINVAL);
  if (boxes.in_bytes < prm::kHeaderBytes || boxes.out_bytes < prm::kHeaderBytes) refuse(EINVAL);
  std::vector<std::byte> copy(boxes.in_bytes);
  std::memcpy(copy.data(), boxes.in, boxes.in_bytes);
  prm::Writer(copy).set(prm::kUid, kDevxUid);
  std::vector<std::byte> answer(boxes.out_bytes);
  DevxCommand command{context, prm::Reader(copy), prm::Writer(answer)};
  int error = 0;
  try {
    handler(static_cast<CommandOpcode>(command.in.get(prm::kOpcode)), command);
  } catch (const CommandError& refused) {
    std::memset(answer.data(), 0, answer.size());
    command.out.set(prm::kStatus, static_cast<uint32_t>(refused.status));
    command.out.set(prm::kSyndrome, static_cast<uint32_t>(refused.syndrome));
    error = errno_of(refused.status);
  }
  std::memcpy(boxes.out, answer.data(), answer.size());
  if (error != 0) refuse(error);
}

constexpr Row<CommandOpcode, mlx5dv_devx_obj* (*)(const DevxCommand&)> kMakers[] = {
    {CommandOpcode::kCreateCq, create_cq},   {CommandOpcode::kCreateQp, create_qp},
    {CommandOpcode::kCreateDct, create_dct}, {CommandOpcode::kCreateRmp, create_rmp},
    {CommandOpcode::kAllocPd, create_pd},    {CommandOpcode::kCreateMkey, create_mkey},
};
constexpr Row<CommandOpcode, void (*)(const DevxCommand&)> kGeneral[] = {
    {CommandOpcode::kQueryHcaCap, query_hca_cap},
    {CommandOpcode::kQueryRoceAddress, query_roce_address},
    {CommandOpcode::kQueryLag, query_lag},
    {CommandOpcode::kQueryHcaVportContext, query_hca_vport_context},
};

mlx5dv_devx_obj* create(CommandOpcode opcode, const DevxCommand& command) {
  const auto make = right_of(kMakers, opcode, {});
  if (make == nullptr) refuse(EINVAL);
  return make(command);
}

/// The kernel compares the object a command names with the one behind the handle.
void require_same(const DevxCommand& command, const Object& object) {
  if (command.in.get(prm::kNumber) != object.number) refuse(EINVAL);
}

void query(CommandOpcode opcode, const DevxCommand& command, Object& object) {
  require_same(command, object);
  if (opcode == CommandOpcode::kQueryQp && object.kind == ObjectKind::kQp)
    return query_qp(command, static_cast<QpObject&>(object));
  if (opcode == CommandOpcode::kQueryCq && object.kind == ObjectKind::kCq)
    return query_cq(command, static_cast<CqObject&>(object));
  if (opcode == CommandOpcode::kQueryDct && object.kind == ObjectKind::kDct)
    return query_dct(command, object);
  refuse(EINVAL);
}

void modify(CommandOpcode opcode, const DevxCommand& command, Object& object) {
  require_same(command, object);
  if (opcode == CommandOpcode::kModifyCq && object.kind == ObjectKind::kCq)
    return modify_cq(command, static_cast<CqObject&>(object));
  if (object.kind != ObjectKind::kQp) refuse(EINVAL);
  modify_qp(command, static_cast<QpObject&>(object));
}

void general(CommandOpcode opcode, const DevxCommand& command) {
  const auto answer = right_of(kGeneral, opcode, {});
  if (answer == nullptr) refuse(EINVAL);  // not on the kernel's list for commands without an object
  answer(command);
}

using Handler = void (*)(CommandOpcode, const DevxCommand&, Object&);

void ask(Object& object, const Mailboxes& boxes, Handler handler) {
  execute(object.owner, boxes, [&](CommandOpcode opcode, const DevxCommand& command) {
    handler(opcode, command, object);
  });
}

int on_object(Object& object, const Mailboxes& boxes, Handler handler) {
  return answer_error([&] { ask(object, boxes, handler); });
}

/// The object behind a verbs handle, found by kind and number in its context.
int on_verbs_object(ibv_context* handle, ObjectKind kind, uint32_t number, const Mailboxes& boxes,
                    Handler handler) {
  return answer_error([&] {
    Object* object = VerbsContext::of(handle).find(kind, number);
    if (object == nullptr) refuse(EINVAL);
    ask(*object, boxes, handler);
  });
}

}  // namespace

extern "C" {

mlx5dv_devx_obj* mlx5dv_devx_obj_create(ibv_context* handle, const void* in, size_t in_bytes,
                                        void* out, size_t out_bytes) {
  return answer_pointer([&]() -> mlx5dv_devx_obj* {
    mlx5dv_devx_obj* made = nullptr;
    VerbsContext& context = VerbsContext::of(handle);
    execute(context, {in, in_bytes, out, out_bytes},
            [&](prm::CommandOpcode opcode, const DevxCommand& command) {
              made = create(opcode, command);
              command.out.set(prm::kNumber, made->told());
            });
    return made;
  });
}

int mlx5dv_devx_obj_query(mlx5dv_devx_obj* handle, const void* in, size_t in_bytes, void* out,
                          size_t out_bytes) {
  return on_object(handle->object(), {in, in_bytes, out, out_bytes}, query);
}

int mlx5dv_devx_obj_modify(mlx5dv_devx_obj* handle, const void* in, size_t in_bytes, void* out,
                           size_t out_bytes) {
  return on_object(handle->object(), {in, in_bytes, out, out_bytes}, modify);
}

int mlx5dv_devx_obj_destroy(mlx5dv_devx_obj* handle) {
  return answer_error([&] { handle->object().owner.destroy(handle->object()); });
}

int mlx5dv_devx_general_cmd(ibv_context* handle, const void* in, size_t in_bytes, void* out,
                            size_t out_bytes) {
  return answer_error([&] {
    execute(VerbsContext::of(handle), {in, in_bytes, out, out_bytes}, general);
  });
}

int mlx5dv_devx_qp_query(ibv_qp* qp, const void* in, size_t in_bytes, void* out, size_t out_bytes) {
  return on_verbs_object(qp->context, ObjectKind::kQp, qp->qp_num, {in, in_bytes, out, out_bytes},
                         query);
}

int mlx5dv_devx_qp_modify(ibv_qp* qp, const void* in, size_t in_bytes, void* out,
                          size_t out_bytes) {
  return on_verbs_object(qp->context, ObjectKind::kQp, qp->qp_num, {in, in_bytes, out, out_bytes},
                         modify);
}

int mlx5dv_devx_cq_query(ibv_cq* cq, const void* in, size_t in_bytes, void* out, size_t out_bytes) {
  return on_verbs_object(cq->context, ObjectKind::kCq, cq->handle, {in, in_bytes, out, out_bytes},
                         query);
}

int mlx5dv_devx_cq_modify(ibv_cq* cq, const void* in, size_t in_bytes, void* out,
                          size_t out_bytes) {
  return on_verbs_object(cq->context, ObjectKind::kCq, cq->handle, {in, in_bytes, out, out_bytes},
                         modify);
}

int mlx5dv_devx_query_eqn(ibv_context* handle, uint32_t vector, uint32_t* eqn) {
  return answer_error([&] {
    if (vector >= static_cast<uint32_t>(VerbsContext::of(handle).handle()->num_comp_vectors))
      refuse(EINVAL);
    *eqn = kCompletionEqn;
  });
}

}  // extern "C"
}  // namespace peal::softnic::abi::devx
