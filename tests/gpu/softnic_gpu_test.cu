// SPDX-License-Identifier: Apache-2.0
//
// The software NIC's GPU engine under a kernel that posts and polls by itself: queues, data and
// completions in GPU memory, no CPU in between.
//
//   softnic_gpu_test [FOLDER]     of libibverbs.so.1, libmlx5.so.1, libpeal_softnic.so and
//                                 peal_softnic_engine; default: that of the program
//
// One process, one NIC, every queue connected to itself. Prints "N passed, N failed". No kernel
// waits longer than kTimeoutNs for anything.
#include <cuda_runtime.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "tests/gpu/softnic_longs.cuh"
#include "tests/gpu/softnic_posts.cuh"
#include "tests/gpu/softnic_rig.cuh"

namespace {

using namespace peal;
using namespace peal::testing;

constexpr uint32_t kQueues = 64;

// ---- what kernels do

__device__ unsigned long long* as_counter(uint64_t* word) {
  return reinterpret_cast<unsigned long long*>(word);
}

__global__ void put_words(SendQueue* q, NicKey rkey, uint32_t count, uint64_t* result) {
  for (uint32_t i = 0; i < count; ++i) {
    const Status s = run(*q, inline_word(8 * (i % 4096), rkey, i + 1));
    result[0] = static_cast<uint64_t>(s);
    result[1] = i + 1;
    if (s != Status::kOk) return;
  }
}

__global__ void put_together(SendQueue* queues, NicKey rkey, uint32_t rounds, uint64_t* result) {
  SendQueue& q = queues[blockIdx.x];
  const uint32_t lane = threadIdx.x;
  Status s = Status::kOk;
  for (uint32_t i = 0; i < rounds && s == Status::kOk; ++i) {
    const uint64_t word = (uint64_t{blockIdx.x} * rounds + i) * 32 + lane;
    const auto put = inline_word(8 * word, rkey, word + 1);
    s = post_together(q, lane, put, put);
  }
  if (lane == 0 && s == Status::kOk) s = nic::drain<Reach::kLane>(q);
  if (lane == 0) result[blockIdx.x] = static_cast<uint64_t>(s);
}

/// Each block on a queue of its own: a word of data, a word that tells of it, a swap (two blocks of
/// the queue) and an add, a doorbell each, and no waiting but for room. Queue i owns the words from
/// 64 * i on.
__global__ void post_singly(SendQueue* queues, NicKey rkey, NicKey word_rkey, uint32_t rounds,
                            uint64_t* result) {
  SendQueue& q = queues[blockIdx.x];
  const uint64_t own = 512 * uint64_t{blockIdx.x};
  const nic::Local landing{q.landing_address, q.landing_key};
  Status status = Status::kOk;
  const auto post = [&]<class Request>(const Request& request) {
    constexpr uint32_t kBlocks = nic::Model::kBlocks<Request>;
    uint64_t at = 0;
    if (status == Status::kOk) status = nic::reserve<Reach::kLane>(q, kBlocks, &at);
    if (status != Status::kOk) return;
    nic::Model::write(q.nic, q.mask, at, request, true);
    static_cast<void>(  // drain tells
        nic::publish<Reach::kLane>(q, {.first = at, .blocks = kBlocks, .last = at}));
    nic::ring<Reach::kLane>(q);
  };
  for (uint64_t i = 1; i <= rounds; ++i) {
    post(inline_word(own + 8 * (i % 32), rkey, i));
    post(inline_word(own + 256, word_rkey, i));
    post(nic::Atomic<Update::kSwap, uint64_t>{{own + 272, word_rkey}, landing, i});
    post(nic::Atomic<Update::kAdd, uint64_t>{{own + 264, word_rkey}, landing, i});
  }
  if (status == Status::kOk) status = nic::drain<Reach::kLane>(q);
  const uint64_t old = load_relaxed<Reach::kSystem>(&q.landing[0].value);
  if (old != uint64_t{rounds} * (rounds - 1) / 2) atomicAdd(as_counter(result + 1), 1ull);
  if (status != Status::kOk) atomicAdd(as_counter(result), 1ull);
}

struct Transfer {
  uint64_t remote;
  uint64_t local;
  uint32_t bytes;
  bool reads;
};

__global__ void transfer(SendQueue* q, NicKey rkey, NicKey lkey, Transfer t, uint64_t* result) {
  const nic::Remote remote{t.remote, rkey};
  const nic::Local local{t.local, lkey};
  const Status s = t.reads ? run(*q, nic::Read{remote, local, t.bytes})
                           : run(*q, nic::Write{remote, local, t.bytes});
  result[0] = static_cast<uint64_t>(s);
  result[1] = q->error.syndrome;
}

__global__ void atomics(SendQueue* q, NicKey rkey, uint64_t* result) {
  uint64_t* landing = &q->landing[0].value;
  const nic::Local local{q->landing_address, q->landing_key};
  const nic::Remote word{0, rkey};
  const auto old = [&] { return load_relaxed<Reach::kSystem>(landing); };
  result[0] = static_cast<uint64_t>(run(*q, nic::Atomic<Update::kAdd, uint64_t>{word, local, 5}));
  const auto apply = [&](const auto& request) {
    static_cast<void>(run(*q, request));
  };  // old() tells
  result[1] = old();
  apply(nic::CompareSwap<uint64_t>{word, local, 105, 7});
  result[2] = old();
  apply(nic::CompareSwap<uint64_t>{word, local, 105, 9});
  result[3] = old();
  apply(nic::Atomic<Update::kSwap, uint64_t>{word, local, 0x1234});
  result[4] = old();
  apply(nic::Atomic<Update::kXor, uint32_t>{word, local, 0xf0});
  result[5] = swap_bytes(static_cast<uint32_t>(old()));
}

/// Block 0 puts words and then a flag, in one doorbell: the flag is a word like the others, or a
/// swap of two blocks. Block 1 waits for the flag and looks.
template <bool kSwap>
__global__ void flag_after_data(SendQueue* q, NicKey rkey, NicKey flag_rkey, uint64_t* data,
                                uint32_t rounds, uint64_t* result) {
  constexpr uint32_t kWords = kSwap ? 30 : 31;
  const uint32_t lane = threadIdx.x;
  const nic::Local landing{q->landing_address, q->landing_key};
  for (uint64_t i = 1; i <= rounds; ++i) {
    if (blockIdx.x == 0) {
      const uint64_t at = 8 * 64 * (i % 512);
      const auto word = inline_word(at + 8 * lane, rkey, i);
      const auto flag = [&] {
        if constexpr (kSwap) {
          return nic::Atomic<Update::kSwap, uint64_t>{{at + 8 * 31, flag_rkey}, landing, i};
        } else {
          return inline_word(at + 8 * 31, flag_rkey, i);
        }
      }();
      if (post_together(*q, lane, word, flag) != Status::kOk) break;
      continue;
    }
    const uint64_t* words = data + 64 * (i % 512);
    const SpinEnd end = spin_until(
        kTimeoutNs, [&] { return load_acquire<Reach::kSystem>(words + 31) >= i; },
        [] { return false; });
    const uint64_t seen = load_relaxed<Reach::kSystem>(words + (lane < kWords ? lane : 0));
    const bool stale = __any_sync(~0u, end == SpinEnd::kDone && seen < i);
    if (lane == 0) result[0] += stale ? 1 : 0;
    if (lane == 0) result[1] = end == SpinEnd::kDone ? i : 0;
    if (__any_sync(~0u, end != SpinEnd::kDone)) return;
  }
  if (blockIdx.x == 0 && lane == 0) result[2] = static_cast<uint64_t>(nic::drain<Reach::kLane>(*q));
}

/// Long and short requests in turn, more often than fit the ring.
template <uint32_t kBytes>
__global__ void put_long_inline(SendQueue* q, NicKey rkey, uint64_t offset, uint64_t* result) {
  Status s = Status::kOk;
  for (uint64_t i = 0; i < kDepth && s == Status::kOk; ++i) {
    const nic::Remote to{512 * i + offset, rkey};
    s = run(*q, LongInline<kBytes>{to});
    if (s == Status::kOk) s = run(*q, mlx5::Nop{});
  }
  result[0] = static_cast<uint64_t>(s);
}

/// Puts for `duration_ns`; the longest time between two completions.
__global__ void put_for_a_while(SendQueue* q, NicKey rkey, uint64_t duration_ns, uint64_t* result) {
  const uint64_t start = now_ns();
  uint64_t last = start;
  for (uint64_t i = 0; now_ns() - start < duration_ns; ++i) {
    const Status s = run(*q, inline_word(0, rkey, i));
    result[0] = static_cast<uint64_t>(s);
    if (s != Status::kOk) return;
    const uint64_t now = now_ns();
    if (now - last > result[2]) result[2] = now - last;
    last = now;
    result[1] = i + 1;
  }
}

// ---- tests

constexpr auto kOk = static_cast<uint64_t>(Status::kOk);

void puts_and_waits(const std::string& folder) {
  Rig rig(folder);
  put_words<<<1, 1>>>(rig.queues, rig.nic->data_rkey(), 2000, rig.result);
  rig.finish();
  expect(rig.results[0] == kOk, "status ok", static_cast<long long>(rig.results[0]));
  expect(rig.results[1] == 2000, "2000 completions", static_cast<long long>(rig.results[1]));
  const auto bytes = rig.read(rig.data, 0, 8 * 2000);
  for (uint64_t i = 0; i < 2000; ++i) {
    uint64_t word;
    std::memcpy(&word, &bytes[8 * i], 8);
    if (word != i + 1) return expect(false, "every word in place", static_cast<long long>(i));
  }
}

void puts_from_many_queues(const std::string& folder) {
  Rig rig(folder, nic::KeyOrdering::kRelaxed, kQueues);
  constexpr uint32_t kRounds = 400;  // around the ring and past 2^13 blocks
  put_together<<<kQueues, 32>>>(rig.queues, rig.nic->data_rkey(), kRounds, rig.result);
  rig.finish();
  for (uint32_t i = 0; i < kQueues; ++i) {
    expect(rig.results[i] == kOk, "status ok", static_cast<long long>(rig.results[i]));
  }
  const size_t words = size_t{kQueues} * kRounds * 32;
  const auto bytes = rig.read(rig.data, 0, 8 * words);
  size_t wrong = 0;
  for (uint64_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, &bytes[8 * i], 8);
    wrong += word != i + 1 ? 1 : 0;
  }
  expect(wrong == 0, "no wrong word", static_cast<long long>(wrong));
}

