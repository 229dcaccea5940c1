// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the software NIC's C interface share: an opened device with a PD, a UAR page
// and one umem, and firmware commands built dword by dword.
//
//   umem: CQ at 0 | QP memory at 4 KiB | doorbell records at 8 KiB
#pragma once

#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/softnic/abi/gpu_support.h"

namespace peal::softnic::abi_test {

inline constexpr size_t kPage = 4096;
inline constexpr uint64_t kCqOffset = 0;
inline constexpr uint64_t kQpOffset = kPage;
inline constexpr uint64_t kRecordOffset = 2 * kPage;
inline constexpr size_t kUmemBytes = 4 * kPage;
inline constexpr size_t kCqc = 0x10 / 4;  // first dword of the context, in the mailbox
inline constexpr size_t kQpc = 0x18 / 4;
inline constexpr size_t kDctc = 0x10 / 4;

/// A mailbox of any size. set() replaces a field given by dword, high bit, low bit.
class Mailbox {
 public:
  explicit Mailbox(size_t bytes) : bytes_(bytes) {}
  Mailbox(size_t bytes, uint32_t opcode) : Mailbox(bytes) { set(0, 31, 16, opcode); }

  Mailbox& set(size_t dword, unsigned high, unsigned low, uint32_t value) {
    uint32_t mask = (high - low == 31 ? ~0u : (1u << (high - low + 1)) - 1) << low;
    store(dword, (load(dword) & ~mask) | ((value << low) & mask));
    return *this;
  }
  uint32_t get(size_t dword, unsigned high, unsigned low) const {
    return (load(dword) >> low) & (high - low == 31 ? ~0u : (1u << (high - low + 1)) - 1);
  }
  void resize(size_t bytes) { bytes_.resize(bytes); }
  void fill(uint8_t value) { std::memset(bytes_.data(), value, bytes_.size()); }
  void* data() { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

  uint32_t status() const { return get(0, 31, 24); }
  uint32_t syndrome() const { return get(1, 31, 0); }
  uint32_t number() const { return get(2, 23, 0); }

 private:
  uint32_t load(size_t dword) const {
    uint32_t word = 0;
    std::memcpy(&word, bytes_.data() + 4 * dword, sizeof word);
    return be32toh(word);
  }
  void store(size_t dword, uint32_t value) {
    uint32_t word = htobe32(value);
    std::memcpy(bytes_.data() + 4 * dword, &word, sizeof word);
  }
  std::vector<uint8_t> bytes_;
};

/// Rings as libmlx5 does: with the first words of the last WQE.
inline void ring(void* reg, const void* wqe) {
  uint64_t value = 0;
  std::memcpy(&value, wqe, sizeof value);
  __atomic_store_n(static_cast<uint64_t*>(reg), value, __ATOMIC_RELEASE);
}

/// The next completion; one that never comes fails the test and has status GENERAL_ERR.
inline ibv_wc next_of(ibv_cq* queue) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  ibv_wc wc = {};
  while (std::chrono::steady_clock::now() < deadline) {
    const int count = ibv_poll_cq(queue, 1, &wc);
    if (count == 1) return wc;
    EXPECT_EQ(count, 0);
    if (count < 0) break;
    std::this_thread::yield();
  }
  ADD_FAILURE() << "no completion";
  wc.status = IBV_WC_GENERAL_ERR;
  return wc;
}

inline ibv_device* first_device() {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_device* device = list[0];
  ibv_free_device_list(list);
  return device;
}

class SoftnicAbi : public ::testing::Test {
 protected:
  void SetUp() override {
    context = ibv_open_device(first_device());
    ASSERT_NE(context, nullptr) << std::strerror(errno);
    pd = ibv_alloc_pd(context);
    ASSERT_NE(pd, nullptr);
    uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF);
    ASSERT_NE(uar, nullptr);
    memory = make_pages(kUmemBytes, queues_in_gpu());
    umem = mlx5dv_devx_umem_reg(context, memory.get(), kUmemBytes, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(umem, nullptr);
    ASSERT_EQ(mlx5dv_devx_query_eqn(context, 0, &eqn), 0);
  }
  /// Closing a context cleans up whatever a test left.
  void TearDown() override {
    if (context != nullptr) {
      EXPECT_EQ(ibv_close_device(context), 0);
    }
  }

