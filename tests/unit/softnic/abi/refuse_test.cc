// SPDX-License-Identifier: Apache-2.0
//
// What a NIC may refuse its clients, and limits that tests can meet. Each refusal is seen next to
// the same call on a NIC that grants it: a device that refuses everything passes nothing here.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/unit/softnic/abi/present_support.h"

extern "C" {
ibv_mr* mlx5dv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                             int access, int mlx5_access);
}

namespace peal::softnic::abi_test {
namespace {

/// Two devices: one that grants, as it is by default, and one that does as `text` says.
class Refusing : public Presented {
 protected:
  void both(const std::string& text, const std::string& other = "devices=1") {
    present(other + "; " + text);
    granting = open_device(0);
    refusing = open_device(1);
    ASSERT_NE(granting, nullptr);
    ASSERT_NE(refusing, nullptr);
  }
  ibv_context* granting = nullptr;
  ibv_context* refusing = nullptr;
};

ibv_qp* make_qp(ibv_context* context, uint32_t depth = 4) {
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr init = {};
  init.send_cq = init.recv_cq = cq;
  init.cap = {.max_send_wr = depth,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  return ibv_create_qp(pd, &init);
}

TEST_F(Refusing, DevxContextsAndCommands) {
  both("refuse=devx");
  mlx5dv_context_attr attr = {};
  attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
  errno = 0;
  EXPECT_EQ(mlx5dv_open_device(refusing->device, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_context* opened = mlx5dv_open_device(granting->device, &attr);
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(ibv_close_device(opened), 0);

  const auto ask = [](ibv_context* context) {
    Mailbox in(16, 0x100);
    in.set(1, 15, 0, 1);
    Mailbox out(4112);
    return mlx5dv_devx_general_cmd(context, in.data(), in.size(), out.data(), out.size());
  };
  EXPECT_EQ(ask(granting), 0);
  EXPECT_EQ(ask(refusing), EINVAL);
  const Pages pages = make_pages(kPage);
  EXPECT_NE(mlx5dv_devx_umem_reg(granting, pages.get(), kPage, 0), nullptr);
  EXPECT_EQ(mlx5dv_devx_umem_reg(refusing, pages.get(), kPage, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(make_qp(refusing), nullptr) << "verbs go on without DEVX";
}

TEST_F(Refusing, DmabufAsAKernelThatDoesNotKnowIt) {
  both("dmabuf=none", "dmabuf=all");
  ibv_pd* granted = ibv_alloc_pd(granting);
  ibv_pd* refused = ibv_alloc_pd(refusing);
  EXPECT_EQ(ibv_reg_dmabuf_mr(granted, 0, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(ibv_reg_dmabuf_mr(refused, 0, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_reg_dmabuf_mr(refused, 0, 0, 0, -1, 0, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  mlx5dv_devx_umem_in in = {};
  in.size = kPage;
  in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
  in.dmabuf_fd = -1;
  EXPECT_EQ(mlx5dv_devx_umem_reg_ex(refusing, &in), nullptr);
  EXPECT_EQ(errno, EBADF) << "libmlx5 hands no -1 on";
}

// As Linux before 6.1: memory regions take dma-bufs, umems do not. libmlx5 refuses descriptor -1.
TEST_F(Refusing, DmabufUmemsAsAKernelThatKnowsDmabufRegionsOnly) {
  both("dmabuf=mr", "dmabuf=all");
  EXPECT_EQ(ibv_reg_dmabuf_mr(ibv_alloc_pd(refusing), 0, 0, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EBADF);
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  mlx5dv_devx_umem_in in = {};
  in.size = in.pgsz_bitmap = kPage;
  in.comp_mask = MLX5DV_UMEM_MASK_DMABUF;
  in.dmabuf_fd = fd;
  EXPECT_EQ(mlx5dv_devx_umem_reg_ex(refusing, &in), nullptr);
  EXPECT_EQ(errno, EPROTONOSUPPORT);
  EXPECT_EQ(mlx5dv_devx_umem_reg_ex(granting, &in), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  in.dmabuf_fd = -1;
  EXPECT_EQ(mlx5dv_devx_umem_reg_ex(refusing, &in), nullptr);
  EXPECT_EQ(errno, EBADF);
  ::close(fd);
}

/// True when the kernel can pin the page for another reader, as a driver would.
bool pinnable(const void* page) {
  uint64_t word = 0;
  iovec here = {&word, sizeof word};
  iovec there = {const_cast<void*>(page), sizeof word};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof word;
}

TEST_F(Refusing, DoorbellPagesThatADriverCouldMap) {
  both("refuse=uar");
  mlx5dv_devx_uar* plain = mlx5dv_devx_alloc_uar(granting, MLX5DV_UAR_ALLOC_TYPE_NC);
  ASSERT_NE(plain, nullptr);
  if (!pinnable(plain->base_addr)) GTEST_SKIP() << "process_vm_readv is not allowed here";
  errno = 0;
  mlx5dv_devx_uar* secret = mlx5dv_devx_alloc_uar(refusing, MLX5DV_UAR_ALLOC_TYPE_NC);
  if (secret == nullptr && (errno == ENOSYS || errno == EPERM)) {
    GTEST_SKIP() << "no memfd_secret: " << std::strerror(errno);
  }
  ASSERT_NE(secret, nullptr) << std::strerror(errno);
  // The CPU rings as ever; an atomic store, for the NIC's thread is looking.
  __atomic_store_n(static_cast<uint64_t*>(secret->reg_addr), 1, __ATOMIC_RELEASE);
  EXPECT_FALSE(pinnable(secret->base_addr));
}

TEST_F(Refusing, Atomics) {
  both("refuse=atomics");
  const auto cap = [](ibv_context* context) {
    ibv_device_attr attr = {};
    EXPECT_EQ(ibv_query_device(context, &attr), 0);
    return attr.atomic_cap;
  };
  EXPECT_EQ(cap(granting), IBV_ATOMIC_HCA);
  EXPECT_EQ(cap(refusing), IBV_ATOMIC_NONE);
  const auto to_init = [](ibv_context* context, int access) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = static_cast<unsigned>(access);
    return ibv_modify_qp(make_qp(context), &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  };
  EXPECT_EQ(to_init(granting, IBV_ACCESS_REMOTE_ATOMIC), 0);
  EXPECT_EQ(to_init(refusing, IBV_ACCESS_REMOTE_ATOMIC), EOPNOTSUPP);
  EXPECT_EQ(to_init(refusing, IBV_ACCESS_REMOTE_WRITE), 0);
}

TEST_F(Refusing, MoreQueuePairsThanThereAre) {
  present("max_qp=2");
  ibv_context* context = open_device(0);
  ibv_qp* first = make_qp(context);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(make_qp(context), nullptr);
  EXPECT_EQ(make_qp(context), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(ibv_destroy_qp(first), 0);
  EXPECT_NE(make_qp(context), nullptr);
}

TEST_F(Refusing, QueuesDeeperThanItsOwn) {
  present("max_qp_wr=64");
  ibv_context* context = open_device(0);
  EXPECT_NE(make_qp(context, 64), nullptr);
  EXPECT_EQ(make_qp(context, 65), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace peal::softnic::abi_test
