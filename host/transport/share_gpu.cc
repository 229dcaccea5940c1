// SPDX-License-Identifier: Apache-2.0
//
// GPU memory between processes, and between the GPUs of one process.
#include <fmt/format.h>

#include <utility>

#include "host/base/error.h"
#include "host/transport/share.h"

namespace peal {
namespace {

/// How this GPU reaches GPU `peer` of this process's numbering.
struct Connection {
  std::string text;  // "NVLink GPU 0 -> GPU 1", or why there is none
  P2p::Link link = P2p::Link::kNone;
  bool reaches = false;
};

Connection connection(const Gpu& gpu, int peer) {
  if (peer == gpu.index()) return {fmt::format("same GPU {}", peer), P2p::Link::kNone, true};
  const std::string pair = fmt::format("GPU {} -> GPU {}", gpu.index(), peer);
  cuda::Device from = 0;
  cuda::Device to = 0;
  int can = 0;
  int atomics = 0;
  const cuda::Driver& driver = gpu.driver();
  if (driver.device(&from, gpu.index()) != cuda::kSuccess ||
      driver.device(&to, peer) != cuda::kSuccess ||
      driver.can_access_peer(&can, from, to) != cuda::kSuccess || can == 0) {
    return {"no peer access " + pair};
  }
  driver.p2p_attribute(&atomics, cuda::kP2pNativeAtomics, from, to);
  if (atomics != 0) return {"NVLink " + pair, P2p::Link::kNvlink, true};
  return {"PCIe " + pair + ", where atomics are not atomic with the peer's own", P2p::Link::kPcie,
          true};
}

/// Lets kernels of `gpu` use the memory of GPU `peer` that this process allocated.
cuda::Result enable_access(const Gpu& gpu, int peer) {
  if (peer == gpu.index()) return cuda::kSuccess;
  const cuda::Result result = gpu.within([&](const cuda::Driver& driver) {
    cuda::Device device = 0;
    cuda::Context context = nullptr;
    cuda::Result step = driver.device(&device, peer);
    if (step == cuda::kSuccess) step = driver.retain_context(&context, device);
    if (step != cuda::kSuccess) return step;
    step = driver.enable_peer(context, 0);
    driver.release_context(device);  // the peer PE holds it as long as it has memory there
    return step;
  });
  return result == cuda::kPeerAccessAlreadyEnabled ? cuda::kSuccess : result;
}

Answer open_handle(std::shared_ptr<Gpu> gpu, const Offer& offer, const Connection& way) {
  cuda::Address base = 0;
  const cuda::Result result = gpu->within([&](const cuda::Driver& driver) {
    return driver.ipc_open(&base, offer.handle, cuda::kIpcLazyPeerAccess);
  });
  if (result != cuda::kSuccess) {
    return refused(
        fmt::format("{}, but cuIpcOpenMemHandle: {}", way.text, gpu->driver().text(result)));
  }
  const auto close = [gpu = std::move(gpu), base](std::byte*) {
    gpu->release([&](const cuda::Driver& driver) { driver.ipc_close(base); });
  };
  return {PeerMemory::Mapping(reinterpret_cast<std::byte*>(base + offer.offset), close),
          "same host, " + way.text, way.link};
}

}  // namespace

Offer offer_gpu(const Gpu& gpu, std::byte* address, size_t bytes) {
  Offer offer{};
  offer.address = reinterpret_cast<uint64_t>(address);
  offer.bytes = bytes;
  offer.fd = -1;
  offer.gpu = gpu.uuid();
  gpu.within([&](const cuda::Driver& driver) {
    // A handle stands for a whole allocation, whatever address in it was named.
    cuda::Address base = 0;
    size_t size = 0;
    const cuda::Address at = device_address(address);
    if (driver.address_range(&base, &size, at) != cuda::kSuccess) return;
    if (driver.ipc_handle(&offer.handle, base) != cuda::kSuccess) return;
    offer.offset = at - base;
    offer.has_handle = 1;
  });
  return offer;
}

Answer reach_gpu(std::shared_ptr<Gpu> gpu, const Offer& offer, const Place& here,
                 const Place& there) {
  if (!same_host(here, there)) return refused("other host");
  const std::optional<int> peer = gpu->find(offer.gpu);
  if (!peer)
    return refused("same host, but its GPU is hidden from this one (CUDA_VISIBLE_DEVICES)");
  const Connection way = connection(*gpu, *peer);
  if (!way.reaches) return refused("same host, but " + way.text);
  if (same_process(here, there)) {
    const cuda::Result result = enable_access(*gpu, *peer);
    if (result != cuda::kSuccess) {
      return refused(
          fmt::format("{}, but cuCtxEnablePeerAccess: {}", way.text, gpu->driver().text(result)));
    }
    return {borrowed(offer), "same process, " + way.text, way.link};
  }
  if (offer.has_handle == 0) {
    return refused("same host, but memory that its process cannot share (it is not cudaMalloc's)");
  }
  return open_handle(std::move(gpu), offer, way);
}

}  // namespace peal
