// SPDX-License-Identifier: Apache-2.0
//
// The host side of peal: one Runtime is one PE of one job. Several may live in one process.
//
// clang-format off
//   peal::Runtime pe(bootstrap, config);
//   auto* box = pe.allocate<uint64_t>(16);                    // collective; same offset on every PE
//   peal::launch({.blocks = 1, .threads = 32}, kernel, pe.context(), box).wait();
//   pe.check();                                               // throws what a kernel ran into
// clang-format on
//
// Everything here may throw peal::Error. "Collective" calls are made by all PEs in the same order,
// by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/context.h"
#include "device/team.h"
#include "device/window.h"
#include "host/base/config.h"
#include "host/bootstrap.h"
#include "host/calls.h"
#include "host/failures/counters.h"
#include "host/failures/failure.h"
#include "host/memory/heap_block.h"
#include "host/options.h"

namespace peal {

/// Where kernels in the file being compiled will run. A program that calls start() in a file of its
/// own, which g++ compiles, and has its kernels in another for nvcc, says Target::kGpu itself.
#define PEAL_TARGET (PEAL_CUDA ? ::peal::Target::kGpu : ::peal::Target::kCpu)

class Runtime;
struct Beginning;  // host/runtime/job.h

namespace detail {

/// Throws kUnsupported: the library made a context that this version cannot read.
[[noreturn]] void refuse_context(const ContextFields& made, uint32_t version, size_t bytes);

/// A context that the library has made, once it is known to be what the kernels of the file being
/// compiled take it for. By template, so that files compiled with other headers do not share it.
template <uint32_t kVersion = kContextVersion, size_t kBytes = sizeof(ContextFields)>
const ContextFields& readable(const ContextFields& made) {
  if (made.version != kVersion || made.bytes < kBytes) refuse_context(made, kVersion, kBytes);
  return made;
}

}  // namespace detail

/// Owns a context's queues; value() is what kernels take. Must not outlive its Runtime, nor end
/// while a kernel uses it, nor before the peers are done with it (call Runtime::barrier() first).
template <Reach R>
class OwnedContext {
 public:
  /// For Runtime::make_context().
  explicit OwnedContext(std::shared_ptr<const ContextFields> fields) : fields_(std::move(fields)) {}

  /// Throws kUnsupported when the library is of another version than the headers.
  BasicContext<R> value() const { return {detail::readable(*fields_)}; }

 private:
  std::shared_ptr<const ContextFields> fields_;  // within their owner
};

/// One PE. Construction and end are collective. A PE ends with finalize() or with its Runtime's
/// destruction, and waits for the others as long as they run, as MPI_Finalize does; destruction by
/// an exception waits for nobody, and the others hear of it at once (docs/errors.md). In a child of
/// fork() all calls throw kInvalidArgument, and destruction does nothing.
class Runtime {
 public:
  /// Joins the job: allocates the heap (Config::heap_size) where the kernels of `target` run, maps
  /// the peers' heaps or opens the NIC, creates the default context. On a GPU it also makes that
  /// GPU the calling thread's current one, as cudaSetDevice does. Throws kConfiguration,
  /// kUnsupported, kTimeout or kPeerLost with the remedy.
  explicit Runtime(std::unique_ptr<Bootstrap> bootstrap, const Config& config,
                   Target target = PEAL_TARGET);
  ~Runtime();
  Runtime(Runtime&&) noexcept;
  /// Ends this PE's Runtime of before as destruction does, which is collective.
  Runtime& operator=(Runtime&&) noexcept;

  /// Collective. Ends this PE's part in the job, once streams have done what they were given; later
  /// calls throw kInvalidArgument. Throws kPeerLost where a PE died or left before, kTimeout where
  /// one is stopped, kSystem for a failure that nobody has asked for: this PE has ended then, too.
  void finalize();

