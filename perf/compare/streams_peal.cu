// SPDX-License-Identifier: Apache-2.0
//
// Calls on a stream: peal's side, and NCCL's in the same run where STREAM_ROWS_NCCL names its
// library (libnccl.so.2). STREAM_ROWS_WORKSPACE: peal's calls are those of a team with that
// TeamOptions::grid_workspace. A GPU's program.
//
//   mpirun -np 2 streams_peal
//
// The last rows are puts of peal and copies of the stream, in turn, and a put while a kernel holds
// every SM.
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "peal/peal.h"
#include "perf/common/fixed_heap.h"
#include "perf/compare/stream_rows.cuh"

namespace {

using namespace peal;
using perf::StreamCall;
using perf::StreamRow;

class PealSide {
 public:
  explicit PealSide(Runtime& runtime) : runtime_(runtime), team_(runtime.world()) {
    const char* const bytes = std::getenv("STREAM_ROWS_WORKSPACE");
    if (bytes == nullptr) return;
    const TeamOptions options{
        .contexts = 1, .blocks = 128, .grid_workspace = std::strtoull(bytes, nullptr, 0)};
    team_ = runtime.split_team(team_, 0, 0, options);
  }
  const char* name() const { return "peal"; }
  int pe() const { return runtime_.my_pe(); }
  int n_pes() const { return runtime_.n_pes(); }
  bool has(StreamCall, bool) const { return true; }
  void barrier() { runtime_.barrier(); }
  void call(const StreamRow& row) {
    if (row.bfloat16) {
      call_of<BFloat16>(row);
    } else {
      call_of<float>(row);
    }
  }

 private:
  template <class T>
  void call_of(const StreamRow& row) {
    const StreamCalls on = runtime_.on(row.stream);
    T* const dst = static_cast<T*>(row.dst);
    const T* const src = static_cast<const T*>(row.src);
    switch (row.call) {
      case StreamCall::kAllReduce:
        return on.all_reduce(team_, dst, src, row.count, op::sum);
      case StreamCall::kGather:
        return on.all_gather(team_, dst, src, row.count);
      case StreamCall::kAllToAll:
        return on.all_to_all(team_, dst, src, row.count);
      case StreamCall::kReduceScatter:
        return on.reduce_scatter(team_, dst, src, row.count, op::sum);
      case StreamCall::kBroadcast:
        return on.broadcast(team_, dst, src, row.count, 0);
    }
  }
  Runtime& runtime_;
  Team team_;
};

// NCCL's interface, as its documentation has it.
struct NcclId {
  char bytes[128];
};
constexpr int kNcclFloat = 7;
constexpr int kNcclBfloat16 = 9;
constexpr int kNcclSum = 0;

class NcclSide {
 public:
  NcclSide(Runtime& runtime, const char* path) : runtime_(runtime) {
    library_ = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
    auto* const shared = static_cast<NcclId*>(runtime.malloc(sizeof(NcclId)));
    NcclId id{};
    if (runtime.my_pe() == 0) check(find<int(NcclId*)>("ncclGetUniqueId")(&id));
    runtime.copy_in(shared, &id, sizeof(id));
    runtime.barrier();
    if (runtime.my_pe() != 0) runtime.host().get(shared, shared, 1, 0);
    runtime.barrier();
    runtime.copy_out(&id, shared, sizeof(id));
    check(find<int(void**, int, NcclId, int)>("ncclCommInitRank")(&communicator_, runtime.n_pes(),
                                                                  id, runtime.my_pe()));
    all_reduce_ =
        find<int(const void*, void*, size_t, int, int, void*, cudaStream_t)>("ncclAllReduce");
    reduce_scatter_ =
        find<int(const void*, void*, size_t, int, int, void*, cudaStream_t)>("ncclReduceScatter");
    gather_ = find<int(const void*, void*, size_t, int, void*, cudaStream_t)>("ncclAllGather");
    broadcast_ =
        find<int(const void*, void*, size_t, int, int, void*, cudaStream_t)>("ncclBroadcast");
    send_ = find<int(const void*, size_t, int, int, void*, cudaStream_t)>("ncclSend");
    receive_ = find<int(void*, size_t, int, int, void*, cudaStream_t)>("ncclRecv");
    begin_ = find<int()>("ncclGroupStart");
    end_ = find<int()>("ncclGroupEnd");
  }
  const char* name() const { return "nccl"; }
  int pe() const { return runtime_.my_pe(); }
  int n_pes() const { return runtime_.n_pes(); }
  bool has(StreamCall, bool) const { return true; }
  void barrier() { runtime_.barrier(); }
  void call(const StreamRow& row) {
    const int type = row.bfloat16 ? kNcclBfloat16 : kNcclFloat;
    switch (row.call) {
      case StreamCall::kAllReduce:
        return check(
            all_reduce_(row.src, row.dst, row.count, type, kNcclSum, communicator_, row.stream));
      case StreamCall::kReduceScatter:
        return check(reduce_scatter_(row.src, row.dst, row.count, type, kNcclSum, communicator_,
                                     row.stream));
      case StreamCall::kGather:
        return check(gather_(row.src, row.dst, row.count, type, communicator_, row.stream));
      case StreamCall::kBroadcast:
        return check(broadcast_(row.src, row.dst, row.count, type, 0, communicator_, row.stream));
      case StreamCall::kAllToAll:
        break;
    }
    const size_t bytes = row.count * (row.bfloat16 ? 2 : 4);
    check(begin_());
    for (int i = 0; i < n_pes(); ++i) {
      const size_t at = static_cast<size_t>(i) * bytes;
      check(send_(static_cast<const char*>(row.src) + at, row.count, type, i, communicator_,
                  row.stream));
      check(receive_(static_cast<char*>(row.dst) + at, row.count, type, i, communicator_,
                     row.stream));
    }
    check(end_());
  }

