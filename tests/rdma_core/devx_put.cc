// SPDX-License-Identifier: Apache-2.0
//
// A put by hand, knowing rdma-core only: nothing of this tree is included or linked.
//
//   open -> PD, UAR, umem, MR -> CQ and two connected RC queue pairs by DEVX -> one WRITE request
//   -> doorbell record -> doorbell -> CQE -> compare bytes
//
// devx_put [NIC]: without a name the first mlx5 device whose port 1 is active. Runs unchanged on a
// ConnectX (DEVX permitted), by LID on InfiniBand and by RoCE v2 on Ethernet, and on the software
// NIC through LD_LIBRARY_PATH. Prints "ok"; anything else is a failure named on stderr.
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kLogEntries = 4;
constexpr size_t kCqOffset = 0;
constexpr size_t kSqOffset = kPage;  // two send queues, 1 KiB each
constexpr size_t kSqBytes = size_t{64} << kLogEntries;
constexpr size_t kRecords = 2 * kPage;  // doorbell records: CQ, QP 0, QP 1
constexpr size_t kUmemBytes = 3 * kPage;
constexpr size_t kPayload = 1024;

[[noreturn]] void fail(const char* call, const void* out = nullptr) {
  std::fprintf(stderr, "devx_put: %s: %s\n", call, std::strerror(errno));
  if (out != nullptr) {
    uint32_t words[2];
    std::memcpy(words, out, sizeof words);
    std::fprintf(stderr, "  status 0x%x syndrome 0x%x\n", be32toh(words[0]) >> 24,
                 be32toh(words[1]));
  }
  std::exit(1);
}

/// A command mailbox: big-endian dwords; fields by dword, low bit.
template <size_t kBytes>
struct Mailbox {
  std::array<uint32_t, kBytes / 4> dword{};
  void set(size_t index, uint32_t low, uint64_t value) {
    dword[index] = htobe32(be32toh(dword[index]) | static_cast<uint32_t>(value << low));
  }
  uint32_t number() const { return be32toh(dword[2]) & 0xffffff; }
};
using Command = Mailbox<272>;
using Answer = Mailbox<16>;
constexpr size_t kCqc = 0x10 / 4;
constexpr size_t kQpc = 0x18 / 4;

struct Device {
  ibv_context* context = nullptr;
  ibv_port_attr port = {};
  uint8_t gid_index = 0;  // Ethernet
  ibv_gid gid = {};
  ibv_pd* pd = nullptr;
  uint32_t pdn = 0;
  mlx5dv_devx_uar* uar = nullptr;
  mlx5dv_devx_umem* umem = nullptr;
  uint8_t* memory = nullptr;  // the umem
};

/// A device called `name`, or any with an active port.
void open_context(Device& device, const char* name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr || count == 0) fail("ibv_get_device_list: no device");
  for (int i = 0; i < count && device.context == nullptr; ++i) {
    const char* const one = ibv_get_device_name(list[i]);
    if (name != nullptr ? std::strcmp(one, name) != 0 : !mlx5dv_is_supported(list[i])) continue;
    mlx5dv_context_attr attr = {};
    attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
    ibv_context* const context = mlx5dv_open_device(list[i], &attr);
    if (context == nullptr) fail("mlx5dv_open_device");
    if (ibv_query_port(context, 1, &device.port) != 0) fail("ibv_query_port");
    if (device.port.state == IBV_PORT_ACTIVE) {
      std::printf("device %s of %d\n", one, count);
      device.context = context;
    } else {
      std::fprintf(stderr, "devx_put: port 1 of %s is not active (state %d)\n", one,
                   static_cast<int>(device.port.state));
      ibv_close_device(context);
    }
  }
  ibv_free_device_list(list);
  errno = ENODEV;
  if (device.context == nullptr) fail(name != nullptr ? name : "an mlx5 device that is up");
}

