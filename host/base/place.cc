// SPDX-License-Identifier: Apache-2.0
//
// What Linux says of host and namespaces. What it does not say (no /proc) is left empty, and
// then two places are never the same.
#include "host/base/place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/files.h"

namespace peal {

Place Place::here() {
  Place me{};
  const std::string id = bytes_of("/proc/sys/kernel/random/boot_id");
  std::copy_n(id.begin(), std::min<size_t>(id.size(), 36), me.boot_id.begin());
  struct stat ns {};
  if (stat("/proc/self/ns/pid", &ns) == 0) me.pid_namespace = ns.st_ino;
  if (stat("/proc/self/ns/net", &ns) == 0) me.network = ns.st_ino;
  me.pid = getpid();
  return me;
}

bool same_host(const Place& a, const Place& b) {
  return a.boot_id[0] != '\0' && a.boot_id == b.boot_id;
}

bool same_sockets(const Place& a, const Place& b) {
  return same_host(a, b) && a.network != 0 && a.network == b.network;
}

bool is_elsewhere(const Place& a, const Place& b) {
  const bool told = a.boot_id[0] != '\0' && b.boot_id[0] != '\0';
  const bool networks_told = a.network != 0 && b.network != 0;
  return told && (a.boot_id != b.boot_id || (networks_told && a.network != b.network));
}

bool same_pids(const Place& a, const Place& b) {
  return same_host(a, b) && a.pid_namespace != 0 && a.pid_namespace == b.pid_namespace;
}

bool same_process(const Place& a, const Place& b) { return same_pids(a, b) && a.pid == b.pid; }

int rank_on_host(std::span<const Place> places, size_t index) {
  return static_cast<int>(
      std::count_if(places.begin(), places.begin() + static_cast<ptrdiff_t>(index),
                    [&](const Place& other) { return same_host(other, places[index]); }));
}

}  // namespace peal
