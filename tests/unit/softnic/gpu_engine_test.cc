// SPDX-License-Identifier: Apache-2.0
//
// The GPU engine's process and its clients, with a thread in place of the kernel and shared memory
// in place of a GPU's: joining, showing memory, requests between PEs, and the end of either side.
#include "tests/unit/softnic/gpu_engine_rig.h"

namespace peal::softnic::gpu {
namespace {

TEST_F(GpuEngine, ExecutesRequestsBetweenTwoPes) {
  Pe a(directory, 1);
  Pe b(directory, 2);
  a.connect(2, b.qpn);
  b.connect(1, a.qpn);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(a.write(8 * i, b.key, i + 1).kind, CqeOpcode::kRequester);
    EXPECT_EQ(b.data(8 * i), i + 1);
  }
  EXPECT_EQ(b.write(64, a.key, 77).kind, CqeOpcode::kRequester);
  EXPECT_EQ(a.data(64), 77u);
  EXPECT_EQ(a.client.run(CqProduced{a.cqn}).produced, 100u);
  EXPECT_EQ(a.client.engine_pid(), b.client.engine_pid());
}

TEST_F(GpuEngine, ServesRequestsAgainAfterEveryControlCall) {
  Pe a(directory, 1);
  a.connect(1, a.qpn);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(a.write(0, a.key, i).kind, CqeOpcode::kRequester);
    const QueuePairAttributes now = a.client.run(QueryQp{a.qpn}).attributes;
    EXPECT_EQ(now.state, QpState::kReadyToSend);
    EXPECT_EQ(now.hardware_send_counter, i + 1);
  }
}

TEST_F(GpuEngine, RefusesAWrongKeyAndReportsTheEvent) {
  Pe a(directory, 1);
  Pe b(directory, 2);
  a.connect(2, b.qpn);
  b.connect(1, a.qpn);
  const SeenCqe cqe = a.write(0, b.key + 1, 1);
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequesterError);
  EXPECT_EQ(cqe.syndrome, Syndrome::kRemoteAccess);
  const Outcome queried = a.client.run(QueryQp{a.qpn});
  ASSERT_FALSE(queried.refusal.refused());
  const QueuePairAttributes& now = queried.attributes;
  EXPECT_EQ(now.state, QpState::kError);
  AsyncEvent event = {};
  EXPECT_TRUE(eventually([&] { return b.client.next_event(&event); }));
  EXPECT_EQ(event.kind, AsyncEvent::Kind::kQpAccessError);
  EXPECT_EQ(event.number, b.qpn);
}

// A PE that reads no events must not hold up the process that serves all: 278 of them fill its
// socket. The others wait in the process and come in order when there is room.
TEST_F(GpuEngine, ServesOthersWhileAPeLeavesItsEventsUnread) {
  constexpr uint32_t kEvents = 300;
  Pe a(directory, 1);
  Pe b(directory, 2);
  const uint32_t queues[] = {b.qpn, b.make_queue()};
  for (uint32_t i = 0; i < kEvents; ++i) {
    b.qpn = queues[i % 3 == 0];
    b.connect(1, a.qpn);
    a.connect(2, b.qpn);
    ASSERT_EQ(a.write(0, b.key + 1, 1).syndrome, Syndrome::kRemoteAccess) << i;
    b.reset();
    a.reset();
  }
  a.connect(1, a.qpn);
  EXPECT_EQ(a.write(0, a.key, 5).kind, CqeOpcode::kRequester);
  for (uint32_t i = 0; i < kEvents; ++i) {
    AsyncEvent event = {};
    ASSERT_TRUE(eventually([&] { return b.client.next_event(&event); })) << i;
    EXPECT_EQ(event.kind, AsyncEvent::Kind::kQpAccessError);
    EXPECT_EQ(event.number, queues[i % 3 == 0]) << i;
  }
  AsyncEvent none;
  EXPECT_FALSE(b.client.next_event(&none));
}

