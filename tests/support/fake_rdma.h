// SPDX-License-Identifier: Apache-2.0
//
// libfake_rdma.so: both libraries in one, doing what a test tells it and remembering every mailbox.
// The test and the library share a FakeRdma through fake_rdma(), found by dlsym.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

struct FakeGid {
  std::string text;  // an IPv6 address; "" is an entry not in use
  uint32_t type = IBV_GID_TYPE_IB;
};

struct FakeRdma {
  // What the test sets.
  std::vector<std::string> devices{"mlx5_0"};
  std::vector<std::string> foreign{};  // devices of another vendor, listed first
  std::string firmware = "28.39.1002";
  int port_state = IBV_PORT_ACTIVE;
  int link_layer = IBV_LINK_LAYER_INFINIBAND;
  uint16_t lid = 0x1234;
  int mtu = IBV_MTU_4096;
  uint8_t ports = 1;
  uint32_t dead_ports = 0;  // bit n: port n is down
  uint8_t port_flags = 0;
  std::vector<FakeGid> gids{{"fe80::1234"}};
  int refuse_gid = 0;  // errno
  int refuse_ah = 0;   // errno
  int late_ahs = 0;    // so many address handles, or transitions with an address: ETIMEDOUT first
  std::vector<uint16_t> pkeys{0xffff};
  uint8_t lag_state = 0;
  uint8_t counter_set = 0;  // that Linux names to queue pairs of its own
  unsigned char next_hop[6] = {0x0c, 0x42, 0xa1, 0x00, 0x00, 0x07};
  uint32_t refuse_uar = 0;  // bit 0 dedicated, bit 1 uncached, bit 2 write-combining
  bool refuse_list = false, refuse_open = false, refuse_pd = false, refuse_mr = false;
  bool refuse_umem = false, refuse_eqn = false;
  int refuse_devx = 0;                               // errno, of contexts with DEVX only
  int refuse_dmabuf_mr = 0, refuse_dmabuf_umem = 0;  // errno
  uint16_t refuse_command = 0;                       // opcode
  uint8_t refuse_status = 0;                         // in its answer; 0 = errno only
  uint32_t refuse_syndrome = 0;
  int refuse_errno = 121;  // EREMOTEIO
  std::vector<uint32_t> general_capabilities = std::vector<uint32_t>(1024);
  std::vector<uint32_t> atomic_capabilities = std::vector<uint32_t>(1024);
  std::vector<uint32_t> roce_capabilities = std::vector<uint32_t>(1024);
  uint8_t qp_state = 0;
  void* uar_page = nullptr;  // 4 KiB; null: one of its own
  ibv_atomic_cap atomics = IBV_ATOMIC_HCA;
  int most_requests = 32768;        // of one queue
  int refuse_modify = 0;            // errno
  size_t room = 1000;               // requests that ibv_post_send takes
  int refuse_post = ENOMEM;         // and what it says to the next
  std::vector<ibv_wc> completions;  // to poll

  // What the test reads.
  std::vector<std::vector<uint32_t>> commands;  // mailboxes as words in host order
  std::string opened;
  ibv_qp_init_attr created{};                            // by ibv_create_qp
  std::vector<std::pair<ibv_qp_attr, int>> transitions;  // with their masks
  std::vector<ibv_send_wr> posted;
  std::vector<ibv_sge> gathered;  // the one entry of each, or an empty one
  ibv_ah_attr ah{};               // of the last address handle
  uint32_t open_flags = 0;
  uint64_t mr_iova = 1;
  unsigned int mr_access = 0;
  uint64_t mr_offset = 0;     // in the dma-buf
  uint64_t umem_address = 1;  // the same, or an address
  uint64_t umem_pages = 0;    // sizes allowed
  uint64_t umem_access = 0;
  int dmabuf_fd = -1;        // the last one given
  bool dmabuf_open = false;  // it was a descriptor then
  uint32_t uar_flags = 0;
  int live = 0;  // objects not yet released
};

extern "C" FakeRdma* fake_rdma();
