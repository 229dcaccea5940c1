// SPDX-License-Identifier: Apache-2.0
//
// Calls on a stream, timed by the events of the stream around many of them. All sides print the
// same rows:
//
//   {"side": "peal", "op": "all_reduce", "type": "float", "bytes": 1024, "pes": 2, "us": 3.21}
//
// `bytes` are those of the larger buffer of one PE. A GPU's program includes CUDA's runtime first.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace peal::perf {

enum class StreamCall { kAllReduce, kGather, kAllToAll, kReduceScatter, kBroadcast };
inline constexpr const char* kStreamCallNames[] = {"all_reduce", "all_gather", "all_to_all",
                                                   "reduce_scatter", "broadcast"};
inline constexpr size_t kSmallestBytes = 1024;

/// One row of a side.
struct StreamRow {
  StreamCall call;
  bool bfloat16;  // else float
  size_t count;   // elements for one member
  void* dst;
  void* src;
  cudaStream_t stream;
};

inline size_t largest_bytes() {
  const char* const text = std::getenv("STREAM_ROWS_LARGEST");
  return text == nullptr ? size_t{1} << 30 : std::strtoull(text, nullptr, 0);
}

/// Microseconds of a call, of many that the stream has in a row.
template <class Call>
double time_in_order(cudaStream_t stream, int rounds, const Call& call) {
  cudaEvent_t begin;
  cudaEvent_t end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  cudaEventRecord(begin, stream);
  for (int i = 0; i < rounds; ++i) call();
  cudaEventRecord(end, stream);
  cudaStreamSynchronize(stream);
  float milliseconds = 0;
  cudaEventElapsedTime(&milliseconds, begin, end);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return static_cast<double>(milliseconds) * 1e3 / rounds;
}

/// The same of a row, which `side.call(row)` gives to the stream.
template <class Side>
double time_row(Side& side, const StreamRow& row, size_t bytes) {
  const auto rounds = static_cast<int>(std::clamp<size_t>((size_t{256} << 20) / bytes, 4, 200));
  for (int i = 0; i < 5; ++i) side.call(row);
  cudaStreamSynchronize(row.stream);
  side.barrier();
  const double us = time_in_order(row.stream, rounds, [&] { side.call(row); });
  side.barrier();
  return us;
}

/// `Side`: name(), pe(), n_pes(), has(call, bfloat16), call(row), barrier(); two buffers of the
/// largest size, which hold zeros.
template <class Side>
void print_stream_rows(Side& side, void* dst, void* src) {
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  const auto n = static_cast<size_t>(side.n_pes());
  for (const StreamCall call : {StreamCall::kAllReduce, StreamCall::kGather, StreamCall::kAllToAll,
                                StreamCall::kReduceScatter, StreamCall::kBroadcast}) {
    for (const bool bfloat16 : {false, true}) {
      if (!side.has(call, bfloat16)) continue;
      for (size_t bytes = kSmallestBytes; bytes <= largest_bytes(); bytes *= 8) {
        const size_t element = bfloat16 ? 2 : 4;
        const bool whole = call == StreamCall::kAllReduce || call == StreamCall::kBroadcast;
        const StreamRow row{call, bfloat16, bytes / element / (whole ? 1 : n), dst, src, stream};
        const double us = time_row(side, row, bytes);
        if (side.pe() != 0) continue;
        std::printf(
            "{\"side\": \"%s\", \"op\": \"%s\", \"type\": \"%s\", \"bytes\": %zu, \"pes\": %zu, "
            "\"us\": %.3f}\n",
            side.name(), kStreamCallNames[static_cast<int>(call)], bfloat16 ? "bfloat16" : "float",
            bytes, n, us);
      }
    }
  }
  cudaStreamDestroy(stream);
}

}  // namespace peal::perf
