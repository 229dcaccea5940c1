// SPDX-License-Identifier: Apache-2.0
//
// CUDA's calls for streams, events and graphs.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "simt/runtime/cuda_runtime.h"
#include "simt/runtime/stream.h"

namespace {

/// What a stream waits at until it is opened.
class Gate {
 public:
  void hold(cudaStream_t stream) {
    EXPECT_EQ(cudaLaunchHostFunc(stream, wait, &open_), cudaSuccess);
  }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  static void wait(void* gate) { static_cast<std::atomic<bool>*>(gate)->wait(false); }
  std::atomic<bool> open_{false};
};

struct OwnStream {
  explicit OwnStream(unsigned flags = cudaStreamDefault) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&handle, flags), cudaSuccess);
  }
  ~OwnStream() { EXPECT_EQ(cudaStreamDestroy(handle), cudaSuccess); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  cudaStream_t handle = nullptr;
};

struct OwnEvent {
  explicit OwnEvent(unsigned flags = cudaEventDefault) {
    EXPECT_EQ(cudaEventCreateWithFlags(&handle, flags), cudaSuccess);
  }
  ~OwnEvent() { EXPECT_EQ(cudaEventDestroy(handle), cudaSuccess); }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;
  cudaEvent_t handle = nullptr;
};

void increment(void* number) { ++*static_cast<int*>(number); }
void times_ten(void* number) { *static_cast<int*>(number) *= 10; }

TEST(CudaStreams, BlockingOnesAndTheDefaultOneWaitForEachOther) {
  Gate gate;
  const OwnStream stream;
  int number = 0;
  gate.hold(stream.handle);
  cudaLaunchHostFunc(stream.handle, increment, &number);
  cudaLaunchHostFunc(nullptr, times_ten, &number);
  cudaLaunchHostFunc(stream.handle, increment, &number);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);  // not ready is no error
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaSuccess);
  EXPECT_EQ(number, 11);
  EXPECT_EQ(cudaStreamQuery(stream.handle), cudaSuccess);
}

TEST(CudaStreams, NonBlockingOnesWaitForNobody) {
  Gate gate;
  gate.hold(nullptr);
  const OwnStream stream(cudaStreamNonBlocking);
  int number = 0;
  cudaLaunchHostFunc(stream.handle, increment, &number);
  EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaSuccess);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(cudaStreamQuery(cudaStreamLegacy), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  unsigned flags = 0;
  EXPECT_EQ(cudaStreamGetFlags(stream.handle, &flags), cudaSuccess);
  EXPECT_EQ(flags, cudaStreamNonBlocking);
}

TEST(CudaStreams, TheDeviceWaitsForAllOfThem) {
  const OwnStream one, other(cudaStreamNonBlocking);
  int first = 0, second = 0, third = 0;
  cudaLaunchHostFunc(one.handle, increment, &first);
  cudaLaunchHostFunc(other.handle, increment, &second);
  cudaLaunchHostFunc(cudaStreamPerThread, increment, &third);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(first + second + third, 3);
}

TEST(CudaStreams, EachThreadHasOneOfItsOwn) {
  const cudaStream_t mine = cudaStreamPerThread;
  EXPECT_EQ(mine, cudaStreamPerThread);
  EXPECT_NE(mine, cudaStreamLegacy);
  std::thread([&] { EXPECT_NE(cudaStreamPerThread, mine); }).join();
}

TEST(CudaStreams, TakesAStreamOfSimt) {
  peal::simt::WorkStream stream;
  int number = 0;
  auto* const handle = reinterpret_cast<cudaStream_t>(&stream);
  EXPECT_EQ(cudaLaunchHostFunc(handle, increment, &number), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(handle), cudaSuccess);
  EXPECT_EQ(number, 1);
  EXPECT_EQ(cudaStreamDestroy(handle), cudaErrorInvalidResourceHandle);  // not CUDA's to end
  cudaGetLastError();
}

