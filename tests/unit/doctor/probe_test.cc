// SPDX-License-Identifier: Apache-2.0
//
// Asking libraries: what they answer, and that a library which crashes, throws or hangs takes
// nobody with it.
#include "doctor/probe.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>

#include "doctor/child.h"
#include "tests/support/fake_gdrapi.h"
#include "tests/support/fake_rdma_fixture.h"

namespace peal::doctor {
namespace {

using std::chrono::seconds;

class DoctorVerbs : public nic::FakeRdmaTest {};

TEST_F(DoctorVerbs, OpensEveryConnectXAndLeavesNothingOpen) {
  fake_.devices = {"mlx5_0", "mlx5_1"};
  fake_.foreign = {"rxe0"};
  const VerbsView view = ask_verbs(path_, path_);
  EXPECT_EQ(view.problem, "");
  ASSERT_EQ(view.nics.size(), 2u);
  EXPECT_EQ(view.nics[1].name, "mlx5_1");
  EXPECT_EQ(view.nics[0].open_error, 0);
  EXPECT_EQ(view.nics[0].uar_error, 0);
  EXPECT_EQ(view.nics[0].lacks, "");
  ASSERT_EQ(view.nics[0].ports.size(), 1u);
  EXPECT_EQ(view.nics[0].ports[0].state, 4);
  EXPECT_EQ(view.nics[0].ports[0].active_mtu, 4096);
}

TEST_F(DoctorVerbs, KeepsWhyANicCannotBeDriven) {
  fake_.refuse_open = true;
  EXPECT_EQ(ask_verbs(path_, path_).nics.at(0).open_error, EACCES);
  fake_.refuse_open = false;
  fake_.refuse_uar = 2;  // uncached pages; a write-combining one will do
  EXPECT_EQ(ask_verbs(path_, path_).nics.at(0).uar_error, 0);
  fake_.refuse_uar = 2 | 4;
  EXPECT_NE(ask_verbs(path_, path_).nics.at(0).uar_error, 0);
  fake_.general_capabilities[16] = 0;
  EXPECT_NE(ask_verbs(path_, path_).nics.at(0).lacks.find("atomics"), std::string::npos);
}

TEST_F(DoctorVerbs, AsksWhetherDmaBufsMayHoldQueues) {
  const auto error = [&] { return ask_verbs(path_, path_).nics.at(0).dma_buf_error; };
  fake_.refuse_dmabuf_umem = EINVAL;  // that it is none
  EXPECT_EQ(error(), 0);
  EXPECT_TRUE(fake_.dmabuf_open) << "libmlx5 would have refused it";
  for (const int unknown : {EPROTONOSUPPORT, EOPNOTSUPP}) {  // the kernel's word, libmlx5's
    fake_.refuse_dmabuf_umem = unknown;
    EXPECT_EQ(error(), unknown);
    EXPECT_EQ(from_text<VerbsView>(to_text(ask_verbs(path_, path_))).nics.at(0).dma_buf_error,
              unknown);
  }
}

TEST_F(DoctorVerbs, SaysWhyThereIsNoAnswer) {
  EXPECT_NE(ask_verbs("absent.so", path_).problem.find("absent.so"), std::string::npos);
  fake_.refuse_list = true;
  EXPECT_NE(ask_verbs(path_, path_).problem.find("ibv_get_device_list"), std::string::npos);
}

TEST_F(DoctorVerbs, TravelsAsText) {
  fake_.refuse_open = true;
  const VerbsView view = ask_verbs(path_, path_);
  const VerbsView copy = from_text<VerbsView>(to_text(view));
  EXPECT_EQ(copy.library, view.library);
  ASSERT_EQ(copy.nics.size(), 1u);
  EXPECT_EQ(copy.nics[0].open_error, EACCES);
}

TEST(DoctorCuda, SaysWhyThereIsNoDriver) {
  const CudaView view = from_text<CudaView>(to_text(ask_cuda("absent_cuda.so")));
  EXPECT_EQ(view.version, 0);
  EXPECT_NE(view.problem.find("absent_cuda.so"), std::string::npos);
}

TEST(DoctorGdrcopy, SaysWhatOpensItsDriver) {
  FakeGdrapi& fake = load_fake_gdrapi();
  const auto asked = [](const std::string& library) {
    return from_text<GdrcopyView>(to_text(ask_gdrcopy(library)));
  };
  EXPECT_EQ(asked(fake_gdrapi_path()).name, "GDRCopy 2.6");
  EXPECT_EQ(asked(fake_gdrapi_path()).problem, "");
  EXPECT_EQ(fake.live, 0) << "closed again";
  fake.driver = false;
  EXPECT_EQ(asked(fake_gdrapi_path()).name, "");
  EXPECT_NE(asked(fake_gdrapi_path()).problem.find("/dev/gdrdrv"), std::string::npos);
  EXPECT_NE(asked("absent_gdrapi.so").problem.find("absent_gdrapi.so"), std::string::npos);
}

Child::Answer ask(const std::function<std::string()>& body, seconds patience = seconds(60)) {
  Child child(body);
  return child.wait_until(Child::Clock::now() + patience);
}

TEST(DoctorChild, AnswersWhatItsBodySays) {
  const std::string much(1u << 20, 'x');
  EXPECT_EQ(ask([&] { return much; }).text, much);
  EXPECT_EQ(ask([] { return std::string(); }).problem, "");
}

TEST(DoctorChild, TellsWhatItsBodyThrew) {
  const auto answer = ask([]() -> std::string { throw std::runtime_error("no such thing"); });
  EXPECT_EQ(answer.problem, "no such thing");
  EXPECT_EQ(answer.text, "");
}

TEST(DoctorChild, SurvivesABodyThatDies) {
  EXPECT_EQ(ask([] {
              ::raise(SIGKILL);
              return std::string("never");
            }).problem,
            "died of signal 9");
  EXPECT_EQ(ask([]() -> std::string { ::_exit(3); }).problem, "ended with exit code 3");
}

TEST(DoctorChild, LeavesABodyThatHangs) {
  const auto begin = Child::Clock::now();
  EXPECT_EQ(ask(
                [] {
                  for (;;) ::pause();
                  return std::string();
                },
                seconds(0))
                .problem,
            "no answer in time");
  EXPECT_LT(Child::Clock::now() - begin, seconds(30));
}

}  // namespace
}  // namespace peal::doctor
