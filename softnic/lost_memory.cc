// SPDX-License-Identifier: Apache-2.0
//
// A handler of SIGSEGV for engine threads; every other fault goes to the handler of before. Nothing
// here that runs in it allocates or locks. The stand-in stays: only the client knows what it maps
// there next, and whatever that is takes the page's place.
#include "softnic/lost_memory.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

#include "base/search.h"

namespace peal::softnic {
namespace {

constexpr uintptr_t kPage = 4096;

// In the block that a thread is born with: a handler cannot allocate.
[[gnu::tls_model("initial-exec")]] constinit thread_local Port* engine_of_thread = nullptr;

// C keeps handlers for the process.
struct sigaction fault_before;

bool within(const void* memory, uint64_t bytes, uintptr_t at) {
  return memory != nullptr && at - reinterpret_cast<uintptr_t>(memory) < bytes;
}

bool in_queues(const Port& port, uintptr_t at) {
  for (uint32_t i = 0; i < port.qp_count; ++i) {
    const QueuePair& qp = port.qps[i];
    if (!qp.exists) continue;
    const uint64_t received = uint64_t{qp.receive_entries} * qp.receive_stride;
    if (within(qp.send_buffer, uint64_t{qp.send_blocks} * mlx5::kWqebbBytes, at) ||
        within(qp.receive_buffer, received, at) ||
        within(qp.doorbell, sizeof(mlx5::DoorbellRecord), at)) {
      return true;
    }
  }
  for (uint32_t i = 0; i < port.cq_count; ++i) {
    const CompletionQueue& cq = port.cqs[i];
    const uint64_t bytes = uint64_t{cq.cqe_bytes} << cq.log_entries;
    if (cq.exists && (within(cq.buffer, bytes, at) || within(cq.doorbell, 8, at))) return true;
  }
  for (uint32_t i = 0; i < port.srq_count; ++i) {
    const SharedReceiveQueue& srq = port.srqs[i];
    const uint64_t bytes = uint64_t{srq.stride} * srq.entries;
    if (srq.exists &&
        (within(srq.buffer, bytes, at) || within(srq.doorbell, sizeof(mlx5::DoorbellRecord), at))) {
      return true;
    }
  }
  return false;
}

/// The client has given this address to the NIC. Keys that cover it grant nothing from now on; what
/// is being copied under them goes on to the end.
bool given_up(Port& port, uintptr_t at) {
  bool found = in_queues(port, at);
  for (uint32_t i = 0; i < port.key_count; ++i) {
    Key& key = port.keys[i];
    if (key.number == 0 || !within(key.memory, key.bytes, at)) continue;
    key.lost = found = true;
  }
  return found;
}

/// Nobody has mapped anything there meanwhile, or it is there now: either way one can go on.
bool stand_in(uintptr_t at) {
  const uintptr_t page = at & ~(kPage - 1);
  // Not mmap(): clients put their own code in its place.
  const long mapped = syscall(SYS_mmap, page, kPage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped == -1) return errno == EEXIST;
  if (static_cast<uintptr_t>(mapped) == page) return true;
  syscall(SYS_munmap, mapped, kPage);  // a kernel that does not know the flag
  return false;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((fault_before.sa_flags & SA_SIGINFO) != 0) {
    return fault_before.sa_sigaction(signal, info, context);
  }
  if (fault_before.sa_handler != SIG_DFL && fault_before.sa_handler != SIG_IGN) {
    return fault_before.sa_handler(signal);
  }
  ::sigaction(signal, &fault_before, nullptr);  // the instruction faults again, and ends all
  if (info->si_code <= 0) ::raise(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  Port* const port = engine_of_thread;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool gone = port != nullptr && info->si_code == SEGV_MAPERR;
  if (!gone || !given_up(*port, at) || !stand_in(at)) return pass_on(signal, info, context);
  ++port->lost_pages;
  errno = error;
}

/// The process has loaded one of rdma-core's libraries from beside this one.
bool by_rdma_core_names() {
  static const char here = 0;
  const std::string folder = file_loaded_at(&here).parent_path().string();
  for (const char* const name : {"/libibverbs.so.1", "/libmlx5.so.1"}) {
    void* const front = ::dlopen((folder + name).c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (front == nullptr) continue;
    ::dlclose(front);
    return true;
  }
  return false;
}

void install() {
  struct sigaction fault = {};
  fault.sa_sigaction = on_fault;
  fault.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigaction(SIGSEGV, nullptr, &fault_before);
  ::sigaction(SIGSEGV, &fault, nullptr);
}

}  // namespace

SurvivesLostMemory::SurvivesLostMemory(Port& port) {
  if (!by_rdma_core_names()) return;
  static std::once_flag once;
  std::call_once(once, install);
  engine_of_thread = &port;
}

SurvivesLostMemory::~SurvivesLostMemory() { engine_of_thread = nullptr; }

}  // namespace peal::softnic
