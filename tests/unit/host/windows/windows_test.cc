// SPDX-License-Identifier: Apache-2.0
//
// Windows between threads that reach each other by loads and stores: what all PEs must ask alike,
// and what is left of a window that one PE could not add.
#include "host/windows/windows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"
#include "bootstrap/borrowed.h"
#include "host/base/error.h"

namespace peal {
namespace {

constexpr int kPes = 2;
constexpr size_t kBytes = 8192;

/// Memory as a GPU's: reached by copies only, which `refuses` ends.
struct Refusing {
  std::vector<Backing> memory;
  bool refuses = false;

  static void copy(const Backing::Block& block, std::span<const Copy> copies) {
    if (static_cast<Refusing*>(block.keeper.get())->refuses) fail(ErrorCode::kSystem, "no copy");
    for (const Copy& one : copies) std::memcpy(one.to, one.from, one.bytes);
  }
  static void release(const Backing::Block&) noexcept {}
  static constexpr Backing::Operations kOperations{.release = release, .copy = copy};
};

/// One PE, with the tables of its windows.
struct Pe {
  LiveGroup group;
  P2p p2p;
  RouteOptions options{.asked = TransportKind::kP2p};
  std::vector<std::byte> part = std::vector<std::byte>(3 * kBytes + 4096);
  std::byte* page;  // the first whole one of `part`
  PeerMemory mapped;
  Routes routes;
  std::shared_ptr<Refusing> refusing = std::make_shared<Refusing>();
  PublishedWindows published;
  Windows windows;

