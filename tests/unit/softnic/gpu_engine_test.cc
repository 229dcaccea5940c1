// SPDX-License-Identifier: Apache-2.0
//
// The GPU engine's process and its clients, with a thread in place of the kernel and shared memory
// in place of a GPU's: joining, showing memory, requests between PEs, and the end of either side.
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <filesystem>

#include "softnic/gpu/client.h"
#include "softnic/gpu/message.h"
#include "tests/unit/softnic/processes.h"

namespace peal::softnic::gpu {
namespace {

using mlx5::CqeOpcode;
using mlx5::Opcode;
using mlx5::Syndrome;
using testing::eventually;
using testing::Line;
using testing::Process;
using testing::SeenCqe;

constexpr size_t kBytes = 1 << 16;
constexpr size_t kSendQueue = 0;
constexpr size_t kCqe = 4096;
constexpr size_t kDoorbell = 8192;
constexpr size_t kData = 16384;
constexpr uint32_t kLogBlocks = 4;

/// Memory that another process can map, in place of a GPU's.
class Shared {
 public:
  Shared() : fd_(memfd_create("peal-test", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd_.get(), kBytes), 0);
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0));
  }
  ~Shared() { munmap(memory_, kBytes); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  std::byte* at(size_t offset) const { return memory_ + offset; }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
  std::byte* memory_;
};

class SharedExporter : public Exporter {
 public:
  explicit SharedExporter(const Shared& memory) : memory_(memory) {}
  bool owns(const void*) const override { return true; }
  Extent export_range(const void* address, uint64_t bytes, Fd* descriptor) const override {
    const auto* first = static_cast<const std::byte*>(address);
    if (first < memory_.at(0) || first + bytes > memory_.at(kBytes)) {
      throw ExportError("not within the test's memory");
    }
    *descriptor = Fd(dup(memory_.fd()));
    Extent extent;
    extent.kind = Extent::Kind::kDescriptor;
    extent.id = 1;
    extent.base = reinterpret_cast<uint64_t>(memory_.at(0));
    extent.bytes = kBytes;
    return extent;
  }
  GpuId gpu_for_nic(const void*) const override { return {}; }
  int number_of(const void*) const override { return 0; }
  std::shared_ptr<std::byte> allocate_on(int, uint64_t) const override { return nullptr; }
  GpuId gpu_at(int) const override { return {}; }
  bool takes_turns(const void*, const GpuId&) const override { return false; }

 private:
  const Shared& memory_;
};

Client::Place place(const std::string& directory) {
  return {.directory = directory,
          .program = std::filesystem::absolute("tests/support/peal_softnic_engine_on_cpu")};
}

Hello hello(uint16_t lid) {
  Hello hello;
  hello.lid = lid;
  hello.epoch = lid;
  return hello;
}

/// A PE: one queue pair, one key on everything, its queues in the same memory.
struct Pe {
  Pe(const std::string& directory, uint16_t of_lid)
      : exporter(memory), client(place(directory), hello(of_lid), exporter), lid(of_lid) {
    memset(memory.at(kCqe), 0xff, 64);
    pd = client.run(AllocatePd{}).number;
    key = client
              .run(RegisterMemory{{.pd = pd,
                                   .access = testing::kEverything,
                                   .iova = 0,
                                   .bytes = kBytes - kData,
                                   .memory = memory.at(kData)}})
              .number;
    cqn =
        client.run(CreateCq{{.buffer = memory.at(kCqe), .collapsed = true, .ignore_overrun = true}})
            .number;
    qpn = make_queue();
  }

  uint32_t make_queue() {
    QueuePairConfig config;
    config.pd = pd;
    config.send_cq = cqn;
    config.send_buffer = memory.at(kSendQueue);
    config.log_send_blocks = kLogBlocks;
    config.doorbell = reinterpret_cast<mlx5::DoorbellRecord*>(memory.at(kDoorbell));
    return client.run(CreateQp{config}).number;
  }

  /// As new, whatever has become of it.
  void reset() {
    QueuePairAttributes now = client.run(QueryQp{qpn}).attributes;
    const QpState from = now.state;
    now.state = QpState::kReset;
    EXPECT_FALSE(client.run(ModifyQp{qpn, from, now}).refusal.refused());
    memset(memory.at(kDoorbell), 0, sizeof(mlx5::DoorbellRecord));
    memset(memory.at(kCqe), 0xff, 64);
    posted = 0;
  }

