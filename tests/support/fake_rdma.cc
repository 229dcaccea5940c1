// SPDX-License-Identifier: Apache-2.0
//
// The fake's functions: each counts what it hands out in FakeRdma::live.
#include "tests/support/fake_rdma.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>

#include <cerrno>
#include <cstring>
#include <memory>

#undef ibv_get_device_list
#undef ibv_query_port

namespace {

FakeRdma state;

struct FakeDevice {
  ibv_device device;  // first: the library hands out its address
  bool mlx5;
};
std::vector<FakeDevice> devices;
std::vector<ibv_device*> device_list;

template <class T>
T* make() {
  ++state.live;
  return std::make_unique<T>().release();  // handed out through a C interface
}

template <class T>
int release(T* object) {
  --state.live;
  const std::unique_ptr<T> owner(object);
  return 0;
}

template <class T>
T* refuse(int error) {
  errno = error;
  return static_cast<T*>(nullptr);
}

/// Remembers the mailbox; answers what the test ordered: 0, or an errno.
int run(const void* in, size_t in_bytes, void* out, size_t out_bytes) {
  std::vector<uint32_t> words(in_bytes / 4);
  std::memcpy(words.data(), in, in_bytes);
  for (uint32_t& word : words) word = ntohl(word);
  state.commands.push_back(words);
  std::memset(out, 0, out_bytes);
  auto* const answer = static_cast<uint32_t*>(out);
  const uint32_t opcode = words[0] >> 16;
  if (state.refuse_command == opcode) {
    answer[0] = htonl(uint32_t{state.refuse_status} << 24);
    answer[1] = htonl(state.refuse_syndrome);
    return state.refuse_errno;
  }
  if (opcode == 0x100) {
    const uint32_t type = words[1] >> 1;
    const auto& page = type == 3   ? state.atomic_capabilities
                       : type == 4 ? state.roce_capabilities
                                   : state.general_capabilities;
    for (size_t i = 0; i < page.size(); ++i) answer[4 + i] = htonl(page[i]);
  }
  if (opcode == 0x50b) answer[6] = htonl(uint32_t{state.qp_state} << 28);
  if (opcode == 0x842) answer[2] = htonl(state.lag_state);
  if (opcode == 0x400) answer[2] = htonl(0xabc);
  if (opcode == 0x500) answer[2] = htonl(0x4d5e6f);
  return 0;
}

ibv_mr* make_region(size_t bytes, uint64_t iova, unsigned int access) {
  state.mr_iova = iova;
  state.mr_access = access;
  ibv_mr* const mr = make<ibv_mr>();
  mr->length = bytes;
  mr->lkey = mr->rkey = 0x01020304;
  return mr;
}

mlx5dv_devx_umem* make_umem() {
  mlx5dv_devx_umem* const umem = make<mlx5dv_devx_umem>();
  umem->umem_id = 0x11;
  return umem;
}

void see_dmabuf(int fd) {
  state.dmabuf_fd = fd;
  state.dmabuf_open = ::fcntl(fd, F_GETFD) >= 0;
}

int post_send(ibv_qp*, ibv_send_wr* wr, ibv_send_wr** bad) {
  for (; wr != nullptr; wr = wr->next) {
    if (state.posted.size() == state.room) {
      *bad = wr;
      return state.refuse_post;
    }
    state.posted.push_back(*wr);
    state.gathered.push_back(wr->num_sge == 0 ? ibv_sge{} : *wr->sg_list);
  }
  return 0;
}

int poll_cq(ibv_cq*, int count, ibv_wc* wc) {
  int taken = 0;
  for (; taken < count && !state.completions.empty(); ++taken) {
    wc[taken] = state.completions.front();
    state.completions.erase(state.completions.begin());
  }
  return taken;
}

}  // namespace

struct mlx5dv_devx_obj {
  int unused;
};