  /// This PE's number, 0 to n_pes() - 1.
  int my_pe() const;
  /// How many PEs the job has.
  int n_pes() const;
  /// The settings in force, as PEAL_INFO=1 prints them.
  const Config& config() const;
  /// Where kernels run.
  Target target() const;

  /// Collective, symmetric memory; see SymmetricHeap and docs/heap.md. malloc aligns to 128 bytes;
  /// 0 bytes answer nullptr. Where no block is left the heap grows (Config::heap_limit), and it
  /// gives back with free() what it grew by. With HeapKind::kHost the memory is the host's, which
  /// kernels on a GPU load and store over the bus. Throws kOutOfMemory on all PEs.
  void* malloc(size_t bytes, HeapKind kind = HeapKind::kDevice);
  void* calloc(size_t count, size_t bytes, HeapKind kind = HeapKind::kDevice);
  void* align(size_t alignment, size_t bytes, HeapKind kind = HeapKind::kDevice);
  /// What one of the three answered, once; nullptr is no block, and no error if all PEs give it.
  void free(void* pointer);

  /// The blocks that are allocated, where this PE has them, in the order of their allocation, which
  /// is that of all PEs: a process that took the place of another finds what was kept. Not
  /// collective.
  std::vector<HeapBlock> blocks() const;

  /// `count` zeroed objects of T.
  template <class T>
  T* allocate(size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    return static_cast<T*>(calloc(count, sizeof(T)));
  }

  /// Copies between host memory and memory of this PE, wherever that lies: of one allocation, one
  /// window or one registered range. Done on return. Throws kInvalidArgument for other memory, and
  /// for host memory at null.
  void copy_in(void* symmetric, const void* host, size_t bytes);
  void copy_out(void* host, const void* symmetric, size_t bytes) const;

  /// Files into and out of memory of this PE in the heap or a window, wherever it lies
  /// (docs/storage.md). Kernels and peers leave it alone meanwhile. All throw kInvalidArgument for
  /// other memory and for what is wrong with a path, kSystem for a disk that fails or is full; what
  /// was being loaded is undefined then.
  ///
  /// load() fills memory with the file's bytes from `offset` on; kInvalidArgument where the file
  /// ends before, with memory as it was.
  void load(const std::string& path, uint64_t offset, void* symmetric, size_t bytes);

  /// Makes `path` a file of exactly these bytes, on the disk on return. Where it throws, what was
  /// at `path` is as it was.
  void save(const std::string& path, const void* symmetric, size_t bytes);

  /// [offset, offset + bytes) of a file.
  struct FilePart {
    uint64_t offset;
    uint64_t bytes;
  };
  /// Loads this PE's part of a file that is divided among all PEs in their order without cutting
  /// units of `unit` bytes; the first ones have a unit more where there is a remainder. Not
  /// collective. kInvalidArgument where `room` bytes are too few or the file has no whole number of
  /// units.
  FilePart load_shard(const std::string& path, void* symmetric, size_t room, size_t unit = 1);

  /// Collective; the same path and as many bytes on all PEs. Saves the memory of all in one file
  /// with checksums. Where it fails on one PE all throw, and what was at `path` is as it was; also
  /// where a PE is killed meanwhile. kConfiguration where the PEs do not see one file system,
  /// kUnsupported after mask().
  void save_checkpoint(const std::string& path, const void* symmetric, size_t bytes);

  /// Collective; loads what save_checkpoint() saved, on as many PEs. kSystem for a damaged file,
  /// naming PE and bytes, kInvalidArgument for one of other PEs or bytes or that was cut short.
  void load_checkpoint(const std::string& path, void* symmetric, size_t bytes);

  /// For people: which way the last of these calls took, and why.
  std::string describe_storage() const;

  /// What this PE's address of symmetric memory stands for at `pe`, as kernels and copies of this
  /// PE reach it; null where only the NIC does, for what is not symmetric, and for a PE that is
  /// none.
  void* ptr(const void* symmetric, int pe) const;

