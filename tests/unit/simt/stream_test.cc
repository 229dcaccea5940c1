// SPDX-License-Identifier: Apache-2.0
#include "simt/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "simt/launch.h"

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
  EXPECT_THROW(stream.end_capture(), Error);
  stream.begin_capture();
  EXPECT_THROW(stream.begin_capture(), Error);
  EXPECT_THROW(stream.synchronize(), Error);
  EXPECT_THROW(stream.mark(), Error);
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

}  // namespace
}  // namespace peal::simt
