// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "simt/lanes/launch.h"

namespace peal::simt {
namespace {

TEST(Stream, DoesWorkInOrder) {
  std::vector<int> done;
  Stream stream;
  for (int i = 0; i < 100; ++i) stream.add([&done, i] { done.push_back(i); });
  stream.synchronize();
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
}

TEST(Stream, GoesOnBesideWhoGaveTheWork) {
  std::atomic<bool> released{false};
  Stream stream;
  stream.add([&] { released.wait(false); });
  const Mark mark = stream.mark();
  EXPECT_FALSE(mark.reached());
  released = true;
  released.notify_all();
  mark.wait();
  EXPECT_TRUE(mark.reached());
}

TEST(Stream, LeavesOutWhatFollowsAnErrorAndTellsOnce) {
  int done = 0;
  Stream stream;
  stream.add([] { throw std::runtime_error("the kernel's"); });
  stream.add([&] { ++done; });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_EQ(done, 0);
  stream.add([&] { ++done; });
  stream.synchronize();
  EXPECT_EQ(done, 1);
}

TEST(Stream, RecordsWhileItCaptures) {
  int done = 0;
  Stream stream;
  stream.begin_capture();
  EXPECT_TRUE(stream.capturing());
  stream.add([&] { ++done; });
  stream.add([&] { done *= 2; });
  const Graph graph = stream.end_capture();
  stream.synchronize();
  EXPECT_EQ(done, 0);
  EXPECT_EQ(graph.size(), 2u);
  graph.launch(stream);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(done, 6);
}

TEST(Stream, AGraphMayEndBeforeItsLastRun) {
  int done = 0;
  Stream stream;
  {
    stream.begin_capture();
    stream.add([&] { ++done; });
    const Graph graph = stream.end_capture();
    graph.launch(stream);
  }
  stream.synchronize();
  EXPECT_EQ(done, 1);
}

TEST(Stream, RefusesWhatACaptureExcludes) {
  Stream stream;
  EXPECT_THROW(stream.end_capture(), LaneError);
  stream.begin_capture();
  EXPECT_THROW(stream.begin_capture(), LaneError);
  EXPECT_THROW(stream.synchronize(), LaneError);
  EXPECT_THROW(stream.mark(), LaneError);
  stream.end_capture();
}

TEST(Stream, ItsEndWaitsForItsWork) {
  int done = 0;
  {
    Stream stream;
    for (int i = 0; i < 10; ++i) stream.add([&] { ++done; });
  }
  EXPECT_EQ(done, 10);
}

TEST(Stream, TheDefaultOneAndABlockingOneWaitForEachOther) {
  // Each order that CUDA fixes is given while the other stream is held up: a stream that did not
  // wait would write first.
  std::atomic<bool> released{false};
  std::vector<int> done;
  Stream blocking(StreamKind::kBlocking);
  blocking.add([&] { released.wait(false); });
  blocking.add([&] { done.push_back(1); });
  default_stream().add([&] { done.push_back(2); });
  blocking.add([&] { done.push_back(3); });
  const Mark before = default_stream().mark();
  EXPECT_FALSE(before.reached());
  released = true;
  released.notify_all();
  blocking.synchronize();
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3}));
}

TEST(Stream, AnIndependentOneWaitsForNobody) {
  std::atomic<bool> released{false};
  Stream blocking(StreamKind::kBlocking);
  blocking.add([&] { released.wait(false); });
  default_stream().add([] {});
  Stream independent;
  independent.synchronize();
  Stream other_blocking(StreamKind::kBlocking);
  EXPECT_FALSE(default_stream().mark().reached());
  released = true;
  released.notify_all();
  default_stream().synchronize();
}

TEST(Stream, DevicesHaveDefaultStreamsOfTheirOwn) {
  // Kernels of two devices may wait for each other: one stream for both would never end.
  std::atomic<bool> released{false};
  default_stream().add([&] { released.wait(false); });
  use_device(1);
  default_stream().add([&] {
    released = true;
    released.notify_all();
  });
  default_stream().synchronize();
  use_device(0);
  default_stream().synchronize();
  EXPECT_THROW(use_device(kMostDevices), LaneError);
}

TEST(Stream, FollowsAMarkOfAStreamThatIsGone) {
  int done = 0;
  Stream behind;
  {
    Stream ahead;
    ahead.add([&] { done = 1; });
    behind.follow(ahead.mark());
  }
  behind.add([&] { done *= 10; });
  behind.synchronize();
  EXPECT_EQ(done, 10);
}

TEST(Stream, JoinsACaptureUntilItEnds) {
  std::vector<int> done;
  Stream origin;
  Stream branch;
  origin.begin_capture();
  origin.add([&] { done.push_back(1); });
  branch.join(origin.capture());
  branch.add([&] { done.push_back(2); });
  EXPECT_THROW(branch.end_capture(), LaneError);
  const Graph graph = origin.end_capture();
  EXPECT_FALSE(branch.capturing());
  branch.add([&] { done.push_back(9); });
  branch.synchronize();
  graph.launch(branch);
  branch.synchronize();
  EXPECT_EQ(done, (std::vector<int>{9, 1, 2}));
}

TEST(Stream, JoinsOneCaptureAtATime) {
  Stream one;
  Stream other;
  one.begin_capture();
  other.begin_capture();
  EXPECT_THROW(one.join(other.capture()), LaneError);
  one.end_capture();
  other.end_capture();
}

TEST(Stream, KnowsWhichAddressesAreStreams) {
  int none = 0;
  EXPECT_FALSE(Stream::exists(&none));
  const void* gone = nullptr;
  {
    const Stream stream;
    EXPECT_TRUE(Stream::exists(&stream));
    gone = &stream;
  }
  EXPECT_FALSE(Stream::exists(gone));
}

}  // namespace
}  // namespace peal::simt
