// SPDX-License-Identifier: Apache-2.0
//
// Queues that are made when a kernel first wants them: PEs that are no neighbours have none before.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/injector.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

constexpr int kPes = 5;  // of which two are neighbours, two are not, and one is the PE itself
constexpr size_t kQueues = 4;

using Body = std::function<void(Runtime&, uint64_t* words)>;
void on_pes(const Body& body, const Config& config = small_config(), int pes = kPes) {
  bootstrap::run_threads(pes, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    auto* const words = pe.allocate<uint64_t>(1024);
    body(pe, words);
    pe.barrier();
  });
}

// Queues of this PE that have no link.
size_t unlinked(const Runtime& pe) {
  const std::string text = pe.dump();
  size_t found = 0;
  for (size_t at = 0; (at = text.find("not linked", at)) != std::string::npos; ++at) ++found;
  return found;
}

PEAL_KERNEL put_one(Status* ended, Context ctx, uint64_t* word, int pe) {
  const Status status = p(ctx, word, 7, pe);
  *ended = status == Status::kOk ? quiet(ctx) : status;
}
Status put_to(const Context& ctx, uint64_t* word, int pe) {
  Status ended = Status::kOk;
  launch({}, put_one, &ended, ctx, word, pe).wait();
  return ended;
}

PEAL_KERNEL to_all(Verdict* verdict, Context ctx, uint64_t* words, uint64_t round) {
  const auto me = static_cast<uint64_t>(my_pe(ctx));
  const uint32_t block = block_in_grid();
  for (int i = 0; i < n_pes(ctx); ++i) {
    const int pe = (my_pe(ctx) + i) % n_pes(ctx);
    expect_ok(verdict, p(ctx, words + 64 * block + me, round + me, pe));
    const Fetched<uint64_t> seen = g(ctx, words + 64 * block + me, pe);
    expect_ok(verdict, seen.status);
    expect_eq(verdict, seen.value, round + me);
    expect_ok(verdict, atomic_inc(ctx, words + 960, pe));
  }
  expect_ok(verdict, barrier_all(ctx));
}

void all_is_well(Runtime& pe, const Context& ctx, uint64_t* words) {
  static std::atomic<uint64_t> rounds{0};
  pe.barrier();
  if (pe.my_pe() == 0) ++rounds;
  pe.barrier();
  run_clean(pe, {.blocks = 1, .threads = 1}, to_all, ctx, words, 1000 * rounds);
  EXPECT_EQ(pe.status(), Status::kOk);
  pe.barrier();
}

TEST(Links, AreThereForNeighboursFromTheStart) {
  on_pes([](Runtime& pe, uint64_t*) { EXPECT_EQ(unlinked(pe), 3 * kQueues) << pe.dump(); });
  on_pes([](Runtime& pe, uint64_t*) { EXPECT_EQ(unlinked(pe), 0u); }, small_config(), 1);
}

TEST(Links, AreMadeAtBothEndsByTheFirstUse) {
  on_pes([](Runtime& pe, uint64_t* words) {
    if (pe.my_pe() == 0) {
      EXPECT_EQ(put_to(pe.context(), words, 2), Status::kOk);
      EXPECT_EQ(unlinked(pe), 2 * kQueues) << pe.dump();
    }
    pe.barrier();
    // The other end is open, too, or will be in a moment: its first put finds out.
    if (pe.my_pe() == 2) {
      EXPECT_EQ(words[0], 7u);
      EXPECT_EQ(put_to(pe.context(), words, 0), Status::kOk);
      EXPECT_EQ(unlinked(pe), 2 * kQueues) << pe.dump();
    }
    if (pe.my_pe() == 1) {
      EXPECT_EQ(unlinked(pe), 3 * kQueues);
    }
    EXPECT_EQ(put_to(pe.context(), words, pe.my_pe()), Status::kOk) << "to itself";
  });
}

