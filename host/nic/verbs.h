// SPDX-License-Identifier: Apache-2.0
//
// The table of every ibv_* function that peal calls, found by dlopen, and beside it the model's own
// calls (model_library.h). Behind it is rdma-core with a ConnectX, or the software NIC with the
// same two file names; callers cannot tell.
#pragma once

#include <infiniband/verbs.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/base/config.h"
#include "host/nic/model_library.h"

namespace peal::nic {

#define PEAL_IBV_FUNCTIONS(X) \
  X(get_device_list)          \
  X(free_device_list)         \
  X(get_device_name)          \
  X(close_device)             \
  X(query_device)             \
  X(query_port)               \
  X(query_gid)                \
  X(query_pkey)               \
  X(create_ah)                \
  X(destroy_ah)               \
  X(alloc_pd)                 \
  X(dealloc_pd)               \
  X(open_device)              \
  X(create_cq)                \
  X(destroy_cq)               \
  X(create_qp)                \
  X(modify_qp)                \
  X(query_qp)                 \
  X(destroy_qp)               \
  X(reg_mr_iova2)             \
  X(dereg_mr)

// What an older rdma-core lacks: null there.
#define PEAL_IBV_OPTIONAL_FUNCTIONS(X) X(reg_dmabuf_mr)

/// What a NIC is wanted for: queues in memory that kernels drive (of the model only), or queues
/// that a CPU posts to (any device that verbs knows).
enum class NicUse { kDriven, kVerbs };

/// Where to look for the two libraries.
struct LibrarySearch {
  std::string ibverbs;                      // both set: these and no others
  std::string mlx5;                         //
  std::string real_ibverbs;                 // rdma-core, as the dynamic loader finds it
  std::string real_mlx5;                    //
  std::filesystem::path program_directory;  // softnic/ is looked for here and in 5 parents
  NicUse use = NicUse::kDriven;             // kVerbs: libmlx5 may be missing, any device will do

  /// PEAL_IBVERBS and PEAL_MLX5, rdma-core's names, the folder of the running program.
  static LibrarySearch from(const Config& config, NicUse use = NicUse::kDriven);
};

/// The open libraries as a table: library->ibv.alloc_pd(context).
///
/// The libraries stay loaded until the process ends: rdma-core's providers keep pointers into one
/// another and do not support unloading.
class VerbsLibrary {
 public:
  struct Ibv {
#define PEAL_DECLARE(name) decltype(&::ibv_##name) name = nullptr;
    PEAL_IBV_FUNCTIONS(PEAL_DECLARE)
    PEAL_IBV_OPTIONAL_FUNCTIONS(PEAL_DECLARE)
#undef PEAL_DECLARE
    /// What ibv_query_gid_ex() calls; null in an rdma-core that has no types of GIDs.
    decltype(&::_ibv_query_gid_ex) query_gid_ex = nullptr;
  };

  /// Opens the named libraries when the search names both; else rdma-core when it loads and lists
  /// a device of use; else the software NIC. Throws kConfiguration when only one is named
  /// (libibverbs alone is enough for NicUse::kVerbs), kUnsupported (naming path or symbol, cause
  /// and remedy) when none can be used.
  static std::shared_ptr<const VerbsLibrary> open(const LibrarySearch& search);

  /// One line for people: "ConnectX via /usr/lib/.../libibverbs.so.1" or "software NIC (softnic) at
  /// /.../softnic/abi".
  const std::string& description() const { return description_; }

  /// For people, of the software NIC: why this thread's last call failed, which its errno has no
  /// room for.
  std::string software_reason() const;
  /// What the software NIC of the device has had no room for in a syndrome; "": nothing.
  std::string software_trouble(ibv_context* context) const;

  /// Which of the software NIC's fabrics the device is on: NICs of different ones never reach each
  /// other, whatever their addresses. `number` is 0 for every other NIC, and for a software NIC
  /// that reaches other NICs as those do, by RoCE v2.
  struct SoftwareFabric {
    uint64_t number = 0;
    std::string folder;
  };
  SoftwareFabric software_fabric(ibv_context* context) const;

  /// Has the software NIC of the device keep its engine on the CPU, where the queues of verbs are,
  /// also when memory of a GPU is registered. Throws kUnsupported where it runs on a GPU already.
  void keep_software_on_cpu(ibv_context* context) const;

  /// The path says that this is the software NIC. The device itself knows better:
  /// Device::software().
  bool software() const { return software_; }

  /// What it was opened for, and what that takes, for people: "mlx5 device" or "RDMA device".
  NicUse use() const { return use_; }
  const char* wanted() const { return use_ == NicUse::kDriven ? "mlx5 device" : "RDMA device"; }

  /// True if the device can be put to the use that the library was opened for.
  bool serves(ibv_device* device) const {
    return use_ == NicUse::kVerbs || is_of_model(*model, device);
  }

  Ibv ibv;
  std::shared_ptr<const ModelCalls> model;  // null where libmlx5 is missing

 private:
  VerbsLibrary() = default;
  static std::shared_ptr<VerbsLibrary> load(const std::string& ibverbs, const std::string& mlx5,
                                            NicUse use);

  std::string description_;
  // The software NIC alone has these, and an older one has them null.
  int (*tell_fabric_)(ibv_context*, uint64_t*, char*, size_t) = nullptr;
  void (*tell_why_)(ibv_context*, char*, size_t) = nullptr;
  int (*keep_on_cpu_)(ibv_context*) = nullptr;
  bool software_ = false;
  NicUse use_ = NicUse::kDriven;
};

/// The devices of a library that can be used as it was opened for (mlx5 devices, or all), in its
/// order.
class DeviceList {
 public:
  /// Throws kSystem when the library cannot list any.
  explicit DeviceList(const VerbsLibrary& library);
  ~DeviceList() { library_.ibv.free_device_list(list_); }
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;

  const std::vector<ibv_device*>& usable() const { return usable_; }
  /// The one called `hca`, or the first one when that is empty; nullptr if there is none.
  ibv_device* find(const std::string& hca) const;

 private:
  const VerbsLibrary& library_;
  ibv_device** list_ = nullptr;
  std::vector<ibv_device*> usable_;
};

/// Their names.
std::vector<std::string> device_names(const VerbsLibrary& library);

}  // namespace peal::nic
