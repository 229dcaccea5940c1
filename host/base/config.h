// SPDX-License-Identifier: Apache-2.0
//
// Every setting of peal: one table (field, variable, type, default, rule, one line of
// documentation). The struct below, the parser, the error texts and describe() come from it;
// nothing else in peal reads the environment.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "device/shared/algorithms.h"
#include "host/base/log_level.h"

namespace peal {

enum class BootstrapKind { kAuto, kMpi, kPmix, kPmi, kTorchrun, kTcp, kSingle };
enum class TransportKind { kAuto, kP2p, kIbgda, kProxy };
enum class TargetKind { kAuto, kCpu, kGpu };
enum class DoorbellKind { kAuto, kGpu, kCpu };
enum class FenceKind { kAuto, kGpu, kSystem };
enum class ConnectKind { kAuto, kLazy, kEager };
enum class RelaxedOrdering { kAuto, kOn, kOff };
enum class GetFlush { kAuto, kDump, kNothing };
enum class SignalOpsSetting { kAuto, kWrite, kAtomic, kStrong };

/// Where a program's kernels run, and so where the memory they use must lie. Not a setting: the
/// compiler that built the kernels decides (peal::start).
enum class Target { kCpu, kGpu };

using Microseconds = std::chrono::microseconds;

// X(type, field, variable, default text, rule, documentation). The rule belongs to config.cc: it
// parses a text, the default too, and can say what it accepts.
#define PEAL_CONFIG_TABLE(X)                                                                       \
  X(uint64_t, heap_size, "PEAL_HEAP_SIZE", "64M", (Size{64u << 10, uint64_t{1} << 44}),            \
    "bytes of symmetric heap of each PE")                                                          \
  X(uint64_t, heap_limit, "PEAL_HEAP_LIMIT", "16T", (Size{64u << 10, uint64_t{1} << 44}),          \
    "the heap grows up to this, by PEAL_HEAP_SIZE at a time; no more than that = never")           \
  X(uint64_t, team_memory, "PEAL_TEAM_MEMORY", "32M", (Size{64u << 10, uint64_t{1} << 40}),        \
    "bytes beside the heap of each PE for teams; each takes some hundred KiB (TeamOptions)")       \
  X(int, queues, "PEAL_QUEUES", "4", (Count{1, 1024}), "queues per peer of the default context")   \
  X(int, queue_depth, "PEAL_QUEUE_DEPTH", "1024", (PowerOfTwo{128, 16384}),                        \
    "work queue entries of one queue")                                                             \
  X(uint64_t, queue_memory, "PEAL_QUEUE_MEMORY", "1G", (Size{64u << 10, uint64_t{1} << 44}),       \
    "most memory that all queues of a PE may take")                                                \
  X(ConnectKind, connect, "PEAL_CONNECT", "auto", kConnects,                                       \
    "queues are made at: lazy = first use, but neighbours'; eager = the start; auto = by job")     \
  X(Microseconds, timeout, "PEAL_TIMEOUT", "600s", (Time{Microseconds(0)}),                        \
    "deadline of every wait inside a kernel; 0 = none")                                            \
  X(BootstrapKind, bootstrap, "PEAL_BOOTSTRAP", "auto", kBootstraps,                               \
    "how PEs find each other; auto = as the launcher's variables tell, without any single")        \
  X(Microseconds, bootstrap_timeout, "PEAL_BOOTSTRAP_TIMEOUT", "60s", (Time{Microseconds(1000)}),  \
    "deadline of every collective set-up call")                                                    \
  X(bool, self_test, "PEAL_SELF_TEST", "on", Switch{},                                             \
    "every queue asks who answers, does a put, an atomic and a get before kernels use it")         \
  X(std::string, tcp_id, "PEAL_TCP_ID", "", Secret{}, "unique id of a job started over tcp")       \
  X(int, tcp_rank, "PEAL_TCP_RANK", "0", (Count{0, 65535}), "rank of this PE in a tcp job")        \
  X(int, tcp_size, "PEAL_TCP_SIZE", "1", (Count{1, 65536}), "number of PEs in a tcp job")          \
  X(int, tcp_restart, "PEAL_TCP_RESTART", "0", (Count{0, 65536}),                                  \
    "how often this PE's process has been replaced; above 0 it joins a job that runs already")     \
  X(std::string, tcp_interface, "PEAL_TCP_INTERFACE", "", Text{},                                  \
    "rank 0's interface or address, where jobs by pmix, pmi, NVSHMEM's id meet; empty = found")    \
  X(std::string, interface, "PEAL_INTERFACE", "", Text{},                                          \
    "interface, or address, by which other hosts reach this one for messages; empty = found")      \
  X(Microseconds, host_timeout, "PEAL_HOST_TIMEOUT", "10s", (Time{Microseconds(0)}),               \
    "silence of another host after which its PEs count as lost; 0 = never")                        \
  X(std::string, mpi_plugin, "PEAL_MPI_PLUGIN", "", Text{},                                        \
    "path of libpeal_mpi.so; empty = found beside the program")                                    \
  X(std::string, ibverbs, "PEAL_IBVERBS", "", Text{},                                              \
    "path of libibverbs.so.1; with PEAL_MLX5, or alone with PEAL_TRANSPORT=proxy")                 \
  X(std::string, mlx5, "PEAL_MLX5", "", Text{}, "path of libmlx5.so.1; with PEAL_IBVERBS")         \
  X(std::string, hca, "PEAL_HCA", "", Text{},                                                      \
    "NICs to use, such as mlx5_0,mlx5_3:1, or ^mlx5_1 = not this one; empty = any")                \
  X(std::string, nvshmem_hca_list, "NVSHMEM_HCA_LIST", "", Text{},                                 \
    "NVSHMEM's list of NICs, taken where PEAL_HCA is empty")                                       \
  X(std::string, nvshmem_symmetric_size, "NVSHMEM_SYMMETRIC_SIZE", "", Text{},                     \
    "heap of programs by compat/nvshmem.h that set no PEAL_HEAP_SIZE; empty = 1G")                 \
  X(std::string, nccl_ib_hca, "NCCL_IB_HCA", "", Text{},                                           \
    "NCCL's list of NICs, taken where both are empty")                                             \
  X(int, rails, "PEAL_RAILS", "auto", (AutoOr{{1, 4}}),                                            \
    "NICs a PE uses; auto = its share of those nearest to its GPU, on a CPU one")                  \
  X(int, gid_index, "PEAL_GID_INDEX", "auto", (AutoOr{{0, 255}}),                                  \
    "entry of the port's GID table to use; auto = RoCE v2, IPv4 before IPv6")                      \
  X(int, pkey, "PEAL_PKEY", "auto", Pkey{},                                                        \
    "InfiniBand partition, as its key; auto = NCCL_IB_PKEY's, or the first with full membership")  \
  X(int, traffic_class, "PEAL_TRAFFIC_CLASS", "auto", (AutoOr{{0, 255}}),                          \
    "of packets with GIDs, on Ethernet 4 x DSCP; auto = NCCL_IB_TC, the NIC's in sysfs, or 0")     \
  X(int, service_level, "PEAL_SERVICE_LEVEL", "auto", (AutoOr{{0, 15}}),                           \
    "of packets, on Ethernet the priority up to 7; auto = NCCL_IB_SL or 0")                        \
  X(int, mtu, "PEAL_MTU", "auto", kMtus, "largest packet payload; auto = what both ports can do")  \
  X(int, ack_timeout, "PEAL_ACK_TIMEOUT", "auto", (AutoOr{{1, 31}}),                               \
    "the NIC waits 4.096 us x 2^this for an answer; auto = NCCL_IB_TIMEOUT or 20")                 \
  X(int, retry_count, "PEAL_RETRY_COUNT", "auto", (AutoOr{{0, 7}}),                                \
    "how often the NIC sends again (the proxy: 6 at most); auto = NCCL_IB_RETRY_CNT or 7")         \
  X(std::string, nccl_ib_gid_index, "NCCL_IB_GID_INDEX", "", Text{},                               \
    "NCCL's, taken where PEAL_GID_INDEX is auto")                                                  \
  X(std::string, nccl_ib_pkey, "NCCL_IB_PKEY", "", Text{},                                         \
    "NCCL's, an index of the port's table, taken where PEAL_PKEY is auto")                         \
  X(std::string, nccl_ib_tc, "NCCL_IB_TC", "", Text{},                                             \
    "NCCL's, taken where PEAL_TRAFFIC_CLASS is auto")                                              \
  X(std::string, nccl_ib_sl, "NCCL_IB_SL", "", Text{},                                             \
    "NCCL's, taken where PEAL_SERVICE_LEVEL is auto")                                              \
  X(std::string, nccl_ib_timeout, "NCCL_IB_TIMEOUT", "", Text{},                                   \
    "NCCL's, taken where PEAL_ACK_TIMEOUT is auto")                                                \
  X(std::string, nccl_ib_retry_count, "NCCL_IB_RETRY_CNT", "", Text{},                             \
    "NCCL's, taken where PEAL_RETRY_COUNT is auto")                                                \
  X(TransportKind, transport, "PEAL_TRANSPORT", "auto", kTransports,                               \
    "p2p = loads and stores, ibgda = the NIC, proxy = it by a CPU; auto = the first that can")     \
  X(collective::ForcedAlgorithm, algorithm, "PEAL_ALGORITHM", "", CallAndAlgorithm{},              \
    "collective call and the algorithm it must take, such as all_reduce:stage; empty = the best")  \
  X(std::string, p2p_faults, "PEAL_P2P_FAULTS", "", Text{},                                        \
    "plan of faults towards mapped peers (docs/faults.md); empty = none")                          \
  X(DoorbellKind, doorbell, "PEAL_DOORBELL", "auto", kDoorbells,                                   \
    "who rings the NIC: gpu = kernels, cpu = a thread for them; auto = gpu where it may")          \
  X(FenceKind, fence, "PEAL_FENCE", "auto", kFences,                                               \
    "how far kernels fence before they ring: gpu, system; auto = gpu where a NIC reads that GPU")  \
  X(RelaxedOrdering, relaxed_ordering, "PEAL_RELAXED_ORDERING", "auto", AutoOrSwitch{},            \
    "on = the NIC may place payload out of order until a signal or fence; auto = on a GPU")        \
  X(SignalOpsSetting, signal_ops, "PEAL_SIGNAL_OPS", "auto", kSignalOps,                           \
    "signals and barriers by: write, atomic, strong (atomics that wait); auto = as the NICs need") \
  X(GetFlush, get_flush, "PEAL_GET_FLUSH", "auto", kGetFlushes,                                    \
    "behind what the NIC fetches: dump, none; auto = dump where completions do not vouch for it")  \
  X(std::string, kernels, "PEAL_KERNELS", "", Text{},                                              \
    "path of libpeal_kernels.so; empty = found beside the program")                                \
  X(std::string, gdrcopy, "PEAL_GDRCOPY", "auto", OptionalLibrary{},                               \
    "host words of GPU memory by GDRCopy: path of libgdrapi.so.2, off; auto = where it is found")  \
  X(std::string, cufile, "PEAL_CUFILE", "auto", OptionalLibrary{},                                 \
    "libcufile for files and GPUs: its path, off; auto = libcufile.so.0 where nvidia-fs is")       \
  X(int, storage_threads, "PEAL_STORAGE_THREADS", "4", (Count{1, 64}),                             \
    "threads of a PE that read or write a file at the same time")                                  \
  X(TargetKind, target, "PEAL_TARGET", "auto", kTargets,                                           \
    "where kernels of C programs run (peal_init): cpu, gpu; auto = gpu where there is one")        \
  X(int, device, "PEAL_DEVICE", "auto", (AutoOr{{0, 1023}}),                                       \
    "GPU to use; auto = number of this PE on its host, modulo GPUs")                               \
  X(bool, check, "PEAL_CHECK", "off", Switch{},                                                    \
    "checked mode: kernels' calls are looked at for mistakes (docs/checking.md)")                  \
  X(int, record, "PEAL_RECORD", "0", (ZeroOr{{16, 1 << 20}}),                                      \
    "calls that the flight recorder of each context keeps, a power of two; 0 = no recorder")       \
  X(std::string, record_file, "PEAL_RECORD_FILE", "", TraceName{},                                 \
    "where each PE writes its records, for peal-trace; %r = PE, %p = process; empty = nowhere")    \
  X(bool, report_failures, "PEAL_REPORT_FAILURES", "on", Switch{},                                 \
    "failures of kernels that nobody asks for are said on stderr, and fail the end of the job")    \
  X(bool, info, "PEAL_INFO", "0", Switch{}, "print this table with the values in force")           \
  X(LogLevel, log, "PEAL_LOG", "warn", kLogLevels, "least important messages that are printed")

/// The settings in force: a plain value, read once and then handed on by const reference.
///
/// Config{} is not useful: start from from_environment(environ), or from defaults() in a test.
struct Config {
#define PEAL_CONFIG_FIELD(type, field, variable, text, rule, documentation) type field{};
  PEAL_CONFIG_TABLE(PEAL_CONFIG_FIELD)
#undef PEAL_CONFIG_FIELD