extern "C" {

FakeRdma* fake_rdma() { return &state; }

ibv_device** ibv_get_device_list(int* count) {
  if (state.refuse_list) return refuse<ibv_device*>(ENOSYS);
  devices.clear();
  const auto add = [](const std::string& name, bool mlx5) {
    FakeDevice device{{}, mlx5};
    std::strncpy(device.device.name, name.c_str(), sizeof device.device.name - 1);
    devices.push_back(device);
  };
  for (const std::string& name : state.foreign) add(name, false);
  for (const std::string& name : state.devices) add(name, true);
  device_list.clear();
  for (FakeDevice& device : devices) device_list.push_back(&device.device);
  device_list.push_back(nullptr);
  *count = static_cast<int>(devices.size());
  ++state.live;
  return device_list.data();
}

void ibv_free_device_list(ibv_device**) { --state.live; }
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
bool mlx5dv_is_supported(ibv_device* device) { return reinterpret_cast<FakeDevice*>(device)->mlx5; }

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attributes) {
  if (state.refuse_open) return refuse<ibv_context>(EACCES);
  if (state.refuse_devx != 0 && (attributes->flags & MLX5DV_CONTEXT_FLAGS_DEVX) != 0) {
    return refuse<ibv_context>(state.refuse_devx);
  }
  state.opened = device->name;
  state.open_flags = attributes->flags;
  return make<ibv_context>();
}
ibv_context* ibv_open_device(ibv_device* device) {
  if (state.refuse_open) return refuse<ibv_context>(EACCES);
  state.opened = device->name;
  auto* const context = make<ibv_context>();
  context->ops.post_send = post_send;
  context->ops.poll_cq = poll_cq;
  return context;
}
int ibv_close_device(ibv_context* context) { return release(context); }

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void*, ibv_comp_channel*, int) {
  auto* const cq = make<ibv_cq>();
  cq->context = context;
  cq->cqe = entries;
  return cq;
}
int ibv_destroy_cq(ibv_cq* cq) { return release(cq); }

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  state.created = *init;
  auto* const qp = make<ibv_qp>();
  qp->context = init->send_cq->context;
  qp->pd = pd;
  qp->qp_num = 0x123456;
  return qp;
}
int ibv_destroy_qp(ibv_qp* qp) { return release(qp); }
int ibv_modify_qp(ibv_qp*, ibv_qp_attr* attributes, int mask) {
  state.transitions.emplace_back(*attributes, mask);
  if ((mask & IBV_QP_AV) != 0 && state.late_ahs-- > 0) return ETIMEDOUT;
  return state.refuse_modify;
}
int ibv_query_qp(ibv_qp*, ibv_qp_attr* attributes, int, ibv_qp_init_attr*) {
  attributes->qp_state = static_cast<ibv_qp_state>(state.qp_state);
  return 0;
}

int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  attributes->atomic_cap = state.atomics;
  attributes->max_qp_wr = state.most_requests;
  attributes->max_cqe = 1 << 20;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 16;
  std::strncpy(attributes->fw_ver, state.firmware.c_str(), sizeof attributes->fw_ver - 1);
  attributes->phys_port_cnt = state.ports;
  return 0;
}

int ibv_query_port(ibv_context*, uint8_t number, _compat_ibv_port_attr* attributes) {
  auto* const port = reinterpret_cast<ibv_port_attr*>(attributes);
  const bool dead = (state.dead_ports >> number & 1) != 0;
  port->state = dead ? IBV_PORT_DOWN : static_cast<ibv_port_state>(state.port_state);
  port->gid_tbl_len = static_cast<int>(state.gids.size());
  port->pkey_tbl_len = static_cast<uint16_t>(state.pkeys.size());
  port->flags = state.port_flags;
  port->link_layer = static_cast<uint8_t>(state.link_layer);
  port->lid = state.lid;
  port->active_mtu = static_cast<ibv_mtu>(state.mtu);
  return 0;
}

int ibv_query_gid(ibv_context*, uint8_t, int index, ibv_gid* gid) {
  const std::string& text = state.gids.at(static_cast<size_t>(index)).text;
  *gid = {};
  if (!text.empty()) ::inet_pton(AF_INET6, text.c_str(), gid->raw);
  errno = state.refuse_gid;
  return state.refuse_gid != 0 ? -1 : 0;
}

int ibv_query_pkey(ibv_context*, uint8_t, int index, __be16* pkey) {
  *pkey = htons(state.pkeys.at(static_cast<size_t>(index)));
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                      uint32_t, size_t) {
  if (state.refuse_gid != 0) return state.refuse_gid;
  if (state.gids.at(index).text.empty()) return ENODATA;
  ibv_query_gid(context, static_cast<uint8_t>(port), static_cast<int>(index), &entry->gid);
  entry->gid_index = index;
  entry->gid_type = state.gids[index].type;
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context*) {
  return state.refuse_pd ? refuse<ibv_pd>(ENOMEM) : make<ibv_pd>();
}
int ibv_dealloc_pd(ibv_pd* pd) { return release(pd); }
int mlx5dv_init_obj(mlx5dv_obj* object, uint64_t type) {
  static mlx5_wqe_av vector;
  if (type == MLX5DV_OBJ_PD) object->pd.out->pdn = 0x77;
  if (type == MLX5DV_OBJ_AH) {
    std::memcpy(vector.rmac, state.next_hop, sizeof vector.rmac);
    object->ah.out->av = &vector;
  }
  return 0;
}

