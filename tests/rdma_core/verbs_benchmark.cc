// SPDX-License-Identifier: Apache-2.0
//
// What ibv_post_send and ibv_poll_cq carry: 8-byte inline WRITEs by one thread that posts and
// polls, as a proxy thread does. Knows rdma-core only; needs an InfiniBand port.
//
//   Writes/itself    a queue pair connected to itself
//   Writes/process   to a second process, over the wire of shared memory
//
// "chain" requests go into one call, every "signal"-th asks for a completion. Counter "writes" is
// requests a second; the bar is 1 M/s. "post_ns" and "nic_ns" are CPU time a request takes of the
// posting thread and of the rest of this process, which says more on a busy machine. Data and
// completions are checked: each request writes its number, and the target must hold the last
// numbers written.
#include <benchmark/benchmark.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

constexpr uint32_t kDepth = 512;
constexpr uint32_t kWords = 1024;  // more than can be outstanding

/// Where an end is, and its memory.
struct Address {
  uint32_t qpn;
  uint16_t lid;
  uint32_t rkey;
};

/// Shared by the two processes.
struct Meeting {
  std::atomic<bool> here_known;
  std::atomic<bool> there_known;
  std::atomic<bool> there_ready;
  Address here;
  Address there;
  std::array<std::atomic<uint64_t>, kWords> target;
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void wait_for(const std::atomic<bool>& flag) {
  while (!flag.load(std::memory_order_acquire)) sched_yield();
}

/// An opened device with one queue pair.
class End {
 public:
  explicit End(Meeting& meeting) {
    ibv_device** list = ibv_get_device_list(nullptr);
    context_ = list == nullptr ? nullptr : ibv_open_device(list[0]);
    if (context_ == nullptr) fail("ibv_open_device");
    ibv_free_device_list(list);
    pd_ = ibv_alloc_pd(context_);
    mr_ = ibv_reg_mr(pd_, meeting.target.data(), sizeof meeting.target,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    cq_ = ibv_create_cq(context_, 2 * kDepth, nullptr, nullptr, 0);
    if (mr_ == nullptr || cq_ == nullptr) fail("memory or completion queue");
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq_;
    init.qp_type = IBV_QPT_RC;
    init.cap = {.max_send_wr = kDepth,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 8};
    qp_ = ibv_create_qp(pd_, &init);
    if (qp_ == nullptr) fail("ibv_create_qp");
  }
  ~End() {
    ibv_destroy_qp(qp_);
    ibv_destroy_cq(cq_);
    ibv_dereg_mr(mr_);
    ibv_dealloc_pd(pd_);
    ibv_close_device(context_);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  Address address() const {
    ibv_port_attr port = {};
    if (ibv_query_port(context_, 1, &port) != 0) fail("ibv_query_port");
    return {qp_->qp_num, port.lid, mr_->rkey};
  }

  void connect(const Address& peer) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qpn;
    attr.ah_attr.dlid = peer.lid;
    attr.ah_attr.port_num = 1;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    modify(attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    modify(attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  }

  ibv_qp* qp() { return qp_; }
  ibv_cq* cq() { return cq_; }

 private:
  void modify(ibv_qp_attr& attr, int mask) {
    if (ibv_modify_qp(qp_, &attr, mask) != 0) fail("ibv_modify_qp");
  }

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

/// Posts numbered WRITEs in chains and polls their completions.
class Writer {
 public:
  Writer(End& end, Meeting& meeting, uint32_t rkey, uint32_t chain, uint32_t signal)
      : end_(end),
        target_(meeting.target),
        signal_(signal),
        wr_(chain),
        sge_(chain),
        value_(chain) {
    for (uint32_t i = 0; i < chain; ++i) {
      sge_[i] = {reinterpret_cast<uintptr_t>(&value_[i]), 8, 0};
      wr_[i] = {};
      wr_[i].next = i + 1 < chain ? &wr_[i + 1] : nullptr;
      wr_[i].sg_list = &sge_[i];
      wr_[i].num_sge = 1;
      wr_[i].opcode = IBV_WR_RDMA_WRITE;
      wr_[i].wr.rdma.rkey = rkey;
    }
  }

  /// Posts one chain when it fits, and takes what has completed.
  void step() {
    if (posted_ - done_ + wr_.size() <= kDepth) post();
    poll();
  }
  /// Ends on a request that asks for its completion, and waits for it.
  void drain() {
    while (posted_ % signal_ != 0) step();
    while (done_ < posted_) poll();
  }
  uint64_t done() const { return done_; }
  bool correct() const { return correct_; }

  /// True when each word holds the last number written to it.
  bool verify() const {
    for (uint64_t n = done_ > kWords ? done_ - kWords : 0; n < done_; ++n) {
      if (target_[n % kWords].load() != n + 1) return false;
    }
    return correct_;
  }

 private:
  void post() {
    for (size_t i = 0; i < wr_.size(); ++i) {
      value_[i] = ++posted_;
      wr_[i].wr_id = posted_;
      wr_[i].wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(&target_[(posted_ - 1) % kWords]);
      wr_[i].send_flags =
          IBV_SEND_INLINE | (posted_ % signal_ == 0 ? unsigned{IBV_SEND_SIGNALED} : 0);
    }
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(end_.qp(), wr_.data(), &bad) != 0) fail("ibv_post_send");
  }
  void poll() {
    std::array<ibv_wc, 32> wc;
    const int count = ibv_poll_cq(end_.cq(), static_cast<int>(wc.size()), wc.data());
    if (count < 0) fail("ibv_poll_cq");
    for (int i = 0; i < count; ++i) {
      correct_ = correct_ && wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == done_ + signal_;
      done_ = wc[i].wr_id;
    }
  }

  End& end_;
  std::array<std::atomic<uint64_t>, kWords>& target_;
  uint32_t signal_;
  std::vector<ibv_send_wr> wr_;
  std::vector<ibv_sge> sge_;
  std::vector<uint64_t> value_;
  uint64_t posted_ = 0;
  uint64_t done_ = 0;
  bool correct_ = true;
};

double cpu_ns(clockid_t clock) {
  timespec t = {};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

void write_on(benchmark::State& state, End& end, Meeting& meeting, uint32_t rkey) {
  const auto chain = static_cast<uint32_t>(state.range(0));
  const auto signal = static_cast<uint32_t>(state.range(1));
  Writer writer(end, meeting, rkey, chain, signal);
  const double own = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
  const double all = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
  for (auto _ : state) {
    for (int i = 0; i < 256; ++i) writer.step();
  }
  state.counters["writes"] =
      benchmark::Counter(static_cast<double>(writer.done()), benchmark::Counter::kIsRate);
  const double spent = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - own;
  const auto writes = static_cast<double>(writer.done());
  state.counters["post_ns"] = spent / writes;
  state.counters["nic_ns"] = (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - all - spent) / writes;
  writer.drain();
  if (!writer.verify()) state.SkipWithError("wrong data or completions");
}

void set_sizes(benchmark::internal::Benchmark* sizes) {
  sizes->ArgNames({"chain", "signal"})->UseRealTime()->MinTime(1);
  sizes->Args({1, 1})->Args({1, 16})->Args({16, 1})->Args({16, 16});
}

/// The second process: connects, and its NIC serves until the first is gone.
void answer(Meeting& meeting, int alive) {
  End end(meeting);
  meeting.there = end.address();
  meeting.there_known.store(true, std::memory_order_release);
  wait_for(meeting.here_known);
  end.connect(meeting.here);
  meeting.there_ready.store(true, std::memory_order_release);
  char none;
  while (read(alive, &none, 1) > 0) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  void* shared =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail("mmap");
  auto& meeting = *new (shared) Meeting();
  int alive[2];
  if (pipe(alive) != 0) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(alive[1]);
    answer(meeting, alive[0]);
    _exit(0);
  }
  {
    End itself(meeting);
    itself.connect(itself.address());
    End away(meeting);
    meeting.here = away.address();
    meeting.here_known.store(true, std::memory_order_release);
    wait_for(meeting.there_known);
    away.connect(meeting.there);
    wait_for(meeting.there_ready);
    set_sizes(benchmark::RegisterBenchmark("Writes/itself", [&](benchmark::State& state) {
      write_on(state, itself, meeting, itself.address().rkey);
    }));
    set_sizes(benchmark::RegisterBenchmark("Writes/process", [&](benchmark::State& state) {
      write_on(state, away, meeting, meeting.there.rkey);
    }));
    benchmark::RunSpecifiedBenchmarks();
  }
  close(alive[1]);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}
