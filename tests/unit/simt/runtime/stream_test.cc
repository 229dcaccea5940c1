// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "simt/lanes/launch.h"

namespace peal::simt {
namespace {

TEST(WorkStream, DoesWorkInOrder) {
  std::vector<int> done;
  WorkStream stream;
  for (int i = 0; i < 100; ++i) stream.add([&done, i] { done.push_back(i); });
  stream.synchronize();
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
}

TEST(WorkStream, GoesOnBesideWhoGaveTheWork) {
  std::atomic<bool> released{false};
  WorkStream stream;
  stream.add([&] { released.wait(false); });
  const Mark mark = stream.mark();
  EXPECT_FALSE(mark.reached());
  released = true;
  released.notify_all();
  mark.wait();
  EXPECT_TRUE(mark.reached());
}

TEST(WorkStream, LeavesOutWhatFollowsAnErrorAndTellsOnce) {
  int done = 0;
  WorkStream stream;
  stream.add([] { throw std::runtime_error("the kernel's"); });
  stream.add([&] { ++done; });
  EXPECT_THROW(stream.synchronize(), std::runtime_error);
  EXPECT_EQ(done, 0);
  stream.add([&] { ++done; });
  stream.synchronize();
  EXPECT_EQ(done, 1);
}

TEST(WorkStream, RecordsWhileItCaptures) {
  int done = 0;
  WorkStream stream;
  stream.begin_capture();
  EXPECT_TRUE(stream.capturing());
  stream.add([&] { ++done; });
  stream.add([&] { done *= 2; });
  const WorkGraph graph = stream.end_capture();
  stream.synchronize();
  EXPECT_EQ(done, 0);
  EXPECT_EQ(graph.size(), 2u);
  graph.launch(stream);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(done, 6);
}

TEST(WorkStream, AGraphMayEndBeforeItsLastRun) {
  int done = 0;
  WorkStream stream;
  {
    stream.begin_capture();
    stream.add([&] { ++done; });
    const WorkGraph graph = stream.end_capture();
    graph.launch(stream);
  }
  stream.synchronize();
  EXPECT_EQ(done, 1);
}

TEST(WorkStream, RefusesWhatACaptureExcludes) {
  WorkStream stream;
  EXPECT_THROW(stream.end_capture(), LaneError);
  stream.begin_capture();
  EXPECT_THROW(stream.begin_capture(), LaneError);
  EXPECT_THROW(stream.synchronize(), LaneError);
  EXPECT_THROW(stream.mark(), LaneError);
  stream.end_capture();
}

TEST(WorkStream, ItsEndWaitsForItsWork) {
  int done = 0;
  {
    WorkStream stream;
    for (int i = 0; i < 10; ++i) stream.add([&] { ++done; });
  }
  EXPECT_EQ(done, 10);
}

TEST(WorkStream, TheDefaultOneAndABlockingOneWaitForEachOther) {
  // Each order that CUDA fixes is given while the other stream is held up: a stream that did not
  // wait would write first.
  std::atomic<bool> released{false};
  std::vector<int> done;
  WorkStream blocking(StreamKind::kBlocking);
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

TEST(WorkStream, AnIndependentOneWaitsForNobody) {
  std::atomic<bool> released{false};
  WorkStream blocking(StreamKind::kBlocking);
  blocking.add([&] { released.wait(false); });
  default_stream().add([] {});
  WorkStream independent;
  independent.synchronize();
  WorkStream other_blocking(StreamKind::kBlocking);
  EXPECT_FALSE(default_stream().mark().reached());
  released = true;
  released.notify_all();
  default_stream().synchronize();
}

TEST(WorkStream, DevicesHaveDefaultStreamsOfTheirOwn) {
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

TEST(WorkStream, FollowsAMarkOfAStreamThatIsGone) {
  int done = 0;
  WorkStream behind;
  {
    WorkStream ahead;
    ahead.add([&] { done = 1; });
    behind.follow(ahead.mark());
  }
  behind.add([&] { done *= 10; });
  behind.synchronize();
  EXPECT_EQ(done, 10);
}

TEST(WorkStream, JoinsACaptureUntilItEnds) {
  std::vector<int> done;
  WorkStream origin;
  WorkStream branch;
  origin.begin_capture();
  origin.add([&] { done.push_back(1); });
  branch.join(origin.capture());
  branch.add([&] { done.push_back(2); });
  EXPECT_THROW(branch.end_capture(), LaneError);
  const WorkGraph graph = origin.end_capture();
  EXPECT_FALSE(branch.capturing());
  branch.add([&] { done.push_back(9); });
  branch.synchronize();
  graph.launch(branch);
  branch.synchronize();
  EXPECT_EQ(done, (std::vector<int>{9, 1, 2}));
}

TEST(WorkStream, JoinsOneCaptureAtATime) {
  WorkStream one;
  WorkStream other;
  one.begin_capture();
  other.begin_capture();
  EXPECT_THROW(one.join(other.capture()), LaneError);
  one.end_capture();
  other.end_capture();
}

TEST(WorkStream, KnowsWhichAddressesAreStreams) {
  int none = 0;
  EXPECT_FALSE(WorkStream::exists(&none));
  const void* gone = nullptr;
  {
    const WorkStream stream;
    EXPECT_TRUE(WorkStream::exists(&stream));
    gone = &stream;
  }
  EXPECT_FALSE(WorkStream::exists(gone));
}

}  // namespace
}  // namespace peal::simt