 private:
  template <class F>
  F* find(const char* name) {
    void* const found = ::dlsym(library_, name);
    if (found == nullptr) throw std::runtime_error(std::string("no ") + name);
    return reinterpret_cast<F*>(found);
  }
  static void check(int result) {
    if (result != 0) throw std::runtime_error("NCCL: error " + std::to_string(result));
  }

  Runtime& runtime_;
  void* library_ = nullptr;
  void* communicator_ = nullptr;
  int (*all_reduce_)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*reduce_scatter_)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*gather_)(const void*, void*, size_t, int, void*, cudaStream_t) = nullptr;
  int (*broadcast_)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*send_)(const void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*receive_)(void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*begin_)() = nullptr;
  int (*end_)() = nullptr;
};

double time_copies(cudaStream_t stream, int rounds, const std::function<void()>& copy) {
  copy();
  return perf::time_in_order(stream, rounds, copy);
}

PEAL_KERNEL find_peer(Context ctx, char* data, int pe, char** found) {
  *found = ptr(ctx, data, pe);
}

/// Where `data` of a PE is mapped here; null where it is not.
char* mapped_at(Runtime& pe, char* data, int where) {
  auto** const found = static_cast<char**>(pe.malloc(sizeof(char*)));
  launch({}, find_peer, pe.context(), data, where, found).wait();
  char* there = nullptr;
  pe.copy_out(&there, found, sizeof(there));
  pe.free(found);
  return there;
}

/// Holds every SM until the host says so, or for two seconds.
PEAL_KERNEL PEAL_MAX_THREADS(1024) hold(volatile int* released, uint64_t deadline_ns) {
  const uint64_t begin = now_ns();
  while (*released == 0 && now_ns() - begin < deadline_ns) {
  }
}

/// As little as a kernel can do.
PEAL_KERNEL empty(kernels::Collective) {}

/// As little as two GPUs can do together: one thread of each stores a number at the other and waits
/// for the other's. Ends after a second at the latest.
PEAL_KERNEL meet_by_stores(volatile uint64_t* mine, volatile uint64_t* theirs, uint64_t number) {
  *theirs = number;
  const uint64_t begin = now_ns();
  while (*mine < number && now_ns() - begin < 1000000000) {
  }
}

