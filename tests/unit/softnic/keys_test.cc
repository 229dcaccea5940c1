// SPDX-License-Identifier: Apache-2.0
//
// Keys, on every access: each operation against each thing that can be wrong with the key of the
// peer's memory or of its own. Whatever it is, the syndrome is the right one and neither side's
// memory has changed by a byte. Within one NIC, and between two processes.
#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "tests/unit/softnic/processes.h"

namespace peal::softnic::testing {
namespace {

constexpr uint64_t kIova = 0x10000;
constexpr size_t kBytes = 4096;
constexpr uint8_t kRemoteFill = 0x3c;
constexpr uint8_t kLocalFill = 0xc3;

/// Where a request acts at the peer, and where its own data lies.
struct Places {
  uint64_t remote;
  uint32_t rkey;
  uint64_t local;
  uint32_t lkey;
};

struct Operation {
  const char* name;
  uint32_t right;  // that the peer's key must give
  uint32_t bytes;
  bool fetches;
  std::function<Wqe(const Places&)> make;
};

Wqe atomic(Opcode opcode, uint8_t opmod) { return Wqe{.opcode = opcode, .opmod = opmod}; }

std::vector<Operation> operations() {
  using mlx5::AtomicSegment;
  using mlx5::MaskedCompareSwap4Segment;
  using mlx5::MaskedCompareSwap8Segment;
  using mlx5::MaskedFetchAdd4Segment;
  using mlx5::MaskedFetchAdd8Segment;
  const auto write = [](Opcode opcode) {
    return [opcode](const Places& at) {
      Wqe wqe{.opcode = opcode};
      return wqe.remote(at.remote, at.rkey).data(16, at.lkey, at.local);
    };
  };
  const uint64_t was = 0x3c3c3c3c3c3c3c3c;  // a compare-swap that would succeed
  return {
      {"write", kRemoteWrite, 16, false, write(Opcode::kRdmaWrite)},
      {"write with immediate", kRemoteWrite, 16, false, write(Opcode::kRdmaWriteImm)},
      {"read", kRemoteRead, 16, true,
       [](const Places& at) { return read_into(at.remote, at.rkey, 16, at.lkey, at.local); }},
      {"compare-swap", kRemoteAtomic, 8, true,
       [was](const Places& at) {
         return atomic(Opcode::kAtomicCompareSwap, 0)
             .remote(at.remote, at.rkey)
             .add(AtomicSegment{Be64(1ull), Be64(was)})
             .data(8, at.lkey, at.local);
       }},
      {"fetch-add", kRemoteAtomic, 8, true,
       [](const Places& at) { return fetch_add(at.remote, at.rkey, 1, at.lkey, at.local); }},
      {"masked compare-swap of 8 bytes", kRemoteAtomic, 8, true,
       [](const Places& at) {
         return atomic(Opcode::kAtomicMaskedCompareSwap, mlx5::kOpmodAtomic8)
             .remote(at.remote, at.rkey)
             .add(MaskedCompareSwap8Segment{Be64(1ull), Be64(0ull)})
             .add(MaskedCompareSwap8Segment{Be64(~0ull), Be64(0ull)})
             .data(8, at.lkey, at.local);
       }},
      {"masked compare-swap of 4 bytes", kRemoteAtomic, 4, true,
       [](const Places& at) {
         return atomic(Opcode::kAtomicMaskedCompareSwap, mlx5::kOpmodAtomic4)
             .remote(at.remote, at.rkey)
             .add(MaskedCompareSwap4Segment{Be32(1u), Be32(0u), Be32(~0u), Be32(0u)})
             .data(4, at.lkey, at.local);
       }},
      {"masked fetch-add of 8 bytes", kRemoteAtomic, 8, true,
       [](const Places& at) {
         return atomic(Opcode::kAtomicMaskedFetchAdd, mlx5::kOpmodAtomic8)
             .remote(at.remote, at.rkey)
             .add(MaskedFetchAdd8Segment{Be64(1ull), Be64(0ull)})
             .data(8, at.lkey, at.local);
       }},
      {"masked fetch-add of 4 bytes", kRemoteAtomic, 4, true,
       [](const Places& at) {
         return atomic(Opcode::kAtomicMaskedFetchAdd, mlx5::kOpmodAtomic4)
             .remote(at.remote, at.rkey)
             .add(MaskedFetchAdd4Segment{Be32(1u), Be32(0u), Be64(0ull)})
             .data(4, at.lkey, at.local);
       }},
  };
}

/// What is wrong. The last three need not be a key's fault.
enum class Defect { kUnknown, kStale, kForeign, kNoRight, kWraps, kBefore, kBehind };
constexpr std::array kDefects = {Defect::kUnknown, Defect::kStale, Defect::kForeign,
                                 Defect::kNoRight, Defect::kWraps, Defect::kBefore,
                                 Defect::kBehind};

std::string name_of(Defect defect) {
  static constexpr const char* kNames[] = {"unknown key",    "stale key", "other domain",
                                           "missing right",  "wraps",     "one byte before",
                                           "one byte behind"};
  return kNames[static_cast<size_t>(defect)];
}

/// Memory behind a key with everything in order, and keys that each lack something.
struct Memory {
  Memory(SoftwareNic& nic, uint32_t pd, uint8_t with)
      : fill(with), good(nic, pd, kBytes, kEverything, kIova), other_pd(nic.allocate_pd().number) {
    std::memset(good.pages.data(), fill, kBytes);
    const auto key = [&](uint32_t domain, uint32_t access) {
      const Created made = nic.register_memory({.pd = domain,
                                                .access = access,
                                                .iova = kIova,
                                                .bytes = kBytes,
                                                .memory = good.pages.data()});
      EXPECT_FALSE(made.refusal.refused()) << made.refusal.reason;
      return made.number;
    };
    keys.foreign = key(other_pd, kEverything);
    keys.no_write = key(pd, kEverything & ~uint32_t{kRemoteWrite});
    keys.no_read = key(pd, kEverything & ~uint32_t{kRemoteRead});
    keys.no_atomic = key(pd, kEverything & ~uint32_t{kRemoteAtomic});
    keys.no_local_write = key(pd, 0);
    keys.stale = key(pd, kEverything);
    EXPECT_FALSE(nic.deregister_memory(keys.stale).refused());
    keys.reused = key(pd, kEverything);  // the same index
    EXPECT_EQ(keys.stale >> 8, keys.reused >> 8);
    keys.good = good.key;
  }
  bool untouched() const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(good.pages.data());
    return std::all_of(bytes, bytes + kBytes, [this](uint8_t b) { return b == fill; });
  }