ibv_ah* ibv_create_ah(ibv_pd*, ibv_ah_attr* attributes) {
  state.ah = *attributes;
  if (state.late_ahs-- > 0) return refuse<ibv_ah>(ETIMEDOUT);
  return state.refuse_ah != 0 ? refuse<ibv_ah>(state.refuse_ah) : make<ibv_ah>();
}
int ibv_destroy_ah(ibv_ah* ah) { return release(ah); }

ibv_mr* ibv_reg_mr_iova2(ibv_pd*, void*, size_t bytes, uint64_t iova, unsigned int access) {
  if (state.refuse_mr) return refuse<ibv_mr>(ENOMEM);
  return make_region(bytes, iova, access);
}
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t offset, size_t bytes, uint64_t iova, int fd,
                          int access) {
  see_dmabuf(fd);
  state.mr_offset = offset;
  if (state.refuse_dmabuf_mr != 0) return refuse<ibv_mr>(state.refuse_dmabuf_mr);
  return make_region(bytes, iova, static_cast<unsigned int>(access));
}
int ibv_dereg_mr(ibv_mr* mr) { return release(mr); }

mlx5dv_devx_umem* mlx5dv_devx_umem_reg_ex(ibv_context*, mlx5dv_devx_umem_in* in) {
  state.umem_address = reinterpret_cast<uint64_t>(in->addr);
  state.umem_pages = in->pgsz_bitmap;
  state.umem_access = in->access;
  if (in->comp_mask == 0) {
    return state.refuse_umem ? refuse<mlx5dv_devx_umem>(ENOMEM) : make_umem();
  }
  see_dmabuf(in->dmabuf_fd);
  return state.refuse_dmabuf_umem != 0 ? refuse<mlx5dv_devx_umem>(state.refuse_dmabuf_umem)
                                       : make_umem();
}
int mlx5dv_devx_umem_dereg(mlx5dv_devx_umem* umem) { return release(umem); }

mlx5dv_devx_uar* mlx5dv_devx_alloc_uar(ibv_context*, uint32_t flags) {
  const uint32_t kind = flags == 1u << 31 ? 0 : flags == 1 ? 1 : 2;
  if (state.refuse_uar >> kind & 1) return refuse<mlx5dv_devx_uar>(EOPNOTSUPP);
  state.uar_flags = flags;
  mlx5dv_devx_uar* const uar = make<mlx5dv_devx_uar>();
  uar->page_id = 0x22;
  alignas(4096) static std::byte page[4096];
  if (state.uar_page == nullptr) state.uar_page = page;
  uar->base_addr = state.uar_page;
  uar->reg_addr = static_cast<std::byte*>(state.uar_page) + 0x800;
  return uar;
}
void mlx5dv_devx_free_uar(mlx5dv_devx_uar* uar) { release(uar); }

int mlx5dv_devx_query_eqn(ibv_context*, uint32_t, uint32_t* eqn) {
  *eqn = 3;
  errno = EIO;
  return state.refuse_eqn ? EIO : 0;
}

int mlx5dv_devx_general_cmd(ibv_context*, const void* in, size_t in_bytes, void* out,
                            size_t out_bytes) {
  errno = run(in, in_bytes, out, out_bytes);
  return errno;
}
mlx5dv_devx_obj* mlx5dv_devx_obj_create(ibv_context*, const void* in, size_t in_bytes, void* out,
                                        size_t out_bytes) {
  if (const int error = run(in, in_bytes, out, out_bytes)) return refuse<mlx5dv_devx_obj>(error);
  return make<mlx5dv_devx_obj>();
}
int mlx5dv_devx_obj_modify(mlx5dv_devx_obj*, const void* in, size_t in_bytes, void* out,
                           size_t out_bytes) {
  return run(in, in_bytes, out, out_bytes);
}
int mlx5dv_devx_obj_query(mlx5dv_devx_obj*, const void* in, size_t in_bytes, void* out,
                          size_t out_bytes) {
  return run(in, in_bytes, out, out_bytes);
}
/// The queue pair is one that Linux made: the set that counts.
int mlx5dv_devx_qp_query(ibv_qp*, const void*, size_t, void* out, size_t out_bytes) {
  std::memset(out, 0, out_bytes);
  static_cast<uint32_t*>(out)[9] = htonl(uint32_t{state.counter_set} << 24);
  return 0;
}
int mlx5dv_devx_obj_destroy(mlx5dv_devx_obj* object) { return release(object); }

}  // extern "C"
