// SPDX-License-Identifier: Apache-2.0
//
// A job of a PMIx launcher. libpmix is loaded when it is wanted and used for five calls: who am I,
// put, commit, fence, get. They wait for other ranks without a limit, so they run in a thread that
// the caller can stop waiting for.
#include <dlfcn.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/library.h"
#include "base/patience.h"
#include "bootstrap/launchers.h"
#include "bootstrap/star.h"
#include "bootstrap/wire.h"
#include "host/base/address.h"
#include "host/base/error.h"

namespace peal::bootstrap {
namespace {

// The part of the PMIx standard, versions 2 to 5, that is used here, as its header declares it.
struct Proc {
  char nspace[256];
  std::uint32_t rank;
};
struct Value {
  std::uint16_t type;
  union {
    char* string;
    std::uint32_t number;
    std::byte room[24];
  };
};
static_assert(sizeof(Proc) == 260 && sizeof(Value) == 32);

constexpr std::uint32_t kEveryRank = UINT32_MAX - 1;
constexpr std::uint16_t kString = 3;
constexpr std::uint16_t kUint32 = 14;
constexpr std::uint8_t kGlobal = 3;
constexpr const char* kJobSize = "pmix.job.size";
constexpr const char* kPmixKey = "peal.id";

// A call's name and what it answered, where that is not success.
struct Failure {
  const char* call;
  int status;
};

class Library {
 public:
  Library() {
    // Its own components look for its symbols among the global ones. Never unloaded: it has
    // threads.
    handle_ = load_library("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (handle_ == nullptr) {
      fail(ErrorCode::kConfiguration,
           "cannot load libpmix.so.2: {}; install it (libpmix2), put its folder into "
           "LD_LIBRARY_PATH, or use srun --mpi=pmi2, mpirun or peal-run",
           ::dlerror());
    }
    find(init, "PMIx_Init");
    find(get, "PMIx_Get");
    find(put, "PMIx_Put");
    find(commit, "PMIx_Commit");
    find(fence, "PMIx_Fence");
    find(finalize, "PMIx_Finalize");
    find(error_string, "PMIx_Error_string");
  }

  int (*init)(Proc*, void*, std::size_t) = nullptr;
  int (*get)(const Proc*, const char*, const void*, std::size_t, Value**) = nullptr;
  int (*put)(std::uint8_t, const char*, Value*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const Proc*, std::size_t, const void*, std::size_t) = nullptr;
  int (*finalize)(const void*, std::size_t) = nullptr;
  const char* (*error_string)(int) = nullptr;

 private:
  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (function == nullptr) fail(ErrorCode::kConfiguration, "libpmix.so.2 has no {}", name);
  }

  void* handle_ = nullptr;
};

// Shared with the thread, which may outlive the caller inside a call.
struct Exchange {
  Library pmix;
  std::string id;  // rank 0's before, everybody's afterwards
  std::uint32_t size = 0;
  std::optional<Failure> failure;

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
};

std::optional<Failure> exchange(Exchange& job) {
  const Library& pmix = job.pmix;
  Proc me{};
  if (const int status = pmix.init(&me, nullptr, 0); status != 0)
    return Failure{"PMIx_Init", status};
  Proc everybody = me;
  everybody.rank = kEveryRank;
  Value* found = nullptr;
  int status = pmix.get(&everybody, kJobSize, nullptr, 0, &found);
  if (status != 0 || found->type != kUint32) return Failure{"PMIx_Get of the job's size", status};
  job.size = found->number;
  std::free(found);
  if (me.rank == 0) {
    Value mine{};
    mine.type = kString;
    mine.string = job.id.data();
    status = pmix.put(kGlobal, kPmixKey, &mine);
    if (status == 0) status = pmix.commit();
    if (status != 0) return Failure{"PMIx_Put of rank 0's id", status};
  }
  if (status = pmix.fence(nullptr, 0, nullptr, 0); status != 0)
    return Failure{"PMIx_Fence", status};
  if (me.rank != 0) {
    Proc root = me;
    root.rank = 0;
    status = pmix.get(&root, kPmixKey, nullptr, 0, &found);
    if (status != 0 || found->type != kString) return Failure{"PMIx_Get of rank 0's id", status};
    job.id = found->string;
    std::free(found->string);
    std::free(found);
  }
  // Told now, so that the launcher takes the end of this process for what its exit code says.
  if (status = pmix.finalize(nullptr, 0); status != 0) return Failure{"PMIx_Finalize", status};
  return std::nullopt;
}

void run_within(const std::shared_ptr<Exchange>& job, int rank, Deadline deadline) {
  std::thread([job] {
    const std::optional<Failure> failure = exchange(*job);
    const std::lock_guard lock(job->mutex);
    job->failure = failure;
    job->done = true;
    job->changed.notify_all();
  }).detach();
  std::unique_lock lock(job->mutex);
  if (!wait_until(job->changed, lock, RunClock::now() + deadline, [&job] { return job->done; })) {
    fail(ErrorCode::kTimeout,
         "PMIx: rank {} did not hear of all others within {}: one has not called peal::start, or "
         "the launcher does not answer",
         rank, name_time(deadline));
  }
  if (const auto& failure = job->failure) {
    fail(ErrorCode::kConfiguration,
         "{}: {}; start the program by srun --mpi=pmix, mpirun or peal-run, or set "
         "PEAL_BOOTSTRAP=single, if one PE is meant",
         failure->call, job->pmix.error_string(failure->status));
  }
}

}  // namespace

std::unique_ptr<Bootstrap> make_pmix(int rank, const std::string& interface, Deadline deadline) {
  check_deadline(deadline);
  const auto job = std::make_shared<Exchange>();
  std::optional<TcpRoot> root;
  if (rank == 0) {
    root.emplace(find_address(interface));
    job->id = root->id().to_string();
  }
  run_within(job, rank, deadline);
  const int size = static_cast<int>(job->size);
  return root ? make_tcp(std::move(*root), size, deadline)
              : make_tcp(UniqueId::from_string(job->id), rank, size, deadline);
}

}  // namespace peal::bootstrap