  /// Transfers of a PE to itself take any of its memory, not symmetric memory alone. Of programs by
  /// compat/nvshmem.h; no variable says it.
  bool own_memory = false;

  /// Variables of the table, and of the software NIC, that the environment set, with their text.
  std::map<std::string, std::string> given;

  /// The software NIC's own variables that the environment set, with their text.
  std::map<std::string, std::string> softnic;

  /// Variables of launchers (mpirun, srun, torchrun, ...) that the environment set, with their
  /// text. What they mean for PEAL_BOOTSTRAP=auto tells bootstrap/launch.h.
  std::map<std::string, std::string> launcher;

  /// Reads all PEAL_* variables of `environment` (null-terminated "NAME=value" texts, e.g.
  /// environ), and those of other libraries that the table has.
  ///
  /// Throws kConfiguration for an unknown PEAL_* name (with the nearest known one) and for a value
  /// that is malformed or out of range (with what is accepted). An empty value of a setting that
  /// has a default other than empty is malformed. PEAL_SOFTNIC_* names are the software NIC's:
  /// known ones are passed over.
  static Config from_environment(const char* const* environment);

  /// The table's defaults.
  static Config defaults();

  /// The table in force, one setting a line: name, value, "(default)" or "(set)", documentation.
  /// Secrets are not printed. This is what PEAL_INFO=1 shows.
  std::string describe() const;
};

/// "64M", "1536", ...: the largest suffix that divides `bytes`.
std::string format_size(uint64_t bytes);

}  // namespace peal
