// SPDX-License-Identifier: Apache-2.0
//
// Files of a fabric: claimed, released, taken over from the dead, never left behind; links whose
// memory somebody scribbled on; the environment variables.
#include "softnic/wire/fabric.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "softnic/presentation/settings.h"
#include "softnic/wire/route.h"
#include "softnic/wire/wire.h"
#include "tests/unit/softnic/processes.h"

namespace peal::softnic::testing {

namespace fs = std::filesystem;

/// A directory of its own for each test, named by the environment so that forked processes share
/// it.
class FabricFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/softnic_test_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory = name;
    setenv("PEAL_SOFTNIC_DIR", name, 1);
  }
  void TearDown() override {
    unsetenv("PEAL_SOFTNIC_DIR");
    fs::remove_all(directory);
  }
  fs::path home() const {
    return directory / ("peal-softnic-" + std::to_string(geteuid())) / "default";
  }
  size_t files() const {
    if (!fs::exists(home())) return 0;
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(home()), fs::directory_iterator()));
  }
  fs::path directory;
};

TEST_F(FabricFiles, NothingIsLeftAfterTheLastNic) {
  {
    const auto a = SoftwareNic::open();
    const auto b = SoftwareNic::open();
    EXPECT_EQ(files(), 2u);
  }
  EXPECT_TRUE(fs::is_empty(directory));
}

