// SPDX-License-Identifier: Apache-2.0
//
// The table of every mlx5dv_* function that peal calls: library.model->devx_alloc_uar(...).
#pragma once

#include <infiniband/mlx5dv.h>

#include "host/nic/model_library.h"

namespace peal::nic {

#define PEAL_MLX5DV_FUNCTIONS(X) \
  X(is_supported)                \
  X(open_device)                 \
  X(init_obj)                    \
  X(devx_general_cmd)            \
  X(devx_obj_create)             \
  X(devx_obj_modify)             \
  X(devx_obj_query)              \
  X(devx_obj_destroy)            \
  X(devx_query_eqn)              \
  X(devx_umem_dereg)             \
  X(devx_alloc_uar)              \
  X(devx_free_uar)

// What an older rdma-core lacks: null there.
#define PEAL_MLX5DV_OPTIONAL_FUNCTIONS(X) \
  X(devx_umem_reg_ex)                     \
  X(devx_qp_query)

struct ModelCalls {
#define PEAL_DECLARE(name) decltype(&::mlx5dv_##name) name = nullptr;
  PEAL_MLX5DV_FUNCTIONS(PEAL_DECLARE)
  PEAL_MLX5DV_OPTIONAL_FUNCTIONS(PEAL_DECLARE)
#undef PEAL_DECLARE
};

}  // namespace peal::nic
