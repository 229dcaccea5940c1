// SPDX-License-Identifier: Apache-2.0
//
// A stream and a graph for programs that run on a GPU and on a CPU: thin over CUDA's there, simt's
// here. A program for GPUs alone uses cudaStream_t as it is.
//
//   peal::Stream stream;
//   peal::launch({.threads = 32, .stream = stream}, kernel, ctx, data);
//   pe.on(stream).put(dst, src, n, peer);
//   stream.synchronize();
//
//   stream.begin_capture();
//   ...                                              // recorded, not done
//   peal::Graph graph = stream.end_capture();
//   for (int i = 0; i < 1000; ++i) graph.launch(stream);
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "device/base/target.h"

#if PEAL_CUDA
#include <cuda_runtime_api.h>
#else
#include "simt/runtime/stream.h"
#endif

namespace peal {

class Stream;

#if PEAL_CUDA

namespace detail {
inline void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}
}  // namespace detail

/// Work that was captured. Move-only.
class Graph {
 public:
  explicit Graph(cudaGraph_t graph) {
    const cudaError_t error = cudaGraphInstantiate(&ready_, graph, 0);
    cudaGraphDestroy(graph);
    detail::check_cuda(error, "cudaGraphInstantiate");
  }
  ~Graph() {
    if (ready_ != nullptr) cudaGraphExecDestroy(ready_);
  }
  Graph(Graph&& other) noexcept : ready_(std::exchange(other.ready_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(ready_, other.ready_);
    return *this;
  }
  /// Gives the work to the stream, as often as it is called; does not wait for it.
  void launch(const Stream& stream) const;

 private:
  cudaGraphExec_t ready_ = nullptr;
};

/// A stream that waits for no other. Not copied, not moved. Its end waits for its work.
class Stream {
 public:
  Stream() {
    detail::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags");
  }
  ~Stream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator void*() const { return stream_; }
  /// Returns when all its work is done. Throws what CUDA says.
  void synchronize() const {
    detail::check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  void begin_capture() const {
    detail::check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                       "cudaStreamBeginCapture");
  }
  Graph end_capture() const {
    cudaGraph_t graph = nullptr;
    detail::check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    return Graph(graph);
  }

 private:
  cudaStream_t stream_ = nullptr;
};

inline void Graph::launch(const Stream& stream) const {
  void* const handle = stream;
  detail::check_cuda(cudaGraphLaunch(ready_, static_cast<cudaStream_t>(handle)), "cudaGraphLaunch");
}

#else

/// Work that was captured.
class Graph {
 public:
  explicit Graph(simt::WorkGraph work) : work_(std::move(work)) {}
  /// Gives the work to the stream, as often as it is called; does not wait for it.
  void launch(const Stream& stream) const;

 private:
  simt::WorkGraph work_;
};

/// A stream. Not copied, not moved. Its end waits for its work.
class Stream {
 public:
  operator void*() const { return &stream_; }
  /// Returns when all its work is done. Throws what a kernel of it threw.
  void synchronize() const { stream_.synchronize(); }
  void begin_capture() const { stream_.begin_capture(); }
  Graph end_capture() const { return Graph(stream_.end_capture()); }

 private:
  mutable simt::WorkStream stream_;  // const says what it does on a GPU: which stream it is
};

inline void Graph::launch(const Stream& stream) const {
  void* const handle = stream;
  work_.launch(*static_cast<simt::WorkStream*>(handle));
}

#endif

}  // namespace peal
