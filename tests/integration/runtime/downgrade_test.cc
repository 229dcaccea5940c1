// SPDX-License-Identifier: Apache-2.0
//
// Jobs on a NIC that refuses something: they run with less and say so once, or end with an error
// that names cause and remedy. The software NIC presents itself as such a NIC.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

PEAL_KERNEL exchange(Verdict* verdict, Context ctx, uint64_t* words) {
  const auto me = static_cast<uint64_t>(my_pe(ctx));
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    expect_ok(verdict, p(ctx, words + me, 100 + me, pe));
    expect_ok(verdict, atomic_inc(ctx, words + 50, pe));
  }
  expect_ok(verdict, barrier_all(ctx));
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    expect_eq(verdict, words[pe], 100 + static_cast<unsigned>(pe));
  }
  expect_eq(verdict, words[50], static_cast<unsigned>(n_pes(ctx)));
  expect_ok(verdict, barrier_all(ctx));
}

/// What the PEs of a job say, and what each of them is.
struct Outcome {
  std::string said;
  std::vector<std::string> transports;
  std::vector<std::string> nics;
  std::vector<std::string> errors;
};

class Downgrade : public testing::Test {
 protected:
  ~Downgrade() override { ::unsetenv("PEAL_SOFTNIC_PRESENT"); }

  /// Three PEs with such NICs.
  Outcome run(const std::string& nics, const Config& config) {
    ::setenv("PEAL_SOFTNIC_PRESENT", nics.c_str(), 1);
    constexpr size_t kPes = 3;
    Outcome seen{"", std::vector<std::string>(kPes), std::vector<std::string>(kPes),
                 std::vector<std::string>(kPes)};
    testing::internal::CaptureStderr();
    bootstrap::run_threads(kPes, [&](Bootstrap& group) {
      const auto me = static_cast<size_t>(group.rank());
      try {
        Runtime pe = start(group, config);
        seen.transports[me] = pe.transport();
        seen.nics[me] = pe.nic();
        auto* const words = pe.allocate<uint64_t>(64);
        pe.barrier();
        run_clean(pe, {}, exchange, pe.context(), words);
        const auto other = pe.make_context({.queues_per_peer = 7});
        pe.barrier();
      } catch (const Error& error) {
        seen.errors[me] = error.what();
      }
    });
    seen.said = testing::internal::GetCapturedStderr();
    return seen;
  }
};

/// All PEs went this way, and one line was said that has these parts; none if there are none.
void expect_ran(const Outcome& seen, const std::string& transport, const std::string& nic,
                const std::vector<std::string>& parts = {}) {
  for (size_t pe = 0; pe < seen.errors.size(); ++pe) {
    EXPECT_EQ(seen.errors[pe], "");
    EXPECT_EQ(seen.transports[pe], transport);
    EXPECT_EQ(seen.nics[pe], nic);
  }
  EXPECT_EQ(std::ranges::count(seen.said, '\n'), parts.empty() ? 0 : 1) << seen.said;
  expect_in(seen.said, parts);
}

void expect_failed(const Outcome& seen, const std::vector<std::string>& parts) {
  for (const std::string& error : seen.errors) expect_in(error, parts);
  EXPECT_EQ(seen.said, "");
}

Config asking(TransportKind transport) {
  Config config = small_config();
  config.transport = transport;
  return config;
}

TEST_F(Downgrade, ToTheProxyWithoutDevx) {
  expect_ran(run("refuse=devx", small_config()), "proxy", "softnic-cpu",
             {"peal[0] nic: kernels cannot drive mlx5_0: mlx5dv_open_device(mlx5_0) with DEVX",
              "Operation not supported", "UCTX_EN", "a CPU thread posts for them",
              "PEAL_TRANSPORT=proxy starts so without this warning; likewise PEs 1-2"});
  expect_ran(run("refuse=devx", asking(TransportKind::kProxy)), "proxy", "softnic-cpu");
}

