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

}  // namespace

std::string Registration::describe() const {
  if (how == How::kHostMemory) return "host memory";
  if (how == How::kDmaBuf) return "GPU memory by dma-buf";
  return "GPU memory by its address; no dma-buf: " + why_not;
}

uint64_t host_page_bytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

Registration make_known(const Device& device, const Memory& memory, const Attempts& attempts) {
  Registration registration;
  if (memory.export_dma_buf) {
    std::byte* const first_page = memory.address - MemoryRegion::first_offset(memory.address);
    const uint64_t page = host_page_bytes();
    const size_t bytes =
        (static_cast<size_t>(memory.address - first_page) + memory.bytes + page - 1) / page * page;
    registration.how = Registration::How::kAddress;
    if (!attempts.from_dma_buf) {
      registration.why_not = fmt::format("rdma-core here is too old for {}", attempts.by_dma_buf);
    } else if (const DmaBuf exported = memory.export_dma_buf(first_page, bytes);
               exported.fd() < 0) {
      registration.why_not = exported.why_not();
    } else if (attempts.from_dma_buf(exported.fd())) {
      registration.how = Registration::How::kDmaBuf;
      return registration;
    } else {
      registration.why_not = fmt::format("{}: {}", attempts.by_dma_buf, std::strerror(errno));
    }
  }
  if (attempts.from_address()) return registration;
  const int error = errno;
  fail(ErrorCode::kSystem, "{}({} bytes at {} for {}): {}{}; {}{}", attempts.by_address,
       memory.bytes, fmt::ptr(memory.address), device.name(), std::strerror(error),
       memory.export_dma_buf ? "; nor as a dma-buf: " + registration.why_not : "",
       remedy(device, memory.export_dma_buf != nullptr, attempts.kernel, error), attempts.way_out);
}

uint64_t MemoryRegion::first_offset(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address) % host_page_bytes();
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
  const auto enter = [&](const auto& call) {
    mr_.reset(call(access));
    if (!mr_ && errno == EINVAL && or_relaxed)
      mr_.reset(call(access | IBV_ACCESS_RELAXED_ORDERING));
    return mr_ != nullptr;
  };
  const VerbsLibrary::Ibv& ibv = device.library().ibv;
  // Whole pages are translated: verbs refuses any other offset.
  const uint64_t offset = first_offset(memory.address);
  Attempts attempts{.by_dma_buf = "ibv_reg_dmabuf_mr",
                    .by_address = "ibv_reg_mr_iova2",
                    .kernel = "Linux 5.12",
                    .way_out = "",
                    .from_dma_buf = nullptr,
                    .from_address = [&] {
                      return enter([&](unsigned int with) {
                        return ibv.reg_mr_iova2(domain.handle(), memory.address, memory.bytes,
                                                offset, with);
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
  registration_ = make_known(device, memory, attempts);
}

}  // namespace peal::nic
