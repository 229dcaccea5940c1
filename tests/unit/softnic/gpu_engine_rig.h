// SPDX-License-Identifier: Apache-2.0
//
// PEs of the GPU engine's process in one test: a thread in place of its kernel, shared memory in
// place of a GPU's.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "softnic/gpu/client.h"
#include "softnic/gpu/message.h"
#include "tests/unit/softnic/processes.h"

namespace peal::softnic::gpu {

using mlx5::CqeOpcode;
using mlx5::Opcode;
using mlx5::Syndrome;
using testing::eventually;
using testing::Line;
using testing::Process;
using testing::SeenCqe;

inline constexpr size_t kBytes = 1 << 16;
inline constexpr size_t kSendQueue = 0;
inline constexpr size_t kCqe = 4096;
inline constexpr size_t kDoorbell = 8192;
inline constexpr size_t kData = 16384;
inline constexpr uint32_t kLogBlocks = 4;

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
  std::vector<Exported> export_range(const void* address, uint64_t bytes) const override {
    const auto* first = static_cast<const std::byte*>(address);
    if (first < memory_.at(0) || first + bytes > memory_.at(kBytes)) {
      throw ExportError("not within the test's memory");
    }
    std::vector<Exported> all(1);
    all[0].descriptor = Fd(dup(memory_.fd()));
    ProcessMemory& extent = all[0].extent;
    extent.kind = ProcessMemory::Kind::kDescriptor;
    extent.id = 1;
    extent.base = reinterpret_cast<uint64_t>(memory_.at(0));
    extent.bytes = kBytes;
    return all;
  }
  GpuId gpu_for_nic(const void*) const override { return {}; }
  int number_of(const void*) const override { return 0; }
  std::shared_ptr<std::byte> allocate(uint64_t, int) const override { return nullptr; }
  GpuId gpu_at(int) const override { return {}; }
  std::unique_ptr<GpuCopier> make_copier(const void*) const override { return nullptr; }
  bool takes_turns(const void*, const GpuId&) const override { return false; }

 private:
  const Shared& memory_;
};

inline Client::Place place(const std::string& directory) {
  return {.directory = directory,
          .program = std::filesystem::absolute("tests/support/peal_softnic_engine_on_cpu")};
}

inline ProcessHello hello(uint16_t lid) {
  ProcessHello hello;
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

}  // namespace peal::softnic::gpu
