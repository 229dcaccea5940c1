// SPDX-License-Identifier: Apache-2.0
//
// Our layouts against rdma-core's public headers: the only place where both meet.
//
//   device/mlx5/layout.h <-> <infiniband/mlx5dv.h>     numbers of the verbs ABI <->
//   <infiniband/verbs.h>
#include "device/mlx5/layout.h"

#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstring>

namespace peal::mlx5 {
namespace {

TEST(Layout, ControlSegmentMatches) {
  static_assert(sizeof(ControlSegment) == sizeof(mlx5_wqe_ctrl_seg));
  EXPECT_EQ(offsetof(ControlSegment, opmod_idx_opcode),
            offsetof(mlx5_wqe_ctrl_seg, opmod_idx_opcode));
  EXPECT_EQ(offsetof(ControlSegment, qpn_ds), offsetof(mlx5_wqe_ctrl_seg, qpn_ds));
  EXPECT_EQ(offsetof(ControlSegment, signature_fm_ce_se), offsetof(mlx5_wqe_ctrl_seg, signature));
  EXPECT_EQ(offsetof(ControlSegment, signature_fm_ce_se) + 3,
            offsetof(mlx5_wqe_ctrl_seg, fm_ce_se));
  EXPECT_EQ(offsetof(ControlSegment, imm), offsetof(mlx5_wqe_ctrl_seg, imm));
}

/// The public header's own composer, read through our layout.
TEST(Layout, ControlSegmentReadsWhatThePublicComposerWrites) {
  mlx5_wqe_ctrl_seg theirs = {};
  mlx5dv_set_ctrl_seg(&theirs, 0xabcd, MLX5_OPCODE_ATOMIC_MASKED_FA, 0x09, 0x123456,
                      MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_FENCE, 5, 0, htobe32(0x11223344));
  ControlSegment ours;
  std::memcpy(&ours, &theirs, sizeof ours);
  EXPECT_EQ(ours.opmod_idx_opcode.host(), uint32_t{kOpmodAtomic8} << 24 | 0xabcdu << 8 |
                                              static_cast<uint32_t>(Opcode::kAtomicMaskedFetchAdd));
  EXPECT_EQ(ours.qpn_ds.host(), 0x123456u << 8 | 5u);
  EXPECT_EQ(ours.signature_fm_ce_se.host(), static_cast<uint32_t>(Completion::kAlways) |
                                                static_cast<uint32_t>(Fence::kFenceAndSmall));
  EXPECT_EQ(ours.imm.host(), 0x11223344u);
}

TEST(Layout, RemoteAddressSegmentMatches) {
  static_assert(sizeof(RemoteAddressSegment) == sizeof(mlx5_wqe_raddr_seg));
  EXPECT_EQ(offsetof(RemoteAddressSegment, address), offsetof(mlx5_wqe_raddr_seg, raddr));
  EXPECT_EQ(offsetof(RemoteAddressSegment, rkey), offsetof(mlx5_wqe_raddr_seg, rkey));
}

TEST(Layout, DataSegmentReadsWhatThePublicComposerWrites) {
  static_assert(sizeof(DataSegment) == sizeof(mlx5_wqe_data_seg));
  mlx5_wqe_data_seg theirs = {};
  mlx5dv_set_data_seg(&theirs, 0x1234, 0xcafe00, 0x1122334455667788);
  DataSegment ours;
  std::memcpy(&ours, &theirs, sizeof ours);
  EXPECT_EQ(ours.byte_count.host(), 0x1234u);
  EXPECT_EQ(ours.lkey.host(), 0xcafe00u);
  EXPECT_EQ(ours.address.host(), 0x1122334455667788u);
}

TEST(Layout, InlineHeaderAndAtomicSegmentMatch) {
  static_assert(sizeof(InlineHeader) == sizeof(mlx5_wqe_inl_data_seg));
  static_assert(sizeof(AtomicSegment) == sizeof(mlx5_wqe_atomic_seg));
  EXPECT_EQ(offsetof(AtomicSegment, swap_or_add), offsetof(mlx5_wqe_atomic_seg, swap_add));
  EXPECT_EQ(offsetof(AtomicSegment, compare), offsetof(mlx5_wqe_atomic_seg, compare));
  EXPECT_EQ(kInlineFlag, static_cast<uint32_t>(MLX5_INLINE_SEG));
  EXPECT_EQ(kInvalidLkey, static_cast<uint32_t>(MLX5_INVALID_LKEY));
  EXPECT_EQ(kWqebbBytes, static_cast<uint32_t>(MLX5_SEND_WQE_BB));
}

TEST(Layout, AddressVectorMatchesInBothForms) {
  static_assert(sizeof(CompactAddressVector) + sizeof(AddressVectorGrh) == sizeof(mlx5_wqe_av));
  EXPECT_EQ(offsetof(CompactAddressVector, dc_key), offsetof(mlx5_wqe_av, key.dc_key));
  EXPECT_EQ(offsetof(CompactAddressVector, ext_dqp_dct), offsetof(mlx5_wqe_av, dqp_dct));
  EXPECT_EQ(offsetof(CompactAddressVector, rate_sl_mlid_rlid), offsetof(mlx5_wqe_av, stat_rate_sl));
  EXPECT_EQ(offsetof(CompactAddressVector, rate_sl_mlid_rlid) + 2, offsetof(mlx5_wqe_av, rlid));
  size_t grh = sizeof(CompactAddressVector);
  EXPECT_EQ(grh + offsetof(AddressVectorGrh, rmac_47_16), offsetof(mlx5_wqe_av, rmac));
  EXPECT_EQ(grh + offsetof(AddressVectorGrh, rmac_15_0_tclass_hop) + 2,
            offsetof(mlx5_wqe_av, tclass));
  EXPECT_EQ(grh + offsetof(AddressVectorGrh, grh_gid_flow), offsetof(mlx5_wqe_av, grh_gid_fl));
  EXPECT_EQ(grh + offsetof(AddressVectorGrh, rgid), offsetof(mlx5_wqe_av, rgid));
}

TEST(Layout, CompletionMatches) {
  static_assert(sizeof(Cqe) == sizeof(mlx5_cqe64));
  EXPECT_EQ(offsetof(Cqe, srqn_user_index), offsetof(mlx5_cqe64, srqn_uidx));
  EXPECT_EQ(offsetof(Cqe, imm), offsetof(mlx5_cqe64, imm_inval_pkey));
  EXPECT_EQ(offsetof(Cqe, app), offsetof(mlx5_cqe64, app));
  EXPECT_EQ(offsetof(Cqe, byte_count), offsetof(mlx5_cqe64, byte_cnt));
  EXPECT_EQ(offsetof(Cqe, timestamp), offsetof(mlx5_cqe64, timestamp));
  EXPECT_EQ(offsetof(Cqe, opcode_qpn), offsetof(mlx5_cqe64, sop_drop_qpn));
  EXPECT_EQ(offsetof(Cqe, counter_sig_op_own), offsetof(mlx5_cqe64, wqe_counter));
  EXPECT_EQ(offsetof(Cqe, counter_sig_op_own) + 3, offsetof(mlx5_cqe64, op_own));
}

TEST(Layout, ErrorCompletionMatches) {
  static_assert(sizeof(Cqe) == sizeof(mlx5_err_cqe));
  EXPECT_EQ(kCqeSyndromeByte, offsetof(mlx5_err_cqe, syndrome));
  EXPECT_EQ(kCqeVendorSyndromeByte, offsetof(mlx5_err_cqe, vendor_err_synd));
  EXPECT_EQ(offsetof(Cqe, opcode_qpn), offsetof(mlx5_err_cqe, s_wqe_opcode_qpn));
}

TEST(Layout, DoorbellRecordMatches) {
  EXPECT_EQ(offsetof(DoorbellRecord, receive), sizeof(uint32_t) * MLX5_RCV_DBR);
  EXPECT_EQ(offsetof(DoorbellRecord, send), sizeof(uint32_t) * MLX5_SND_DBR);
}

TEST(Layout, OpcodesMatch) {
  EXPECT_EQ(int(Opcode::kNop), MLX5_OPCODE_NOP);
  EXPECT_EQ(int(Opcode::kSendInval), MLX5_OPCODE_SEND_INVAL);
  EXPECT_EQ(int(Opcode::kRdmaWrite), MLX5_OPCODE_RDMA_WRITE);
  EXPECT_EQ(int(Opcode::kRdmaWriteImm), MLX5_OPCODE_RDMA_WRITE_IMM);
  EXPECT_EQ(int(Opcode::kSend), MLX5_OPCODE_SEND);
  EXPECT_EQ(int(Opcode::kSendImm), MLX5_OPCODE_SEND_IMM);
  EXPECT_EQ(int(Opcode::kRdmaRead), MLX5_OPCODE_RDMA_READ);
  EXPECT_EQ(int(Opcode::kAtomicCompareSwap), MLX5_OPCODE_ATOMIC_CS);
  EXPECT_EQ(int(Opcode::kAtomicFetchAdd), MLX5_OPCODE_ATOMIC_FA);
  EXPECT_EQ(int(Opcode::kAtomicMaskedCompareSwap), MLX5_OPCODE_ATOMIC_MASKED_CS);
  EXPECT_EQ(int(Opcode::kAtomicMaskedFetchAdd), MLX5_OPCODE_ATOMIC_MASKED_FA);
}

TEST(Layout, ModesMatch) {
  EXPECT_EQ(int(Completion::kAlways), MLX5_WQE_CTRL_CQ_UPDATE);
  EXPECT_EQ(int(Fence::kInitiatorSmall), MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);
  EXPECT_EQ(int(Fence::kFenceAndSmall), MLX5_WQE_CTRL_FENCE);
}

TEST(Layout, CompletionOpcodesAndSyndromesMatch) {
  EXPECT_EQ(int(CqeOpcode::kRequester), MLX5_CQE_REQ);
  EXPECT_EQ(int(CqeOpcode::kResponderWriteImm), MLX5_CQE_RESP_WR_IMM);
  EXPECT_EQ(int(CqeOpcode::kResponderSend), MLX5_CQE_RESP_SEND);
  EXPECT_EQ(int(CqeOpcode::kResponderSendImm), MLX5_CQE_RESP_SEND_IMM);
  EXPECT_EQ(int(CqeOpcode::kRequesterError), MLX5_CQE_REQ_ERR);
  EXPECT_EQ(int(CqeOpcode::kResponderError), MLX5_CQE_RESP_ERR);
  EXPECT_EQ(int(CqeOpcode::kInvalid), MLX5_CQE_INVALID);
  EXPECT_EQ(int(Syndrome::kLocalLength), MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
  EXPECT_EQ(int(Syndrome::kLocalQpOperation), MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
  EXPECT_EQ(int(Syndrome::kLocalProtection), MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
  EXPECT_EQ(int(Syndrome::kFlushed), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
  EXPECT_EQ(int(Syndrome::kMwBind), MLX5_CQE_SYNDROME_MW_BIND_ERR);
  EXPECT_EQ(int(Syndrome::kBadResponse), MLX5_CQE_SYNDROME_BAD_RESP_ERR);
  EXPECT_EQ(int(Syndrome::kLocalAccess), MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
  EXPECT_EQ(int(Syndrome::kRemoteInvalidRequest), MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
  EXPECT_EQ(int(Syndrome::kRemoteAccess), MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
  EXPECT_EQ(int(Syndrome::kRemoteOperation), MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
  EXPECT_EQ(int(Syndrome::kTransportRetryExceeded), MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
  EXPECT_EQ(int(Syndrome::kRnrRetryExceeded), MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(int(Syndrome::kRemoteAborted), MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR);
}

// The binary interface that programs compiled long ago rely on (x86-64).

TEST(VerbsAbi, ContextAndDeviceLieWhereProgramsLook) {
  EXPECT_EQ(sizeof(ibv_device), 664u);
  EXPECT_EQ(offsetof(ibv_device, name), 24u);
  EXPECT_EQ(offsetof(ibv_device, ibdev_path), 408u);
  EXPECT_EQ(sizeof(ibv_context), 328u);
  EXPECT_EQ(offsetof(ibv_context, async_fd), 268u);
  EXPECT_EQ(offsetof(ibv_context, abi_compat), 320u);
  EXPECT_EQ(offsetof(ibv_context, ops.poll_cq), 96u);
  EXPECT_EQ(offsetof(ibv_context, ops.post_send), 208u);
  EXPECT_EQ(offsetof(ibv_context, ops.post_recv), 216u);
}

TEST(VerbsAbi, SlotsLieAtFixedDistancesBeforeTheContext) {
  auto distance = [](size_t slot) { return offsetof(verbs_context, context) - slot; };
  EXPECT_EQ(distance(offsetof(verbs_context, sz)), 8u);
  EXPECT_EQ(distance(offsetof(verbs_context, close_xrcd)), 24u);
  EXPECT_EQ(distance(offsetof(verbs_context, get_srq_num)), 48u);
  EXPECT_EQ(distance(offsetof(verbs_context, create_qp_ex)), 56u);
  EXPECT_EQ(distance(offsetof(verbs_context, query_device_ex)), 104u);
  EXPECT_EQ(distance(offsetof(verbs_context, create_cq_ex)), 120u);
  EXPECT_EQ(distance(offsetof(verbs_context, alloc_td)), 192u);
  EXPECT_EQ(distance(offsetof(verbs_context, dealloc_td)), 200u);
  EXPECT_EQ(distance(offsetof(verbs_context, alloc_parent_domain)), 208u);
  EXPECT_EQ(distance(offsetof(verbs_context, query_port)), 320u);
}

TEST(VerbsAbi, ObjectsHaveTheSizesOfTheManual) {
  EXPECT_EQ(sizeof(ibv_pd), 16u);
  EXPECT_EQ(sizeof(ibv_mr), 48u);
  EXPECT_EQ(offsetof(ibv_mr, lkey), 36u);
  EXPECT_EQ(sizeof(ibv_cq), 128u);
  EXPECT_EQ(sizeof(ibv_qp), 160u);
  EXPECT_EQ(offsetof(ibv_qp, qp_num), 52u);
  EXPECT_EQ(sizeof(ibv_srq), 128u);
  EXPECT_EQ(sizeof(ibv_ah), 24u);
  EXPECT_EQ(sizeof(ibv_comp_channel), 16u);
  EXPECT_EQ(sizeof(ibv_device_attr), 232u);
  EXPECT_EQ(offsetof(ibv_device_attr, vendor_part_id), 100u);
  EXPECT_EQ(offsetof(ibv_port_attr, lid), 34u);
  EXPECT_EQ(offsetof(ibv_port_attr, link_layer), 46u);
  EXPECT_EQ(sizeof(ibv_qp_attr), 144u);
  EXPECT_EQ(sizeof(ibv_qp_init_attr), 64u);
  EXPECT_EQ(sizeof(ibv_qp_init_attr_ex), 136u);
  EXPECT_EQ(sizeof(ibv_ah_attr), 32u);
  EXPECT_EQ(sizeof(ibv_async_event), 16u);
  EXPECT_EQ(sizeof(ibv_gid_entry), 32u);
  EXPECT_EQ(sizeof(ibv_parent_domain_init_attr), 48u);
}

TEST(VerbsAbi, Mlx5ViewsHaveTheLayoutOfTheManual) {
  EXPECT_EQ(offsetof(mlx5dv_devx_uar, base_addr), 8u);
  EXPECT_EQ(offsetof(mlx5dv_devx_uar, page_id), 16u);
  EXPECT_EQ(offsetof(mlx5dv_devx_uar, mmap_off), 24u);
  EXPECT_EQ(offsetof(mlx5dv_devx_umem_in, pgsz_bitmap), 24u);
  EXPECT_EQ(offsetof(mlx5dv_devx_umem_in, dmabuf_fd), 40u);
  EXPECT_EQ(offsetof(mlx5dv_obj, cq), 16u);
  EXPECT_EQ(offsetof(mlx5dv_obj, srq), 32u);
  EXPECT_EQ(offsetof(mlx5dv_obj, ah), 80u);
  EXPECT_EQ(offsetof(mlx5dv_obj, pd), 96u);
  EXPECT_EQ(int(MLX5DV_OBJ_PD), 64);
  EXPECT_EQ(offsetof(mlx5dv_cq, cqn), 32u);
  EXPECT_EQ(offsetof(mlx5dv_qp, bf), 40u);
}

}  // namespace
}  // namespace peal::mlx5