TEST(Links, MayBeWantedByAllAtOnceAndByManyBlocks) {
  on_pes([](Runtime& pe, uint64_t* words) {
    run_clean(
        pe, {.blocks = 8, .threads = 32},
        +[](Verdict* verdict, Context ctx, uint64_t* word) {
          for (int to = 0; to < n_pes(ctx); ++to) expect_ok(verdict, atomic_inc(ctx, word, to));
          expect_ok(verdict, quiet(ctx));
        },
        pe.context(), words);
    pe.barrier();
    EXPECT_EQ(words[0], uint64_t{kPes} * 8 * 32);
    EXPECT_EQ(unlinked(pe), 0u);
    all_is_well(pe, pe.context(), words);
  });
}

TEST(Links, OfAContextAreItsOwn) {
  on_pes([](Runtime& pe, uint64_t* words) {
    const auto own = pe.make_context({.queues_per_peer = 1});
    EXPECT_EQ(unlinked(pe), 3 * kQueues + 3);
    all_is_well(pe, own.value(), words);
    EXPECT_EQ(unlinked(pe), 3 * kQueues);
    all_is_well(pe, pe.context(), words);
  });
}

TEST(Links, AreAllThereFromTheStartIfSoAskedOrOwned) {
  Config config = small_config();
  config.connect = ConnectKind::kEager;
  on_pes([](Runtime& pe, uint64_t*) { EXPECT_EQ(unlinked(pe), 0u); }, config);
  on_pes([](Runtime& pe, uint64_t*) {
    const auto owned = pe.make_context<Reach::kLane>({.queues_per_peer = 2});
    EXPECT_EQ(unlinked(pe), 3 * kQueues) << "of the default context";
    pe.barrier();
  });
}

/// More queues than one message has room for ends of.
TEST(Links, MayBeHundredsOfQueues) {
  Config config = small_config();
  config.queues = 520;
  config.queue_depth = 128;
  config.self_test = false;  // of 2080 queues
  on_pes(
      [](Runtime& pe, uint64_t* words) {
        if (pe.my_pe() == 0) {
          EXPECT_EQ(put_to(pe.context(), words, 2), Status::kOk);
        }
        pe.barrier();
        if (pe.my_pe() == 2) {
          EXPECT_EQ(words[0], 7u);
          EXPECT_EQ(put_to(pe.context(), words, 0), Status::kOk);
        }
      },
      config, 4);
}

TEST(Links, WithoutASelfTestOpenAtOnce) {
  Config config = small_config();
  config.self_test = false;
  on_pes([](Runtime& pe, uint64_t* words) { all_is_well(pe, pe.context(), words); }, config);
}

TEST(Links, ByTheProxyAreTheSame) {
  Config config = small_config();
  config.transport = TransportKind::kProxy;
  on_pes(
      [](Runtime& pe, uint64_t* words) {
        EXPECT_EQ(unlinked(pe), 3 * kQueues);
        all_is_well(pe, pe.context(), words);
        EXPECT_EQ(unlinked(pe), 0u);
      },
      config);
}

/// A link whose proof does not end: the NIC stands still before the first request of each queue.
TEST(Links, ThatAreNotReadyInTimeEndTheWaitAndComeBackByRecovery) {
  on_pes([](Runtime& pe, uint64_t* words) {
    const fault_test::Injector nic;
    const auto hasty = pe.make_context({.timeout = std::chrono::milliseconds(100)});
    pe.barrier();
    if (pe.my_pe() == 0) {
      nic.inject("wqe=1 fault=stall");
      EXPECT_EQ(put_to(Context{hasty.value()}, words, 2), Status::kTimeout);
      EXPECT_NE(pe.failure().text.find("closed: timeout (before it was connected)"),
                std::string::npos)
          << pe.failure().text;
      nic.clear();
    }
    pe.barrier();
    pe.recover();
    all_is_well(pe, pe.context(), words);
  });
}

PEAL_KERNEL post_one(Status* posted, Context ctx, uint64_t* word, int pe) {
  *posted = p(ctx, word, 7, pe);
}

