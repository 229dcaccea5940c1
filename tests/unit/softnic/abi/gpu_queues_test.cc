// SPDX-License-Identifier: Apache-2.0
//
// Queues and data in a GPU's memory and in the host's, in every mixture, on one device of the
// engine on CPUs. GPU 0 is a stand-in's: see gpu_support.h.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "tests/unit/softnic/abi/support.h"

extern "C" int peal_softnic_keep_on_cpu(ibv_context* device);  // no header has it

namespace peal::softnic::abi_test {
namespace {

constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kEntries = 16;  // of a CQ, and blocks of a send queue
constexpr size_t kDataBytes = 64 << 10;
constexpr size_t kThere = kDataBytes / 2;  // in the data: what requests name at the peer

/// What a completion says.
struct Seen {
  uint8_t opcode = 0xf;
  uint8_t syndrome = 0;
  uint16_t counter = 0;
};

/// A queue pair by DEVX and its CQ, with a ring, CQEs and records at places of one umem.
struct Devx {
  uint64_t place = 0;
  mlx5dv_devx_obj* cq = nullptr;
  mlx5dv_devx_obj* qp = nullptr;
  uint32_t cqn = 0;
  uint32_t qpn = 0;
  uint32_t posted = 0;
  uint32_t received = 0;
  uint32_t taken = 0;

  uint64_t cq_at() const { return place; }
  uint64_t receives_at() const { return place + 2048; }
  uint64_t ring_at() const { return receives_at() + 8 * 16; }
  uint64_t cq_record() const { return place + 3584; }
  uint64_t record() const { return place + 3648; }
};

/// The parameters: whether queues, and whether data, lie in the GPU's memory.
class GpuQueues : public SoftnicAbi, public ::testing::WithParamInterface<std::tuple<bool, bool>> {
 protected:
  void SetUp() override {
    SoftnicAbi::SetUp();
    queues = make_pages(kUmemBytes, std::get<0>(GetParam()));
    umem = mlx5dv_devx_umem_reg(context, queues.get(), kUmemBytes, IBV_ACCESS_LOCAL_WRITE);
    ASSERT_NE(umem, nullptr) << std::strerror(errno);
    data = make_pages(kDataBytes, std::get<1>(GetParam()));
    mr = ibv_reg_mr(pd, data.get(), kDataBytes, kRights);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    copies = FakeGpu::get().state.copies;
  }
  /// CREATE_CQ and CREATE_QP at page `number` of the umem; the queue pair has 8 receive entries.
  Devx make(uint64_t number, bool checks_overrun = false) {
    Devx made = {.place = number * kPage};
    std::memset(queues.get() + made.cq_at(), 0xf1, kEntries * 64);
    Mailbox in = cq_command();
    in.set(kCqc + 0, 17, 17, checks_overrun ? 0 : 1);
    in.set(kCqc + 15, 31, 0, static_cast<uint32_t>(made.cq_record()));
    in.set(0x54 / 4, 31, 0, static_cast<uint32_t>(made.cq_at()));
    made.cq = create(in);
    EXPECT_NE(made.cq, nullptr) << std::hex << out.syndrome();
    made.cqn = out.number();
    in = qp_command(made.cqn);
    in.set(kQpc + 41, 31, 0, static_cast<uint32_t>(made.record()));
    in.set(kQpc + 43, 26, 24, 0).set(kQpc + 39, 23, 0, made.cqn);
    in.set(kQpc + 2, 22, 19, 3).set(kQpc + 2, 18, 16, 0);  // 8 entries of 16 bytes
    in.set(0x104 / 4, 31, 0, static_cast<uint32_t>(made.receives_at()));
    made.qp = create(in);
    EXPECT_NE(made.qp, nullptr) << std::hex << out.syndrome();
    made.qpn = out.number();
    return made;
  }
  void connect(const Devx& to, uint32_t peer) {
    EXPECT_EQ(modify(to.qp, to_init(to.qpn)), 0);
    EXPECT_EQ(modify(to.qp, to_rtr(to.qpn, peer)), 0);
    EXPECT_EQ(modify(to.qp, to_rts(to.qpn)), 0);
  }