// The process serves all PEs of a fabric, and may have been started by a library of another build.
TEST_F(GpuEngine, NamesBothVersionsToALibraryOfAnother) {
  Pe pe(directory, 1);
  MessageSocket calls = connect_to(directory + "/engine");
  const auto [mine, theirs] = channel_pair();
  Demand call;
  call.version = Demand::kVersion + 1;
  ASSERT_TRUE(calls.send(call, theirs.fd()));
  Reply reply;
  ASSERT_TRUE(calls.receive(&reply, MessageSocket::Milliseconds(60'000)));
  EXPECT_NE(reply.status, CommandStatus::kOk);
  for (const uint64_t version : {Demand::kVersion, Demand::kVersion + 1}) {
    const std::string number = "version " + std::to_string(version & 0xffff'ffff);
    EXPECT_NE(std::string(reply.reason).find(number), std::string::npos) << reply.reason;
  }
}

// A PE that dies before it has read an answer: its channel closes while the process writes. The
// process must not keep such a PE, and its LID, for ever.
TEST_F(GpuEngine, LetsGoOfAPeThatDiesBeforeItIsWelcomed) {
  Pe other(directory, 1);
  {
    MessageSocket calls = connect_to(directory + "/engine");
    const auto [mine, theirs] = channel_pair();
    Demand call;
    call.what = hello(2);
    ASSERT_TRUE(calls.send(call, theirs.fd()));
  }
  EXPECT_TRUE(eventually([&] {
    try {
      const Pe same(directory, 2);
      return true;
    } catch (const std::runtime_error&) {
      return false;  // it is still being welcomed
    }
  }));
}

// A process that reads no answers must not hold up the others either: it is let go.
TEST_F(GpuEngine, LetsGoOfAPeThatReadsNoAnswers) {
  Pe other(directory, 1);
  MessageSocket calls = connect_to(directory + "/engine");
  const auto [mine, theirs] = channel_pair();
  Demand call;
  call.what = hello(2);
  bool sent = calls.send(call, theirs.fd());
  call.what = Command(QueryViolations{});
  EXPECT_TRUE(eventually([&] {
    if (calls.writable()) sent = sent && calls.send(call);
    return !sent;
  }));
  EXPECT_FALSE(other.client.run(AllocatePd{}).refusal.refused());
}

TEST_F(GpuEngine, RefusesMemoryItIsNotShown) {
  Pe a(directory, 1);
  std::byte elsewhere[64];
  const Outcome refused =
      a.client.run(RegisterMemory{{.pd = a.pd, .access = 1, .bytes = 64, .memory = elsewhere}});
  EXPECT_TRUE(refused.refusal.refused());
  EXPECT_STREQ(refused.refusal.reason, "not within the test's memory");
}

/// Its memory is the host's: that engine knows the number, which a DC target may name.
TEST_F(GpuEngine, KnowsASharedReceiveQueueByNumber) {
  Pe pe(directory, 1);
  alignas(16) static std::byte host[256];
  static mlx5::DoorbellRecord record;
  const Outcome srq = pe.client.run(CreateSrq{
      {.pd = pe.pd, .buffer = host, .log_entries = 2, .log_stride = 1, .doorbell = &record}});
  ASSERT_FALSE(srq.refusal.refused()) << srq.refusal.reason;
  DcTargetConfig config;
  config.pd = pe.pd;
  config.receive_cq = pe.cqn;
  config.shared_receive_queue = srq.number;
  const Outcome target = pe.client.run(CreateDcTarget{config});
  ASSERT_FALSE(target.refusal.refused()) << target.refusal.reason;
  EXPECT_EQ(pe.client.run(DestroySrq{srq.number}).refusal.status, CommandStatus::kBusy);
  EXPECT_FALSE(pe.client.run(DestroyDcTarget{target.number}).refusal.refused());
  EXPECT_FALSE(pe.client.run(DestroySrq{srq.number}).refusal.refused());
  EXPECT_TRUE(pe.client.run(DestroySrq{srq.number}).refusal.refused());
}

TEST_F(GpuEngine, RunsWhereTheFirstPeWantedItAndSaysSo) {
  Shared memory;
  const SharedExporter exporter(memory);
  ProcessHello first = hello(1);
  first.gpu.byte[0] = 1;
  const Client a(place(directory), first, exporter);
  EXPECT_EQ(a.gpu(), first.gpu);
  ProcessHello second = hello(2);
  second.gpu.byte[0] = 2;
  const Client b(place(directory), second, exporter);
  EXPECT_EQ(b.gpu(), first.gpu);
  second.lid = 3;
  second.insists = true;
  EXPECT_THROW(Client(place(directory), second, exporter), std::runtime_error);
}

TEST_F(GpuEngine, KeepsOneLidOnce) {
  Pe a(directory, 1);
  EXPECT_THROW(Pe(directory, 1), std::runtime_error);
}

TEST_F(GpuEngine, FailsEveryQueuePairWhenItsProcessIsKilled) {
  Pe a(directory, 1);
  a.connect(1, a.qpn);
  EXPECT_EQ(a.write(0, a.key, 5).kind, CqeOpcode::kRequester);
  kill(a.client.engine_pid(), SIGKILL);
  const Outcome queried = a.client.run(QueryQp{a.qpn});
  ASSERT_FALSE(queried.refusal.refused());
  const QueuePairAttributes& now = queried.attributes;
  EXPECT_EQ(now.state, QpState::kError);
  EXPECT_EQ(now.remote_qpn, a.qpn);
  EXPECT_TRUE(a.client.run(AllocatePd{}).refusal.refused());
  EXPECT_FALSE(a.client.run(DestroyQp{a.qpn}).refusal.refused());
  EXPECT_FALSE(a.client.run(DeregisterMemory{a.key}).refusal.refused());
}

TEST_F(GpuEngine, StartsAnewAfterItsProcessWasKilled) {
  {
    Pe a(directory, 1);
    kill(a.client.engine_pid(), SIGKILL);
  }
  Pe b(directory, 1);
  b.connect(1, b.qpn);
  EXPECT_EQ(b.write(0, b.key, 5).kind, CqeOpcode::kRequester);
}

TEST_F(GpuEngine, EndsWithItsLastPe) {
  pid_t engine = 0;
  {
    Pe a(directory, 1);
    engine = a.client.engine_pid();
    EXPECT_TRUE(lives(engine));
  }
  EXPECT_TRUE(eventually([&] { return !lives(engine); }));
  EXPECT_FALSE(std::filesystem::exists(directory + "/engine"));
}

TEST_F(GpuEngine, GivesUpOnAPeerThatWasKilledAndServesTheOthers) {
  Process killed([&](Line& line) {
    Pe b(directory, 2);
    line.say(b.qpn);
    line.say(b.key);
    line.say(b.client.engine_pid());
    const auto peer = line.hear<uint32_t>();
    b.connect(1, peer);
    line.meet();
    line.hear<char>();
  });
  const auto qpn = killed.line().hear<uint32_t>();
  const auto key = killed.line().hear<uint32_t>();
  const auto engine = killed.line().hear<pid_t>();
  Pe a(directory, 1);
  EXPECT_EQ(a.client.engine_pid(), engine);
  a.connect(2, qpn);
  killed.line().say(a.qpn);
  killed.line().meet();
  EXPECT_EQ(a.write(0, key, 1).kind, CqeOpcode::kRequester);
  killed.kill();
  const SeenCqe cqe = a.write(0, key, 2);
  EXPECT_TRUE(cqe.kind == CqeOpcode::kRequester ||
              cqe.syndrome == Syndrome::kTransportRetryExceeded);
  Pe c(directory, 3);
  c.connect(3, c.qpn);
  EXPECT_EQ(c.write(0, c.key, 9).kind, CqeOpcode::kRequester);
}

// UCX registers 65,552 bytes of an allocation of 65,536.
TEST(GpuMemory, MayEndBehindAnAllocationWithinItsPieceOfTheGpu) {
  const auto* const begin = reinterpret_cast<const std::byte*>(uintptr_t{0x7f0000200000});
  EXPECT_EQ(asked_for_end(begin, 65'552), begin);
  EXPECT_EQ(asked_for_end(begin + 512, 1), begin + 512);
  EXPECT_EQ(asked_for_end(begin, 2 << 20), begin);
  EXPECT_EQ(asked_for_end(begin, (2 << 20) + 1), begin + (2 << 20));
  EXPECT_EQ(asked_for_end(begin + 4096, 5 << 20), begin + (4 << 20));
}

TEST_F(GpuEngine, SaysWhatIsMissingWhenItsProgramIs) {
  Shared memory;
  const SharedExporter exporter(memory);
  try {
    Client client({.directory = directory, .program = "/nowhere/engine"}, hello(1), exporter);
    FAIL() << "an engine without a program";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/engine"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("PEAL_SOFTNIC_ENGINE_PROGRAM"), std::string::npos);
  }
}

}  // namespace
}  // namespace peal::softnic::gpu
