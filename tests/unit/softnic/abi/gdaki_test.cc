// SPDX-License-Identifier: Apache-2.0
//
// The calls of NCCL 2.32.3's GIN, GDAKI backend, in its order (read in DOCA GPUNetIO's sources,
// NVIDIA-DOCA/gpunetio, and in libnccl): umems of pages, by dma-buf first and then by peermem; CQs
// on a shared UAR page that tell an event channel of errors; two queue pairs on one UAR page of
// their own, one of which waits for the other's CQ; a second one of this process at either's end.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "tests/unit/softnic/abi/support.h"

namespace peal::softnic::abi_test {
namespace {

constexpr uint32_t kDedicatedUar = 1u << 31;
constexpr uint32_t kDepth = 128;  // NCCL_GIN_GDAKI_QP_DEPTH
constexpr size_t kSlice = kDepth * 64;

class Gdaki : public SoftnicAbi {
 protected:
  void SetUp() override {
    SoftnicAbi::SetUp();
    channel = mlx5dv_devx_create_event_channel(context,
                                               MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
    ASSERT_NE(channel, nullptr);
    ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
    rings = make_slab(kMost * kSlice);
    ring_records = make_slab(kMost * kPage);
    cqes = make_slab(kMost * kSlice);
    cq_records = make_slab(kMost * kPage);
    std::memset(cqes.memory.get(), 0xf1, kMost * kSlice);
    shared = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC);
    own = mlx5dv_devx_alloc_uar(context, kDedicatedUar);
    ASSERT_NE(own, nullptr);
    data = make_pages(kPage, true);
    EXPECT_EQ(ibv_reg_dmabuf_mr(pd, 0, kPage, 0, no_dmabuf, kRights), nullptr);
    mr = ibv_reg_mr_iova2(pd, data.get(), kPage, 0, kRights | IBV_ACCESS_RELAXED_ORDERING);
    ASSERT_NE(mr, nullptr);
  }
  void TearDown() override {
    SoftnicAbi::TearDown();
    close(no_dmabuf);
  }

  static constexpr uint64_t kMost = 4;
  static constexpr unsigned kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  struct Slab {
    Pages memory;
    mlx5dv_devx_umem* umem = nullptr;
  };
  struct End {
    uint64_t number = 0;
    mlx5dv_devx_obj* cq = nullptr;
    mlx5dv_devx_obj* qp = nullptr;
    uint32_t cqn = 0;
    uint32_t qpn = 0;
    uint32_t posted = 0;
  };