  uint32_t pdn_of(ibv_pd* domain) {
    mlx5dv_pd view = {};
    mlx5dv_obj obj = {};
    obj.pd.in = domain;
    obj.pd.out = &view;
    EXPECT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), 0);
    return view.pdn;
  }
  uint16_t lid() {
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    return port.lid;
  }

  /// CREATE_CQ of 16 entries that succeeds.
  Mailbox cq_command() {
    Mailbox in(272, 0x400);
    in.set(kCqc + 1, 31, 0, umem->umem_id).set(kCqc + 3, 28, 24, 4);
    in.set(kCqc + 3, 23, 0, uar->page_id).set(kCqc + 5, 7, 0, eqn).set(kCqc + 0, 17, 17, 1);
    in.set(kCqc + 15, 31, 0, kRecordOffset);
    in.set(0x54 / 4, 31, 0, kCqOffset).set(0x58 / 4, 31, 0, umem->umem_id);
    return in;
  }
  /// CREATE_QP, RC with 16 send blocks and no receive queue, that succeeds.
  Mailbox qp_command(uint32_t cqn) {
    Mailbox in(272, 0x500);
    in.set(kQpc + 1, 23, 0, pdn_of(pd)).set(kQpc + 2, 14, 11, 4);
    in.set(kQpc + 3, 23, 0, uar->page_id).set(kQpc + 31, 23, 0, cqn);
    in.set(kQpc + 43, 26, 24, 3).set(kQpc + 41, 31, 0, kRecordOffset + 64);
    in.set(kQpc + 57, 31, 0, umem->umem_id);
    in.set(0x104 / 4, 31, 0, kQpOffset).set(0x108 / 4, 31, 0, umem->umem_id);
    return in;
  }
  mlx5dv_devx_obj* create(Mailbox& in) {
    out = Mailbox(16);
    return mlx5dv_devx_obj_create(context, in.data(), in.size(), out.data(), out.size());
  }
  /// A command that must be refused by firmware: errno, status, and a syndrome.
  void expect_refused(Mailbox in, uint32_t status, int error) {
    errno = 0;
    EXPECT_EQ(create(in), nullptr);
    EXPECT_EQ(errno, error);
    EXPECT_EQ(out.status(), status);
    EXPECT_NE(out.syndrome(), 0u);
  }
  int modify(mlx5dv_devx_obj* object, Mailbox in) {
    out = Mailbox(16);
    return mlx5dv_devx_obj_modify(object, in.data(), in.size(), out.data(), out.size());
  }
  Mailbox query(mlx5dv_devx_obj* object, uint32_t opcode, uint32_t number, size_t bytes) {
    Mailbox in(16, opcode);
    in.set(2, 23, 0, number);
    Mailbox answer(bytes);
    EXPECT_EQ(mlx5dv_devx_obj_query(object, in.data(), in.size(), answer.data(), answer.size()), 0);
    return answer;
  }
  Mailbox to_init(uint32_t qpn) {
    Mailbox in(272, 0x502);
    in.set(2, 23, 0, qpn).set(kQpc + 15, 23, 16, 1).set(kQpc + 36, 15, 13, 7);
    return in.set(kQpc + 36, 19, 16, 3);
  }
  Mailbox to_rtr(uint32_t qpn, uint32_t peer) {
    Mailbox in(272, 0x503);
    in.set(2, 23, 0, qpn).set(kQpc + 2, 31, 29, 5).set(kQpc + 2, 28, 24, 30);
    in.set(kQpc + 5, 23, 0, peer).set(kQpc + 7, 15, 0, lid()).set(kQpc + 36, 23, 21, 4);
    return in.set(kQpc + 37, 28, 24, 12);
  }
  Mailbox to_rts(uint32_t qpn) {
    Mailbox in(272, 0x504);
    in.set(2, 23, 0, qpn).set(kQpc + 8, 31, 27, 14).set(kQpc + 28, 23, 21, 4);
    return in.set(kQpc + 28, 18, 16, 7).set(kQpc + 28, 15, 13, 7);
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  mlx5dv_devx_uar* uar = nullptr;
  mlx5dv_devx_umem* umem = nullptr;
  Pages memory;
  uint32_t eqn = 0;
  Mailbox out{16};
};

}  // namespace peal::softnic::abi_test
