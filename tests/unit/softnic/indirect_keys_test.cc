// SPDX-License-Identifier: Apache-2.0
//
// Indirect keys: where their bytes are, by every way that a request takes, and each thing that can
// be wrong with the key itself, with an entry, or with the key that an entry names. Whatever it is,
// no byte has changed.
//
//   indirect key at kStart -> entry 0: region 2 | entry 1: region 0 | entry 2: region 1, 4 KiB each
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "softnic/engine/keys.h"
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {
namespace {

constexpr uint64_t kEntity = 4096;
constexpr uint64_t kShift = 16;  // as UCX's keys for atomics: a little behind an entity's start
constexpr uint64_t kStart = 0x40000000 + kShift;
constexpr uint64_t kIova = 0x7000;  // of each region
constexpr std::array<uint32_t, 3> kOrder = {2, 0, 1};
constexpr uint64_t kBytes = kOrder.size() * kEntity;

/// Straight to the peer's tables; as packets, with WRITEs placed late; with what READs bring late.
enum class Way { kDirect, kWire, kLate };

std::vector<uint8_t> pattern(size_t bytes) {
  std::vector<uint8_t> all(bytes);
  for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<uint8_t>(i * 7 + i / 251 + 1);
  return all;
}

class IndirectKeys : public SoftNic, public ::testing::WithParamInterface<Way> {
 protected:
  void SetUp() override {
    if (GetParam() == Way::kWire) setenv("PEAL_SOFTNIC_PLACEMENT", "any:3", 1);
    if (GetParam() == Way::kLate) {
      setenv("PEAL_SOFTNIC_FAULTS", "wqe=* fault=late_data ms=60000", 1);
    }
    SoftNic::SetUp();
    for (auto& region : regions) {
      region = std::make_unique<Region>(*nic, pd, kEntity, kEverything, kIova);
    }
    home = std::make_unique<Region>(*nic, pd, 1 << 20);
    connect();
  }
  void TearDown() override {
    unsetenv("PEAL_SOFTNIC_PLACEMENT");
    unsetenv("PEAL_SOFTNIC_FAULTS");
  }

  /// Two queue pairs connected to each other, in the place of those before.
  void connect() {
    qp = make_qp();
    peer = make_qp();
    qp->connect(nic->lid(), peer->qpn);
    peer->connect(nic->lid(), qp->qpn);
  }

  std::vector<KeyEntry> entries() const {
    std::vector<KeyEntry> all;
    for (const uint32_t number : kOrder) all.push_back({kIova, regions[number]->key});
    return all;
  }
  Key config() const {
    return {.pd = pd,
            .access = kEverything,
            .iova = kStart,
            .bytes = kBytes - kEntity / 2,
            .log_entity = 12};
  }
  uint32_t make_key(const Key& key, const std::vector<KeyEntry>& of, uint8_t variant = 0) {
    const Created made = nic->make_indirect_key({key, variant, of});
    EXPECT_FALSE(made.refusal.refused()) << made.refusal.reason;
    return made.number;
  }
  uint32_t make_key() { return make_key(config(), entries()); }

  /// The byte that is called `offset` behind the key's start.
  std::byte* at(uint64_t offset) const {
    return regions[kOrder[offset / kEntity]]->pages.data() + offset % kEntity;
  }
  void put(uint64_t offset, const std::vector<uint8_t>& bytes) const {
    for (size_t i = 0; i < bytes.size(); ++i) *at(offset + i) = std::byte{bytes[i]};
  }
  std::vector<uint8_t> get(uint64_t offset, size_t bytes) const {
    std::vector<uint8_t> all(bytes);
    for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<uint8_t>(*at(offset + i));
    return all;
  }
  void put_home(const std::vector<uint8_t>& bytes) const {
    std::memcpy(home->pages.data(), bytes.data(), bytes.size());
  }
  std::vector<uint8_t> get_home(size_t bytes) const {
    const auto* first = reinterpret_cast<const uint8_t*>(home->pages.data());
    return {first, first + bytes};
  }
  void expect_done(const Wqe& wqe) { EXPECT_EQ(run(*qp, wqe).kind, CqeOpcode::kRequester); }
  /// Where what READs fetch comes late, a DUMP of it waits for it.
  void expect_fetched(const Wqe& wqe) {
    expect_done(wqe);
    Wqe dump{.opcode = Opcode::kDump};
    expect_done(dump.data(8, home->key, 0));
  }

  std::array<std::unique_ptr<Region>, 3> regions;
  std::unique_ptr<Region> home;
  std::unique_ptr<Qp> qp;
  std::unique_ptr<Qp> peer;
};

TEST_P(IndirectKeys, AnswerAtAddressesOfTheirOwn) {
  const uint32_t key = make_key();
  expect_done(write_inline<uint64_t>(kStart + 8, key, 0x1122334455667788));
  EXPECT_EQ(regions[2]->load<uint64_t>(8), 0x1122334455667788u);
  expect_fetched(fetch_add(kStart + kEntity + 40, key, 5, home->key, 64));
  EXPECT_EQ(regions[0]->load<uint64_t>(40), 5u);
}

TEST_P(IndirectKeys, JoinWhatTheirEntriesName) {
  const uint32_t key = make_key();
  const std::vector<uint8_t> data = pattern(2 * kEntity + 100);
  put_home(data);
  expect_done(write_from(kStart + 50, key, static_cast<uint32_t>(data.size()), home->key, 0));
  EXPECT_EQ(get(50, data.size()), data);

  std::memset(home->pages.data(), 0, data.size());
  expect_fetched(read_into(kStart + 50, key, static_cast<uint32_t>(data.size()), home->key, 0));
  EXPECT_EQ(get_home(data.size()), data);
}

TEST_P(IndirectKeys, AreKeysOfOnesOwnMemoryToo) {
  const uint32_t key = make_key();
  const std::vector<uint8_t> data = pattern(2 * kEntity + 100);
  const auto bytes = static_cast<uint32_t>(data.size());
  put(50, data);
  expect_done(write_from(0, home->key, bytes, key, kStart + 50));
  EXPECT_EQ(get_home(data.size()), data);

  put(50, std::vector<uint8_t>(data.size()));
  expect_fetched(read_into(0, home->key, bytes, key, kStart + 50));
  EXPECT_EQ(get(50, data.size()), data);
}

// UCX's key for a strong fence, a READ behind WRITEs: 8 bytes at address 0, of an entry of 2 GiB.
TEST_P(IndirectKeys, MayBeShorterThanTheirEntries) {
  Key fence = config();
  fence.iova = 0;
  fence.bytes = 8;
  fence.log_entity = 31;
  const uint32_t key = make_key(fence, {{kIova, regions[0]->key}});
  regions[0]->store<uint64_t>(0, 77);
  expect_fetched(read_into(0, key, 8, home->key, 64));
  EXPECT_EQ(home->load<uint64_t>(64), 77u);
  EXPECT_EQ(run(*qp, read_into(0, key, 9, home->key, 64)).syndrome, Syndrome::kRemoteAccess);
}

// The most pieces that a packet can have: as many entries as it has room for, and one more.
TEST_P(IndirectKeys, OfManyEntriesCarryLongMessages) {
  constexpr uint32_t kMessage = 300 << 10;
  const Region far(*nic, pd, 1 << 20);
  const auto backwards = [&](const Region& region) {
    std::vector<KeyEntry> all;
    for (uint64_t page = (1 << 20) / kEntity; page-- > 0;)
      all.push_back({page * kEntity, region.key});
    Key key = config();
    key.iova = 0;
    key.bytes = 1 << 20;
    return make_key(key, all);
  };
  const uint32_t mine = backwards(*home);
  const uint32_t theirs = backwards(far);
  put_home(pattern(1 << 20));
  expect_done(write_from(kEntity + 8, theirs, kMessage, mine, kEntity + 8));
  const auto same = [&] {
    for (uint64_t i = kEntity + 8; i < kEntity + 8 + kMessage; ++i) {
      const uint64_t place = (1 << 20) - (i / kEntity + 1) * kEntity + i % kEntity;
      if (far.pages.data()[place] != home->pages.data()[place]) return false;
    }
    return true;
  };
  EXPECT_TRUE(same());
  std::memset(home->pages.data(), 0, 1 << 20);
  expect_fetched(read_into(kEntity + 8, theirs, kMessage, mine, kEntity + 8));
  EXPECT_TRUE(same());
}

/// An access, and by what it names the indirect key.
struct Access8 {
  const char* name;
  uint32_t right;
  bool remote;
  std::function<Wqe(uint32_t key, uint64_t address, uint32_t home)> make;
};

std::vector<Access8> accesses() {
  return {
      {"write", kRemoteWrite, true,
       [](uint32_t key, uint64_t at, uint32_t home) { return write_from(at, key, 8, home, 0); }},
      {"read", kRemoteRead, true,
       [](uint32_t key, uint64_t at, uint32_t home) { return read_into(at, key, 8, home, 0); }},
      {"fetch-add", kRemoteAtomic, true,
       [](uint32_t key, uint64_t at, uint32_t home) { return fetch_add(at, key, 1, home, 0); }},
      {"source of a write", 0, false,
       [](uint32_t key, uint64_t at, uint32_t home) { return write_from(0, home, 8, key, at); }},
      {"destination of a read", kLocalWrite, false,
       [](uint32_t key, uint64_t at, uint32_t home) { return read_into(0, home, 8, key, at); }},
      {"result of a fetch-add", kLocalWrite, false,
       [](uint32_t key, uint64_t at, uint32_t home) { return fetch_add(0, home, 0, key, at); }},
  };
}

/// What is asked of a key that has something wrong.
struct Wrong {
  const char* name;
  uint32_t key;
  uint64_t address;
};

class WrongIndirectKeys : public IndirectKeys {
 protected:
  /// Refused as any access to a wrong key is, with all memory as it was.
  void expect_refused(const Wrong& wrong, const Access8& access) {
    SCOPED_TRACE(std::string(access.name) + ": " + wrong.name);
    for (const auto& region : regions) std::memset(region->pages.data(), 0x3c, kEntity);
    std::memset(home->pages.data(), 0xc3, 64);
    connect();
    const SeenCqe cqe = run(*qp, access.make(wrong.key, wrong.address, home->key));
    EXPECT_EQ(cqe.kind, CqeOpcode::kRequesterError);
    EXPECT_EQ(cqe.syndrome, access.remote ? Syndrome::kRemoteAccess : Syndrome::kLocalProtection);
    for (const auto& region : regions) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(region->pages.data());
      EXPECT_TRUE(std::all_of(bytes, bytes + kEntity, [](uint8_t b) { return b == 0x3c; }));
    }
    EXPECT_EQ(get_home(64), std::vector<uint8_t>(64, 0xc3));
  }
  void expect_refused(const Wrong& wrong) {
    for (const Access8& access : accesses()) expect_refused(wrong, access);
  }
  uint32_t region_key(uint32_t domain, uint32_t access) {
    const Created made = nic->register_memory({.pd = domain,
                                               .access = access,
                                               .iova = kIova,
                                               .bytes = kEntity,
                                               .memory = as_registered(regions[2]->pages.data())});
    EXPECT_FALSE(made.refusal.refused()) << made.refusal.reason;
    return made.number;
  }
  /// A key of one entry.
  uint32_t key_over(KeyEntry entry, uint32_t access = kEverything) {
    Key key = config();
    key.access = access;
    key.bytes = kEntity - kShift;
    return make_key(key, {entry});
  }
};

TEST_P(WrongIndirectKeys, CoverTheirOwnAddressesOnly) {
  const uint32_t key = make_key();
  const uint64_t end = kStart + config().bytes;
  expect_refused({"before its start", key, kStart - 8});
  expect_refused({"at what its entries are called themselves", key, kIova});
  expect_refused({"behind its end, with an entry there", key, end});
  expect_refused({"across its end", key, end - 4});
  expect_refused({"around", key, ~uint64_t{7}});
  EXPECT_FALSE(nic->deregister_memory(key).refused());
  expect_refused({"of a key that has gone", key, kStart});
}

TEST_P(WrongIndirectKeys, GrantWhatTheyAndTheirEntriesGrant) {
  const uint32_t other = nic->allocate_pd().number;
  Key foreign = config();
  foreign.pd = other;
  expect_refused({"of another domain", make_key(foreign, entries()), kStart});
  expect_refused(
      {"over a key of another domain", key_over({kIova, region_key(other, kEverything)}), kStart});
  for (const Access8& access : accesses()) {
    if (access.right == 0) continue;  // a source needs none
    const uint32_t others =
        access.right == kLocalWrite ? uint32_t{kRemoteRead} : kEverything & ~access.right;
    expect_refused({"without the right", key_over({kIova, regions[2]->key}, others), kStart},
                   access);
    expect_refused({"over a key without it", key_over({kIova, region_key(pd, others)}), kStart},
                   access);
  }
}

TEST_P(WrongIndirectKeys, LookAtTheirEntriesWhenTheyAreUsed) {
  const uint32_t gone = region_key(pd, kEverything);
  const uint32_t over_gone = key_over({kIova, gone});
  expect_done(write_inline<uint64_t>(kStart, over_gone, 1));
  EXPECT_FALSE(nic->deregister_memory(gone).refused());
  expect_refused({"over a key that has gone", over_gone, kStart});
  const uint32_t again = region_key(pd, kEverything);
  EXPECT_EQ(again >> 8, gone >> 8);
  expect_refused({"over a key whose index another has", over_gone, kStart});
  expect_refused({"over no key", key_over({kIova, 0x777700}), kStart});
  expect_refused({"over key 0", key_over({kIova, 0}), kStart});
  expect_refused({"over an indirect key", key_over({kStart, make_key()}), kStart});
  expect_refused({"before what its entry names", key_over({kIova - 16, again}), kStart});
  const uint32_t beyond = key_over({kIova + 64, again});
  expect_refused({"behind what its entry names", beyond, kStart + kEntity - 64});
  expect_refused({"across that end", beyond, kStart + kEntity - 68});
  expect_refused({"over addresses that wrap", key_over({~uint64_t{3}, again}), kStart});
}

// A message is refused as a whole: the bytes that could be there are not.
TEST_P(WrongIndirectKeys, RefuseAMessageOfWhichOneEntryIsWrong) {
  std::vector<KeyEntry> torn = entries();
  torn[1].number = 0x777700;
  const uint32_t key = make_key(config(), torn);
  const auto long_one = [&](const char* name, bool remote, const auto& make) {
    return Access8{name, 0, remote, [make](uint32_t of, uint64_t at, uint32_t mine) {
                     return make(at, of, 2 * kEntity, mine, uint64_t{4096});
                   }};
  };
  expect_refused({"in its second entry", key, kStart}, long_one("write", true, write_from));
  expect_refused({"in its second entry", key, kStart}, long_one("read", true, read_into));
  const auto into = [](uint64_t at, uint32_t of, uint32_t bytes, uint32_t mine, uint64_t from) {
    return read_into(from, mine, bytes, of, at);
  };
  expect_refused({"in its second entry", key, kStart}, long_one("destination", false, into));
}

TEST_P(WrongIndirectKeys, RefuseAtomicsThatLieAcross) {
  const uint32_t key = key_over({kIova + 4, regions[2]->key});
  connect();
  const SeenCqe cqe = run(*qp, fetch_add(kStart, key, 1, home->key, 0));
  EXPECT_EQ(cqe.syndrome, Syndrome::kRemoteInvalidRequest);
}

TEST_P(WrongIndirectKeys, AreNotMade) {
  const auto refused = [&](const Key& key, const std::vector<KeyEntry>& of) {
    return nic->make_indirect_key({key, 0, of}).refusal.status;
  };
  const auto with = [&](const auto& change) {
    Key key = config();
    change(key);
    return refused(key, entries());
  };
  constexpr CommandStatus kBad = CommandStatus::kBadParameter;
  EXPECT_EQ(with([](Key&) {}), CommandStatus::kOk);
  EXPECT_EQ(with([](Key& key) { key.bytes = 0; }), kBad);
  EXPECT_EQ(with([](Key& key) { key.log_entity = 11; }), kBad);
  EXPECT_EQ(with([](Key& key) { key.log_entity = 32; }), kBad);
  EXPECT_EQ(with([](Key& key) { key.pd = 0x7777; }), CommandStatus::kBadResource);
  EXPECT_EQ(with([](Key& key) { key.access = kRemoteWrite; }), kBad);
  EXPECT_EQ(with([](Key& key) { key.iova = ~uint64_t{4095}; }), kBad);
  EXPECT_EQ(refused(config(), {}), kBad);
  EXPECT_EQ(refused(config(), std::vector<KeyEntry>((1 << kLogMostEntries) + 1)), kBad);
  // Counted from the start of the entity that the first address lies in.
  EXPECT_EQ(with([](Key& key) { key.bytes = kBytes - kShift; }), CommandStatus::kOk);
  EXPECT_EQ(with([](Key& key) { key.bytes = kBytes - kShift + 8; }), kBad);
  EXPECT_EQ(with([](Key& key) { key.bytes = ~uint64_t{7}; }), kBad);
  const auto for_atomics = [&](uint64_t iova, uint64_t bytes, uint32_t access) {
    return with([=](Key& key) { key.iova = iova, key.bytes = bytes, key.access = access; });
  };
  const uint32_t none = kEverything & ~uint32_t{kRemoteAtomic};
  EXPECT_EQ(for_atomics(kStart + 4, 4096, kEverything), kBad);
  EXPECT_EQ(for_atomics(kStart, 4100, kEverything), kBad);
  EXPECT_EQ(for_atomics(kStart + 4, 4099, none), CommandStatus::kOk);
}

TEST_P(WrongIndirectKeys, HaveTheVariantThatIsAskedFor) {
  const uint32_t domain = nic->allocate_pd().number;
  Key key = config();
  key.pd = domain;
  const uint32_t number = make_key(key, entries(), 0xab);
  EXPECT_EQ(number & 0xff, 0xabu);
  EXPECT_EQ(nic->free_pd(domain).status, CommandStatus::kBusy);
  EXPECT_FALSE(nic->deregister_memory(number).refused());
  // Who names the key that has gone does not reach the next of that index.
  const uint32_t next = region_key(pd, kEverything);
  EXPECT_EQ(next >> 8, number >> 8);
  EXPECT_NE(next, number);
  EXPECT_FALSE(nic->free_pd(domain).refused());
}

constexpr auto kWays = {Way::kDirect, Way::kWire, Way::kLate};
std::string name_of(const ::testing::TestParamInfo<Way>& info) {
  static constexpr const char* kNames[] = {"Direct", "Wire", "Late"};
  return kNames[static_cast<size_t>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Ways, IndirectKeys, ::testing::ValuesIn(kWays), name_of);
INSTANTIATE_TEST_SUITE_P(Ways, WrongIndirectKeys, ::testing::Values(Way::kDirect, Way::kWire),
                         name_of);

}  // namespace
}  // namespace peal::softnic::testing