  Slab make_slab(size_t bytes) {
    Slab slab = {.memory = make_pages(bytes, true)};
    mlx5dv_devx_umem_in in = {};
    in.size = bytes;
    in.access = IBV_ACCESS_LOCAL_WRITE;
    in.pgsz_bitmap = kPage;
    in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
    in.dmabuf_fd = no_dmabuf;
    EXPECT_EQ(mlx5dv_devx_umem_reg_ex(context, &in), nullptr) << "peermem is next";
    in.comp_mask = 0;
    in.dmabuf_fd = 0;
    in.addr = slab.memory.get();
    slab.umem = mlx5dv_devx_umem_reg_ex(context, &in);
    EXPECT_NE(slab.umem, nullptr) << std::strerror(errno);
    return slab;
  }
  End make(uint64_t number, bool waits) {
    End made = {.number = number};
    Mailbox in(272, 0x400);
    in.set(kCqc + 0, 17, 17, 1).set(kCqc + 0, 25, 25, 1);
    in.set(kCqc + 1, 31, 0, cq_records.umem->umem_id).set(kCqc + 3, 28, 24, 7);
    in.set(kCqc + 3, 23, 0, shared->page_id).set(kCqc + 5, 7, 0, eqn);
    in.set(kCqc + 15, 31, 0, static_cast<uint32_t>(number * kPage));
    in.set(0x54 / 4, 31, 0, static_cast<uint32_t>(number * kSlice));
    in.set(0x58 / 4, 31, 0, cqes.umem->umem_id).set(0x5c / 4, 31, 31, 1);
    made.cq = create(in);
    EXPECT_NE(made.cq, nullptr) << std::hex << out.syndrome();
    made.cqn = out.number();
    uint16_t completion = 0;
    EXPECT_EQ(mlx5dv_devx_subscribe_devx_event(channel, made.cq, sizeof completion, &completion,
                                               number + 1),
              0);
    in = Mailbox(272, 0x500);
    in.set(kQpc + 1, 23, 0, pdn_of(pd)).set(kQpc + 2, 14, 11, 7);
    in.set(kQpc + 3, 23, 0, own->page_id).set(kQpc + 31, 23, 0, made.cqn);
    in.set(kQpc + 43, 26, 24, 3).set(kQpc + 57, 31, 0, ring_records.umem->umem_id);
    in.set(kQpc + 41, 31, 0, static_cast<uint32_t>(number * kPage));
    in.set(kQpc + 37, 31, 0, waits ? 1 : 0);  // cd_master, as DEVX_SET64 writes it
    in.set(0x104 / 4, 31, 0, static_cast<uint32_t>(number * kSlice));
    in.set(0x108 / 4, 31, 0, rings.umem->umem_id);
    made.qp = create(in);
    EXPECT_NE(made.qp, nullptr) << std::hex << out.syndrome();
    made.qpn = out.number();
    EXPECT_EQ(query(made.qp, 0x50b, made.qpn, 272).get(kQpc + 2, 31, 29), 1u) << "a legal MTU";
    arm(made);
    return made;
  }
  /// For errors alone: the solicited bit, sequence 0, nothing consumed.
  void arm(const End& of) {
    auto* const record =
        reinterpret_cast<uint32_t*>(cq_records.memory.get() + of.number * kPage) + 1;
    __atomic_store_n(record, htobe32(1u << 24), __ATOMIC_RELEASE);
    auto* const reg = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(shared->base_addr) + 0x20);
    __atomic_store_n(reg, htobe64(uint64_t{1} << 56 | of.cqn), __ATOMIC_RELEASE);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (__atomic_load_n(reg, __ATOMIC_ACQUIRE) != 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
  }
  void connect(const End& from, const End& to) {
    Mailbox init = to_init(from.qpn).set(kQpc + 0, 12, 11, 3).set(kQpc + 36, 19, 16, 1);
    EXPECT_EQ(modify(from.qp, init), 0) << std::hex << out.syndrome();
    Mailbox rtr = to_rtr(from.qpn, to.qpn).set(kQpc + 36, 15, 13, 7).set(kQpc + 36, 19, 16, 1);
    EXPECT_EQ(modify(from.qp, rtr), 0) << std::hex << out.syndrome();
    EXPECT_EQ(modify(from.qp, to_rts(from.qpn).set(kQpc + 36, 15, 13, 7)), 0);
  }

  template <class... Segment>
  void write(End& by, uint8_t opcode, const Segment&... segments) {
    uint8_t* const wqe = rings.memory.get() + by.number * kSlice + by.posted % kDepth * 64;
    constexpr auto kUnits = static_cast<uint8_t>(1 + sizeof...(Segment));
    mlx5dv_set_ctrl_seg(reinterpret_cast<mlx5_wqe_ctrl_seg*>(wqe), static_cast<uint16_t>(by.posted),
                        opcode, 0, by.qpn, MLX5_WQE_CTRL_CQ_UPDATE, kUnits, 0, 0);
    size_t at = 16;
    ((std::memcpy(wqe + at, &segments, 16), at += 16), ...);
    ++by.posted;
  }
  /// The register, the record, and the register once more.
  void submit(const End& by) {
    auto* const record =
        reinterpret_cast<uint32_t*>(ring_records.memory.get() + by.number * kPage) + 1;
    const uint64_t value = uint64_t{htobe32(by.qpn << 8)} << 32 | htobe32(by.posted << 8);
    auto* const reg = static_cast<uint64_t*>(own->reg_addr);
    __atomic_store_n(reg, value, __ATOMIC_RELEASE);
    __atomic_store_n(record, htobe32(by.posted & 0xffff), __ATOMIC_RELEASE);
    __atomic_store_n(reg, value, __ATOMIC_RELEASE);
  }
  /// By the owner bit alone, as kernels of compute capability 9.0 look.
  uint8_t await(const End& of, uint32_t index) {
    const uint8_t* const cqe = cqes.memory.get() + of.number * kSlice + index % kDepth * 64;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    LastOfCqe last(cqe);
    for (; last.owner() != index / kDepth % 2; last = LastOfCqe(cqe)) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "no completion " << index;
        return 0xff;
      }
      std::this_thread::yield();
    }
    return last.opcode();
  }
  mlx5_wqe_raddr_seg there(uint64_t offset) const {
    return {.raddr = htobe64(offset), .rkey = htobe32(mr->rkey), .reserved = 0};
  }
  mlx5_wqe_data_seg here(uint64_t offset) const {
    return {.byte_count = htobe32(8), .lkey = htobe32(mr->lkey), .addr = htobe64(offset)};
  }
  uint64_t& word(uint64_t offset) const {
    return *reinterpret_cast<uint64_t*>(data.get() + offset);
  }
  /// The cookie of the event that waits; 0 for none.
  uint64_t event() {
    mlx5dv_devx_async_event_hdr seen = {};
    return mlx5dv_devx_get_event(channel, &seen, sizeof seen) < 0 ? 0 : seen.cookie;
  }

