// SPDX-License-Identifier: Apache-2.0
//
// Protection domains, registrations, umems and UAR pages.
//
// An engine on the CPU reads and writes memory with CPU instructions, and has a GPU's memory
// copied; what neither reaches is refused the way a kernel refuses memory it cannot pin:
// EFAULT. An engine on a GPU takes a GPU's memory and no other.
#include "softnic/abi/core/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>

#include "base/vm_areas.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace peal::softnic::abi {
namespace {

constexpr uintptr_t kPageBytes = 4096;
constexpr unsigned kOptionalAccess = 0x3ff00000;  // bits 20..29: unknown ones are ignored
constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;
constexpr unsigned kNicAccess =
    kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kRelaxedOrdering;

void check_range(const void* address, size_t bytes) {
  if (bytes == 0) refuse(EINVAL);
  if (reinterpret_cast<uintptr_t>(address) + bytes < bytes) refuse(EINVAL);
}

void check_access(unsigned access) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) refuse(EOPNOTSUPP);
  if ((access & ~(kKnownAccess | kOptionalAccess)) != 0) refuse(EINVAL);
  constexpr unsigned kRemoteChange = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & kRemoteChange) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) refuse(EINVAL);
}

/// What the memory of a key must be.
void check_place(SoftwareNic& nic, const Key& key) {
  check_range(key.memory, key.bytes);
  // Pages are translated whole: the kernel refuses an iova with another offset in its page.
  if ((reinterpret_cast<uintptr_t>(key.memory) ^ key.iova) % kPageBytes != 0) refuse(EINVAL);
  if (key.iova + key.bytes < key.iova) refuse(EINVAL);
  require_reachable(nic, key.memory, key.bytes, (key.access & kLocalWrite) != 0);
}

ibv_mr* register_memory(ibv_pd* pd, void* address, size_t bytes, uint64_t iova, unsigned access) {
  VerbsContext& context = VerbsContext::of(pd->context);
  check_access(access);
  const bool relaxed = (access & IBV_ACCESS_RELAXED_ORDERING) != 0;
  if (context.nic().device().relaxed_only && !relaxed) refuse(EINVAL);
  const Key key = {.access = nic_access(context.nic(), access),
                   .iova = iova,
                   .bytes = bytes,
                   .memory = static_cast<std::byte*>(address)};
  check_place(context.nic(), key);
  auto region = make_region(pd, key);
  region->addr = address;
  return context.adopt(std::move(region));
}

/// What a region becomes; what `flags` does not name stays.
struct Change {
  int flags;
  ibv_pd* pd;
  void* address;
  size_t bytes;
  unsigned access;
};

