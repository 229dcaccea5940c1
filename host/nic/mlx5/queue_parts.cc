// SPDX-License-Identifier: Apache-2.0
//
// What queues are built from: a UAR, whose registers are doorbells, and a umem, which holds rings,
// completions and doorbell records.
#include <cerrno>
#include <cstring>

#include "host/base/error.h"
#include "host/nic/mlx5/calls.h"
#include "host/nic/register_page.h"
#include "host/nic/registration.h"

namespace peal::nic {
namespace {

// Value of later rdma-core headers; older libraries refuse it and the next kind is tried.
constexpr uint32_t kUarDedicated = 1u << 31;

}  // namespace

RegisterPage::RegisterPage(const Device& device) {
  struct UarKind {
    uint32_t flags;
    const char* kind;
  };
  constexpr UarKind kUarKinds[] = {{kUarDedicated, "dedicated"},
                                   {MLX5DV_UAR_ALLOC_TYPE_NC, "uncached"},
                                   {MLX5DV_UAR_ALLOC_TYPE_BF, "write-combining"}};
  const ModelCalls& mlx5dv = *device.library().model;
  int error = 0;
  for (const UarKind& choice : kUarKinds) {
    mlx5dv_devx_uar* const uar = mlx5dv.devx_alloc_uar(device.context(), choice.flags);
    if (uar != nullptr) {
      page_ = {uar, [release = mlx5dv.devx_free_uar](void* page) {
                 release(static_cast<mlx5dv_devx_uar*>(page));
               }};
      number_ = uar->page_id;
      doorbell_ = uar->reg_addr;
      base_ = uar->base_addr;
      kind_ = choice.kind;
      write_combining_ = choice.flags == MLX5DV_UAR_ALLOC_TYPE_BF;
      return;
    }
    error = errno;
  }
  fail(ErrorCode::kSystem,
       "mlx5dv_devx_alloc_uar({}, any kind): {}; PEAL_TRANSPORT=proxy does without a doorbell page",
       device.name(), std::strerror(error));
}

QueueRegion::QueueRegion(const Device& device, const Memory& memory) {
  const ModelCalls& mlx5dv = *device.library().model;
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
    in.pgsz_bitmap = host_page_bytes();
    in.comp_mask = dma_buf < 0 ? 0 : MLX5DV_UMEM_MASK_DMABUF;
    in.dmabuf_fd = dma_buf;
    mlx5dv_devx_umem* const umem = mlx5dv.devx_umem_reg_ex(device.context(), &in);
    if (umem == nullptr) return false;
    region_ = {umem, [release = mlx5dv.devx_umem_dereg](void* region) {
                 release(static_cast<mlx5dv_devx_umem*>(region));
               }};
    number_ = umem->umem_id;
    return true;
  };
  registration_ = make_known(device, memory,
                             {.by_dma_buf = kCall,
                              .by_address = kCall,
                              .kernel = "Linux 6.1 (5.12 is enough for windows, not for queues)",
                              .way_out = kWayOut,
                              // The first byte of the dma-buf.
                              .from_dma_buf = [&](int fd) { return enter(nullptr, fd); },
                              .from_address = [&] { return enter(memory.address, -1); }});
}

}  // namespace peal::nic
