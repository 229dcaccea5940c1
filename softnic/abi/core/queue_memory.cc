// SPDX-License-Identifier: Apache-2.0
//
// Memory of queues that verbs calls create: from where libmlx5's variables say, MLX_QP_ALLOC_TYPE
// and its kin. HUGE wants huge pages, PREFER_HUGE takes others where there are none; anything else
// is for libmlx5 to tell apart.
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "softnic/abi/core/memory.h"

#ifndef MAP_HUGE_2MB
#define MAP_HUGE_2MB (21 << 26)
#endif

namespace peal::softnic::abi {
namespace {

const char* variable_of(uint64_t resource_type) {
  switch (resource_type) {
    case MLX5DV_RES_TYPE_QP:
      return "MLX_QP_ALLOC_TYPE";
    case MLX5DV_RES_TYPE_SRQ:
      return "MLX_SRQ_ALLOC_TYPE";
    default:
      return "MLX_CQ_ALLOC_TYPE";
  }
}

Buffer huge_pages(size_t bytes) {
  constexpr size_t kPage = size_t{2} << 20;
  const size_t whole = (bytes + kPage - 1) / kPage * kPage;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB;
  void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) return {};
  return Buffer(static_cast<std::byte*>(memory), [whole](std::byte* p) { munmap(p, whole); });
}

}  // namespace

Buffer default_queue_memory(size_t bytes, uint64_t resource_type) {
  const char* const set = std::getenv(variable_of(resource_type));
  const std::string_view from = set == nullptr ? "" : set;
  const bool only = from == "HUGE";
  Buffer huge = only || from == "PREFER_HUGE" ? huge_pages(bytes) : Buffer();
  if (only && huge == nullptr) refuse(ENOMEM);
  return huge != nullptr ? std::move(huge) : allocate_buffer(bytes);
}

}  // namespace peal::softnic::abi