void serves_many_queues_a_warp(const std::string& folder) {
  constexpr uint32_t kMany = 700;
  constexpr uint64_t kRounds = 300;
  Rig rig(folder, nic::KeyOrdering::kRelaxed, kMany);
  post_singly<<<kMany, 1>>>(rig.queues, rig.nic->data_rkey(), rig.nic->word_rkey(), kRounds,
                            rig.result);
  rig.finish();
  expect(rig.results[0] == 0, "no failed queue", static_cast<long long>(rig.results[0]));
  expect(rig.results[1] == 0, "no wrong old value", static_cast<long long>(rig.results[1]));
  const auto bytes = rig.read(rig.data, 0, size_t{512} * kMany);
  size_t wrong = 0;
  for (uint32_t queue = 0; queue < kMany; ++queue) {
    uint64_t words[35];
    std::memcpy(words, &bytes[size_t{512} * queue], sizeof(words));
    for (uint64_t i = 0; i < 32; ++i) wrong += words[i] != kRounds - (kRounds - i) % 32 ? 1 : 0;
    wrong += words[32] != kRounds ? 1 : 0;
    wrong += words[33] != kRounds * (kRounds + 1) / 2 ? 1 : 0;
    wrong += words[34] != kRounds ? 1 : 0;
  }
  expect(wrong == 0, "no wrong word", static_cast<long long>(wrong));
}