TEST_F(FabricFiles, FilesArePrivate) {
  const auto nic = SoftwareNic::open();
  struct stat info;
  ASSERT_EQ(stat(home().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const auto& entry : fs::directory_iterator(home())) {
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
}

TEST_F(FabricFiles, LinksLeaveNoNameBehind) {
  Process other([](Line& line) {
    Station station;
    station.connect(line);
    line.meet();
  });
  {
    Station station;
    station.connect(other.line());
    station.run(write_inline<uint64_t>(0, station.peer.key, 1));
    EXPECT_EQ(files(), 2u) << "two slots and no ring";
    other.line().meet();
  }
}

TEST_F(FabricFiles, SlotOfADeadProcessIsTakenOver) {
  Process other([](Line& line) {
    const auto nic = SoftwareNic::open();
    line.say(nic->lid());
    line.meet();  // never
  });
  const auto lid = other.line().hear<uint16_t>();
  other.kill();
  EXPECT_EQ(files(), 1u);
  const auto nic = SoftwareNic::open();
  EXPECT_EQ(nic->lid(), lid);
  EXPECT_EQ(files(), 1u);
}

TEST_F(FabricFiles, RingsOfDeadProcessesAreRemoved) {
  fs::create_directories(home());
  fs::permissions(home().parent_path(), fs::perms::owner_all);
  fs::permissions(home(), fs::perms::owner_all);
  std::ofstream(home() / "ring-7-123abc-1-456def") << "left behind";
  const auto nic = SoftwareNic::open();
  EXPECT_EQ(files(), 1u);
}

TEST_F(FabricFiles, AForkedChildLeavesItsParentsFilesAlone) {
  const auto nic = SoftwareNic::open();
  const pid_t child = fork();
  if (child == 0) {
    const_cast<std::shared_ptr<SoftwareNic>&>(nic).reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(files(), 1u);
}

TEST_F(FabricFiles, ALivingNicIsFoundAndADeadOneIsNot) {
  const Fabric mine(Settings::from_environment());
  Peer peer;
  {
    const Fabric other(Settings::from_environment());
    peer = mine.find(other.lid());
    EXPECT_TRUE(peer.found());
    EXPECT_EQ(peer.generation, other.generation());
    EXPECT_TRUE(mine.alive(peer));
  }
  EXPECT_FALSE(mine.alive(peer));
  EXPECT_FALSE(mine.find(2).found());
  EXPECT_FALSE(mine.find(0).found());
  EXPECT_FALSE(mine.find(0xbfff).found());
}

/// What refuse_stranger() says of `lid`; empty when it says nothing.
std::string refusal(const Fabric& fabric, uint16_t lid) {
  try {
    fabric.refuse_stranger(lid);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

// All builds of a user share a fabric. A NIC whose slot page or links are laid out otherwise must
// not be understood by chance, nor be taken for none: its files stay, and who wants a way to it is
// told of both formats.
TEST_F(FabricFiles, ANicOfAnotherFormatIsAnErrorThatNamesBoth) {
  const Fabric mine(Settings::from_environment());
  auto other = std::make_unique<Fabric>(Settings::from_environment());
  const uint16_t lid = other->lid();
  std::ofstream(home() / ("ring-2-" + std::to_string(other->generation()) + "-1-1")) << "its own";
  const auto rewrite = [&](uint64_t word, uintmax_t bytes) {
    fs::resize_file(home() / "slot-1", bytes);
    std::fstream slot(home() / "slot-1", std::ios::in | std::ios::out | std::ios::binary);
    slot.write(reinterpret_cast<const char*>(&word), sizeof(word));
  };
  EXPECT_TRUE(mine.find(lid).found());
  EXPECT_EQ(refusal(mine, lid), "");
  struct {
    uint64_t word;
    uintmax_t bytes;
    std::string format;
  } strangers[] = {{0x706561'6c6e6964, 4096, "format 1,"},
                   {0x7065616c'00000002, 4096, "format 2,"},
                   {0x7065616c'00000063, 64 << 10, "format 99,"}};
  for (const auto& [word, bytes, format] : strangers) {
    rewrite(word, bytes);
    EXPECT_FALSE(mine.find(lid).found());
    EXPECT_EQ(mine.members(), std::vector<uint16_t>{mine.lid()});
    const std::string text = refusal(mine, lid);
    EXPECT_NE(text.find(format), std::string::npos) << text;
    EXPECT_NE(text.find("this process in format 3"), std::string::npos) << text;
    EXPECT_NE(text.find("LID 2"), std::string::npos) << text;
    EXPECT_NE(text.find("of one version"), std::string::npos) << text;
    for (const bool ethernet : {false, true}) {
      PresentedDevice device;
      device.ethernet = ethernet;
      const std::vector<GidTableEntry> gids = gid_table(device, mine.lid(), mine.guid());
      AddressPath path = {};
      path.port = 1;
      path.lid = lid;
      std::ranges::copy(mac_of(lid), path.mac);
      const Router router(mine, device, gids);
      EXPECT_THROW(router.refuse_stranger(path), std::runtime_error) << ethernet;
      if (ethernet) {
        for (const GidTableEntry& gid : gid_table(device, lid, 1)) {
          std::ranges::copy(gid.raw, path.gid);
          EXPECT_THROW(static_cast<void>(router.resolve(path.gid, gid.network)),
                       std::runtime_error);
        }
      }
      // Requests that carry an address are led by the engine's thread: to it the NIC is nobody.
      EXPECT_NO_THROW(router.way({}, 1)) << ethernet;
      EXPECT_EQ(router.route(path).lid, ethernet ? 0 : lid) << ethernet;
    }
    { const Fabric third(Settings::from_environment()); }
    EXPECT_EQ(files(), 3u) << "the stranger's slot and its link stay";
  }
  rewrite(0x7065616c'00000002, 4096);
  other.reset();
  EXPECT_EQ(refusal(mine, lid), "") << "it has gone";
}

TEST_F(FabricFiles, ManyNicsShareAFabric) {
  std::vector<std::unique_ptr<Fabric>> nics;
  for (int i = 0; i < 300; ++i) {
    nics.push_back(std::make_unique<Fabric>(Settings::from_environment()));
  }
  EXPECT_EQ(nics.back()->lid(), 300);
  nics.clear();
  EXPECT_TRUE(fs::is_empty(directory));
}

TEST_F(FabricFiles, FolderOfOthersIsRefused) {
  fs::create_directories(home().parent_path());
  fs::permissions(home().parent_path(), fs::perms::all);
  EXPECT_THROW(SoftwareNic::open(), std::system_error);
}

TEST_F(FabricFiles, MissingDirectoryIsNamed) {
  setenv("PEAL_SOFTNIC_DIR", "/nonexistent/place", 1);
  try {
    SoftwareNic::open();
    ADD_FAILURE() << "opened in a folder that does not exist";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/place"), std::string::npos);
  }
}

TEST_F(FabricFiles, NicsOfOtherFabricsAreNotSeen) {
  const Fabric mine(Settings::from_environment());
  setenv("PEAL_SOFTNIC_FABRIC", "elsewhere", 1);
  const Fabric other(Settings::from_environment());
  unsetenv("PEAL_SOFTNIC_FABRIC");
  EXPECT_EQ(mine.lid(), other.lid());
  EXPECT_NE(mine.guid(), other.guid());
  EXPECT_NE(mine.identity(), other.identity());
}

// A name is not enough: another container's folder has the same one, and another path may lead to
// this one.
TEST_F(FabricFiles, AFabricIsItsFolderAndNotItsName) {
  const Fabric mine(Settings::from_environment());
  const Fabric same(Settings::from_environment());
  EXPECT_EQ(mine.identity(), same.identity());
  EXPECT_NE(mine.identity(), 0u);
  const fs::path other_path = directory.string() + ".link";
  fs::create_directory_symlink(directory, other_path);
  setenv("PEAL_SOFTNIC_DIR", other_path.c_str(), 1);
  const Fabric by_another_path(Settings::from_environment());
  EXPECT_EQ(mine.identity(), by_another_path.identity());
  EXPECT_NE(mine.directory(), by_another_path.directory());
  fs::remove(other_path);
}

TEST_F(FabricFiles, MalformedVariablesAreNamed) {
  const auto complaint = [](const char* name, const char* value) -> std::string {
    setenv(name, value, 1);
    std::string what;
    try {
      Settings::from_environment();
    } catch (const std::invalid_argument& error) {
      what = error.what();
    }
    unsetenv(name);
    return what;
  };
  for (const char* value : {"", "../up", ".hidden", "a/b", "a b"}) {
    EXPECT_NE(complaint("PEAL_SOFTNIC_FABRIC", value).find("PEAL_SOFTNIC_FABRIC"),
              std::string::npos)
        << value;
  }
  EXPECT_NE(complaint("PEAL_SOFTNIC_DIR", "relative").find("PEAL_SOFTNIC_DIR"), std::string::npos);
  setenv("PEAL_SOFTNIC_DIR", directory.c_str(), 1);
  for (const char* value : {"", "fast", "1x", "0", "-1", "1e9", "nan"}) {
    EXPECT_NE(complaint("PEAL_SOFTNIC_TIMEOUT_SCALE", value).find("PEAL_SOFTNIC_TIMEOUT_SCALE"),
              std::string::npos)
        << value;
  }
  EXPECT_EQ(complaint("PEAL_SOFTNIC_TIMEOUT_SCALE", "0.5"), "");
  EXPECT_EQ(complaint("PEAL_SOFTNIC_FABRIC", "job-17.a_b"), "");
}

/// A NIC of our own making that speaks the files but not the protocol.
struct Impostor {
  Impostor() : fabric(Settings::from_environment()) {}

  /// Creates a link to `lid` whose header `forge` fills in.
  template <class Forge>
  void link(uint16_t lid, size_t bytes, Forge forge) {
    const Peer peer = fabric.find(lid);
    ASSERT_TRUE(peer.found());
    file = fabric.create_ring(lid, peer.generation, bytes);
    ASSERT_TRUE(file.valid());
    auto& header = *reinterpret_cast<LinkHeader*>(file.memory());
    header.format = format_word(kFabricFormat);
    header.ring_bytes = 32 << 10;
    forge(header, file.memory() + kLinkHeaderBytes);
    fabric.knock(peer);
    // Taken off the folder once it is accepted or refused.
    const std::string name = "ring-" + std::to_string(fabric.lid());
    EXPECT_TRUE(eventually([&] {
      for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().filename().string().starts_with(name)) return false;
      }
      return true;
    }));
  }
  fs::path folder;
  Fabric fabric;
  Mapping file;
};

class Corruption : public FabricFiles {
 protected:
  static constexpr size_t kBytes = kLinkHeaderBytes + (64 << 10);
  void SetUp() override {
    FabricFiles::SetUp();
    nic = SoftwareNic::open();
    impostor = std::make_unique<Impostor>();
    impostor->folder = home();
  }
  void TearDown() override {
    // The NIC goes on serving.
    const uint32_t pd = nic->allocate_pd().number;
    {
      Cq cq(*nic, {});
      Qp qp(*nic, pd, cq, cq, {});
      qp.connect(nic->lid(), qp.qpn);
      qp.post(nop());
      qp.ring();
      EXPECT_EQ(cq.await().kind, CqeOpcode::kRequester);
    }
    impostor.reset();
    nic.reset();
    FabricFiles::TearDown();
  }
  std::shared_ptr<SoftwareNic> nic;
  std::unique_ptr<Impostor> impostor;
};

TEST_F(Corruption, FileTooShortForItsRings) {
  impostor->link(nic->lid(), kLinkHeaderBytes + 100, [](LinkHeader&, std::byte*) {});
}

TEST_F(Corruption, FileShorterThanAHeader) {
  impostor->link(nic->lid(), 4095, [](LinkHeader&, std::byte*) {});
}

TEST_F(Corruption, RingSizeThatIsNoPowerOfTwo) {
  impostor->link(nic->lid(), kBytes,
                 [](LinkHeader& header, std::byte*) { header.ring_bytes = (32 << 10) + 64; });
}

TEST_F(Corruption, RingSizeThatWraps) {
  impostor->link(nic->lid(), kBytes,
                 [](LinkHeader& header, std::byte*) { header.ring_bytes = 1ull << 63; });
}

TEST_F(Corruption, TailBeyondTheRing) {
  impostor->link(nic->lid(), kBytes,
                 [](LinkHeader& header, std::byte*) { header.requests.tail = 1ull << 40; });
}

TEST_F(Corruption, RecordLongerThanItsRing) {
  impostor->link(nic->lid(), kBytes, [](LinkHeader& header, std::byte* ring) {
    auto* packet = reinterpret_cast<Packet*>(ring);
    packet->kind = PacketKind::kRequest;
    packet->payload = 0xffffffff;
    header.requests.tail = 64;
  });
}

TEST_F(Corruption, ReadOfMoreThanAPacketHolds) {
  impostor->link(nic->lid(), kBytes, [](LinkHeader& header, std::byte* ring) {
    auto* packet = reinterpret_cast<Packet*>(ring);
    packet->kind = PacketKind::kRequest;
    packet->opcode = Opcode::kRdmaRead;
    packet->bytes = packet->total = 1 << 30;
    header.requests.tail = 64;
  });
}

TEST_F(Corruption, UnknownPacketKind) {
  impostor->link(nic->lid(), kBytes, [](LinkHeader& header, std::byte* ring) {
    reinterpret_cast<Packet*>(ring)->kind = static_cast<PacketKind>(99);
    header.requests.tail = 64;
  });
}

TEST_F(Corruption, BytesThatNobodyLent) {
  impostor->link(nic->lid(), kBytes, [](LinkHeader& header, std::byte* ring) {
    auto* packet = reinterpret_cast<Packet*>(ring);
    packet->kind = PacketKind::kRequest;
    packet->opcode = Opcode::kRdmaWrite;
    packet->flags = kInRegion;
    packet->bytes = packet->total = 4096;
    packet->payload = sizeof(RegionBytes);
    header.requests.tail = 128;
  });
}

TEST_F(Corruption, OfferThatIsTooShort) {
  impostor->link(nic->lid(), kBytes, [](LinkHeader& header, std::byte* ring) {
    auto* packet = reinterpret_cast<Packet*>(ring);
    packet->kind = PacketKind::kOffer;
    packet->payload = sizeof(RegionDescriptor) - 1;
    header.requests.tail = 128;
  });
}

TEST_F(Corruption, OffersWithoutEnd) {
  impostor->link(nic->lid(), kBytes, [](LinkHeader& header, std::byte* ring) {
    for (uint64_t i = 0; i < 256; ++i) {
      auto* packet = reinterpret_cast<Packet*>(ring + 128 * i);
      packet->kind = PacketKind::kOffer;
      packet->address = i;
      packet->payload = sizeof(RegionDescriptor);
      const RegionDescriptor offer{i, getpid(), static_cast<int64_t>(i), 0, 0, 0, 4096};
      std::memcpy(packet + 1, &offer, sizeof(offer));
    }
    header.requests.tail = 32 << 10;
  });
}

TEST_F(Corruption, AnswersTakenThatWereNeverSent) {
  impostor->link(nic->lid(), kBytes, [](LinkHeader& header, std::byte* ring) {
    header.answers.head = 1 << 20;
    for (int i = 0; i < 512; ++i) {
      auto* packet = reinterpret_cast<Packet*>(ring) + i;
      packet->kind = PacketKind::kRequest;
      packet->destination = 12345;
    }
    header.requests.tail = 32 << 10;
  });
}

TEST_F(Corruption, SlotPageFullOfKnocks) {
  const Peer peer = impostor->fabric.find(nic->lid());
  ASSERT_TRUE(peer.found());
  std::memset(peer.slot.memory() + 64, 0xff, 4096 - 64);
}

TEST_F(Corruption, RandomBytesInARing) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    impostor->link(nic->lid(), kBytes, [&](LinkHeader& header, std::byte* ring) {
      for (int i = 0; i < (32 << 10); ++i) ring[i] = static_cast<std::byte>(random());
      for (int i = 0; i < 512; ++i) {
        auto* packet = reinterpret_cast<Packet*>(ring) + i;
        if (random() % 8 != 0) packet->kind = PacketKind::kRequest;
        packet->payload = static_cast<uint32_t>(random() % 256);
        packet->bytes = static_cast<uint32_t>(random() % 4096);
        packet->destination = static_cast<uint32_t>(random() % 128);
      }
      header.requests.tail = 32 << 10;
    });
  }
}

}  // namespace peal::softnic::testing