/// PE 0 posts a word to PE 1 by a context of its own, and drops that at once; its NIC meets `plan`.
void post_and_drop(Runtime& pe, uint64_t* word, const std::string& plan, bool aborts) {
  const fault_test::Injector nic;
  auto own = std::make_optional(pe.make_context({.queues_per_peer = 1}));
  EXPECT_EQ(put_to(Context{own->value()}, word + 1, 1 - pe.my_pe()), Status::kOk) << "the link";
  pe.barrier();
  if (pe.my_pe() == 0) {
    Status posted = Status::kTimeout;
    nic.inject(plan);
    launch({}, post_one, &posted, own->value(), word, 1).wait();
    EXPECT_EQ(posted, Status::kOk);
    if (aborts) pe.abort("the test ends them");
    own.reset();
  }
  pe.barrier();  // the other end is there so long
}

/// Hazard: a barrier, or a flag, is the last that a kernel posts; the context goes with its queues,
/// and with what the NIC has not executed yet.
TEST(Links, FinishWhatKernelsPostedBeforeTheirContextGoes) {
  for (const TransportKind transport : {TransportKind::kIbgda, TransportKind::kProxy}) {
    Config config = small_config();
    config.transport = transport;
    on_pes(
        [](Runtime& pe, uint64_t* words) {
          post_and_drop(pe, words, "wqe=1 fault=stall ms=300", false);
          EXPECT_EQ(words[0], pe.my_pe() == 1 ? 7u : 0u) << "not there when the context had gone";
          EXPECT_EQ(pe.status(), Status::kOk) << pe.failure().text;
        },
        config, 2);
  }
}

PEAL_KERNEL post_kind(Status* posted, Context ctx, uint64_t* words, int kind) {
  const Status status[] = {
      kind != 0 ? Status::kOk : put_nbi(ctx, words, words + 512, 3, 1).status,
      kind != 1 ? Status::kOk : put_nbi(ctx, words, words + 512, 400, 1).status,
      kind != 2 ? Status::kOk : atomic_inc(ctx, words, 1),
      kind != 3 ? Status::kOk : atomic_compare_swap(ctx, words, 0, 1, 1).status,
      kind != 4 ? Status::kOk : atomic_max(ctx, words, 5, 1),
      kind != 5 ? Status::kOk : signal(ctx, Signal::add(words, 1, 1))};
  for (const Status one : status) {
    if (one != Status::kOk) *posted = one;
  }
}

/// Hazard: where a queue ends is told by the last request's first block, and requests have one
/// block or several: the end of a context would wait for what has come.
TEST(Links, FinishBehindRequestsOfAnySize) {
  Config config = small_config();
  config.transport = TransportKind::kIbgda;
  config.bootstrap_timeout = std::chrono::hours(1);
  on_pes(
      [](Runtime& pe, uint64_t* words) {
        for (int kind = 0; kind < 6; ++kind) {
          const auto own = pe.make_context({.queues_per_peer = 1});
          Status posted = Status::kOk;
          if (pe.my_pe() == 0) launch({}, post_kind, &posted, own.value(), words, kind).wait();
          EXPECT_EQ(posted, Status::kOk) << kind;
          pe.barrier();
        }
        EXPECT_EQ(pe.status(), Status::kOk) << pe.failure().text;
      },
      config, 2);
}

/// Where waits have been ended nobody waits for a NIC either, which may stand still for good.
TEST(Links, GoAtOnceWithAContextThatWasAborted) {
  Config config = small_config();
  config.transport = TransportKind::kIbgda;
  config.bootstrap_timeout = std::chrono::hours(1);
  on_pes(
      [](Runtime& pe, uint64_t* words) {
        post_and_drop(pe, words, "wqe=1 fault=stall", true);
        if (pe.my_pe() == 0) fault_test::Injector().clear();
        pe.barrier();
        pe.recover();
      },
      config, 2);
}