/// The floors of calls that take a kernel: an empty one, and one that only meets PE 1 - this PE.
void print_floors(Runtime& pe, char* dst) {
  constexpr int kRounds = 200;
  Stream stream;
  const auto handle = static_cast<cudaStream_t>(static_cast<void*>(stream));
  const double alone = time_copies(handle, kRounds, [&] {
    launch({.blocks = 1, .threads = 512, .stream = stream}, empty, kernels::Collective{});
  });
  if (pe.my_pe() == 0) std::printf("{\"op\": \"empty kernel\", \"us\": %.3f}\n", alone);
  char* const there = pe.n_pes() == 2 ? mapped_at(pe, dst, 1 - pe.my_pe()) : nullptr;
  if (there == nullptr) return;
  const uint64_t zero = 0;
  pe.copy_in(dst, &zero, sizeof(zero));
  pe.barrier();
  uint64_t number = 0;
  auto* const mine = reinterpret_cast<volatile uint64_t*>(dst);
  auto* const theirs = reinterpret_cast<volatile uint64_t*>(there);
  const double met = time_copies(handle, kRounds, [&] {
    launch({.blocks = 1, .threads = 32, .stream = stream}, meet_by_stores, mine, theirs, ++number);
  });
  if (pe.my_pe() == 0) std::printf("{\"op\": \"meeting by stores\", \"us\": %.3f}\n", met);
}

/// A put beside a plain copy to the same place, in turn; PE 0 alone sends.
void print_puts(Runtime& pe, char* dst, char* src) {
  Stream stream;
  const auto handle = static_cast<cudaStream_t>(static_cast<void*>(stream));
  char* const there = mapped_at(pe, dst, 1);
  for (size_t bytes = 1024; pe.my_pe() == 0 && there != nullptr && bytes <= size_t{256} << 20;
       bytes *= 16) {
    const int rounds = bytes < (size_t{16} << 20) ? 200 : 20;
    for (int turn = 0; turn < 3; ++turn) {
      const double put =
          time_copies(handle, rounds, [&] { pe.on(stream).put(dst, src, bytes, 1); });
      const double plain = time_copies(handle, rounds, [&] {
        cudaMemcpyAsync(there, src, bytes, cudaMemcpyDeviceToDevice, handle);
      });
      std::printf(
          "{\"op\": \"put\", \"bytes\": %zu, \"peal_us\": %.3f, \"copy_us\": %.3f, "
          "\"ratio\": %.4f}\n",
          bytes, put, plain, plain / put);
    }
  }
  pe.barrier();
  if (pe.my_pe() == 0 && there != nullptr) {
    int* released = nullptr;
    int sms = 0;
    cudaHostAlloc(&released, sizeof(int), cudaHostAllocMapped);
    *released = 0;
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
    Stream other;
    launch({.blocks = static_cast<unsigned>(2 * sms), .threads = 1024, .stream = other}, hold,
           static_cast<volatile int*>(released), uint64_t{2000000000});
    const uint64_t begin = static_cast<uint64_t>(clock());
    pe.on(stream).put(dst, src, size_t{64} << 20, 1);
    pe.on(stream).signal(Signal::set(reinterpret_cast<uint64_t*>(dst), 1, 1));
    stream.synchronize();
    const bool held =
        cudaStreamQuery(static_cast<cudaStream_t>(static_cast<void*>(other))) == cudaErrorNotReady;
    *released = 1;
    other.synchronize();
    std::printf("{\"op\": \"put while all %d SMs are held\", \"done\": %s, \"cpu_ticks\": %llu}\n",
                sms, held ? "true" : "false",
                static_cast<unsigned long long>(static_cast<uint64_t>(clock()) - begin));
    cudaFreeHost(released);
  }
  pe.barrier();
}

}  // namespace

int main() {
  return peal::run_main([] {
    Runtime runtime = start(perf::fixed_heap(2 * perf::largest_bytes() + (size_t{64} << 20)));
    auto* const dst = static_cast<char*>(runtime.calloc(1, perf::largest_bytes()));
    auto* const src = static_cast<char*>(runtime.calloc(1, perf::largest_bytes()));
    PealSide side(runtime);
    perf::print_stream_rows(side, dst, src);
    runtime.check();
    if (const char* const path = std::getenv("STREAM_ROWS_NCCL")) {
      NcclSide nccl(runtime, path);
      perf::print_stream_rows(nccl, dst, src);
    }
    print_floors(runtime, dst);
    if (runtime.n_pes() > 1) print_puts(runtime, dst, src);
    runtime.check();
    return 0;
  });
}