/// On Ethernet: the first entry of the GID table that is RoCE v2.
void find_gid(Device& device) {
  for (uint32_t i = 0; i < static_cast<uint32_t>(device.port.gid_tbl_len); ++i) {
    ibv_gid_entry entry = {};
    if (ibv_query_gid_ex(device.context, 1, i, &entry, 0) != 0) continue;
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    device.gid_index = static_cast<uint8_t>(i);
    device.gid = entry.gid;
    return;
  }
  errno = ENODATA;
  fail("a GID of RoCE v2 on port 1");
}

Device open_device(const char* name) {
  Device device;
  open_context(device, name);
  if (device.port.link_layer == IBV_LINK_LAYER_ETHERNET) find_gid(device);
  device.pd = ibv_alloc_pd(device.context);
  if (device.pd == nullptr) fail("ibv_alloc_pd");
  mlx5dv_pd pd_view = {};
  mlx5dv_obj obj = {};
  obj.pd.in = device.pd;
  obj.pd.out = &pd_view;
  if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD) != 0) fail("mlx5dv_init_obj");
  device.pdn = pd_view.pdn;
  device.uar = mlx5dv_devx_alloc_uar(device.context, MLX5DV_UAR_ALLOC_TYPE_BF);
  if (device.uar == nullptr) fail("mlx5dv_devx_alloc_uar");
  device.memory = static_cast<uint8_t*>(std::aligned_alloc(kPage, kUmemBytes));
  std::memset(device.memory, 0, kUmemBytes);
  std::memset(device.memory + kCqOffset, 0xff, size_t{64} << kLogEntries);  // no valid CQE
  device.umem =
      mlx5dv_devx_umem_reg(device.context, device.memory, kUmemBytes, IBV_ACCESS_LOCAL_WRITE);
  if (device.umem == nullptr) fail("mlx5dv_devx_umem_reg");
  return device;
}

mlx5dv_devx_obj* create_cq(const Device& device, uint32_t* cqn) {
  uint32_t eqn = 0;
  if (mlx5dv_devx_query_eqn(device.context, 0, &eqn) != 0) fail("mlx5dv_devx_query_eqn");
  Command in;
  Answer out;
  in.set(0, 16, 0x400);
  in.set(kCqc + 0, 17, 1);  // oi
  in.set(kCqc + 1, 0, device.umem->umem_id);
  in.set(kCqc + 3, 24, kLogEntries);
  in.set(kCqc + 3, 0, device.uar->page_id);
  in.set(kCqc + 5, 0, eqn);
  in.set(kCqc + 15, 0, kRecords);
  in.set(0x54 / 4, 0, kCqOffset);
  in.set(0x58 / 4, 0, device.umem->umem_id);
  auto* cq = mlx5dv_devx_obj_create(device.context, &in, sizeof in, &out, sizeof out);
  if (cq == nullptr) fail("CREATE_CQ", &out);
  *cqn = out.number();
  return cq;
}

mlx5dv_devx_obj* create_qp(const Device& device, uint32_t cqn, uint32_t index, uint32_t* qpn) {
  Command in;
  Answer out;
  in.set(0, 16, 0x500);
  in.set(kQpc + 0, 11, 3);  // path migration: migrated
  in.set(kQpc + 1, 0, device.pdn);
  in.set(kQpc + 2, 11, kLogEntries);
  in.set(kQpc + 3, 0, device.uar->page_id);
  in.set(kQpc + 4, 0, index);  // user index
  in.set(kQpc + 31, 0, cqn);
  in.set(kQpc + 39, 0, cqn);
  in.set(kQpc + 41, 0, kRecords + 64 * (1 + index));
  in.set(kQpc + 43, 24, 3);  // no receive queue
  in.set(kQpc + 57, 0, device.umem->umem_id);
  in.set(0x104 / 4, 0, kSqOffset + index * kSqBytes);
  in.set(0x108 / 4, 0, device.umem->umem_id);
  auto* qp = mlx5dv_devx_obj_create(device.context, &in, sizeof in, &out, sizeof out);
  if (qp == nullptr) fail("CREATE_QP", &out);
  *qpn = out.number();
  return qp;
}

