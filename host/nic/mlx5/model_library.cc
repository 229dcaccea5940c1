// SPDX-License-Identifier: Apache-2.0
//
// libmlx5: which devices it knows, and opening them with DEVX, by which programs give commands to
// the firmware.
#include "host/nic/model_library.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/library.h"
#include "host/base/error.h"
#include "host/nic/mlx5/calls.h"
#include "host/nic/registration.h"

namespace peal::nic {

FoundModel find_model(void* library) {
  LibraryFunctions functions(library);
  const auto calls = std::make_shared<ModelCalls>();
#define PEAL_FIND(name) functions.find(calls->name, "mlx5dv_" #name);
  PEAL_MLX5DV_FUNCTIONS(PEAL_FIND)
  const char* const missing = functions.missing();
  PEAL_MLX5DV_OPTIONAL_FUNCTIONS(PEAL_FIND)
#undef PEAL_FIND
  return {.calls = calls,
          .missing = missing,
          .function = reinterpret_cast<const void*>(calls->devx_obj_create)};
}

bool is_of_model(const ModelCalls& calls, ibv_device* device) { return calls.is_supported(device); }

ibv_context* try_to_open(const VerbsLibrary& library, ibv_device* device) {
  mlx5dv_context_attr attributes{};
  attributes.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  errno = 0;
  return library.model->open_device(device, &attributes);
}

ibv_context* open_to_drive(const VerbsLibrary& library, ibv_device* device) {
  if (ibv_context* const context = try_to_open(library, device)) return context;
  const int error = errno;
  fail(ErrorCode::kSystem, "mlx5dv_open_device({}) with DEVX, by which kernels drive a NIC: {}; {}",
       library.ibv.get_device_name(device), std::strerror(error),
       // EOPNOTSUPP: the device as such has no DEVX, and there is no more to say.
       library.software() && error != EOPNOTSUPP
           ? library.software_reason()
           : "it takes UCTX_EN in the card's settings (docs/hardware.md) and access to "
             "/dev/infiniband/uverbs*");
}

uint32_t event_queue_of(const VerbsLibrary& library, ibv_context* context, const std::string& nic) {
  uint32_t number = 0;
  if (library.model->devx_query_eqn(context, 0, &number) != 0) {
    fail_errno(errno, "mlx5dv_devx_query_eqn(" + nic + ", vector 0)");
  }
  return number;
}

uint32_t domain_number_of(const VerbsLibrary& library, ibv_pd* domain, const std::string& nic) {
  mlx5dv_pd answer{};
  mlx5dv_obj question{};
  question.pd.in = domain;
  question.pd.out = &answer;
  if (const int error = library.model->init_obj(&question, MLX5DV_OBJ_PD); error != 0) {
    fail_errno(error, "mlx5dv_init_obj(protection domain of " + nic + ")");
  }
  return answer.pdn;
}

int try_register_page(const VerbsLibrary& library, ibv_context* context) {
  int error = 0;
  for (const uint32_t kind : {MLX5DV_UAR_ALLOC_TYPE_NC, MLX5DV_UAR_ALLOC_TYPE_BF}) {
    errno = 0;
    if (mlx5dv_devx_uar* const page = library.model->devx_alloc_uar(context, kind)) {
      library.model->devx_free_uar(page);
      return 0;
    }
    error = errno != 0 ? errno : EOPNOTSUPP;
  }
  return error;
}

// Shown something else, dma-bufs are refused as such by who knows them; descriptor -1 libmlx5
// refuses without asking.
int try_dma_buf_queues(const VerbsLibrary& library, ibv_context* context) {
  if (!library.model->devx_umem_reg_ex) return ENOSYS;
  const Fd no_dma_buf(::open("/dev/null", O_RDWR | O_CLOEXEC));
  mlx5dv_devx_umem_in in{};
  in.size = in.pgsz_bitmap = host_page_bytes();
  in.access = IBV_ACCESS_LOCAL_WRITE;
  in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
  in.dmabuf_fd = no_dma_buf.get();
  errno = 0;
  mlx5dv_devx_umem* const umem = library.model->devx_umem_reg_ex(context, &in);
  const int error = errno;
  if (umem) library.model->devx_umem_dereg(umem);
  return error == EPROTONOSUPPORT || error == EOPNOTSUPP ? error : 0;
}

}  // namespace peal::nic
