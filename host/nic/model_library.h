// SPDX-License-Identifier: Apache-2.0
//
// What the library of a model's maker does beside libibverbs: it opens NICs so that kernels may
// drive them, and makes what queues are built from. Implemented in host/nic/mlx5 over libmlx5;
// nothing outside that folder includes the library's header. Also the model's: register_page.h,
// QueueRegion (registration.h), capabilities.h.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace peal::nic {

class VerbsLibrary;

/// The functions of that library. Only the model's folder knows them.
struct ModelCalls;

/// Something that they made, and how it is released.
using ModelObject = std::unique_ptr<void, std::function<void(void*)>>;

/// What a library that was opened has of them.
struct FoundModel {
  std::shared_ptr<const ModelCalls> calls;
  const char* missing;   // the first without which no NIC can be driven; null: none is
  const void* function;  // one of them, which tells the file
};
FoundModel find_model(void* library);

/// True if the device is one of the model.
bool is_of_model(const ModelCalls& calls, ibv_device* device);

/// Opens it so that kernels may drive it. Throws kSystem that names the call and the remedy.
ibv_context* open_to_drive(const VerbsLibrary& library, ibv_device* device);
/// The same; null and errno where it is refused.
ibv_context* try_to_open(const VerbsLibrary& library, ibv_device* device);

/// What firmware commands of such a device name: the queue of its events, and a protection domain.
/// `nic`: its name. Throws kSystem.
uint32_t event_queue_of(const VerbsLibrary& library, ibv_context* context, const std::string& nic);
uint32_t domain_number_of(const VerbsLibrary& library, ibv_pd* domain, const std::string& nic);

/// For a look at a machine: 0, or the errno of the last kind of doorbell page that was refused.
int try_register_page(const VerbsLibrary& library, ibv_context* context);
/// 0, or how library or kernel say that they know no dma-bufs as memory of queues.
int try_dma_buf_queues(const VerbsLibrary& library, ibv_context* context);

}  // namespace peal::nic