void modify(mlx5dv_devx_obj* qp, const char* name, Command& in, uint32_t opcode, uint32_t qpn) {
  Answer out;
  in.set(0, 16, opcode);
  in.set(2, 0, qpn);
  errno = mlx5dv_devx_obj_modify(qp, &in, sizeof in, &out, sizeof out);
  if (errno != 0) fail(name, &out);
}

/// The way from the port to itself, of INIT2RTR: over Ethernet the kernel knows the next hop.
void set_path(const Device& device, Command& in) {
  in.set(kQpc + 15, 16, 1);  // port
  if (device.port.link_layer != IBV_LINK_LAYER_ETHERNET) {
    in.set(kQpc + 7, 0, device.port.lid);
    return;
  }
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = device.gid;
  attr.grh.sgid_index = device.gid_index;
  attr.grh.hop_limit = 64;
  ibv_ah* const ah = ibv_create_ah(device.pd, &attr);
  if (ah == nullptr) fail("ibv_create_ah");
  mlx5dv_ah view = {};
  mlx5dv_obj obj = {};
  obj.ah.in = ah;
  obj.ah.out = &view;
  if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH) != 0) fail("mlx5dv_init_obj");
  const uint8_t* const mac = view.av->rmac;
  in.set(kQpc + 8, 16, device.gid_index);
  in.set(kQpc + 8, 0, attr.grh.hop_limit);
  for (uint32_t i = 0; i < 16; ++i) {
    in.set(kQpc + 10 + i / 4, 24 - 8 * (i % 4), device.gid.raw[i]);
  }
  in.set(kQpc + 14, 0, 0xc000);  // UDP source port
  in.set(kQpc + 15, 0, uint32_t{mac[0]} << 8 | mac[1]);
  for (uint32_t i = 0; i < 4; ++i) in.set(kQpc + 16, 24 - 8 * i, mac[2 + i]);
  ibv_destroy_ah(ah);
}

