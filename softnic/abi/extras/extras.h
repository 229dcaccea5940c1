// SPDX-License-Identifier: Apache-2.0
//
// What other clients than peal need: DC targets, shared receive queues, requests and completions
// call by call (ibv_wr_*, ibv_start_poll), device memory. The core knows none of it; open.cc,
// devx.cc and init_obj.cc hand it out beside the core's.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "softnic/abi/core/devx.h"
#include "softnic/abi/core/verbs_queues.h"

namespace peal::softnic::abi {

// Implementations behind slots of verbs_context and ibv_context_ops.
ibv_qp* create_qp_ex_slot(ibv_context* context, ibv_qp_init_attr_ex* attr);
ibv_cq_ex* create_cq_ex_slot(ibv_context* context, ibv_cq_init_attr_ex* attr);
int get_srq_num_slot(ibv_srq* srq, uint32_t* number);
int post_shared_receive_slot(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
ibv_dm* alloc_dm_slot(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm_slot(ibv_dm* dm);
ibv_mr* reg_dm_mr_slot(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t bytes, unsigned access);

/// What mlx5dv_init_obj() tells of device memory, and of a shared receive queue.
void describe_dm(ibv_dm* dm, mlx5dv_dm* out);
void describe_srq(ibv_srq* srq, mlx5dv_srq* out);

/// A queue pair for ibv_wr_*, to be made by create_queue_pair(); `operations` are
/// ibv_qp_create_send_ops_flags.
std::unique_ptr<VerbsQueuePair> make_builder(VerbsContext& context, uint64_t operations);

ibv_qp* create_dc_target(ibv_pd* pd, ibv_qp_init_attr* init, uint64_t key);

namespace devx {

mlx5dv_devx_obj* create_dct(const DevxCommand& command);
mlx5dv_devx_obj* create_rmp(const DevxCommand& command);
/// Queries an object that create_dct() has made.
void query_dct(const DevxCommand& command, const Object& dct);

}  // namespace devx
}  // namespace peal::softnic::abi