  struct Keys {
    uint32_t good, foreign, no_write, no_read, no_atomic, no_local_write, stale, reused;
  };
  uint8_t fill;
  Region good;
  uint32_t other_pd;
  Keys keys = {};
};

uint32_t key_with(Defect defect, const Memory::Keys& keys, uint32_t without_right) {
  switch (defect) {
    case Defect::kUnknown:
      return 0x777700;
    case Defect::kStale:
      return keys.stale;
    case Defect::kForeign:
      return keys.foreign;
    case Defect::kNoRight:
      return without_right;
    default:
      return keys.good;
  }
}
uint64_t address_with(Defect defect, uint32_t bytes) {
  switch (defect) {
    case Defect::kWraps:
      return ~0ull - 3;
    case Defect::kBefore:
      return kIova - 1;
    case Defect::kBehind:
      return kIova + kBytes - bytes + 1;
    default:
      return kIova + 64;
  }
}

struct Case {
  Operation operation;
  Defect defect;
  bool remote;  // the peer's key, else one's own
};

/// Every combination that is an error: a source needs no right.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Operation& operation : operations()) {
    for (const Defect defect : kDefects) {
      all.push_back({operation, defect, true});
      if (defect != Defect::kNoRight || operation.fetches)
        all.push_back({operation, defect, false});
    }
  }
  return all;
}

Wqe make(const Case& it, const Memory::Keys& theirs, const Memory::Keys& mine) {
  const uint32_t bytes = it.operation.bytes;
  Places places{kIova + 64, theirs.good, kIova + 64, mine.good};
  if (it.remote) {
    const uint32_t without = it.operation.right == kRemoteWrite  ? theirs.no_write
                             : it.operation.right == kRemoteRead ? theirs.no_read
                                                                 : theirs.no_atomic;
    places.rkey = key_with(it.defect, theirs, without);
    places.remote = address_with(it.defect, bytes);
  } else {
    places.lkey = key_with(it.defect, mine, mine.no_local_write);
    places.local = address_with(it.defect, bytes);
  }
  return it.operation.make(places);
}