/// Hazard: links were proven one after another, with a lock that make_context and recover wait for,
/// so that one peer that stood still held up all.
TEST(Links, AreProvenWhileAnotherPeerStandsStill) {
  Config config = small_config();
  config.queues = 1;
  config.timeout = Microseconds(0);  // no wait ends but by what it waits for
  static std::atomic<uint32_t> silent[2];
  silent[0] = silent[1] = 0;
  on_pes(
      [](Runtime& pe, uint64_t* words) {
        const fault_test::Injector nic;
        const auto qpn_to = [&](uint32_t peer) {
          const auto& shifted = detail::queue_at(pe.context(), peer)->nic.qpn_shifted.raw;
          return Be32::from_raw(__atomic_load_n(&shifted, __ATOMIC_RELAXED)).host() >> 8;
        };
        const bool stands = pe.my_pe() == 0 || pe.my_pe() == 2;
        std::optional<Launch> waiting;
        Status ended = Status::kTimeout;
        if (pe.my_pe() == 0) nic.inject("wqe=1 fault=stall");
        pe.barrier();
        if (pe.my_pe() == 0) waiting = launch({}, put_one, &ended, pe.context(), words, 2);
        while (stands && silent[pe.my_pe() / 2] == 0) {
          silent[pe.my_pe() / 2] = qpn_to(pe.my_pe() == 0 ? 2 : 0);
          std::this_thread::yield();
        }
        pe.barrier();
        if (pe.my_pe() == 0) {  // only that link stands still now
          std::string plan;
          for (const auto& qpn : silent) {
            plan += "wqe=1 fault=stall qp=" + std::to_string(qpn) + "\n";
          }
          nic.inject(plan);
          EXPECT_EQ(put_to(pe.context(), words, 3), Status::kOk);
          EXPECT_EQ(unlinked(pe), 2u) << "to itself and to PE 2\n" << pe.dump();
        }
        {
          const auto more = pe.make_context();
          if (pe.my_pe() == 0) {
            EXPECT_EQ(put_to(Context{more.value()}, words, 3), Status::kOk);
          }
          pe.barrier();
        }
        EXPECT_EQ(pe.status(), Status::kOk) << pe.failure().text;
        if (stands) {
          EXPECT_EQ(unlinked(pe), pe.my_pe() == 0 ? 2u : 3u) << pe.dump();
        }
        pe.barrier();
        if (waiting) {
          nic.clear();
          waiting->wait();
          EXPECT_EQ(ended, Status::kOk);
        }
        pe.barrier();
        all_is_well(pe, pe.context(), words);
      },
      config);
}

TEST(Links, ToAContextThatWasDroppedSaySo) {
  on_pes([](Runtime& pe, uint64_t* words) {
    std::optional<OwnedContext<Reach::kGpu>> lonely(pe.make_context());
    const Context copy{lonely->value()};
    pe.barrier();
    if (pe.my_pe() == 2) lonely.reset();
    pe.barrier();
    if (pe.my_pe() == 0) {
      EXPECT_EQ(put_to(copy, words, 2), Status::kQueueError);
      EXPECT_NE(pe.failure().text.find("PE 2: it has dropped the context"), std::string::npos)
          << pe.failure().text;
      EXPECT_EQ(put_to(copy, words, 2), Status::kQueueError);
    }
    pe.barrier();
    lonely.reset();
    pe.recover();
    all_is_well(pe, pe.context(), words);
  });
}