void transfers_any_size(const std::string& folder) {
  for (const nic::KeyOrdering ordering : {nic::KeyOrdering::kRelaxed, nic::KeyOrdering::kStrict}) {
    Rig rig(folder, ordering);
    std::vector<uint8_t> pattern(kDataBytes);
    for (size_t i = 0; i < kDataBytes; ++i) pattern[i] = static_cast<uint8_t>(i * 131 + (i >> 9));
    CHECK(cudaMemcpy(rig.source.address, pattern.data(), kDataBytes, cudaMemcpyHostToDevice));
    for (const uint32_t bytes : {1u, 3u, 4u, 8u, 13u, 64u, 65u, 1000u, 4096u, 4101u, 1u << 20,
                                 (1u << 20) + 7, 64u << 20}) {
      for (const auto& [remote, local] : {std::pair<uint64_t, uint64_t>{0, 0}, {16, 48}, {5, 3}}) {
        if (bytes == 64u << 20 && local % 16 != 0) continue;  // bytewise: too slow to wait for
        for (const bool reads : {false, true}) {
          const auto& to = reads ? rig.source : rig.data;
          const uint64_t at = reads ? local : remote;
          if (reads) {  // back from where the put has left it
            CHECK(cudaMemset(rig.source.address + local, 0, bytes));
          } else {
            CHECK(cudaMemset(rig.data.address, 0, bytes + 64));
          }
          transfer<<<1, 1>>>(rig.queues, rig.nic->data_rkey(), rig.nic->source_lkey(),
                             {remote, local, bytes, reads}, rig.result);
          rig.finish();
          if (rig.results[0] != kOk) return expect(false, "status ok", bytes);
          const auto seen = rig.read(to, at, bytes + 1);
          if (std::memcmp(seen.data(), &pattern[local], bytes) != 0) {
            return expect(false, reads ? "the bytes read" : "the bytes written", bytes);
          }
          if (!reads && seen[bytes] != 0) return expect(false, "not a byte more", bytes);
        }
      }
    }
  }
}

