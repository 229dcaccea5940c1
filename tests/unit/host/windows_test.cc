// SPDX-License-Identifier: Apache-2.0
//
// Windows between threads that reach each other by loads and stores: what all PEs must ask alike,
// and what is left of a window that one PE could not add.
#include "host/windows.h"

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
  Backing memory;
  bool refuses = false;

  static void copy(const Backing::Block& block, void* to, const void* from, size_t bytes) {
    if (static_cast<Refusing*>(block.keeper.get())->refuses) fail(ErrorCode::kSystem, "no copy");
    std::memcpy(to, from, bytes);
  }
  static void release(const Backing::Block&) noexcept {}
  static constexpr Backing::Operations kOperations{.release = release, .copy = copy};
};

/// One PE, with the tables of its windows.
struct Pe {
  LiveGroup group;
  P2p p2p;
  RouteOptions options{.asked = TransportKind::kP2p};
  std::vector<std::byte> part = std::vector<std::byte>(2 * kBytes + 4096);
  std::byte* page;  // the first whole one of `part`
  PeerMemory mapped;
  Routes routes;
  std::shared_ptr<Refusing> refusing;
  DeviceTables tables;
  Windows windows;

  explicit Pe(Bootstrap& threads)
      : group(std::make_unique<bootstrap::BorrowedBootstrap>(threads), std::chrono::seconds(20)),
        p2p(group, group.places(), nullptr),
        page(part.data() + 4096 - reinterpret_cast<uintptr_t>(part.data()) % 4096),
        mapped(p2p.map(page, kBytes, -1)),
        routes(Reachable(group, options, mapped.direct, mapped.how), options),
        refusing(std::make_shared<Refusing>(
            make_host_backing(DeviceTables::bytes({kPes, 1}), "tables"))),
        tables(Backing({refusing->memory.address(), refusing->memory.bytes(), -1, false, refusing},
                       Refusing::kOperations),
               {kPes, 1}),
        windows(group, tables, {.routes = routes, .rails = nullptr, .p2p = &p2p, .gpu = nullptr}) {}
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
                  pe.windows.add_everywhere(pe.page, kBytes);
                  pe.windows.add_local(pe.page + kBytes, 64);
                  ASSERT_EQ(pe.tables.windows()->count, 2u);
                  const Window& first = pe.tables.windows()->window[0];
                  EXPECT_EQ(first.base, pe.page);
                  EXPECT_EQ(first.direct[pe.group.rank()], pe.page);
                  EXPECT_NE(first.direct[1 - pe.group.rank()], nullptr);
                  EXPECT_EQ(pe.tables.windows()->window[1].direct, nullptr) << "nobody else's";
                  pe.group.barrier();
                }),
                "no error");
}

/// Hazard: the PEs on which the last step went well kept a window whose registrations the failure
/// of the other one had ended.
TEST(Windows, ThatOnePeCannotAddAreShownOnNone) {
  const auto body = [](Pe& pe) {
    pe.windows.add_everywhere(pe.page, kBytes);
    pe.refusing->refuses = pe.group.rank() == 1;
    try {
      pe.windows.add_everywhere(pe.page + kBytes, kBytes);
    } catch (const Error&) {
      EXPECT_EQ(pe.tables.windows()->count, 1u) << "PE " << pe.group.rank();
      EXPECT_EQ(pe.tables.window_count(), 1u);
      pe.refusing->refuses = false;
      pe.windows.add_everywhere(pe.page + kBytes, 64);  // the group is as good as before
      EXPECT_EQ(pe.tables.windows()->window[1].bytes, 64u);
      throw;
    }
  };
  expect_on_all(errors_of(body), "PE 1: no copy");
}

TEST(Windows, MustBeAskedForAlike) {
  const auto sizes = [](Pe& pe) {
    pe.windows.add_everywhere(pe.page, 64 + 64 * static_cast<size_t>(pe.group.rank()));
  };
  expect_on_all(errors_of(sizes), "PE 1 registers 128 bytes from byte 0 of a page, PE 0 64 from");
  const auto places = [](Pe& pe) { pe.windows.add_everywhere(pe.page + pe.group.rank(), 64); };
  expect_on_all(errors_of(places), "PE 1 registers 64 bytes from byte 1 of a page");
  expect_on_all(errors_of([](Pe& pe) { pe.windows.add_everywhere(nullptr, 64); }),
                "all must register the same size, not 0");
}

TEST(Windows, AreNotMoreThanTheTableHolds) {
  const auto body = [](Pe& pe) {
    for (uint32_t i = 0; i < kMaxWindows; ++i) pe.windows.add_local(pe.page, 64);
    EXPECT_THROW(pe.windows.add_local(pe.page, 64), Error);
    pe.windows.add_everywhere(pe.page, 64);
  };
  expect_on_all(errors_of(body), "windows, which is the limit");
}

TEST(Windows, ThatCannotBeMappedAreRefusedWithTheRemedy) {
  const auto body = [](Pe& pe) {
    PeerMemory unreachable = pe.p2p.map(pe.page, kBytes, -1);
    if (pe.group.rank() == 0) {
      unreachable.direct[1] = nullptr;
      unreachable.how[1] = "made up";
    }
    pe.windows.add_mapped(pe.page, kBytes, std::move(unreachable));
  };
  expect_on_all(errors_of(body), "cannot be mapped: made up; use symmetric memory");
}

}  // namespace
}  // namespace peal