  /// Collective. Makes [address, address + bytes) of every PE a window: usable as destination and
  /// source of transfers. It is addressed like symmetric memory, relative to each PE's own address,
  /// or by the handle that is answered and an offset (WindowHandle::at). It may begin anywhere and
  /// overlap others; sizes must agree unless `options` say otherwise. The memory must stay until
  /// unregister_window() or the end of the Runtime. At most kMaxWindows - 1, with those of
  /// register_local(); kernels find one of many as fast as one of few. Peers in other processes
  /// that are reached without a NIC map the memory: what they can map docs/windows.md tells, for
  /// the rest this throws kUnsupported with the reason. Throws kInvalidArgument on all PEs where
  /// one asked for something else or has no room.
  WindowHandle register_window(void* address, size_t bytes, const WindowOptions& options = {});

  /// Collective. Ends a window: all PEs name the same one, each by its own handle or address (of
  /// several windows that begin there the newest). No operation that uses it may be under way on
  /// any PE; kernels that use other memory may run. The memory may be given back on return. Throws
  /// kInvalidArgument on all PEs, and nothing ends, where they name different windows or none.
  void unregister_window(const WindowHandle& window);
  void unregister_window(const void* address);

  /// Makes a local range usable as source of puts and destination of gets. Not collective. Throws
  /// kSystem when the NIC cannot reach it: the software NIC on a GPU takes memory of GPUs only. Of
  /// `options` only `cached` says something.
  void register_local(void* address, size_t bytes, const WindowOptions& options = {});

  /// Ends the newest register_local() of that address, under the conditions of unregister_window().
  /// Not collective. Throws kInvalidArgument where there is none.
  void unregister_local(const void* address);

  /// The default context: Config::queues per peer, shared by all lanes. Throws kUnsupported when
  /// the library is of another version than the headers.
  Context context() const { return {detail::readable(default_context())}; }

  /// Collective. A context with queues of its own, ordered independently of all others. Where a PE
  /// has several NICs only a context that all lanes of the GPU share is spread over them; one whose
  /// queues are owned (kLane, kBlock) uses the first.
  template <Reach R = Reach::kGpu>
  OwnedContext<R> make_context(const ContextOptions& options = {}) {
    return OwnedContext<R>(create_context(options, R));
  }

  /// The team of all PEs; not collective.
  Team world() const;

  /// Collective among the members of `parent`. Makes teams of those that told the same `color`,
  /// numbered by key, then by their number in the parent; a negative color makes none, and answers
  /// a team whose rank is -1. Throws, at all members of the parent, kInvalidArgument where members
  /// ask for different options, kOutOfMemory where PEAL_TEAM_MEMORY is used up, kUnsupported for a
  /// parent other than world() with members on several hosts. After mask() teams with a masked
  /// member answer kPeerMasked: split world() again, which leaves masked PEs out.
  Team split_team(const Team& parent, int color, int key = 0, const TeamOptions& options = {});

  /// The same for members first, first + stride, ... of the parent, `size` of them: one team, and
  /// none for the others. kInvalidArgument where there is no such member.
  Team split_team_strided(const Team& parent, int first, int stride, int size,
                          const TeamOptions& options = {});

  /// What split_team_2d answers: this PE's row and its column.
  struct Team2d {
    Team row;
    Team column;
  };
  /// The same twice, with the parent's members laid out in rows of `columns`, the last one shorter.
  Team2d split_team_2d(const Team& parent, int columns, const TeamOptions& options = {});

  /// Collective among all PEs. The PEs that this one reaches by loads and stores, and it.
  Team split_node_team(const TeamOptions& options = {});

  /// Collective among all PEs. The PEs of this host, whatever the way to them.
  Team split_host_team(const TeamOptions& options = {});

  /// Collective among the members; gives the team's memory back. No kernel of a member may be using
  /// it. Throws kInvalidArgument for world() and for what is no team of this PE.
  void free_team(const Team& team);