void shares_long_puts_beside_others(const std::string& folder) {
  Rig rig(folder);
  std::vector<uint8_t> pattern(32 * kPlace);
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<uint8_t>(i * 137 + (i >> 7));
  CHECK(cudaMemcpy(rig.source.address, pattern.data(), pattern.size(), cudaMemcpyHostToDevice));
  for (int round = 0; round < 20; ++round) {
    CHECK(cudaMemset(rig.data.address, 0, pattern.size()));
    CHECK(cudaMemset(rig.result, 0, sizeof(uint64_t)));
    CHECK(cudaDeviceSynchronize());
    put_sizes<<<1, 32>>>(rig.queues, rig.nic->data_rkey(), rig.nic->source_lkey(), rig.result);
    rig.finish();
    if (rig.results[0] != kOk + 1) return expect(false, "status ok", round);
    const auto seen = rig.read(rig.data, 0, pattern.size());
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const size_t at = lane * kPlace;
      if (std::memcmp(&seen[at], &pattern[at], size_of(lane)) != 0)
        return expect(false, "the bytes written", lane);
      if (seen[at + size_of(lane)] != 0) return expect(false, "not a byte more", lane);
    }
  }
}

void moves_many_long_requests_of_a_queue(const std::string& folder) {
  for (const nic::KeyOrdering ordering : {nic::KeyOrdering::kRelaxed, nic::KeyOrdering::kStrict}) {
    Rig rig(folder, ordering);
    std::vector<uint8_t> pattern(32 * kPlace);
    for (int round = 0; round < 10; ++round) {
      for (size_t i = 0; i < pattern.size(); ++i) {
        pattern[i] = static_cast<uint8_t>(i * 139 + (i >> 8) + static_cast<size_t>(round));
      }
      CHECK(cudaMemcpy(rig.source.address, pattern.data(), pattern.size(), cudaMemcpyHostToDevice));
      CHECK(cudaMemset(rig.source.address + kBack, 0, pattern.size()));
      CHECK(cudaMemset(rig.result, 0, sizeof(uint64_t)));
      CHECK(cudaDeviceSynchronize());
      put_and_get_longs<<<1, 32>>>(rig.queues, rig.nic->data_rkey(), rig.nic->source_lkey(),
                                   rig.result);
      rig.finish();
      if (rig.results[0] != kOk + 1) return expect(false, "status ok", round);
      const auto seen = rig.read(rig.source, kBack, pattern.size());
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const size_t at = lane * kPlace;
        if (std::memcmp(&seen[at], &pattern[at], long_size_of(lane)) != 0)
          return expect(false, "the bytes that came back", lane);
        if (seen[at + long_size_of(lane)] != 0) return expect(false, "not a byte more", lane);
      }
    }
  }
}

