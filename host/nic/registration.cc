// SPDX-License-Identifier: Apache-2.0
//
// One order of attempts for both kinds. The kernel pins what a dma-buf names for as long as it is
// registered, so the descriptor goes as soon as that is done.
#include "host/nic/registration.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "host/base/error.h"

namespace peal::nic {
namespace {

uint64_t page_bytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

// The software NIC knows more than fits an errno, and says so itself. `kernel`: which takes
// dma-bufs.
std::string remedy(const Device& device, bool of_gpu, const char* kernel, int error) {
  if (device.software()) return device.library().software_reason();
  const char* const locked = "memory that is registered is locked: raise ulimit -l";
  if (!of_gpu) return locked;
  std::string text = fmt::format(
      "for a NIC to reach GPU memory it takes NVIDIA's open kernel modules and {} (dma-buf), or: "
      "sudo modprobe nvidia-peermem; in a container both are the host's to load; tools/doctor says "
      "what is missing",
      kernel);
  if (error == ENOMEM) text.append("; ").append(locked);
  return text;
}

/// What is tried: each attempt answers an object of rdma-core's, or null and errno.
template <class Object>
struct Attempts {
  const char* by_dma_buf;  // the calls, for people
  const char* by_address;
  const char* kernel;                           // the first that takes a dma-buf so
  const char* way_out;                          // "", or "; " and what does without it
  std::function<Object*(int fd)> from_dma_buf;  // null: the library lacks it
  std::function<Object*()> from_address;
};

/// Throws when all are refused.
template <class Object>
Object* registered(const Device& device, const Memory& memory, Registration& registration,
                   const Attempts<Object>& attempts) {
  if (memory.export_dma_buf) {
    std::byte* const first_page = memory.address - MemoryRegion::first_offset(memory.address);
    const uint64_t page = page_bytes();
    const size_t bytes =
        (static_cast<size_t>(memory.address - first_page) + memory.bytes + page - 1) / page * page;
    registration.how = Registration::How::kAddress;
    if (!attempts.from_dma_buf) {
      registration.why_not = fmt::format("rdma-core here is too old for {}", attempts.by_dma_buf);
    } else if (const DmaBuf exported = memory.export_dma_buf(first_page, bytes);
               exported.fd() < 0) {
      registration.why_not = exported.why_not();
    } else if (Object* const object = attempts.from_dma_buf(exported.fd())) {
      registration.how = Registration::How::kDmaBuf;
      return object;
    } else {
      registration.why_not = fmt::format("{}: {}", attempts.by_dma_buf, std::strerror(errno));
    }
  }
  if (Object* const object = attempts.from_address()) return object;
  const int error = errno;
  fail(ErrorCode::kSystem, "{}({} bytes at {} for {}): {}{}; {}{}", attempts.by_address,
       memory.bytes, fmt::ptr(memory.address), device.name(), std::strerror(error),
       memory.export_dma_buf ? "; nor as a dma-buf: " + registration.why_not : "",
       remedy(device, memory.export_dma_buf != nullptr, attempts.kernel, error), attempts.way_out);
}

}  // namespace

std::string Registration::describe() const {
  if (how == How::kHostMemory) return "host memory";
  if (how == How::kDmaBuf) return "GPU memory by dma-buf";
  return "GPU memory by its address; no dma-buf: " + why_not;
}

uint64_t MemoryRegion::first_offset(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address) % page_bytes();
}

MemoryRegion::MemoryRegion(const Device& device, const ProtectionDomain& domain,
                           const Memory& memory, KeyOrdering ordering)
    : mr_(nullptr, {device.library().ibv.dereg_mr}) {
  unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC;
  if (ordering == KeyOrdering::kRelaxed || device.capabilities().relaxed_only) {
    access |= IBV_ACCESS_RELAXED_ORDERING;
  }
  // By verbs alone a NIC cannot be asked whether it takes any other key. Nothing relies on that of
  // an mlx5 device then (placement.h).
  const bool or_relaxed = device.use() == NicUse::kVerbs && device.placement().mlx5;
  const auto enter = [&](const auto& call) -> ibv_mr* {
    ibv_mr* const mr = call(access);
    if (mr != nullptr || errno != EINVAL || !or_relaxed) return mr;
    return call(access | IBV_ACCESS_RELAXED_ORDERING);
  };
  const VerbsLibrary::Ibv& ibv = device.library().ibv;
  // Whole pages are translated: verbs refuses any other offset.
  const uint64_t offset = first_offset(memory.address);
  Attempts<ibv_mr> attempts{.by_dma_buf = "ibv_reg_dmabuf_mr",
                            .by_address = "ibv_reg_mr_iova2",
                            .kernel = "Linux 5.12",
                            .way_out = "",
                            .from_dma_buf = nullptr,
                            .from_address = [&] {
                              return enter([&](unsigned int with) {
                                return ibv.reg_mr_iova2(domain.handle(), memory.address,
                                                        memory.bytes, offset, with);
                              });
                            }};
  if (ibv.reg_dmabuf_mr) {
    attempts.from_dma_buf = [&](int fd) {
      return enter([&](unsigned int with) {
        return ibv.reg_dmabuf_mr(domain.handle(), offset, memory.bytes, offset, fd,
                                 static_cast<int>(with));
      });
    };
  }
  mr_.reset(registered(device, memory, registration_, attempts));
}

Umem::Umem(const Device& device, const Memory& memory)
    : umem_(nullptr, {device.library().mlx5dv.devx_umem_dereg}) {
  const VerbsLibrary::Mlx5dv& mlx5dv = device.library().mlx5dv;
  constexpr const char* kCall = "mlx5dv_devx_umem_reg_ex";
  constexpr const char* kWayOut = "; PEAL_TRANSPORT=proxy does without umems";
  if (!mlx5dv.devx_umem_reg_ex) {
    fail(ErrorCode::kUnsupported, "rdma-core here is too old for {}: install version 44 or newer{}",
         kCall, kWayOut);
  }
  const auto enter = [&](void* address, int dma_buf) {
    mlx5dv_devx_umem_in in{};
    in.addr = address;
    in.size = memory.bytes;
    in.access = IBV_ACCESS_LOCAL_WRITE;
    // Pages of the host and no others. A queue's context says the place of the queue in 64ths of a
    // page, and a driver that may choose takes the largest page that fits: of 2 MiB, in a GPU.
    in.pgsz_bitmap = page_bytes();
    in.comp_mask = dma_buf < 0 ? 0 : MLX5DV_UMEM_MASK_DMABUF;
    in.dmabuf_fd = dma_buf;
    return mlx5dv.devx_umem_reg_ex(device.context(), &in);
  };
  const Attempts<mlx5dv_devx_umem> attempts{
      .by_dma_buf = kCall,
      .by_address = kCall,
      .kernel = "Linux 6.1 (5.12 is enough for windows, not for queues)",
      .way_out = kWayOut,
      // The first byte of the dma-buf.
      .from_dma_buf = [&](int fd) { return enter(nullptr, fd); },
      .from_address = [&] { return enter(memory.address, -1); }};
  umem_.reset(registered(device, memory, registration_, attempts));
}

}  // namespace peal::nic