  void connect(uint16_t to, uint32_t remote) {
    QueuePairAttributes a;
    a.access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
    a.atomic_mode = 3;
    a.mtu = 5;
    a.remote_lid = to;
    a.remote_qpn = remote;
    a.ack_timeout = 1;
    QpState from = QpState::kReset;
    for (const QpState state : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
      a.state = state;
      EXPECT_FALSE(client.run(ModifyQp{qpn, from, a}).refusal.refused());
      from = state;
    }
  }

  /// One 8-byte WRITE of `value` to `offset` of the peer's data; its completion.
  SeenCqe write(uint64_t offset, uint32_t rkey, uint64_t value) {
    struct {
      mlx5::ControlSegment control;
      mlx5::RemoteAddressSegment remote;
      Be32 header;
      uint32_t data[3];
    } wqe = {};
    wqe.control.opmod_idx_opcode = Be32((posted & 0xffff) << 8 | 0x08);
    wqe.control.qpn_ds = Be32(qpn << 8 | 3);
    wqe.control.signature_fm_ce_se = Be32(0x08);
    wqe.remote.address = Be64(offset);
    wqe.remote.rkey = Be32(rkey);
    wqe.header = Be32(8 | mlx5::kInlineFlag);
    memcpy(wqe.data, &value, sizeof(value));
    memcpy(memory.at(kSendQueue + (posted % (1u << kLogBlocks)) * 64), &wqe, sizeof(wqe));
    ++posted;
    auto* record = reinterpret_cast<uint32_t*>(memory.at(kDoorbell) + 4);
    std::atomic_ref<uint32_t>(*record).store(Be32(posted & 0xffff).raw, std::memory_order_release);
    const auto newest = [&] {
      auto* last = reinterpret_cast<uint64_t*>(memory.at(kCqe) + 56);
      std::atomic_ref<uint64_t>(*last).load(std::memory_order_acquire);
      return testing::Cq::decode(memory.at(kCqe));
    };
    EXPECT_TRUE(eventually([&] {
      const SeenCqe cqe = newest();
      return cqe.kind != CqeOpcode::kInvalid && cqe.counter == ((posted - 1) & 0xffff);
    }));
    return newest();
  }
  uint64_t data(size_t offset) const {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(memory.at(kData + offset)))
        .load(std::memory_order_acquire);
  }

  Shared memory;
  SharedExporter exporter;
  Client client;
  uint16_t lid;
  uint32_t pd = 0, key = 0, cqn = 0, qpn = 0, posted = 0;
};

class GpuEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/peal-engine-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root = name;
    directory = root + "/fabric";
    std::filesystem::create_directory(directory);
  }
  void TearDown() override {
    std::error_code gone;  // the engine leaves by itself and removes its folder too
    std::filesystem::remove_all(root, gone);
  }

  static bool lives(pid_t pid) { return kill(pid, 0) == 0; }

  std::string root;
  std::string directory;
};

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
  Channel calls = connect_to(directory + "/engine");
  const auto [mine, theirs] = channel_pair();
  Call call;
  call.version = Call::kVersion + 1;
  ASSERT_TRUE(calls.send(call, theirs.fd()));
  Reply reply;
  ASSERT_TRUE(calls.receive(&reply, Channel::Milliseconds(60'000)));
  EXPECT_NE(reply.status, CommandStatus::kOk);
  for (const uint64_t version : {Call::kVersion, Call::kVersion + 1}) {
    const std::string number = "version " + std::to_string(version & 0xffff'ffff);
    EXPECT_NE(std::string(reply.reason).find(number), std::string::npos) << reply.reason;
  }
}

// A PE that dies before it has read an answer: its channel closes while the process writes. The
// process must not keep such a PE, and its LID, for ever.
TEST_F(GpuEngine, LetsGoOfAPeThatDiesBeforeItIsWelcomed) {
  Pe other(directory, 1);
  {
    Channel calls = connect_to(directory + "/engine");
    const auto [mine, theirs] = channel_pair();
    Call call;
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
  Channel calls = connect_to(directory + "/engine");
  const auto [mine, theirs] = channel_pair();
  Call call;
  call.what = hello(2);
  bool sent = calls.send(call, theirs.fd());
  call.what = Command(QueryViolations{});
  EXPECT_TRUE(eventually([&] {
    if (calls.writable()) sent = sent && calls.send(call);
    return !sent;
  }));
  EXPECT_FALSE(other.client.run(AllocatePd{}).refusal.refused());
}

// A plan that is accepted and does nothing would let tests of faults pass.
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
  Hello first = hello(1);
  first.gpu.byte[0] = 1;
  const Client a(place(directory), first, exporter);
  EXPECT_EQ(a.gpu(), first.gpu);
  Hello second = hello(2);
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