TEST(CudaStreams, RefuseWhatIsNoStream) {
  int none = 0;
  auto* const handle = reinterpret_cast<cudaStream_t>(&none);
  EXPECT_EQ(cudaStreamSynchronize(handle), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(handle), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaMemsetAsync(&none, 0, 4, handle), cudaErrorInvalidResourceHandle);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, 7), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamCreate(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaLaunchHostFunc(nullptr, nullptr, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamAddCallback(nullptr, nullptr, nullptr, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(CudaStreams, CallsBackInOrder) {
  const OwnStream stream;
  int number = 1;
  cudaLaunchHostFunc(stream.handle, times_ten, &number);
  const auto callback = [](cudaStream_t, cudaError_t status, void* data) {
    if (status == cudaSuccess) increment(data);
  };
  EXPECT_EQ(cudaStreamAddCallback(stream.handle, callback, &number, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaSuccess);
  EXPECT_EQ(number, 11);
}

TEST(CudaStreams, WhatTheyCallBackMustNotWait) {
  // It runs on the stream's thread: a wait for the stream would wait for itself, for ever.
  struct Answers {
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    cudaError_t of_device, of_stream, of_event, of_destroy, of_free;
  } answers{};
  ASSERT_EQ(cudaStreamCreate(&answers.stream), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&answers.event), cudaSuccess);
  const auto ask = [](void* data) {
    auto& all = *static_cast<Answers*>(data);
    all.of_device = cudaDeviceSynchronize();
    all.of_stream = cudaStreamSynchronize(all.stream);
    all.of_event = cudaEventSynchronize(all.event);
    all.of_destroy = cudaStreamDestroy(all.stream);
    all.of_free = cudaFree(data);
  };
  EXPECT_EQ(cudaLaunchHostFunc(answers.stream, ask, &answers), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(answers.stream), cudaSuccess);
  for (const cudaError_t answer : {answers.of_device, answers.of_stream, answers.of_event,
                                   answers.of_destroy, answers.of_free}) {
    EXPECT_EQ(answer, cudaErrorNotPermitted);
  }
  EXPECT_EQ(cudaEventDestroy(answers.event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(answers.stream), cudaSuccess);
}

TEST(CudaEvents, OrderOneStreamBehindAnother) {
  Gate gate;
  const OwnStream ahead(cudaStreamNonBlocking), behind(cudaStreamNonBlocking);
  const OwnEvent event;
  int number = 0;
  gate.hold(ahead.handle);
  cudaLaunchHostFunc(ahead.handle, increment, &number);
  EXPECT_EQ(cudaEventRecord(event.handle, ahead.handle), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(behind.handle, event.handle), cudaSuccess);
  cudaLaunchHostFunc(behind.handle, times_ten, &number);
  EXPECT_EQ(cudaEventQuery(event.handle), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaStreamSynchronize(behind.handle), cudaSuccess);
  EXPECT_EQ(number, 10);
  EXPECT_EQ(cudaEventQuery(event.handle), cudaSuccess);
}

TEST(CudaEvents, MeasureTime) {
  const OwnEvent begin, end, untimed(cudaEventDisableTiming);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin.handle, end.handle),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(begin.handle), cudaSuccess);
  Gate gate;
  gate.hold(nullptr);
  EXPECT_EQ(cudaEventRecord(end.handle), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin.handle, end.handle), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(end.handle), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin.handle, end.handle), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, untimed.handle, end.handle),
            cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST(CudaEvents, RefuseWhatIsNoEvent) {
  int none = 0;
  auto* const handle = reinterpret_cast<cudaEvent_t>(&none);
  EXPECT_EQ(cudaEventRecord(handle), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventSynchronize(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, handle), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(handle), cudaErrorInvalidResourceHandle);
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, 64), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventCreate(nullptr), cudaErrorInvalidValue);
  const OwnEvent fresh;
  EXPECT_EQ(cudaEventQuery(fresh.handle), cudaSuccess);  // never recorded
  EXPECT_EQ(cudaEventSynchronize(fresh.handle), cudaSuccess);
  cudaGetLastError();
}

TEST(CudaGraphs, RunWhatWasCaptured) {
  const OwnStream stream;
  int number = 0;
  EXPECT_EQ(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaStreamCaptureStatus status{};
  EXPECT_EQ(cudaStreamIsCapturing(stream.handle, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  cudaLaunchHostFunc(stream.handle, increment, &number);
  cudaLaunchHostFunc(stream.handle, times_ten, &number);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream.handle, &graph), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaSuccess);
  EXPECT_EQ(number, 0);
  cudaGraphExec_t ready = nullptr, same = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&same, graph, nullptr, nullptr, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(ready, stream.handle), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(same, stream.handle), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(same), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaSuccess);
  EXPECT_EQ(number, 110);
}

TEST(CudaGraphs, TakeBranchesThatEventsFork) {
  const OwnStream origin, branch;
  const OwnEvent fork, join;
  int number = 0;
  cudaStreamBeginCapture(origin.handle, cudaStreamCaptureModeGlobal);
  cudaLaunchHostFunc(origin.handle, increment, &number);
  EXPECT_EQ(cudaEventRecord(fork.handle, origin.handle), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(branch.handle, fork.handle), cudaSuccess);
  cudaLaunchHostFunc(branch.handle, times_ten, &number);
  EXPECT_EQ(cudaEventRecord(join.handle, branch.handle), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(origin.handle, join.handle), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(join.handle), cudaErrorCapturedEvent);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(branch.handle, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaStreamEndCapture(origin.handle, &graph), cudaSuccess);
  cudaGraphExec_t ready = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&ready, graph, nullptr, nullptr, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(ready, origin.handle), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(origin.handle), cudaSuccess);
  EXPECT_EQ(number, 10);
  EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  cudaGetLastError();
}

TEST(CudaGraphs, RefuseWhatACaptureExcludes) {
  const OwnStream stream;
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream.handle, &graph), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeRelaxed),
            cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamQuery(stream.handle), cudaErrorStreamCaptureUnsupported);
  const OwnEvent outside;
  cudaEventRecord(outside.handle);
  EXPECT_EQ(cudaStreamWaitEvent(stream.handle, outside.handle), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(stream.handle, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaErrorInvalidValue);
  cudaGraphExec_t ready = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphLaunch(nullptr, stream.handle), cudaErrorInvalidValue);
  cudaGetLastError();
}

}  // namespace