void does_atomics(const std::string& folder) {
  Rig rig(folder);
  const uint64_t first = 100;
  CHECK(cudaMemcpy(rig.data.address, &first, 8, cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
  atomics<<<1, 1>>>(rig.queues, rig.nic->data_rkey(), rig.result);
  rig.finish();
  const uint64_t want[] = {kOk, 100, 105, 7, 7, 0x1234};
  for (int i = 0; i < 6; ++i) {
    expect(rig.results[i] == want[i], "old value", static_cast<long long>(rig.results[i]));
  }
  uint64_t last = 0;
  std::memcpy(&last, rig.read(rig.data, 0, 8).data(), 8);
  expect(last == (0x1234 ^ 0xf0), "final value", static_cast<long long>(last));
}

void keeps_order_in_strict_memory(const std::string& folder) {
  Rig rig(folder, nic::KeyOrdering::kStrict);
  flag_after_data<false><<<2, 32>>>(rig.queues, rig.nic->data_rkey(), rig.nic->data_rkey(),
                                    reinterpret_cast<uint64_t*>(rig.data.address), 2000,
                                    rig.result);
  rig.finish();
  expect(rig.results[0] == 0, "no flag before its data", static_cast<long long>(rig.results[0]));
  expect(rig.results[1] == 2000, "every flag", static_cast<long long>(rig.results[1]));
}

/// The last of a run of 31 requests in 32 blocks is a swap. Its data may come in any order.
void swaps_behind_what_it_has_put(const std::string& folder) {
  Rig rig(folder);
  flag_after_data<true><<<2, 32>>>(rig.queues, rig.nic->data_rkey(), rig.nic->word_rkey(),
                                   reinterpret_cast<uint64_t*>(rig.data.address), 2000, rig.result);
  rig.finish();
  expect(rig.results[0] == 0, "no flag before its data", static_cast<long long>(rig.results[0]));
  expect(rig.results[1] == 2000, "every flag", static_cast<long long>(rig.results[1]));
  expect(rig.results[2] == kOk, "status ok", static_cast<long long>(rig.results[2]));
}

template <uint32_t kBytes>
void put_long_inline_at(Rig& rig, uint64_t offset) {
  CHECK(cudaMemset(rig.data.address, 0xff, 512 * kDepth));
  put_long_inline<kBytes><<<1, 1>>>(rig.queues, rig.nic->data_rkey(), offset, rig.result);
  rig.finish();
  expect(rig.results[0] == kOk, "status ok", static_cast<long long>(rig.results[0]));
  const auto bytes = rig.read(rig.data, 0, 512 * kDepth);
  size_t wrong = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t at = i % 512 - offset;  // wraps to huge when below
    wrong += bytes[i] != (at < kBytes ? static_cast<uint8_t>(at) : 0xff) ? 1 : 0;
  }
  expect(wrong == 0, "no wrong byte", static_cast<long long>(wrong));
}

void puts_inline_bytes_of_several_blocks(const std::string& folder) {
  for (const nic::KeyOrdering ordering : {nic::KeyOrdering::kRelaxed, nic::KeyOrdering::kStrict}) {
    Rig rig(folder, ordering);
    for (const uint64_t offset : {0, 4, 5, 8, 16}) {
      put_long_inline_at<29>(rig, offset);
      put_long_inline_at<44>(rig, offset);
      put_long_inline_at<200>(rig, offset);
      put_long_inline_at<256>(rig, offset);
    }
  }
}

void refuses_a_wrong_key(const std::string& folder) {
  Rig rig(folder);
  const NicKey wrong = mlx5::key(mlx5::wire(rig.nic->data_rkey()).host() + 0x100000);
  transfer<<<1, 1>>>(rig.queues, wrong, rig.nic->source_lkey(), {0, 0, 64, false}, rig.result);
  rig.finish();
  expect(rig.results[0] == static_cast<uint64_t>(Status::kQueueError), "queue error",
         static_cast<long long>(rig.results[0]));
  expect(rig.results[1] == 0x13, "syndrome 0x13", static_cast<long long>(rig.results[1]));
  expect(rig.nic->pair(0).query_state() == nic::QueueState::kError, "QUERY_QP says ERR");
}

void answers_queries_while_kernels_put(const std::string& folder) {
  Rig rig(folder);
  put_for_a_while<<<1, 1>>>(rig.queues, rig.nic->data_rkey(), 500'000'000, rig.result);
  for (int i = 0; i < 50; ++i) {
    if (rig.nic->pair(0).query_state() != nic::QueueState::kReadyToSend) {
      expect(false, "RTS throughout", i);
    }
  }
  rig.finish();
  expect(rig.results[0] == kOk, "status ok", static_cast<long long>(rig.results[0]));
  std::printf("  %llu puts beside 50 queries\n", static_cast<unsigned long long>(rig.results[1]));
}

/// In a child, which this process stops for a second in the middle.
int put_while_stopped(const std::string& folder) {
  Rig rig(folder);
  put_for_a_while<<<1, 1>>>(rig.queues, rig.nic->data_rkey(), 3'000'000'000, rig.result);
  raise(SIGSTOP);  // every thread of this process; the parent lets it go on
  rig.finish();
  expect(rig.results[0] == kOk, "status ok", static_cast<long long>(rig.results[0]));
  expect(rig.results[2] < 500'000'000, "no pause of 0.5 s", static_cast<long long>(rig.results[2]));
  std::printf("  %llu puts, longest pause %llu us\n",
              static_cast<unsigned long long>(rig.results[1]),
              static_cast<unsigned long long>(rig.results[2] / 1000));
  std::fflush(stdout);
  return good ? 0 : 1;
}

void test(const char* name, const std::function<void()>& body) {
  std::printf("%s\n", name);
  std::fflush(stdout);
  good = true;
  try {
    body();
  } catch (const std::exception& error) {
    std::printf("  %s\n", error.what());
    good = false;
  }
  std::printf("  %s\n", good ? "ok" : "FAILED");
  ++(good ? passed : failed);
}

/// Must run before CUDA does: a forked child needs a driver of its own.
void goes_on_without_host_threads(const std::string& folder) {
  const pid_t child = fork();
  if (child == 0) _exit(put_while_stopped(folder));
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  if (WIFSTOPPED(status)) {
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the pause under test
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
  }
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the stopped process to succeed", status);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder =
      argc > 1 ? argv[1] : std::filesystem::canonical("/proc/self/exe").parent_path().string();
  using Body = void (*)(const std::string&);
  const std::pair<const char*, Body> tests[] = {
      {"goes on while every host thread of the PE is stopped", goes_on_without_host_threads},
      {"puts and waits", puts_and_waits},
      {"puts from many queues", puts_from_many_queues},
      {"serves many queues a warp", serves_many_queues_a_warp},
      {"transfers any size at any alignment", transfers_any_size},
      {"shares long puts beside others", shares_long_puts_beside_others},
      {"moves many long requests of a queue", moves_many_long_requests_of_a_queue},
      {"does atomics", does_atomics},
      {"keeps the order of requests in strict memory", keeps_order_in_strict_memory},
      {"swaps a word behind what it has put", swaps_behind_what_it_has_put},
      {"puts inline bytes of several blocks", puts_inline_bytes_of_several_blocks},
      {"refuses a wrong key", refuses_a_wrong_key},
      {"answers queries while kernels put", answers_queries_while_kernels_put},
  };
  for (const auto& [name, body] : tests) test(name, [&] { body(folder); });
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