  /// Writes a WQE of segments behind the control segment, and rings.
  template <class... Segment>
  void post(Devx& by, uint8_t opcode, const Segment&... segments) {
    alignas(64) uint8_t wqe[64] = {};
    constexpr auto kUnits = static_cast<uint8_t>(1 + sizeof...(Segment));
    mlx5dv_set_ctrl_seg(reinterpret_cast<mlx5_wqe_ctrl_seg*>(wqe), static_cast<uint16_t>(by.posted),
                        opcode, 0, by.qpn, MLX5_WQE_CTRL_CQ_UPDATE, kUnits, 0, 0);
    size_t at = 16;
    ((std::memcpy(wqe + at, &segments, 16), at += 16), ...);
    std::memcpy(queues.get() + by.ring_at() + by.posted % kEntries * 64, wqe, sizeof wqe);
    ++by.posted;
    auto* const record = reinterpret_cast<uint32_t*>(queues.get() + by.record());
    __atomic_store_n(record + 1, htobe32(by.posted & 0xffff), __ATOMIC_RELEASE);
    ring(uar->reg_addr, wqe);
  }
  mlx5_wqe_raddr_seg there(size_t offset) const {
    return {.raddr = htobe64(reinterpret_cast<uintptr_t>(data.get()) + kThere + offset),
            .rkey = htobe32(mr->rkey),
            .reserved = 0};
  }
  mlx5_wqe_data_seg here(size_t offset, uint32_t bytes) const {
    return {.byte_count = htobe32(bytes),
            .lkey = htobe32(mr->lkey),
            .addr = htobe64(reinterpret_cast<uintptr_t>(data.get()) + offset)};
  }
  void post_receive(Devx& by, size_t offset, uint32_t bytes) {
    const mlx5_wqe_data_seg entry = here(offset, bytes);
    std::memcpy(queues.get() + by.receives_at() + by.received % 8 * 16, &entry, sizeof entry);
    auto* const record = reinterpret_cast<uint32_t*>(queues.get() + by.record());
    __atomic_store_n(record, htobe32(++by.received & 0xffff), __ATOMIC_RELEASE);
  }
  /// The next completion of the CQ.
  Seen next(Devx& of) {
    const uint8_t* const cqe = queues.get() + of.cq_at() + of.taken % kEntries * 64;
    const uint8_t lap = of.taken / kEntries % 2;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    LastOfCqe last(cqe);
    for (; last.opcode() == 0xf || last.owner() != lap; last = LastOfCqe(cqe)) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "no completion " << of.taken;
        return {};
      }
      std::this_thread::yield();
    }
    ++of.taken;
    return {.opcode = last.opcode(), .syndrome = cqe[55], .counter = last.counter()};
  }
  uint64_t& word(size_t offset) const { return *reinterpret_cast<uint64_t*>(data.get() + offset); }

  /// A queue pair of verbs calls, whose memory is always the host's.
  ibv_qp* make_verbs() {
    verbs_cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    EXPECT_NE(verbs_cq, nullptr);
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = verbs_cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {.max_send_wr = 8,
                .max_recv_wr = 8,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    return ibv_create_qp(pd, &init);
  }
  void connect(ibv_qp* qp, uint32_t peer) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer;
    attr.ah_attr.dlid = lid();
    attr.ah_attr.port_num = 1;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 1;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 16;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }

  const Setting engine{"PEAL_SOFTNIC_ENGINE", "cpu"};
  Pages queues;
  Pages data;
  ibv_mr* mr = nullptr;
  ibv_cq* verbs_cq = nullptr;
  int copies = 0;  // by the driver, before the test
};

TEST_P(GpuQueues, WritesReadsAndAdds) {
  Devx a = make(1);
  connect(a, a.qpn);
  word(kThere + 64) = 40;
  // More than either ring has, so that both wrap.
  for (uint32_t i = 0; i < 3 * kEntries; ++i) {
    word(0) = 1000 + i;
    post(a, MLX5_OPCODE_RDMA_WRITE, there(0), here(0, 8));
    post(a, MLX5_OPCODE_RDMA_READ, there(0), here(128, 8));
    const mlx5_wqe_atomic_seg add = {.swap_add = htobe64(2), .compare = 0};
    post(a, MLX5_OPCODE_ATOMIC_FA, there(64), add, here(256, 8));
    for (uint32_t each = 0; each < 3; ++each) {
      const Seen seen = next(a);
      ASSERT_EQ(seen.opcode, 0) << int{seen.syndrome};
      ASSERT_EQ(seen.counter, 3 * i + each);
    }
    ASSERT_EQ(word(kThere), 1000 + i);
    ASSERT_EQ(word(128), 1000 + i);
    ASSERT_EQ(word(256), 40 + 2 * i);
  }
  EXPECT_EQ(word(kThere + 64), 40 + 6 * kEntries);
  const auto [queues_there, data_there] = GetParam();
  EXPECT_EQ(FakeGpu::get().state.copies > copies, queues_there || data_there);
  EXPECT_EQ(FakeGpu::get().state.mistakes, 0);
}

