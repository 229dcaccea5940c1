// SPDX-License-Identifier: Apache-2.0
//
// What the host calls, on CPUs (tests/mp has more of it) and on GPUs: order in a stream, words at
// once, every collective call of every type and operation, a graph that runs a thousand times.
//
//   mpirun -np 2 calls
//
// Last line on PE 0: N passed, N failed.
#include <string>
#include <vector>

#include "tests/gpu/score.h"
#include "tests/support/collective_cases.h"

namespace {

using namespace peal;
using namespace peal::api_test;

PEAL_KERNEL fill(uint64_t* data, size_t count, uint64_t from) {
  for (size_t i = thread_in_block(); i < count; i += threads_in_block()) data[i] = from + i;
}

PEAL_KERNEL add_one(uint64_t* to, const uint64_t* from, size_t count) {
  for (size_t i = thread_in_block(); i < count; i += threads_in_block()) to[i] = from[i] + 1;
}

uint64_t word_at(Runtime& pe, const uint64_t* address) {
  uint64_t value = 0;
  pe.copy_out(&value, address, sizeof(value));
  return value;
}

/// Kernel, put_signal, wait, get, kernel: each relies on the one before it.
void check_order(Runtime& pe, Score& score) {
  const int next = (pe.my_pe() + 1) % pe.n_pes();
  const int before = (pe.my_pe() + pe.n_pes() - 1) % pe.n_pes();
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{300000}}) {
    auto* const data = pe.allocate<uint64_t>(3 * count);
    auto* const flag = pe.allocate<uint64_t>(2);
    Stream stream;
    const StreamCalls on = pe.on(stream);
    launch({.threads = 256, .stream = stream}, fill, data, count,
           1000 * static_cast<uint64_t>(pe.my_pe()));
    on.put_signal(data + count, data, count, Signal::set(flag, 1, next));
    on.signal(Signal::add(flag + 1, 2, next));
    on.wait_until(flag, Compare::kGe, 1);
    on.wait_until(flag + 1, Compare::kEq, 2);
    on.barrier_all();
    on.get(data + 2 * count, data, count, before);
    launch({.threads = 256, .stream = stream}, add_one, data + count, data + count, count);
    on.quiet();
    stream.synchronize();
    const uint64_t first = 1000 * static_cast<uint64_t>(before);
    score.expect(word_at(pe, data + count) == first + 1, "order: put, first word");
    score.expect(word_at(pe, data + 2 * count - 1) == first + count, "order: put, last word");
    score.expect(word_at(pe, data + 3 * count - 1) == first + count - 1, "order: get, last word");
    pe.barrier();
    pe.free(flag);
    pe.free(data);
  }
}

void check_words(Runtime& pe, Score& score) {
  auto* const words = pe.allocate<uint64_t>(2);
  const HostCalls host = pe.host();
  host.atomic_inc(words, 0);
  host.barrier_all();
  const auto n = static_cast<uint64_t>(pe.n_pes());
  score.expect(host.atomic_fetch(words, 0) == n, "atomics of all PEs");
  host.p(words + 1, uint64_t{7}, (pe.my_pe() + 1) % pe.n_pes());
  host.barrier_all();
  score.expect(host.g(words + 1, pe.my_pe()) == 7, "p and g");
  const CallTicket ticket = pe.host_nbi().atomic_add(words, 5, 0);
  ticket.wait();
  score.expect(ticket.test(), "ticket");
  host.barrier_all();
  score.expect(host.g(words, 0) == 6 * n, "atomic_add by ticket");
  pe.barrier();
  pe.free(words);
}

template <class T, class Op>
void check_calls(Runtime& pe, Score& score, const Team& team) {
  const size_t limit = brief_count<T>(team);
  const size_t longest = 3 * limit + 7;
  CaseMemory<T> memory(pe, team, team.grid_workspace / sizeof(T));  // alike in all teams
  Stream stream;
  const StreamCalls on = pe.on(stream);
  for (const size_t count : {size_t{37}, limit, longest}) {
    for (const Call which : kCalls) {
      const Case c{which, count, false, 0, static_cast<int>(count) % team.size};
      const std::string wrong = run_case_by<Op>(memory, c, [&](T* dst, T* src) {
        make_call<Op>(on, team, c, dst, src);
        stream.synchronize();
        return pe.status();
      });
      score.expect(wrong.empty(), "collective: " + wrong);
    }
  }
  pe.barrier();
}

template <class T>
void check_type(Runtime& pe, Score& score, const Team& team) {
  check_calls<T, op::Sum>(pe, score, team);
  check_calls<T, op::Product>(pe, score, team);
  check_calls<T, op::Min>(pe, score, team);
  check_calls<T, op::Max>(pe, score, team);
  if constexpr (std::is_integral_v<T>) {
    check_calls<T, op::And>(pe, score, team);
    check_calls<T, op::Or>(pe, score, team);
    check_calls<T, op::Xor>(pe, score, team);
  }
}

template <class... Ts>
void check_types(Runtime& pe, Score& score, const Team& team) {
  (check_type<Ts>(pe, score, team), ...);
}

void check_graph(Runtime& pe, Score& score) {
  constexpr uint64_t kRounds = 1000;
  auto* const data = pe.allocate<uint64_t>(3);
  auto* const flag = pe.allocate<uint64_t>(1);
  const Team team = pe.split_team(pe.world(), 0, 0, {.contexts = 1});
  Stream stream;
  const StreamCalls on = pe.on(stream);
  stream.begin_capture();
  on.put_signal(data + 1, data, 1, Signal::add(flag, 1, (pe.my_pe() + 1) % pe.n_pes()));
  on.all_reduce(team, data + 2, data, 1, op::sum);
  on.barrier_all();
  launch({.stream = stream}, add_one, data, data, 1);
  const Graph graph = stream.end_capture();
  uint64_t done = 0;
  const auto rounds = [&](const char* when) {
    for (uint64_t i = 0; i < kRounds; ++i) graph.launch(stream);
    stream.synchronize();
    done += kRounds;
    const auto n = static_cast<uint64_t>(pe.n_pes());
    score.expect(pe.status() == Status::kOk, std::string("graph, status ") + when);
    score.expect(word_at(pe, data + 1) == done - 1, std::string("graph, put ") + when);
    score.expect(word_at(pe, data + 2) == (done - 1) * n, std::string("graph, sum ") + when);
    score.expect(word_at(pe, flag) == done, std::string("graph, signals ") + when);
    pe.barrier();
  };
  pe.barrier();
  rounds("at first");
  const auto other = pe.make_context();
  rounds("with another context");
  pe.recover();
  pe.barrier();
  rounds("after a recovery");
  pe.barrier();
  pe.free_team(team);
  graph.launch(stream);
  stream.synchronize();
  score.expect(pe.status() == Status::kBadTeam, "graph of a team that was freed");
  pe.barrier();
  pe.recover();
  pe.barrier();
}

int body() {
  Runtime pe = start();
  Score score;
  check_order(pe, score);
  check_words(pe, score);
  const TeamOptions options{
      .contexts = 1, .blocks = 4, .workspace = 8192, .grid_workspace = 64 << 10};
  const Team all = pe.split_team(pe.world(), 0, 0, options);
  check_types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, Half,
              BFloat16, float, double>(pe, score, all);
  pe.check();
  pe.free_team(all);
  check_graph(pe, score);
  pe.check();
  return score.finish();
}

}  // namespace

int main() { return peal::run_main(body); }