/// What waits in the CPU for a write-combining page goes out now.
void flush_doorbell() {
#if defined(__x86_64__)
  asm volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
  asm volatile("dsb st" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

void connect(const Device& device, mlx5dv_devx_obj* qp, uint32_t qpn, uint32_t peer) {
  Command init;
  init.set(kQpc + 0, 11, 3);
  init.set(kQpc + 15, 16, 1);  // port
  init.set(kQpc + 36, 14, 1);  // remote write enabled
  modify(qp, "RST2INIT_QP", init, 0x502, qpn);
  Command ready;
  ready.set(kQpc + 2, 29, device.port.active_mtu);
  ready.set(kQpc + 2, 24, 30);  // log_msg_max
  ready.set(kQpc + 5, 0, peer);
  set_path(device, ready);
  ready.set(kQpc + 37, 24, 12);  // min_rnr_nak
  modify(qp, "INIT2RTR_QP", ready, 0x503, qpn);
  Command send;
  send.set(kQpc + 8, 27, 14);  // ack timeout
  send.set(kQpc + 28, 16, 7);  // retry count
  send.set(kQpc + 28, 13, 7);  // rnr retry
  modify(qp, "RTR2RTS_QP", send, 0x504, qpn);
}

struct Request {
  mlx5_wqe_ctrl_seg control;
  mlx5_wqe_raddr_seg remote;
  mlx5_wqe_data_seg data;
};

void post_write(const Device& device, uint32_t qpn, const ibv_mr* from, const ibv_mr* to) {
  auto* request = reinterpret_cast<Request*>(device.memory + kSqOffset);
  mlx5dv_set_ctrl_seg(&request->control, 0, MLX5_OPCODE_RDMA_WRITE, 0, qpn, MLX5_WQE_CTRL_CQ_UPDATE,
                      sizeof(Request) / 16, 0, 0);
  request->remote.raddr = htobe64(reinterpret_cast<uint64_t>(to->addr));
  request->remote.rkey = htobe32(to->rkey);
  mlx5dv_set_data_seg(&request->data, kPayload, from->lkey,
                      reinterpret_cast<uintptr_t>(from->addr));
  auto* record = reinterpret_cast<uint32_t*>(device.memory + kRecords + 64);
  __atomic_store_n(&record[MLX5_SND_DBR], htobe32(1), __ATOMIC_RELEASE);
  flush_doorbell();  // the record before the doorbell, of whatever kind its page is
  uint64_t doorbell;
  std::memcpy(&doorbell, &request->control, sizeof doorbell);
  __atomic_store_n(static_cast<uint64_t*>(device.uar->reg_addr), doorbell, __ATOMIC_RELEASE);
  flush_doorbell();
}

void wait_completion(const Device& device) {
  auto* cqe = reinterpret_cast<mlx5_cqe64*>(device.memory + kCqOffset);
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  // The last 8 bytes are written at once, op_own in the last of them.
  auto* tail = reinterpret_cast<uint64_t*>(&cqe->sop_drop_qpn);
  for (;;) {
    uint64_t last = be64toh(__atomic_load_n(tail, __ATOMIC_ACQUIRE));
    auto op_own = static_cast<uint8_t>(last);
    if (op_own >> 4 != MLX5_CQE_INVALID && (op_own & MLX5_CQE_OWNER_MASK) == 0) break;
    if (std::chrono::steady_clock::now() > deadline) {
      errno = ETIMEDOUT;
      fail("no completion");
    }
  }
  if (mlx5dv_get_cqe_opcode(cqe) == MLX5_CQE_REQ) return;
  auto* error = reinterpret_cast<mlx5_err_cqe*>(cqe);
  std::fprintf(stderr, "devx_put: completion with error, syndrome 0x%x\n", error->syndrome);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  Device device = open_device(argc > 1 ? argv[1] : nullptr);
  uint32_t cqn = 0;
  uint32_t qpn[2] = {};
  mlx5dv_devx_obj* cq = create_cq(device, &cqn);
  mlx5dv_devx_obj* qp[2] = {create_qp(device, cqn, 0, &qpn[0]), create_qp(device, cqn, 1, &qpn[1])};
  connect(device, qp[0], qpn[0], qpn[1]);
  connect(device, qp[1], qpn[1], qpn[0]);

  auto* data = static_cast<uint8_t*>(std::aligned_alloc(kPage, 2 * kPage));
  for (size_t i = 0; i < 2 * kPage; ++i) data[i] = i < kPage ? static_cast<uint8_t>(i * 7) : 0;
  ibv_mr* source = ibv_reg_mr(device.pd, data, kPage, IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* target =
      ibv_reg_mr(device.pd, data + kPage, kPage, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (source == nullptr || target == nullptr) fail("ibv_reg_mr");
  post_write(device, qpn[0], source, target);
  wait_completion(device);
  bool same = std::memcmp(data, data + kPage, kPayload) == 0 && data[kPage + kPayload] == 0;

  int left = ibv_dereg_mr(source) | ibv_dereg_mr(target);
  for (mlx5dv_devx_obj* each : {qp[0], qp[1], cq}) left |= mlx5dv_devx_obj_destroy(each);
  left |= mlx5dv_devx_umem_dereg(device.umem);
  mlx5dv_devx_free_uar(device.uar);
  left |= ibv_dealloc_pd(device.pd) | ibv_close_device(device.context);
  std::free(data);
  std::free(device.memory);
  if (left != 0) fail("clean-up");
  if (!same) {
    std::fprintf(stderr, "devx_put: bytes differ\n");
    return 1;
  }
  std::puts("ok");
  return 0;
}