TEST_P(GpuQueues, QueuesOfCallsAreBesideThem) {
  ibv_qp* const before = make_verbs();
  Devx a = make(1);
  ASSERT_NE(before, nullptr);
  connect(a, before->qp_num);
  connect(before, a.qpn);
  word(0) = 77;
  post_receive(a, 512, 8);
  ibv_sge piece = {reinterpret_cast<uintptr_t>(data.get()), 8, mr->lkey};
  ibv_send_wr send = {};
  send.sg_list = &piece;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(before, &send, &bad), 0);
  EXPECT_EQ(next_of(verbs_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(next(a).opcode, 2);  // responder, SEND
  EXPECT_EQ(word(512), 77u);

  ibv_sge room = {reinterpret_cast<uintptr_t>(data.get()) + 1024, 8, mr->lkey};
  ibv_recv_wr receive = {};
  receive.sg_list = &room;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  ASSERT_EQ(ibv_post_recv(before, &receive, &bad_receive), 0);
  word(8) = 78;
  post(a, MLX5_OPCODE_SEND, here(8, 8));
  EXPECT_EQ(next_of(verbs_cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(next(a).opcode, 0);
  EXPECT_EQ(word(1024), 78u);
}

TEST_P(GpuQueues, AnErrorAndWhatItFlushesAreReported) {
  Devx a = make(1);
  connect(a, a.qpn);
  mlx5_wqe_raddr_seg nowhere = there(0);
  nowhere.rkey ^= 0xff;
  post_receive(a, 512, 8);
  post(a, MLX5_OPCODE_RDMA_WRITE, nowhere, here(0, 8));
  const Seen failed = next(a);
  EXPECT_EQ(failed.opcode, 13);
  EXPECT_EQ(failed.syndrome, 0x13);
  post(a, MLX5_OPCODE_RDMA_WRITE, there(0), here(0, 8));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next(a).syndrome, 5) << "the receive entry and the WRITE";
}

TEST_P(GpuQueues, ACqIsOverrunAndSaysWhatWasConsumed) {
  Devx a = make(1, true);
  connect(a, a.qpn);
  auto* const channel = mlx5dv_devx_create_event_channel(
      context, MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
  ASSERT_NE(channel, nullptr);
  uint16_t overrun = 4;
  ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, a.cq, sizeof overrun, &overrun, 7), 0);
  auto* const consumed = reinterpret_cast<uint32_t*>(queues.get() + a.cq_record());
  for (uint32_t i = 0; i < kEntries; ++i) {
    post(a, MLX5_OPCODE_NOP);
    EXPECT_EQ(next(a).opcode, 0);
  }
  __atomic_store_n(consumed, htobe32(1), __ATOMIC_RELEASE);
  EXPECT_EQ(query(a.cq, 0x402, a.cqn, 272).get(kCqc + 10, 23, 0), 1u);
  post(a, MLX5_OPCODE_NOP);  // there is room for one
  EXPECT_EQ(next(a).opcode, 0);
  post(a, MLX5_OPCODE_NOP);
  pollfd wait = {.fd = channel->fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&wait, 1, 60'000), 1) << "no CQ error";
  mlx5dv_devx_async_event_hdr event = {};
  EXPECT_EQ(mlx5dv_devx_get_event(channel, &event, sizeof event), ssize_t{sizeof event});
  EXPECT_EQ(event.cookie, 7u);
  EXPECT_EQ(query(a.cq, 0x402, a.cqn, 272).get(kCqc + 11, 23, 0), kEntries + 1);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<bool, bool>>& places) {
  const std::string queues = std::get<0>(places.param) ? "Gpu" : "Host";
  const std::string data = std::get<1>(places.param) ? "Gpu" : "Host";
  return queues + "Queues" + data + "Data";
}
INSTANTIATE_TEST_SUITE_P(Places, GpuQueues,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool()), name_of);

class GpuUmem : public SoftnicAbi {
 protected:
  void SetUp() override {
    SoftnicAbi::SetUp();
    gpu = make_pages(4 * kPage, true);
  }
  const Setting engine{"PEAL_SOFTNIC_ENGINE", "cpu"};
  Pages gpu;
};

TEST_F(GpuUmem, EndsWhereTheMemoryDoes) {
  umem = mlx5dv_devx_umem_reg(context, gpu.get(), 4 * kPage, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(umem, nullptr);
  expect_refused(cq_command().set(0x54 / 4, 31, 0, 4 * kPage - 512), 0x03, EINVAL);
  expect_refused(cq_command().set(kCqc + 15, 31, 0, 4 * kPage), 0x03, EINVAL);
  expect_refused(cq_command().set(kCqc + 15, 31, 0, 4), 0x03, EINVAL);
  errno = 0;
  const size_t beyond = size_t{8} << 20;
  EXPECT_EQ(mlx5dv_devx_umem_reg(context, gpu.get(), beyond, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
}

/// Umems in the GPU's memory on a NIC whose engine is to choose itself.
class ChoosesItself : public ::testing::Test {
 protected:
  /// What stderr says while `first` and then two umems of the GPU's are registered.
  template <class First>
  std::string says(const First& first) {
    ibv_context* const context = ibv_open_device(first_device());
    EXPECT_NE(context, nullptr);
    ibv_pd* const pd = ibv_alloc_pd(context);
    testing::internal::CaptureStderr();
    first(context, pd);
    for (int i = 0; i < 2; ++i) {
      EXPECT_NE(mlx5dv_devx_umem_reg(context, gpu.get(), kPage, IBV_ACCESS_LOCAL_WRITE), nullptr);
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(ibv_close_device(context), 0);
    return said;
  }
  void register_host(ibv_pd* pd) { EXPECT_NE(ibv_reg_mr(pd, host.get(), kPage, kRights), nullptr); }
  static void expect_once(const std::string& said, const char* cause, const char* remedy) {
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_NE(said.find(cause), std::string::npos) << said;
    EXPECT_NE(said.find(remedy), std::string::npos) << said;
    EXPECT_NE(said.find("PEAL_SOFTNIC_ENGINE=cpu says that this is meant"), std::string::npos);
  }

  const Setting fabric{"PEAL_SOFTNIC_FABRIC", "chooses-" + std::to_string(getpid())};
  Pages gpu = make_pages(kPage, true);
  Pages host = make_pages(kPage);
};

TEST_F(ChoosesItself, SaysOnceThatHostMemoryCameFirst) {
  const Setting engine{"PEAL_SOFTNIC_ENGINE", "auto"};
  expect_once(says([&](ibv_context*, ibv_pd* pd) { register_host(pd); }),
              "its first memory or queue was the host's", "register the GPU's memory first");
}

TEST_F(ChoosesItself, SaysOnceThatItWasKept) {
  const Setting engine{"PEAL_SOFTNIC_ENGINE", "auto"};
  const auto keep = [](ibv_context* context, ibv_pd*) {
    EXPECT_EQ(peal_softnic_keep_on_cpu(context), 0);
  };
  expect_once(says(keep), "peal_softnic_keep_on_cpu", "leave that out");
}

TEST_F(ChoosesItself, IsSilentWhereTheCpuIsMeant) {
  const Setting engine{"PEAL_SOFTNIC_ENGINE", "cpu"};
  EXPECT_EQ(says([&](ibv_context*, ibv_pd* pd) { register_host(pd); }), "");
}

/// The engine on a GPU, with a thread in place of its kernel.
class EngineOfGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    context = ibv_open_device(first_device());
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    gpu = make_pages(kPage, true);
    host = make_pages(kPage);
    ASSERT_NE(ibv_reg_mr(pd, gpu.get(), kPage, kRights), nullptr);
  }
  void TearDown() override { EXPECT_EQ(ibv_close_device(context), 0); }

  const Setting engine{"PEAL_SOFTNIC_ENGINE", "gpu"};
  const Setting program{"PEAL_SOFTNIC_ENGINE_PROGRAM",
                        built("tests/support/peal_softnic_engine_on_cpu").string()};
  const Setting fabric{"PEAL_SOFTNIC_FABRIC", "refuses-" + std::to_string(getpid())};
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  Pages gpu;
  Pages host;
};

TEST_F(EngineOfGpu, NamesTheOneThatServesBoth) {
  const auto says = [](const auto& call) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(call(), nullptr);
    return testing::internal::GetCapturedStderr();
  };
  const std::string remedy = "PEAL_SOFTNIC_ENGINE=cpu serves both";
  const std::string memory = says([&] { return ibv_reg_mr(pd, host.get(), kPage, kRights); });
  EXPECT_NE(memory.find(remedy), std::string::npos) << memory;
  const std::string umem = says(
      [&] { return mlx5dv_devx_umem_reg(context, host.get(), kPage, IBV_ACCESS_LOCAL_WRITE); });
  EXPECT_NE(umem.find(remedy), std::string::npos) << umem;
  ibv_cq* const cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = init.cap.max_send_sge = 1;
  const std::string queues = says([&] { return ibv_create_qp(pd, &init); });
  EXPECT_NE(queues.find(remedy), std::string::npos) << queues;
}

}  // namespace
}  // namespace peal::softnic::abi_test