/// The far side of a link that fails its proof hears of it; recovery takes both back.
TEST(Links, ThatFailTheirSelfTestSayWhyAndComeBackByRecovery) {
  on_pes([](Runtime& pe, uint64_t* words) {
    const fault_test::Injector nic;
    pe.barrier();
    if (pe.my_pe() == 0) {
      nic.inject("wqe=3 fault=syndrome:0x12");
      EXPECT_EQ(put_to(pe.context(), words, 2), Status::kQueueError);
      nic.clear();
      const std::string text = pe.failure().text;
      EXPECT_EQ(pe.failure().pe, 2);
      for (const char* part : {"the queues to PE 2 could not be connected", "the atomic failed",
                               "syndrome 0x12", "(MTU 4096, LID ", "PEAL_SELF_TEST=off"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
      }
      EXPECT_EQ(put_to(pe.context(), words, 1), Status::kQueueError) << "until recovery";
    }
    pe.barrier();
    pe.recover();
    EXPECT_EQ(pe.status(), Status::kOk);
    EXPECT_EQ(unlinked(pe), 3 * kQueues);
    all_is_well(pe, pe.context(), words);
  });
}

TEST(Links, AreProvenAgainByRecovery) {
  on_pes([](Runtime& pe, uint64_t* words) {
    all_is_well(pe, pe.context(), words);
    const fault_test::Injector nic;
    if (pe.my_pe() == 0) {
      nic.inject("wqe=1 fault=syndrome:0x13");
      EXPECT_EQ(put_to(pe.context(), words, 2), Status::kQueueError);
      nic.inject("wqe=4 fault=syndrome:0x13");  // of the proof
    }
    pe.barrier();
    std::string why;
    try {
      pe.recover();
    } catch (const Error& error) {
      why = error.what();
    }
    for (const char* part : {"PE ", "self-test (host ", "queue ", "the get failed"}) {
      EXPECT_NE(why.find(part), std::string::npos) << part << " in " << why;
    }
    if (pe.my_pe() == 0) nic.clear();
    pe.barrier();
    pe.recover();
    all_is_well(pe, pe.context(), words);
  });
}

TEST(Links, EndWithAnAbort) {
  on_pes([](Runtime& pe, uint64_t* words) {
    const fault_test::Injector nic;
    pe.barrier();
    if (pe.my_pe() == 0) {
      nic.inject("wqe=1 fault=stall");
      Status ended = Status::kOk;
      auto running = launch({}, put_one, &ended, pe.context(), words, 2);
      pe.abort("enough");
      running.wait();
      EXPECT_EQ(ended, Status::kAborted);
      nic.clear();
    }
    pe.barrier();
    pe.recover();
    all_is_well(pe, pe.context(), words);
  });
}

/// Queues that were connected again, but not opened because another one failed its proof, are not
/// forgotten by the recovery that follows.
TEST(Links, AreOpenedByTheRecoveryAfterOneThatFailed) {
  static std::atomic<uint32_t> other_end;
  on_pes([](Runtime& pe, uint64_t* words) {
    all_is_well(pe, pe.context(), words);
    const fault_test::Injector nic;
    if (pe.my_pe() == 2) other_end = detail::queue_at(pe.context(), 0)->nic.qpn();
    pe.barrier();
    if (pe.my_pe() == 0) {
      nic.inject("wqe=1 fault=syndrome:0x13");
      for (const int to : {1, 2, 3}) {
        EXPECT_EQ(put_to(pe.context(), words, to), Status::kQueueError);
      }
      const auto fault_of = [](uint32_t qpn) {
        return "wqe=2 fault=syndrome:0x12 qp=" + std::to_string(qpn) + "\n";
      };
      nic.inject(fault_of(detail::queue_at(pe.context(), 2)->nic.qpn()) + fault_of(other_end));
    }
    pe.barrier();
    EXPECT_THROW(pe.recover(), Error);
    pe.barrier();
    if (pe.my_pe() == 0) nic.clear();
    pe.barrier();
    pe.recover();
    all_is_well(pe, pe.context(), words);
  });
}

TEST(Links, AreOfOneKindOfContextOnAllPes) {
  on_pes([](Runtime& pe, uint64_t*) {
    std::string why;
    try {
      if (pe.my_pe() == 1) {
        const auto owned = pe.make_context<Reach::kLane>();
      } else {
        const auto shared = pe.make_context();
      }
    } catch (const Error& error) {
      why = error.what();
    }
    EXPECT_NE(why.find("the other kind: all must make the same"), std::string::npos) << why;
  });
}

TEST(Links, MustBeWantedAlike) {
  std::vector<std::string> errors(2);
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Config config = small_config();
    if (group.rank() == 1) config.connect = ConnectKind::kEager;
    try {
      const Runtime pe = start(group, config);
    } catch (const Error& error) {
      errors[static_cast<size_t>(group.rank())] = error.what();
    }
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("PEAL_CONNECT"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