  explicit Pe(Bootstrap& threads)
      : group(std::make_unique<bootstrap::BorrowedBootstrap>(threads), std::chrono::seconds(20)),
        p2p(group, group.places(), nullptr),
        page(part.data() + 4096 - reinterpret_cast<uintptr_t>(part.data()) % 4096),
        mapped(p2p.map(page, kBytes, -1)),
        routes(Reachable(group, options, mapped.direct, mapped.how), options),
        published(
            [this](size_t bytes) {
              refusing->memory.push_back(make_host_backing(bytes, "tables"));
              return Backing({refusing->memory.back().address(), bytes, -1, false, refusing},
                             Refusing::kOperations);
            },
            kPes, 1),
        windows(group, published, transports(), {page, kBytes, std::move(mapped)}) {}
  WindowTransports transports() {
    return {.routes = routes, .rails = nullptr, .p2p = &p2p, .gpu = nullptr};
  }
  const WindowTable& shown() const { return *published.table(); }
  const Window& window(uint32_t number) const { return shown().window[number]; }
  /// Memory beside the heap.
  std::byte* own(size_t offset = 0) const { return page + kBytes + offset; }
};

/// What each PE's call ends with; `body` runs with its errors caught.
std::vector<std::string> errors_of(const std::function<void(Pe&)>& body) {
  std::vector<std::string> errors(kPes, "no error");
  bootstrap::run_threads(kPes, [&](Bootstrap& group) {
    Pe pe(group);
    try {
      body(pe);
    } catch (const Error& error) {
      errors[static_cast<size_t>(group.rank())] = error.what();
    }
    group.barrier();
  });
  return errors;
}

void expect_on_all(const std::vector<std::string>& errors, const std::string& part) {
  for (const std::string& error : errors) EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(Windows, ShowTheMemoryOfEveryPe) {
  expect_on_all(errors_of([](Pe& pe) {
                  const WindowHandle handle = pe.windows.add_everywhere(pe.own(), kBytes);
                  pe.windows.add_local(pe.own(kBytes), 64);
                  ASSERT_EQ(pe.shown().count, 3u);
                  ASSERT_EQ(handle.number, 1u);
                  EXPECT_EQ(pe.window(1).base, pe.own());
                  EXPECT_EQ(pe.window(1).direct[pe.group.rank()], pe.own());
                  EXPECT_NE(pe.window(1).direct[1 - pe.group.rank()], nullptr);
                  EXPECT_EQ(pe.window(2).direct, nullptr) << "nobody else's";
                  pe.group.barrier();
                }),
                "no error");
}

/// Hazard: the PEs on which the last step went well kept a window whose registrations the failure
/// of the other one had ended.
TEST(Windows, ThatOnePeCannotAddAreShownOnNone) {
  const auto body = [](Pe& pe) {
    pe.refusing->refuses = pe.group.rank() == 1;
    try {
      pe.windows.add_everywhere(pe.own(), kBytes);
    } catch (const Error&) {
      EXPECT_EQ(pe.shown().count, 1u) << "PE " << pe.group.rank();
      EXPECT_EQ(pe.published.in_use(), 1u);
      pe.refusing->refuses = false;
      pe.windows.add_everywhere(pe.own(), 64);  // the group is as good as before
      EXPECT_EQ(pe.window(1).bytes, 64u);
      throw;
    }
  };
  expect_on_all(errors_of(body), "PE 1: no copy");
}

TEST(Windows, MustBeAskedForAlike) {
  const auto sizes = [](Pe& pe) {
    pe.windows.add_everywhere(pe.own(), 64 + 64 * static_cast<size_t>(pe.group.rank()));
  };
  expect_on_all(errors_of(sizes), "PE 1 registers 128 bytes, PE 0 64: all must");
  expect_on_all(errors_of([](Pe& pe) { pe.windows.add_everywhere(nullptr, 64); }),
                "all must register the same size, not 0");
  const auto options = [](Pe& pe) {
    pe.windows.add_everywhere(pe.own(), 64, {.any_size = pe.group.rank() == 0});
  };
  expect_on_all(errors_of(options), "PE 1 and PE 0 differ in WindowOptions::any_size");
  const auto nothing = [](Pe& pe) { pe.windows.add_everywhere(nullptr, 0, {.any_size = true}); };
  expect_on_all(errors_of(nothing), "no PE has anything to register");
}

TEST(Windows, MayBeginAnywhereAndDifferInSize) {
  const auto body = [](Pe& pe) {
    const bool first = pe.group.rank() == 0;
    const WindowHandle handle =
        pe.windows.add_everywhere(first ? pe.own(5) : nullptr, first ? 100 : 0, {.any_size = true});
    const Window& window = pe.window(handle.number);
    EXPECT_EQ(window.parts[0].bytes, 100u);
    EXPECT_EQ(window.parts[1].bytes, 0u);
    EXPECT_EQ(window.parts[0].iova, 5u);
    EXPECT_EQ(window.direct[0] != nullptr, true);
    EXPECT_EQ(pe.windows.find(handle.at(99), 1).range->sizes[0], 100u);
    pe.group.barrier();
  };
  expect_on_all(errors_of(body), "no error");
}

TEST(Windows, AreNotMoreThanTheTableHolds) {
  const auto body = [](Pe& pe) {
    while (pe.published.in_use() < kMaxWindows) {
      pe.published.publish(pe.published.fill({}, {}));
    }
    EXPECT_THROW(pe.windows.add_local(pe.own(), 64), Error);
    pe.windows.add_everywhere(pe.own(), 64);
  };
  expect_on_all(errors_of(body), "windows, which is the limit; unregister some");
}

TEST(Windows, ThatCannotBeMappedAreRefusedWithTheRemedy) {
  const auto body = [](Pe& pe) {
    PeerMemory unreachable = pe.p2p.map(pe.page, kBytes, -1);
    if (pe.group.rank() == 0) {
      unreachable.direct[1] = nullptr;
      unreachable.how[1] = "made up";
    }
    Windows(pe.group, pe.published, pe.transports(), {pe.page, kBytes, std::move(unreachable)});
  };
  expect_on_all(errors_of(body), "cannot be mapped: made up; use symmetric memory");
}

TEST(Windows, EndTogetherAndAreFoundNoMore) {
  const auto body = [](Pe& pe) {
    const WindowHandle outer = pe.windows.add_everywhere(pe.own(), kBytes);
    const WindowHandle inner = pe.windows.add_everywhere(pe.own(64), 64);
    EXPECT_EQ(pe.windows.handle_of(pe.own(64)).number, inner.number);
    EXPECT_EQ(pe.windows.find(pe.own(64), 8).range->bytes, kBytes) << "it ends last";
    EXPECT_EQ(pe.windows.find(pe.own(64), kBytes - 64).range->bytes, kBytes);
    EXPECT_EQ(pe.windows.find(pe.own(64), kBytes - 63).range, nullptr);
    const WindowHandle tail = pe.windows.add_everywhere(pe.own(kBytes - 64), 64);
    EXPECT_EQ(pe.windows.find(pe.own(kBytes - 8), 8).range->bytes, 64u) << "the highest number";
    EXPECT_EQ(pe.windows.find(pe.page + 8, 8).range->begin, pe.page) << "the heap comes first";
    pe.windows.remove(tail);
    pe.windows.remove(inner);
    EXPECT_EQ(pe.windows.find(pe.own(64), 8).range->bytes, kBytes);
    EXPECT_EQ(pe.windows.find(inner.at(), 8).range, nullptr);
    EXPECT_EQ(pe.window(inner.number).direct, nullptr);
    pe.windows.remove(outer);
    EXPECT_EQ(pe.windows.find(pe.own(64), 8).range, nullptr);
    EXPECT_EQ(pe.windows.handle_of(pe.own()).number, 0u);
    EXPECT_EQ(pe.published.in_use(), 1u);
  };
  expect_on_all(errors_of(body), "no error");
}

TEST(Windows, EndOnAllPesOrOnNone) {
  const auto different = [](Pe& pe) {
    const WindowHandle first = pe.windows.add_everywhere(pe.own(), 64);
    const WindowHandle second = pe.windows.add_everywhere(pe.own(64), 64);
    try {
      pe.windows.remove(pe.group.rank() == 0 ? first : second);
    } catch (const Error&) {
      EXPECT_EQ(pe.published.in_use(), 3u);
      pe.windows.remove(first);
      throw;
    }
  };
  expect_on_all(errors_of(different), "PE 1 names window 2 of the job, PE 0 window 1: all PEs");
  expect_on_all(errors_of([](Pe& pe) { pe.windows.remove({0}); }), "PE 0 names no window");
  const auto local = [](Pe& pe) {
    pe.windows.add_local(pe.own(), 64);
    pe.windows.remove({1});
  };
  expect_on_all(errors_of(local), "names no window");
}

TEST(Windows, OfThisPeAloneEndByTheirAddress) {
  const auto body = [](Pe& pe) {
    pe.windows.add_local(pe.own(), 64);
    const WindowHandle everywhere = pe.windows.add_everywhere(pe.own(), 128);
    pe.windows.add_local(pe.own(), 256);
    pe.windows.remove_local(pe.own());
    EXPECT_EQ(pe.windows.find(pe.own(), 256).range, nullptr) << "the newest";
    pe.windows.remove_local(pe.own());
    EXPECT_TRUE(pe.windows.find(pe.own(), 64).range->symmetric);
    EXPECT_EQ(pe.windows.handle_of(pe.own()).number, everywhere.number);
    pe.windows.remove_local(pe.own());
  };
  expect_on_all(errors_of(body), "unregister_local: no memory was registered at");
}

}  // namespace
}  // namespace peal