  /// The PEs of a team's members, in order.
  std::vector<int> team_pes(const Team& team) const;

  /// Operations in the order of `stream`, a cudaStream_t or a peal::Stream, on the default context
  /// or on one that outlives what was given to the stream (host/calls.h).
  StreamCalls on(void* stream);
  StreamCalls on(void* stream, const ContextFields& context);

  /// What members of a team compare before a collective call of host().
  enum class HostChecks { kArguments, kNothing };
  /// Operations that return when they are done, in the order in which they are called. With
  /// kArguments the members of a team compare the arguments of a collective call first, and all
  /// throw where two differ: an exchange between hosts' processes, some 50 us.
  HostCalls host(HostChecks checks = HostChecks::kArguments);
  /// The same, answering tickets; arguments are not compared.
  TicketCalls host_nbi();

  /// Collective, host only: returns once every PE has called it. Says nothing of transfers.
  void barrier();

  /// The status of failure(), from words in host memory: cheap while all is well, on a GPU too. May
  /// be asked while kernels run.
  Status status() const;

  /// The first failure of this PE, or one with status kOk. May be asked while kernels run. What
  /// follows from the end of a PE is told as kPeerLost.
  Failure failure() const;

  /// Has `callback` called once with failure(), from a thread of its own, when there is one: within
  /// some milliseconds of a kernel's error, at once after the end of a PE or an abort. After
  /// recover() it may be called again. It may use everything here that is not collective, and wait
  /// for a thread that is in a collective call; it may not destroy the Runtime, which waits for it.
  /// What it throws is logged. An empty function ends that. While one is installed, peal looks at
  /// its alarm words every millisecond; kernels pay nothing.
  void on_failure(std::function<void(const Failure&)> callback);

  /// Throws Error with failure().text unless all is well. Before that the last calls of the context
  /// are logged as errors, if the flight recorder is on.
  void check() const;

  /// For a person who asks why nothing moves: transport, NIC, the first failure, and for every
  /// queue its peer, QP, what kernels have reserved, published and rung, what has completed (counts
  /// of WQEBBs since the start), the newest completion and the status; what the kernels of all live
  /// PEs wait for, those of other hosts included, and circles in that; the last calls of kernels
  /// and counters, if the flight recorder is on, whose file is written anew (PEAL_RECORD_FILE;
  /// kSystem where that fails). May be asked while kernels run. Waits up to a second for PEs that
  /// do not answer.
  std::string dump() const;

  /// What kernels have done, by context; none while the flight recorder is off (PEAL_RECORD). May
  /// be asked while kernels run: calls that end meanwhile are counted in part.
  std::vector<Counters> counters() const;

  /// Collective. Makes the contexts usable again after errors, timeouts and aborts: queues that are
  /// in error are reset together with their other ends and connected afresh, error records are
  /// forgotten, barriers begin anew. What was under way on those queues may or may not have
  /// happened; docs/errors.md says what may be repeated. No kernel may be running on any PE, and
  /// Tickets of before are void. Answers how many queues of this PE were reset. Throws kPeerLost
  /// where a PE has ended, kInvalidArgument where the PEs have not the same contexts.
  size_t recover();

  /// Replaces this PE's plan of faults on the way to mapped peers (docs/faults.md); an empty one
  /// ends them. Operations count from here. Holds for contexts that are made after the first plan,
  /// which PEAL_P2P_FAULTS can be: on others it is not looked at. No kernel of this PE may be
  /// running. Throws kInvalidArgument for what is no plan, for a fault that only a NIC can have,
  /// and where no other PE is mapped.
  void set_p2p_faults(std::string_view plan);

  /// PEs that have ended and are not masked, in the order in which that was noticed.
  std::vector<int> lost_pes() const;