/// One end: a queue pair for each case, as the first error closes it.
struct End {
  explicit End(size_t pairs)
      : nic(SoftwareNic::open()),
        pd(nic->allocate_pd().number),
        cq(*nic, {.log_entries = 10}),
        receive_cq(*nic, {.log_entries = 10}) {
    for (size_t i = 0; i < pairs; ++i) {
      qps.push_back(std::make_unique<Qp>(*nic, pd, cq, receive_cq, Qp::Options{.receives = true}));
    }
  }
  void connect(size_t i, uint16_t lid, uint32_t qpn) {
    qps[i]->post_receives(1);
    qps[i]->connect(lid, qpn);
  }
  std::shared_ptr<SoftwareNic> nic;
  uint32_t pd;
  Cq cq;
  Cq receive_cq;
  std::vector<std::unique_ptr<Qp>> qps;
};

void expect_refused(End& end, size_t i, const Case& it, const Memory& mine,
                    const Memory::Keys& theirs) {
  SCOPED_TRACE(std::string(it.operation.name) + ", " + (it.remote ? "rkey: " : "lkey: ") +
               name_of(it.defect));
  end.qps[i]->post(make(it, theirs, mine.keys));
  end.qps[i]->ring();
  const SeenCqe cqe = end.cq.await();
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequesterError);
  EXPECT_EQ(cqe.syndrome, it.remote ? Syndrome::kRemoteAccess : Syndrome::kLocalProtection);
  EXPECT_TRUE(mine.untouched());
}

}  // namespace

TEST(Keys, OfEveryOperationAreCheckedWithinANic) {
  const std::vector<Case> all = cases();
  End end(2 * all.size());
  const Memory mine(*end.nic, end.pd, kLocalFill);
  const Memory theirs(*end.nic, end.pd, kRemoteFill);
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t peer = all.size() + i;
    end.connect(i, end.nic->lid(), end.qps[peer]->qpn);
    end.connect(peer, end.nic->lid(), end.qps[i]->qpn);
    expect_refused(end, i, all[i], mine, theirs.keys);
    EXPECT_TRUE(theirs.untouched());
    // An error at home is nothing to the peer.
    EXPECT_EQ(end.qps[peer]->query().state,
              all[i].remote ? QpState::kError : QpState::kReadyToSend);
  }
}

TEST(Keys, OfEveryOperationAreCheckedAcrossTheWire) {
  const std::vector<Case> all = cases();
  struct Introduction {
    uint16_t lid;
    std::array<uint32_t, 256> qpns;
    Memory::Keys keys;
  };
  ASSERT_LE(all.size(), 256u);
  const auto introduce = [&](const End& end, const Memory& memory) {
    Introduction mine{end.nic->lid(), {}, memory.keys};
    for (size_t i = 0; i < all.size(); ++i) mine.qpns[i] = end.qps[i]->qpn;
    return mine;
  };
  Process other([&](Line& line) {
    End end(all.size());
    const Memory memory(*end.nic, end.pd, kRemoteFill);
    line.say(introduce(end, memory));
    const auto peer = line.hear<Introduction>();
    for (size_t i = 0; i < all.size(); ++i) end.connect(i, peer.lid, peer.qpns[i]);
    line.meet();
    line.meet();  // the tester is done
    EXPECT_TRUE(memory.untouched());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(end.qps[i]->query().state, all[i].remote ? QpState::kError : QpState::kReadyToSend);
    }
  });
  End end(all.size());
  const Memory memory(*end.nic, end.pd, kLocalFill);
  other.line().say(introduce(end, memory));
  const auto peer = other.line().hear<Introduction>();
  for (size_t i = 0; i < all.size(); ++i) end.connect(i, peer.lid, peer.qpns[i]);
  other.line().meet();
  for (size_t i = 0; i < all.size(); ++i) expect_refused(end, i, all[i], memory, peer.keys);
  other.line().meet();
}

// The other tests could pass because nothing ever works.
TEST(Keys, ThatAreRightLetEveryOperationAct) {
  const std::vector<Operation> all = operations();
  End end(2 * all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].name);
    const Memory mine(*end.nic, end.pd, kLocalFill);
    const Memory theirs(*end.nic, end.pd, kRemoteFill);
    end.connect(i, end.nic->lid(), end.qps[all.size() + i]->qpn);
    end.connect(all.size() + i, end.nic->lid(), end.qps[i]->qpn);
    const uint64_t last = kIova + kBytes - all[i].bytes;
    end.qps[i]->post(all[i].make({last, theirs.keys.reused, kIova, mine.keys.good}));
    end.qps[i]->ring();
    EXPECT_EQ(end.cq.await().kind, CqeOpcode::kRequester);
    EXPECT_EQ(mine.untouched(), !all[i].fetches);
    EXPECT_EQ(theirs.untouched(), all[i].right == kRemoteRead);
  }
}

}  // namespace peal::softnic::testing
