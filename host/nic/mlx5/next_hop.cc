// SPDX-License-Identifier: Apache-2.0
#include "host/nic/mlx5/next_hop.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "host/base/error.h"
#include "host/nic/address.h"
#include "host/nic/mlx5/calls.h"

namespace peal::nic {

MacAddress next_hop(const VerbsLibrary& library, ibv_pd* domain, const std::string& nic,
                    const Path& path) {
  ibv_ah_attr attributes = address_of(path);
  std::unique_ptr<ibv_ah, decltype(library.ibv.destroy_ah)> handle(nullptr, library.ibv.destroy_ah);
  const int unresolved = asked_twice([&] {
    errno = 0;
    handle.reset(library.ibv.create_ah(domain, &attributes));
    return handle ? 0 : errno;
  });
  if (!handle) {
    fail(ErrorCode::kSystem,
         "ibv_create_ah({} port {}, GID index {}, to {}): {}; is there a route to that address? "
         "Try ping; PEAL_GID_INDEX chooses another source address",
         nic, path.port, path.source_gid, path.remote_gid.text(), std::strerror(unresolved));
  }
  mlx5dv_ah answer{};
  mlx5dv_obj question{};
  question.ah.in = handle.get();
  question.ah.out = &answer;
  if (const int error = library.model->init_obj(&question, MLX5DV_OBJ_AH); error != 0) {
    fail_errno(error, "mlx5dv_init_obj(address handle of " + nic + ")");
  }
  MacAddress mac;
  std::copy_n(answer.av->rmac, mac.size(), mac.begin());
  return mac;
}

}  // namespace peal::nic