  /// Goes on without `pes`, which have ended. Collective among the others, which all mask the same.
  /// Afterwards operations to a masked PE answer kPeerMasked at once and quiet passes over them;
  /// barriers and all collective calls here are among the PEs that are left; waits of existing
  /// contexts work again, everything recover() does being done. Values of contexts that were taken
  /// before are to be taken again. PE numbers and n_pes() stay. No kernel may be running. Waits a
  /// little for the end of a PE to be noticed. Throws kInvalidArgument for this PE, a number out of
  /// range, a PE that is alive; kPeerLost where another PE ends meanwhile: then call again with
  /// lost_pes(). What is masked once stays masked.
  void mask(const std::vector<int>& pes);

  /// Begins anew with a process in the place of each PE that has ended, masked ones too. Collective
  /// among the PEs that live, with the same options; each new process starts as any PE does. `meet`
  /// answers the group in which all of them, as many as before and under the same numbers, come
  /// together; peal::rejoin() passes the one of peal-run. It is called once this PE's part in the
  /// job so far has ended: contexts, teams and windows are gone, which the program must hold no
  /// more, and so is the heap without RejoinOptions::keep_heap. No kernel may be running on this
  /// PE. Waits a little for the end of a PE to be noticed;
  /// where a kernel has run into its NIC's error or its deadline, and there are other hosts,
  /// Config::host_timeout longer. Throws kInvalidArgument, and the job stays as it was, where no PE
  /// has ended; what `meet` throws, and what a start does (kPeerLost where one more PE ends
  /// meanwhile; kConfiguration where heaps to be kept differ): then this may be called again, and
  /// nothing else. kUnsupported, and nothing changes, for keep_heap in checked mode.
  void rejoin(const std::function<std::unique_ptr<Bootstrap>(const Config&)>& meet,
              const RejoinOptions& options = {});

  /// How often the job was rejoined, the same on all PEs: 0 from its start on, more after each
  /// rejoin(). A new process learns it from the others; where none of them has lived before, it is
  /// 0 again.
  uint64_t epoch() const;

  /// Ends every wait of every kernel on every context, on all PEs, with kAborted; their failure()
  /// says which PE called and why. Not collective, never blocks, works when a PE is dead, harms
  /// nothing: kernels end because their waits do. An aborted context stays so until recover();
  /// contexts made later are not concerned. `reason` is cut after 1000 bytes.
  void abort(std::string_view reason);

  /// The same for one context (its value, or the default one) on all PEs.
  void abort(const ContextFields& context, std::string_view reason);

  /// Throws kInvalidArgument, naming `call`, after the end, and in a child of fork().
  void require(const char* call) const;

  /// For reports: "p2p", "ibgda", "proxy", "p2p+ibgda" or "p2p+proxy", and "softnic-cpu",
  /// "softnic-gpu" or the device's name; of several "mlx5_0+mlx5_1" or
  /// "softnic-cpu(mlx5_0+mlx5_1)". Where there is no NIC, what it is replaced by: "shared-memory"
  /// on a CPU, "nvlink" or "none" on a GPU.
  const char* transport() const;
  std::string nic() const;
  /// Bytes of queues, tables and other memory beside the heap that this PE allocated for peal.
  size_t overhead_bytes() const;

 private:
  const ContextFields& default_context() const;
  std::shared_ptr<const ContextFields> create_context(const ContextOptions& options, Reach reach);
  struct Parts;
  /// Throws, naming `call`, as require() does.
  Parts& parts(const char* call = __builtin_FUNCTION()) const;
  void leave(std::unique_ptr<Parts> ending) const noexcept;
  void leave_for_rejoin(const RejoinOptions& options);
  static void forget(std::shared_ptr<Beginning> again) noexcept;

  std::unique_ptr<Parts> parts_;
  std::shared_ptr<Beginning> again_;             // of a rejoin() that is to be repeated
  std::string ended_;                            // before that: "PE 2 on node2"
  int exceptions_ = std::uncaught_exceptions();  // at construction: one more ends it
};

}  // namespace peal