TEST_F(Downgrade, ToTheProxyIsTheReasonOfTheRoutes) {
  Config config = small_config();
  config.info = true;
  expect_in(run("refuse=devx", config).said,
            {"PEs 0-2: proxy (PEAL_TRANSPORT=auto, kernels on a CPU; mlx5dv_open_device(mlx5_0)"});
}

TEST_F(Downgrade, IsNoneWhereIbgdaIsAskedFor) {
  expect_failed(run("refuse=devx", asking(TransportKind::kIbgda)),
                {"mlx5dv_open_device(mlx5_0) with DEVX", "Operation not supported", "UCTX_EN",
                 "PEAL_TRANSPORT=proxy (or auto) lets a CPU thread drive mlx5_0"});
}

TEST_F(Downgrade, IsNoneWhereTheProxyCannotEither) {
  expect_failed(run("refuse=atomics", small_config()), {"mlx5_0", "it lacks: atomics (atomic)"});
  expect_failed(run("refuse=devx,atomics", small_config()), {"mlx5dv_open_device(mlx5_0)"});
}

// These are needs of a GPU: kernels on a CPU do without.
TEST_F(Downgrade, IsNoneForWhatOnlyAGpuNeeds) {
  expect_ran(run("refuse=uar,peermem,umem_peermem,relaxed_ordering", small_config()), "ibgda",
             "softnic-cpu");
}

constexpr const char* kFirstDown = "state=down; devices=1";
constexpr const char* kFirstWithoutDevx = "refuse=devx; devices=1";

TEST_F(Downgrade, LeavesOutANicThatIsDown) {
  const Outcome seen = run(kFirstDown, small_config());
  expect_ran(
      seen, "ibgda", "softnic-cpu",
      {"peal[0] nic: mlx5_0 is left out and mlx5_1 used: port 1 of mlx5_0 is not active",
       "bring its link up", "PEAL_HCA=^mlx5_0 starts without this warning", "likewise PEs 1-2"});
  Config config = small_config();
  config.hca = "^mlx5_0";
  expect_ran(run(kFirstDown, config), "ibgda", "softnic-cpu");
  expect_ran(run("devices=1; state=down", small_config()), "ibgda", "softnic-cpu");
}

TEST_F(Downgrade, LeavesOutNoNicThatIsNamed) {
  Config config = small_config();
  config.hca = "mlx5_0,mlx5_1";
  for (const char* nics : {kFirstDown, "devices=1; state=down"}) {
    expect_failed(run(nics, config), {"is not active (state 1): bring its link up, or choose "
                                      "another NIC by PEAL_HCA"});
  }
  config.hca = "mlx5_0";
  expect_failed(run(kFirstDown, config), {"port 1 of mlx5_0 is not active"});
}

TEST_F(Downgrade, LeavesOutNoNicThatIsCountedOn) {
  Config config = small_config();
  config.rails = 2;
  expect_failed(run(kFirstDown, config),
                {"PEAL_RAILS=2", "only mlx5_1 can be used", "mlx5_0 (port 1 of mlx5_0 is not",
                 "set PEAL_RAILS to 1 or to auto"});
  expect_ran(run("state=down; devices=2", config), "ibgda", "softnic-cpu(mlx5_1+mlx5_2)",
             {"mlx5_0 is left out and mlx5_1+mlx5_2 used"});
}

TEST_F(Downgrade, NamesAllNicsThatAreDown) {
  expect_failed(run("devices=2 state=down", small_config()),
                {"port 1 of mlx5_0 is not active", "; port 1 of mlx5_1 is not active"});
}

TEST_F(Downgrade, ToTheProxyIsForPesWithoutANicThatKernelsDrive) {
  expect_ran(run(kFirstWithoutDevx, small_config()), "ibgda", "softnic-cpu",
             {"mlx5_0 is left out and mlx5_1 used: mlx5dv_open_device(mlx5_0)"});
  Config config = small_config();
  config.hca = "mlx5_0,mlx5_1";
  expect_ran(run(kFirstWithoutDevx, config), "proxy", "softnic-cpu(mlx5_0+mlx5_1)",
             {"kernels cannot drive mlx5_0+mlx5_1: mlx5dv_open_device(mlx5_0)"});
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
