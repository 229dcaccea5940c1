// SPDX-License-Identifier: Apache-2.0
//
// A program that unmaps memory which it has registered, and takes the registration back later, as
// UCX does: Linux pins what is registered, so that a card never misses it. Knows rdma-core only;
// two devices of this process. Prints ok.
//
//   one end sends from, reads from or writes to memory, its own or the other's, that has gone
//
// Hazard: the software NIC's engine is a thread of this process and faults there.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

constexpr size_t kBytes = 1 << 20;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// A device with one queue pair, and memory to unmap.
struct End {
  void open(int index) {
    ibv_device** list = ibv_get_device_list(nullptr);
    context = list == nullptr ? nullptr : ibv_open_device(list[index]);
    if (context == nullptr) fail("ibv_open_device");
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    void* const mapped =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory = static_cast<uint8_t*>(mapped);
    std::memset(memory, index + 1, kBytes);
    mr = ibv_reg_mr(pd, memory, kBytes,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    qp = ibv_create_qp(pd, &init);
    if (mr == nullptr || qp == nullptr) fail("memory or queue pair");
  }
  void close() const {
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    if (ibv_dereg_mr(mr) != 0) fail("ibv_dereg_mr");
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }
  void connect(const End& peer) const {
    ibv_port_attr port = {};
    if (ibv_query_port(peer.context, 1, &port) != 0) fail("ibv_query_port");
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.ah_attr.dlid = port.lid;
    attr.ah_attr.port_num = 1;
    attr.max_dest_rd_atomic = 1;
    modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  void modify(ibv_qp_attr& attr, int mask) const {
    if (ibv_modify_qp(qp, &attr, mask) != 0) fail("ibv_modify_qp");
  }
  ibv_sge all() const {
    return {.addr = reinterpret_cast<uintptr_t>(memory), .length = kBytes, .lkey = mr->lkey};
  }
  /// How a request of this end's ends.
  ibv_wc_status post(ibv_wr_opcode opcode, const End& peer) const {
    ibv_sge list = all();
    ibv_send_wr wr = {};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = reinterpret_cast<uintptr_t>(peer.memory), .rkey = peer.mr->rkey};
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, &wr, &bad) != 0) fail("ibv_post_send");
    ibv_wc wc = {};
    int count = 0;
    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0) {
    }
    if (count < 0) fail("ibv_poll_cq");
    return wc.status;
  }
  void post_receive() const {
    ibv_sge list = all();
    ibv_recv_wr wr = {};
    wr.sg_list = &list;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(qp, &wr, &bad) != 0) fail("ibv_post_recv");
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
  uint8_t* memory = nullptr;
};

enum class Whose { kOwn, kPeers };

/// True if nothing but the request itself comes to harm.
bool survives(ibv_wr_opcode opcode, Whose gone) {
  End here;
  End there;
  here.open(0);
  there.open(1);
  here.connect(there);
  there.connect(here);
  if (opcode == IBV_WR_SEND) there.post_receive();
  // The link is up: the NICs map nothing where memory goes.
  if (here.post(IBV_WR_RDMA_WRITE, there) != IBV_WC_SUCCESS) fail("a WRITE ahead");
  munmap(gone == Whose::kOwn ? here.memory : there.memory, kBytes);
  const ibv_wc_status status = here.post(opcode, there);
  // What comes to memory that has gone is dropped or refused; nothing may come out of it.
  const bool reads_it = opcode == IBV_WR_RDMA_READ ? gone == Whose::kPeers : gone == Whose::kOwn;
  const bool sound = !reads_it || status != IBV_WC_SUCCESS;
  std::printf("opcode %d, %s memory: %s\n", opcode, gone == Whose::kOwn ? "own" : "the peer's",
              ibv_wc_status_str(status));
  here.close();
  there.close();
  return sound;
}

}  // namespace

int main() {
  bool sound = true;
  for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    for (const Whose gone : {Whose::kOwn, Whose::kPeers}) sound = survives(opcode, gone) && sound;
  }
  std::puts(sound ? "ok" : "something came out of memory that has gone");
  return sound ? 0 : 1;
}