  const Setting engine{"PEAL_SOFTNIC_ENGINE", "cpu"};
  const int no_dmabuf = open("/dev/null", O_RDONLY | O_CLOEXEC);
  mlx5dv_devx_event_channel* channel = nullptr;
  mlx5dv_devx_uar* shared = nullptr;  // of CQs
  mlx5dv_devx_uar* own = nullptr;     // of both queue pairs
  Slab rings, ring_records, cqes, cq_records;
  Pages data;
  ibv_mr* mr = nullptr;
};

TEST_F(Gdaki, PutsSignalsAndCounts) {
  End main = make(0, false);
  End companion = make(1, true);
  End main_peer = make(2, false);
  End companion_peer = make(3, false);
  connect(main, main_peer);
  connect(main_peer, main);
  connect(companion, companion_peer);
  connect(companion_peer, companion);
  constexpr uint64_t kTo = 1024, kSignal = 2048, kCounter = 2056, kSink = 3072;
  for (uint64_t round = 0; round < kDepth; ++round) {
    word(0) = round + 7;
    const mlx5_wqe_atomic_seg one = {.swap_add = htobe64(1), .compare = 0};
    write(main, MLX5_OPCODE_RDMA_WRITE, there(kTo), here(0));
    write(main, MLX5_OPCODE_ATOMIC_FA, there(kSignal), one, here(kSink));
    struct {
      uint32_t reserved[2], index, cqn;
    } const wait = {{0, 0}, htobe32(main.posted - 1), htobe32(main.cqn)};
    write(companion, 0x0f, wait);  // WAIT, for the last of the main queue
    write(companion, MLX5_OPCODE_ATOMIC_FA, there(kCounter), one, here(kSink));
    submit(main);
    submit(companion);
    ASSERT_EQ(await(companion, companion.posted - 1), 0);
    ASSERT_EQ(await(main, main.posted - 1), 0);
    ASSERT_EQ(word(kTo), round + 7);
    ASSERT_EQ(word(kSignal), round + 1);
    ASSERT_EQ(word(kCounter), round + 1);
  }
  EXPECT_EQ(event(), 0u) << "nothing was solicited";

  mlx5_wqe_raddr_seg nowhere = there(0);
  nowhere.rkey ^= 0xff;
  write(main, MLX5_OPCODE_RDMA_WRITE, nowhere, here(0));
  submit(main);
  EXPECT_EQ(await(main, main.posted - 1), 13);
  pollfd wait = {.fd = channel->fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wait, 1, 60'000), 1);
  EXPECT_EQ(event(), main.number + 1);
  EXPECT_EQ(query(main.qp, 0x50b, main.qpn, 272).get(kQpc, 31, 28), 6u);

  // As it takes down: the channel first, though CQs still tell it.
  mlx5dv_devx_destroy_event_channel(channel);
  for (const End* end : {&main, &companion, &main_peer, &companion_peer}) {
    EXPECT_EQ(mlx5dv_devx_obj_destroy(end->qp), 0);
    EXPECT_EQ(mlx5dv_devx_obj_destroy(end->cq), 0);
  }
  for (const Slab* slab : {&rings, &ring_records, &cqes, &cq_records}) {
    EXPECT_EQ(mlx5dv_devx_umem_dereg(slab->umem), 0);
  }
  mlx5dv_devx_free_uar(own);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

}  // namespace
}  // namespace peal::softnic::abi_test
