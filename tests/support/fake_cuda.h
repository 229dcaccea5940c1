// SPDX-License-Identifier: Apache-2.0
//
// libfake_cuda.so: a CUDA driver whose GPU memory is shared pages of the host. It calls itself
// libcuda.so.1: once a test has opened it, nobody finds another one. The test and the library share
// a FakeCuda.
//
// It holds callers to what the real driver wants: a current context for everything that needs one,
// and streams that do not wait for kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tests/support/built.h"

struct FakeCuda {
  // What the test sets.
  int devices = 2;
  bool peer_access = true;
  bool native_atomics = true;         // as over NVLink
  size_t memory = size_t{1} << 30;    // of one GPU
  std::map<std::string, int> refuse;  // symbol -> error
  bool dma_buf = true;                // the driver's open modules
  int writes_ordering = 100;          // of what NICs write: for its own kernels
  bool host_page_tables = false;      // shared with the CPU, as over NVLink-C2C
  bool io_memory = true;              // host memory counts as another device's registers
  bool capturing = false;             // what streams say of themselves
  bool pins_wait = false;             // memory is pinned when no stream waits for a word
  bool stream_fails = false;          // takes writes and waits for words, and does neither
  int visible_from = 0;               // GPUs below this are hidden: index 0 is the first visible
  bool virtual_memory = true;         // cuMemCreate and what goes with it
  bool fabric = false;                // and handles for other hosts, as a daemon gives them out

  // What the test reads.
  std::atomic<int> live{0};             // allocations, mappings, streams, contexts, pinned ranges
  std::atomic<int> copies{0};           //
  std::atomic<int> waits{0};            // of streams for words
  std::atomic<int> waiting{0};          // those under way
  std::atomic<int> pinning{0};          // calls that wait so
  std::atomic<int> beside_waits{0};     // calls while a stream waited: a driver's might not return
  std::atomic<int> mappings{0};         // of other processes' memory
  std::atomic<unsigned> host_flags{0};  // of the last range that was registered
  std::atomic<int> exported{0};         // dma-bufs
  std::atomic<int> enabled{0};          // times peer access was enabled
  std::atomic<int> pool_accesses{0};    // times access to a pool was set
  std::atomic<int> synchronous{0};      // allocations on which calls wait until all is done
  std::atomic<int> lagging{0};          // dma-bufs of memory on which they do not
  std::atomic<int> mistakes{0};  // calls without a context, into unknown memory, on a wrong stream
};

extern "C" FakeCuda* fake_cuda();

/// The fake, loaded in place of any real driver.
inline FakeCuda& load_fake_cuda() {
  return peal::stand_in<FakeCuda>(peal::built("tests/support/libfake_cuda.so"), "fake_cuda");
}