void check_change(const MrObject& region, const Change& to) {
  if (region.addr == nullptr) refuse(EINVAL);  // of device memory
  if ((to.flags & ~int{IBV_REREG_MR_FLAGS_SUPPORTED}) != 0) refuse(EINVAL);
  if (to.access != 0 && (to.flags & IBV_REREG_MR_CHANGE_ACCESS) == 0) refuse(EINVAL);
  if ((to.flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (to.address == nullptr || to.bytes == 0))
    refuse(EINVAL);
  if ((to.flags & IBV_REREG_MR_CHANGE_PD) != 0 &&
      (to.pd == nullptr || to.pd->context != region.context))
    refuse(EINVAL);
  if (region.nic().on_gpu()) refuse(EOPNOTSUPP);
}

/// The key keeps its number, as where a ConnectX changes it in place.
void change_region(MrObject& region, const Change& to) {
  check_change(region, to);
  Key config = region.config;
  if ((to.flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    config.memory = static_cast<std::byte*>(to.address);
    config.iova = reinterpret_cast<uintptr_t>(to.address);
    config.bytes = to.bytes;
  }
  if ((to.flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    check_access(to.access);
    config.access = nic_access(region.nic(), to.access);
  }
  check_place(region.nic(), config);
  const bool moves = (to.flags & IBV_REREG_MR_CHANGE_PD) != 0;
  if (moves) config.pd = static_cast<Pd*>(to.pd)->pdn;
  require(region.nic().change_memory(region.number, config));
  if (moves) {
    region.use_instead(*static_cast<Pd*>(region.pd), *static_cast<Pd*>(to.pd));
    region.pd = to.pd;
  }
  region.config = config;
  region.addr = config.memory;
  region.length = config.bytes;
}

/// A dma-buf names memory that only its exporter can reach: never registrable here. EBADF for no
/// descriptor at all is how clients learn that the kernel knows the call.
[[noreturn]] void refuse_dmabuf(const SoftwareNic& nic, int fd) {
  const bool known = nic.device().dma_buf != DmaBufSupport::kNone;
  refuse(known && fcntl(fd, F_GETFD) < 0 ? EBADF : EOPNOTSUPP);
}

/// The page by which the NIC is told of a umem, as Linux chooses it (devx.c): the largest allowed
/// one that is no larger than the umem takes, halved until address and length are multiples of it.
/// Memory counts as contiguous as far as its address is aligned: what huge pages make it.
uint64_t umem_page(const mlx5dv_devx_umem_in& in) {
  const int order = std::clamp(static_cast<int>(std::bit_width(in.size - 1)), 12, 63);
  const uint64_t allowed =
      in.pgsz_bitmap & (~uint64_t{0} >> (63 - order)) & ~uint64_t{kPageBytes - 1};
  if (allowed == 0) refuse(EINVAL);
  uint64_t page = std::bit_floor(allowed);
  const uint64_t ends = reinterpret_cast<uintptr_t>(in.addr) | in.size;
  while (page > kPageBytes && ends % page != 0) page /= 2;
  return page;
}

/// The kernel's rules for a GPU's memory that differ from those of memory regions.
void check_gpu_umem(const SoftwareNic& nic, const mlx5dv_devx_umem_in& in) {
  const PresentedDevice& device = nic.device();
  if ((in.comp_mask & MLX5DV_UMEM_MASK_DMABUF) != 0) {
    // libmlx5 itself refuses -1; a kernel that does not know the attribute says so of any other.
    if (in.dmabuf_fd == -1) refuse(EBADF);
    if (device.dma_buf != DmaBufSupport::kAll) refuse(EPROTONOSUPPORT);
    refuse_dmabuf(nic, in.dmabuf_fd);
  }
  if (device.refuses_any(kRefuseUmemPeermem) && nic.is_gpu_memory(in.addr)) refuse(EFAULT);
}

mlx5dv_devx_umem* register_umem(ibv_context* handle, const mlx5dv_devx_umem_in& in) {
  VerbsContext& context = VerbsContext::of(handle);
  require_devx(context);
  if ((in.comp_mask & ~uint64_t{MLX5DV_UMEM_MASK_DMABUF}) != 0) refuse(EOPNOTSUPP);
  check_gpu_umem(context.nic(), in);
  constexpr unsigned kUmemAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if ((in.access & ~(kUmemAccess | unsigned{IBV_ACCESS_RELAXED_ORDERING})) != 0) refuse(EINVAL);
  check_range(in.addr, in.size);
  auto umem = std::make_unique<Umem>(context);
  umem->on_gpu =
      require_reachable(context.nic(), in.addr, in.size, (in.access & IBV_ACCESS_LOCAL_WRITE) != 0);
  if (umem->on_gpu) context.nic().tell_of_copied_queues();
  umem->memory = context.nic().as_engine_has(static_cast<std::byte*>(in.addr));
  umem->bytes = in.size;
  umem->page = umem_page(in);
  umem->number = umem->umem_id = context.next_number();
  return context.adopt(std::move(umem));
}

}  // namespace

uint32_t nic_access(const SoftwareNic& nic, unsigned access) {
  if (nic.device().refuses_any(kRefuseRelaxedOrdering)) access &= ~kRelaxedOrdering;
  return access & kNicAccess;
}

std::unique_ptr<MrObject> make_region(ibv_pd* pd, Key key) {
  auto& domain = *static_cast<Pd*>(pd);
  VerbsContext& context = VerbsContext::of(pd->context);
  key.pd = domain.pdn;
  auto region = std::make_unique<MrObject>(context);
  region->number = require(context.nic().register_memory(key));
  region->config = key;
  region->use(domain);
  region->context = pd->context;
  region->pd = pd;
  region->length = key.bytes;
  region->handle = region->number;
  region->lkey = region->rkey = region->number;
  return region;
}

bool require_reachable(SoftwareNic& nic, const void* address, size_t bytes, bool writable) {
  if (nic.device().refuses_any(kRefusePeermem) && nic.is_gpu_memory(address)) refuse(EFAULT);
  if (nic.admit(address)) {
    const std::byte* const end = nic.on_gpu() ? static_cast<const std::byte*>(address) + bytes - 1
                                              : asked_for_end(address, bytes);
    if (!nic.is_gpu_memory(end)) refuse(EFAULT);
    return true;
  }
  require_mapped(address, bytes, writable);
  return false;
}

void require_mapped(const void* address, size_t bytes, bool writable) {
  auto want = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = want + bytes;
  const std::optional<VmAreas> mappings = vm_areas_of(want, end);
  if (!mappings) return;  // cannot tell
  for (const VmArea& mapping : *mappings) {
    const bool usable = mapping.readable() && (mapping.writable() || !writable);
    if (mapping.begin > want || !usable) refuse(EFAULT);
    want = mapping.end;
  }
  if (want < end) refuse(EFAULT);
}

namespace {

Buffer map_page(int flags, int fd) {
  void* page = mmap(nullptr, kUarBytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
  if (page == MAP_FAILED) refuse(errno);
  return Buffer(static_cast<std::byte*>(page), [](std::byte* p) { munmap(p, kUarBytes); });
}

/// A page that this process can store to and nobody can pin, so that no driver maps it for a GPU:
/// what a doorbell register is to a CUDA that may not have it.
Buffer make_unmappable_page() {
  const Fd secret(static_cast<int>(syscall(SYS_memfd_secret, 0)));
  if (secret.get() < 0) {
    const int error = errno;
    std::fprintf(stderr,
                 "softnic: PEAL_SOFTNIC_PRESENT with refuse=uar needs memfd_secret (Linux "
                 "5.14 or newer, secretmem.enable=1)\n");
    refuse(error);
  }
  if (ftruncate(secret.get(), kUarBytes) != 0) refuse(errno);
  return map_page(0, secret.get());
}

/// A page of its own: a GPU's, or the host's, shared so that a fork cannot move it away from a GPU
/// that has it mapped.
Buffer make_uar_page(SoftwareNic& nic) {
  if (nic.device().refuses_any(kRefuseUar)) return make_unmappable_page();
  if (const auto on_gpu = nic.gpu_page(kUarBytes)) {
    return Buffer(on_gpu.get(), [on_gpu](std::byte*) {});
  }
  return map_page(MAP_ANONYMOUS, -1);
}

}  // namespace

std::unique_ptr<Uar> make_uar(VerbsContext& context) {
  auto uar = std::make_unique<Uar>(context);
  uar->page = make_uar_page(context.nic());
  uar->number = uar->page_id = require(context.nic().attach_uar(uar->page.get()));
  uar->base_addr = uar->page.get();
  uar->reg_addr = uar->page.get() + kUarRegisterOffset;
  uar->mmap_off = static_cast<off_t>(uar->number) * static_cast<off_t>(kUarBytes);
  return uar;
}

ibv_pd* alloc_parent_domain_slot(ibv_context* handle, ibv_parent_domain_init_attr* attr) {
  return answer_pointer([&]() -> ibv_pd* {
    constexpr uint32_t kAllocators = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
    constexpr uint32_t kKnown = kAllocators | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if (attr == nullptr || attr->pd == nullptr) refuse(EINVAL);
    if ((attr->comp_mask & ~kKnown) != 0) refuse(EOPNOTSUPP);
    bool custom = (attr->comp_mask & kAllocators) != 0;
    if (custom && (attr->alloc == nullptr || attr->free == nullptr)) refuse(EINVAL);
    VerbsContext& context = VerbsContext::of(handle);
    auto& real = *static_cast<Pd*>(attr->pd);
    if (real.kind != ObjectKind::kPd || &real.owner != &context) refuse(EINVAL);
    auto domain = std::make_unique<Pd>(context, ObjectKind::kParentDomain);
    domain->number = context.next_number();
    domain->pdn = real.pdn;
    domain->handle = real.handle;
    domain->use(real);
    if (attr->td != nullptr) {
      if (attr->td->context != handle) refuse(EINVAL);
      domain->use(*static_cast<ThreadDomain*>(attr->td));
    }
    if (custom) domain->attributes = *attr;
    return context.adopt(std::move(domain));
  });
}

ibv_td* alloc_td_slot(ibv_context* handle, ibv_td_init_attr* attr) {
  return answer_pointer([&]() -> ibv_td* {
    if (attr == nullptr || attr->comp_mask != 0) refuse(EINVAL);
    VerbsContext& context = VerbsContext::of(handle);
    auto domain = std::make_unique<ThreadDomain>(context);
    domain->number = context.next_number();
    domain->context = handle;
    return context.adopt(std::move(domain));
  });
}

int dealloc_td_slot(ibv_td* td) { return destroy_handle<ThreadDomain>(td); }

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* handle) {
  return answer_pointer([&]() -> ibv_pd* {
    VerbsContext& context = VerbsContext::of(handle);
    auto pd = std::make_unique<Pd>(context, ObjectKind::kPd);
    pd->number = pd->pdn = pd->handle = require(context.nic().allocate_pd());
    return context.adopt(std::move(pd));
  });
}

int ibv_dealloc_pd(ibv_pd* pd) { return destroy_handle<Pd>(pd); }

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t bytes, uint64_t iova, unsigned access) {
  return answer_pointer([&] { return register_memory(pd, address, bytes, iova, access); });
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t bytes, uint64_t iova, int access) {
  return ::ibv_reg_mr_iova2(pd, address, bytes, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t bytes, int access) {
  return answer_pointer([&] {
    bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
    uint64_t iova = zero_based ? 0 : reinterpret_cast<uintptr_t>(address);
    return register_memory(pd, address, bytes, iova, static_cast<unsigned>(access));
  });
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t, size_t, uint64_t, int fd, int) {
  return answer_pointer(
      [&]() -> ibv_mr* { refuse_dmabuf(VerbsContext::of(pd->context).nic(), fd); });
}

// Newer than the headers we compile with; data direct needs a second PCIe function.
ibv_mr* mlx5dv_reg_dmabuf_mr(ibv_pd* pd, uint64_t, size_t, uint64_t, int fd, int, int mlx5_access) {
  return answer_pointer([&]() -> ibv_mr* {
    if (mlx5_access != 0) refuse(EOPNOTSUPP);
    refuse_dmabuf(VerbsContext::of(pd->context).nic(), fd);
  });
}

// Whatever is refused leaves the region as it was: of the codes only the one that says so.
int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t bytes, int access) {
  const int error = answer_error([&] {
    change_region(*static_cast<MrObject*>(mr),
                  {flags, pd, address, bytes, static_cast<unsigned>(access)});
  });
  return error == 0 ? 0 : IBV_REREG_MR_ERR_INPUT;
}

int ibv_dereg_mr(ibv_mr* mr) { return destroy_handle<MrObject>(mr); }

mlx5dv_devx_umem* mlx5dv_devx_umem_reg(ibv_context* context, void* address, size_t bytes,
                                       uint32_t access) {
  return answer_pointer([&] {
    return register_umem(context, {.addr = address,
                                   .size = bytes,
                                   .access = access,
                                   .pgsz_bitmap = ~uint64_t{kPageBytes - 1},
                                   .comp_mask = 0,
                                   .dmabuf_fd = -1});
  });
}

mlx5dv_devx_umem* mlx5dv_devx_umem_reg_ex(ibv_context* context, mlx5dv_devx_umem_in* in) {
  return answer_pointer([&] { return register_umem(context, *in); });
}

int mlx5dv_devx_umem_dereg(mlx5dv_devx_umem* handle) {
  auto& umem = *static_cast<Umem*>(handle);
  return answer_error([&] { umem.owner.destroy(umem); });
}

// Three kinds: 0 BF (own page), 1 NC (one page a context, shared), 1 << 31 NC (own page).
mlx5dv_devx_uar* mlx5dv_devx_alloc_uar(ibv_context* handle, uint32_t flags) {
  return answer_pointer([&]() -> mlx5dv_devx_uar* {
    constexpr uint32_t kDedicated = 1u << 31;
    VerbsContext& context = VerbsContext::of(handle);
    if (flags != MLX5DV_UAR_ALLOC_TYPE_BF && flags != MLX5DV_UAR_ALLOC_TYPE_NC &&
        flags != kDedicated)
      refuse(EOPNOTSUPP);
    if (flags != MLX5DV_UAR_ALLOC_TYPE_NC) return context.adopt(make_uar(context));
    if (context.shared_uar == nullptr) context.shared_uar = context.adopt(make_uar(context));
    return context.shared_uar;
  });
}

// A page that queues still use stays until the context closes; errno says EBUSY.
void mlx5dv_devx_free_uar(mlx5dv_devx_uar* handle) {
  if (handle == nullptr) return;
  answer_error([&] {
    auto& uar = *static_cast<Uar*>(handle);
    VerbsContext& context = uar.owner;
    // Like the real library: the singleton lives as long as its context.
    if (&uar != context.shared_uar) context.destroy(uar);
  });
}

}  // extern "C"
}  // namespace peal::softnic::abi
