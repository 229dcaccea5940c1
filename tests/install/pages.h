// SPDX-License-Identifier: Apache-2.0
//
// Code that pages show and that is part of no program: each block stands here as it stands there,
// among names that the page leaves to its reader. tests/lint/check_docs.py compares the two;
// check_sources.py compiles this header, as it does every other. Nothing of it runs.
#pragma once

#include <cstdint>
#include <cstdio>

#include "peal/peal.h"
// clang-format off

namespace peal::pages {

inline void streams(peal::Runtime& pe, const peal::Stream& stream, float* inbox, const float* outbox, uint64_t* flag,
                    double* sum, const double* mine, size_t n, int next) {
  float* const dst = inbox;
  const float* const src = outbox;
  const int peer = next;
  uint64_t* const counter = flag;
peal::StreamCalls on = pe.on(stream);        // a cudaStream_t, or a peal::Stream
on.put_signal(inbox, outbox, n, peal::Signal::add(flag, 1, next));
on.wait_until(flag, peal::Compare::kGe, 1);
on.all_reduce(pe.world(), sum, mine, n, peal::op::sum);

pe.host().put(dst, src, n, peer);            // returns when it is done
uint64_t old = pe.host().atomic_fetch_add(counter, 1, 0);
peal::CallTicket put = pe.host_nbi().put(dst, src, n, peer);   // put.wait(), put.test()
  put.wait();
  std::printf("%d\n", static_cast<int>(old));
}

inline void queues(peal::Runtime& pe, uint32_t blocks) {
const auto own = pe.make_context<peal::Reach::kBlock>({.queues_per_peer = blocks});
  static_cast<void>(own.value());
}

template <class Try>
PEAL_DEVICE void deadlines(const peal::Context& ctx, const uint64_t* word, Try try_something_else) {
while (handled(ctx, wait_until(ctx, word, Compare::kGe, 1)) == Status::kTimeout) try_something_else();
}

inline void recovery(peal::Runtime& runtime, peal::Context& ctx) {
runtime.recover();      // collective; no kernel is running on any PE, which is not checked

for (;;) {
  try {
    runtime.mask(runtime.lost_pes());   // collective among those that live; no kernel is running
    break;
  } catch (const peal::Error& e) {
    if (e.code() != peal::ErrorCode::kPeerLost) throw;   // one more has ended meanwhile
  }
}
ctx = runtime.context();                // and the values of other contexts
}

inline void replacement(peal::Runtime& runtime) {
for (;;) {
  try {
    peal::rejoin(runtime);              // instead of mask(), or after it
    break;
  } catch (const peal::Error& e) {
    if (e.code() != peal::ErrorCode::kPeerLost) throw;   // one more has ended meanwhile
  }
}
}

inline void faults(peal::Runtime& runtime) {
runtime.set_p2p_faults("pe=1 signal=* fault=delay ms=5");
}

struct Entry {
  int64_t at;
};

inline void heap(peal::Runtime& pe, size_t n) {
  const size_t bytes = n * sizeof(Entry);
float* const x = static_cast<float*>(pe.malloc(n * sizeof(float)));              // where kernels run: a GPU's memory
auto* const log = static_cast<Entry*>(pe.malloc(bytes, peal::HeapKind::kHost));  // the host's memory
  pe.free(log);
  pe.free(x);
}

PEAL_DEVICE float shared_memory() {
struct Tile { float cell[32][33]; };
Tile& tile = peal::block_shared<Tile>();            // one object of a type for each block, on GPUs too; not initialised
float* more = peal::dynamic_shared<float>();        // the launch's: peal::Grid::shared_bytes
  return tile.cell[0][0] + more[0];
}

template <class Work>
void threads(Work work) {
peal::bootstrap::run_threads(4, [&](peal::Bootstrap& group) { peal::Runtime pe = peal::join(group); work(pe); });
}

inline void files(peal::Runtime& pe, const peal::Stream& stream, size_t count, size_t room) {
auto* weights = pe.allocate<float>(count);
pe.load("/data/weights.bin", 0, weights, count * sizeof(float));         // this PE alone
pe.load_shard("/data/weights.bin", weights, room, sizeof(float));        // its part of one file
pe.save("/data/mine.bin", weights, count * sizeof(float));               // replaces the file at once, or not
pe.save_checkpoint("/shared/step-100", weights, count * sizeof(float));  // all PEs, one file
pe.load_checkpoint("/shared/step-100", weights, count * sizeof(float));
std::puts(pe.describe_storage().c_str());                                // which way the last one went, and why
  float* const state = weights;
  float* const batch = weights;
  const size_t bytes = count * sizeof(float);
pe.on(stream).save("/data/step.bin", state, bytes);       // a peal::Stream, or a cudaStream_t
pe.on(stream).load("/data/next.bin", 0, batch, bytes);    // returns; done in the stream's order
pe.host_nbi().load("/data/next.bin", 0, batch, bytes).wait();
}

// Calls of the host and of kernels beside one another, as the page has them.
inline void windows(peal::Runtime& pe, const peal::Context& ctx, float* mine, const float* source, size_t n, int peer) {
  const size_t bytes = n * sizeof(float);
  float* const buffer = mine;
const peal::WindowHandle window = pe.register_window(mine, bytes);      // collective
Status status = put(ctx, mine + 64, source, n, peer);                   // in a kernel: by this PE's own address
status = put(ctx, window.at<float>(256), source, n, peer);              // the same by handle and byte offset
pe.unregister_window(window);                                           // collective; then mine may be freed

pe.register_local(buffer, bytes);                                       // this PE alone
pe.unregister_local(buffer);
  std::printf("%s\n", peal::to_string(status));
}

inline void tensors(peal::Runtime& pe, float* tensor, float* source, size_t bytes) {
const peal::WindowHandle window = pe.register_window(tensor, bytes, {.cached = true});   // collective
pe.register_local(source, bytes, {.cached = true});
  pe.unregister_window(window);
}

}  // namespace peal::pages
