// SPDX-License-Identifier: Apache-2.0
//
// Everything that can be wrong with a request: which syndrome the initiator sees, what becomes of
// the responder, and how the queue is flushed afterwards.
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

/// An initiator and a responder on one NIC.
class Errors : public SoftNic {
 protected:
  void SetUp() override {
    SoftNic::SetUp();
    a = make_qp();
    b = make_qp({.receives = true});
  }
  /// Connects both; the caller may have changed attributes before.
  void connect() {
    a->connect(nic->lid(), b->qpn);
    b->connect(nic->lid(), a->qpn);
  }
  void expect_failure(const Wqe& wqe, Syndrome syndrome, QpState responder) {
    const SeenCqe cqe = run(*a, wqe);
    EXPECT_EQ(cqe.kind, CqeOpcode::kRequesterError);
    EXPECT_EQ(cqe.syndrome, syndrome);
    EXPECT_EQ(cqe.qpn, a->qpn);
    EXPECT_EQ(a->query().state, QpState::kError);
    EXPECT_EQ(b->query().state, responder);
  }
  void expect_event(AsyncEvent::Kind kind) {
    AsyncEvent event;
    ASSERT_TRUE(eventually([&] { return nic->next_event(&event); }));
    EXPECT_EQ(event.kind, kind);
    EXPECT_EQ(event.number, b->qpn);
  }
  std::unique_ptr<Qp> a;
  std::unique_ptr<Qp> b;
};

// ---- at the responder

TEST_F(Errors, ResponderNotReadyIsRetryExceeded) {
  Region memory(*nic, pd, 4096);
  a->attributes.ack_timeout = 8;
  a->attributes.retry_count = 1;
  a->connect(nic->lid(), b->qpn);
  b->to_init();
  expect_failure(write_inline<uint64_t>(0, memory.key, 1), Syndrome::kTransportRetryExceeded,
                 QpState::kInit);
}

TEST_F(Errors, MissingResponderIsRetryExceeded) {
  Region memory(*nic, pd, 4096);
  a->attributes.ack_timeout = 8;
  a->attributes.retry_count = 1;
  a->connect(nic->lid(), 0x7fff);
  EXPECT_EQ(run(*a, write_inline<uint64_t>(0, memory.key, 1)).syndrome,
            Syndrome::kTransportRetryExceeded);
}

TEST_F(Errors, MissingNicIsRetryExceeded) {
  Region memory(*nic, pd, 4096);
  a->attributes.ack_timeout = 8;
  a->attributes.retry_count = 1;
  a->connect(999, b->qpn);
  EXPECT_EQ(run(*a, write_inline<uint64_t>(0, memory.key, 1)).syndrome,
            Syndrome::kTransportRetryExceeded);
}

TEST_F(Errors, ResponderThatBecomesReadyInTimeIsServed) {
  Region memory(*nic, pd, 4096);
  a->attributes.ack_timeout = 20;
  a->connect(nic->lid(), b->qpn);
  a->post(write_inline<uint64_t>(0, memory.key, 1));
  a->ring();
  ASSERT_TRUE(eventually([&] { return a->query().software_send_counter == 1; }));
  EXPECT_TRUE(cq->quiet());
  b->connect(nic->lid(), a->qpn);
  EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
}

TEST_F(Errors, TimeoutZeroWaitsForever) {
  Region memory(*nic, pd, 4096);
  a->attributes.ack_timeout = 0;
  a->attributes.retry_count = 0;
  a->connect(nic->lid(), b->qpn);
  a->post(write_inline<uint64_t>(0, memory.key, 1));
  a->ring();
  EXPECT_FALSE(eventually([&] { return !cq->quiet(); }, std::chrono::milliseconds(50)));
  b->connect(nic->lid(), a->qpn);
  EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
}

TEST_F(Errors, FailedResponderIsRetryExceeded) {
  Region memory(*nic, pd, 4096);
  a->attributes.ack_timeout = 8;
  a->attributes.retry_count = 1;
  connect();
  EXPECT_FALSE(b->to(QpState::kError, QpState::kReadyToSend).refused());
  expect_failure(write_inline<uint64_t>(0, memory.key, 1), Syndrome::kTransportRetryExceeded,
                 QpState::kError);
}

TEST_F(Errors, SequenceNumbersThatDoNotMatchAreRetryExceeded) {
  Region memory(*nic, pd, 4096);
  a->attributes.ack_timeout = 8;
  a->attributes.retry_count = 1;
  a->attributes.send_psn = 17;
  connect();
  expect_failure(write_inline<uint64_t>(0, memory.key, 1), Syndrome::kTransportRetryExceeded,
                 QpState::kReadyToSend);
}

TEST_F(Errors, WriteNotEnabledIsInvalidRequest) {
  Region memory(*nic, pd, 4096);
  b->attributes.access &= ~static_cast<uint32_t>(kRemoteWrite);
  connect();
  expect_failure(write_inline<uint64_t>(0, memory.key, 1), Syndrome::kRemoteInvalidRequest,
                 QpState::kError);
  expect_event(AsyncEvent::Kind::kQpRequestError);
}

TEST_F(Errors, ReadNotEnabledIsInvalidRequest) {
  Region memory(*nic, pd, 4096);
  b->attributes.access &= ~static_cast<uint32_t>(kRemoteRead);
  connect();
  expect_failure(read_into(0, memory.key, 8, memory.key, 8), Syndrome::kRemoteInvalidRequest,
                 QpState::kError);
}

TEST_F(Errors, AtomicNotEnabledIsInvalidRequest) {
  Region memory(*nic, pd, 4096);
  b->attributes.access &= ~static_cast<uint32_t>(kRemoteAtomic);
  connect();
  expect_failure(fetch_add(0, memory.key, 1, memory.key, 8), Syndrome::kRemoteInvalidRequest,
                 QpState::kError);
}

TEST_F(Errors, AtomicModeNoneIsInvalidRequest) {
  Region memory(*nic, pd, 4096);
  b->attributes.atomic_mode = 0;
  connect();
  expect_failure(fetch_add(0, memory.key, 1, memory.key, 8), Syndrome::kRemoteInvalidRequest,
                 QpState::kError);
}

TEST_F(Errors, ReadWithoutResponderDepthIsInvalidRequest) {
  Region memory(*nic, pd, 4096);
  b->attributes.responder_depth_valid = false;
  connect();
  expect_failure(read_into(0, memory.key, 8, memory.key, 8), Syndrome::kRemoteInvalidRequest,
                 QpState::kError);
}

TEST_F(Errors, UnknownRkeyIsAccessError) {
  connect();
  expect_failure(write_inline<uint64_t>(0, 0x123456, 1), Syndrome::kRemoteAccess, QpState::kError);
  expect_event(AsyncEvent::Kind::kQpAccessError);
}

TEST_F(Errors, RkeyWithAnotherVariantIsAccessError) {
  Region memory(*nic, pd, 4096);
  connect();
  expect_failure(write_inline<uint64_t>(0, memory.key ^ 1, 1), Syndrome::kRemoteAccess,
                 QpState::kError);
}

TEST_F(Errors, FreedRkeyIsAccessError) {
  uint32_t key = 0;
  { key = Region(*nic, pd, 4096).key; }
  Region reused(*nic, pd, 4096);  // same index, another variant
  connect();
  expect_failure(write_inline<uint64_t>(0, key, 1), Syndrome::kRemoteAccess, QpState::kError);
}

TEST_F(Errors, ForeignDomainIsAccessError) {
  const uint32_t other = nic->allocate_pd().number;
  Region memory(*nic, other, 4096);
  connect();
  expect_failure(write_inline<uint64_t>(0, memory.key, 1), Syndrome::kRemoteAccess,
                 QpState::kError);
}

TEST_F(Errors, MissingRightsAreAccessErrors) {
  for (const uint32_t missing : {kRemoteWrite, kRemoteRead, kRemoteAtomic}) {
    a = make_qp();
    b = make_qp();
    Region memory(*nic, pd, 4096, kEverything & ~missing);
    Region local(*nic, pd, 4096);
    connect();
    expect_failure(missing == kRemoteWrite  ? write_inline<uint64_t>(0, memory.key, 1)
                   : missing == kRemoteRead ? read_into(0, memory.key, 8, local.key, 8)
                                            : fetch_add(0, memory.key, 1, local.key, 8),
                   Syndrome::kRemoteAccess, QpState::kError);
  }
}

TEST_F(Errors, EndBeyondTheRegionIsAccessError) {
  Region memory(*nic, pd, 4096);
  connect();
  expect_failure(write_inline<uint64_t>(4089, memory.key, 1), Syndrome::kRemoteAccess,
                 QpState::kError);
  EXPECT_EQ(memory.load<uint8_t>(4095), 0);
}

TEST_F(Errors, AddressThatWrapsIsAccessError) {
  Region memory(*nic, pd, 4096);
  connect();
  expect_failure(write_inline<uint64_t>(~0ull - 3, memory.key, 1), Syndrome::kRemoteAccess,
                 QpState::kError);
}

TEST_F(Errors, AddressBelowTheIovaIsAccessError) {
  Region memory(*nic, pd, 4096, kEverything, 0x10000);
  connect();
  EXPECT_EQ(run(*a, write_inline<uint64_t>(0x10008, memory.key, 3)).kind, CqeOpcode::kRequester);
  EXPECT_EQ(memory.load<uint64_t>(8), 3u);
  expect_failure(write_inline<uint64_t>(0xfff8, memory.key, 1), Syndrome::kRemoteAccess,
                 QpState::kError);
}

TEST_F(Errors, MisalignedAtomicsAreInvalidRequests) {
  for (const bool small : {false, true}) {
    a = make_qp();
    b = make_qp();
    Region memory(*nic, pd, 4096);
    connect();
    Wqe wqe{.opcode = Opcode::kAtomicMaskedFetchAdd, .opmod = mlx5::kOpmodAtomic4};
    wqe.remote(2, memory.key).add(mlx5::MaskedFetchAdd4Segment{}).data(4, memory.key, 64);
    expect_failure(small ? wqe : fetch_add(4, memory.key, 1, memory.key, 64),
                   Syndrome::kRemoteInvalidRequest, QpState::kError);
  }
}

TEST_F(Errors, AnUnknownKeyIsFoundBeforeAMisalignedAddress) {
  Region memory(*nic, pd, 4096);
  connect();
  expect_failure(fetch_add(4, 0x999900, 1, memory.key, 64), Syndrome::kRemoteAccess,
                 QpState::kError);
}

TEST_F(Errors, ImmediateWithoutReceiveIsRnrExceeded) {
  Region memory(*nic, pd, 4096);
  connect();
  Wqe wqe = write_inline<uint64_t>(0, memory.key, 1);
  wqe.opcode = Opcode::kRdmaWriteImm;
  expect_failure(wqe, Syndrome::kRnrRetryExceeded, QpState::kReadyToSend);
}

TEST_F(Errors, ReceivePostedInTimeIsTaken) {
  Region memory(*nic, pd, 4096);
  a->attributes.rnr_retry = 7;
  connect();
  Wqe wqe = write_inline<uint64_t>(0, memory.key, 1);
  wqe.opcode = Opcode::kRdmaWriteImm;
  a->post(wqe);
  a->ring();
  EXPECT_FALSE(eventually([&] { return !cq->quiet(); }, std::chrono::milliseconds(20)));
  b->post_receives(1);
  EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
  EXPECT_EQ(receive_cq->await().kind, CqeOpcode::kResponderWriteImm);
}

// ---- at the initiator

TEST_F(Errors, LocalProtectionErrors) {
  const uint32_t other_pd = nic->allocate_pd().number;
  Region memory(*nic, pd, 4096);
  Region foreign(*nic, other_pd, 4096);
  Region read_only(*nic, pd, 4096, kRemoteRead);
  const Wqe cases[] = {
      write_from(0, memory.key, 8, 0x4444, 0),          // unknown lkey
      write_from(0, memory.key, 8, memory.key, 4090),   // end outside
      write_from(0, memory.key, 8, memory.key, ~0ull),  // wraps
      write_from(0, memory.key, 8, foreign.key, 0),     // another domain
      read_into(0, memory.key, 8, read_only.key, 0),    // no local write
      fetch_add(0, memory.key, 1, read_only.key, 0),    //
  };
  for (const Wqe& wqe : cases) {
    a = make_qp();
    b = make_qp();
    connect();
    expect_failure(wqe, Syndrome::kLocalProtection, QpState::kReadyToSend);
  }
  EXPECT_EQ(memory.load<uint64_t>(0), 0u);
}

TEST_F(Errors, WritingFromReadOnlyMemoryIsFine) {
  Region memory(*nic, pd, 4096);
  Region source(*nic, pd, 4096, 0);
  source.store<uint64_t>(0, 6);
  connect();
  EXPECT_EQ(run(*a, write_from(0, memory.key, 8, source.key, 0)).kind, CqeOpcode::kRequester);
  EXPECT_EQ(memory.load<uint64_t>(0), 6u);
}

TEST_F(Errors, SegmentOfLengthZeroMeansTwoGigabytes) {
  Region memory(*nic, pd, 4096);
  connect();
  expect_failure(write_from(0, memory.key, 0, memory.key, 0), Syndrome::kLocalLength,
                 QpState::kReadyToSend);
}

TEST_F(Errors, MessageBeyondTheLimitIsALengthError) {
  Region memory(*nic, pd, 1 << 16);
  a->attributes.log_max_message = 12;
  connect();
  EXPECT_EQ(run(*a, write_from(0, memory.key, 4096, memory.key, 8192)).kind, CqeOpcode::kRequester);
  expect_failure(write_from(0, memory.key, 4097, memory.key, 8192), Syndrome::kLocalLength,
                 QpState::kReadyToSend);
}

TEST_F(Errors, MalformedRequestsAreOperationErrors) {
  Region memory(*nic, pd, 4096);
  Wqe no_segments;
  no_segments.ds = 0;
  Wqe no_remote{.opcode = Opcode::kRdmaWrite};
  Wqe unknown{.opcode = static_cast<Opcode>(0x07)};
  Wqe send{.opcode = Opcode::kSendInval};
  send.inline_data("x", 1);
  Wqe inline_read{.opcode = Opcode::kRdmaRead};
  inline_read.remote(0, memory.key).inline_data("x", 1);
  Wqe inline_cut = write_inline<uint64_t>(0, memory.key, 1);
  inline_cut.body[16] = std::byte{0x80};
  inline_cut.body[19] = std::byte{13};  // 13 bytes need a second segment
  Wqe short_atomic{.opcode = Opcode::kAtomicFetchAdd};
  short_atomic.remote(0, memory.key);
  Wqe no_result{.opcode = Opcode::kAtomicFetchAdd};
  no_result.remote(0, memory.key).add(mlx5::AtomicSegment{});
  Wqe wide_result{.opcode = Opcode::kAtomicFetchAdd};
  wide_result.remote(0, memory.key).add(mlx5::AtomicSegment{}).data(16, memory.key, 0);
  Wqe no_opmod{.opcode = Opcode::kAtomicMaskedFetchAdd};
  no_opmod.remote(0, memory.key).add(mlx5::MaskedFetchAdd8Segment{}).data(8, memory.key, 0);
  Wqe no_masks{.opcode = Opcode::kAtomicMaskedCompareSwap, .opmod = mlx5::kOpmodAtomic8};
  no_masks.remote(0, memory.key).add(mlx5::MaskedCompareSwap8Segment{});
  Wqe bare_wait{.opcode = Opcode::kWait};
  Wqe bare_dump{.opcode = Opcode::kDump};
  Wqe inline_dump{.opcode = Opcode::kDump};
  inline_dump.inline_data("x", 1);
  const Wqe cases[] = {no_segments, no_remote,    unknown,   send,        inline_read,
                       inline_cut,  short_atomic, no_result, wide_result, no_opmod,
                       no_masks,    bare_wait,    bare_dump, inline_dump};
  uint64_t count = 0;
  for (const Wqe& wqe : cases) {
    SCOPED_TRACE(count);
    a = make_qp();
    b = make_qp();
    connect();
    expect_failure(wqe, Syndrome::kLocalQpOperation, QpState::kReadyToSend);
    EXPECT_EQ(nic->violations().malformed, ++count);
  }
}

TEST_F(Errors, DumpOfForeignMemoryIsAProtectionError) {
  connect();
  Wqe wqe{.opcode = Opcode::kDump};
  wqe.data(1, 0x1234, 0);
  expect_failure(wqe, Syndrome::kLocalProtection, QpState::kReadyToSend);
}

// ---- afterwards

TEST_F(Errors, LaterRequestsAreFlushedInOrder) {
  Region memory(*nic, pd, 4096);
  connect();
  a->post(write_inline<uint64_t>(0, memory.key, 1).with(Completion::kOnError));
  a->post(write_inline<uint64_t>(0, memory.key ^ 1, 2).with(Completion::kOnError));
  a->post(write_inline<uint64_t>(0, memory.key, 3));
  a->post(fetch_add(0, memory.key, 1, memory.key, 64));
  a->ring();
  SeenCqe cqe = cq->await();
  EXPECT_EQ(cqe.syndrome, Syndrome::kRemoteAccess);
  EXPECT_EQ(cqe.counter, 1);
  cqe = cq->await();
  EXPECT_EQ(cqe.syndrome, Syndrome::kFlushed);
  EXPECT_EQ(cqe.counter, 2);
  EXPECT_EQ(cqe.wqe_opcode, 0x08);
  cqe = cq->await();
  EXPECT_EQ(cqe.syndrome, Syndrome::kFlushed);
  EXPECT_EQ(cqe.counter, 3);
  EXPECT_EQ(cqe.wqe_opcode, 0x12);
  EXPECT_EQ(memory.load<uint64_t>(0), 1u);
}

TEST_F(Errors, RequestsPostedToAFailedQueueAreFlushedToo) {
  connect();
  run(*a, write_inline<uint64_t>(0, 0x1100, 1));
  for (uint16_t i = 1; i < 5; ++i) {
    const SeenCqe cqe = run(*a, nop());
    EXPECT_EQ(cqe.syndrome, Syndrome::kFlushed);
    EXPECT_EQ(cqe.counter, i);
  }
}

TEST_F(Errors, FlushSkipsWholeRequests) {
  Region memory(*nic, pd, 4096);
  connect();
  const std::vector<uint8_t> data(150);
  Wqe longer{.opcode = Opcode::kRdmaWrite};
  longer.remote(0, memory.key).inline_data(data.data(), 150);
  a->post(write_inline<uint64_t>(0, 0x1100, 1));
  a->post(longer);
  a->post(nop());
  a->ring();
  EXPECT_EQ(cq->await().counter, 0);
  EXPECT_EQ(cq->await().counter, 1);
  EXPECT_EQ(cq->await().counter, 4);
}

TEST_F(Errors, PostedReceivesAreFlushed) {
  connect();
  b->post_receives(3);
  EXPECT_FALSE(b->to(QpState::kError, QpState::kReadyToSend).refused());
  for (uint16_t i = 0; i < 3; ++i) {
    const SeenCqe cqe = receive_cq->await();
    EXPECT_EQ(cqe.kind, CqeOpcode::kResponderError);
    EXPECT_EQ(cqe.syndrome, Syndrome::kFlushed);
    EXPECT_EQ(cqe.counter, i);
  }
  b->post_receives(1);
  EXPECT_EQ(receive_cq->await().counter, 3);
}

TEST_F(Errors, RespondersOwnRequestsAreFlushedWhenItFails) {
  connect();
  Cq unused(*nic, {});
  b->post(wait_for(unused.cqn, 0));
  b->ring();
  ASSERT_TRUE(eventually([&] { return b->query().software_send_counter == 1; }));
  a->post(write_inline<uint64_t>(0, 0x1100, 1));
  a->ring();
  std::vector<SeenCqe> seen = {cq->await(), cq->await()};
  if (seen[0].qpn == b->qpn) std::swap(seen[0], seen[1]);
  EXPECT_EQ(seen[0].syndrome, Syndrome::kRemoteAccess);
  EXPECT_EQ(seen[1].syndrome, Syndrome::kFlushed);
  EXPECT_EQ(seen[1].qpn, b->qpn);
}

TEST_F(Errors, MoveToErrorFlushesWhatWaits) {
  connect();
  Cq unused(*nic, {});
  a->post(wait_for(unused.cqn, 0));
  a->post(nop());
  a->ring();
  ASSERT_TRUE(eventually([&] { return a->query().software_send_counter == 2; }));
  EXPECT_FALSE(a->to(QpState::kError, QpState::kReadyToSend).refused());
  EXPECT_EQ(cq->await().syndrome, Syndrome::kFlushed);
  EXPECT_EQ(cq->await().syndrome, Syndrome::kFlushed);
}

TEST_F(Errors, KeyTakenAwayBetweenRequestsIsNoticed) {
  connect();
  auto memory = std::make_unique<Region>(*nic, pd, 4096);
  const uint32_t key = memory->key;
  EXPECT_EQ(run(*a, write_inline<uint64_t>(0, key, 1)).kind, CqeOpcode::kRequester);
  memory.reset();
  expect_failure(write_inline<uint64_t>(0, key, 1), Syndrome::kRemoteAccess, QpState::kError);
}

TEST_F(Errors, EventDescriptorIsReadableWhileAnEventWaits) {
  connect();
  run(*a, write_inline<uint64_t>(0, 0x1100, 1));
  expect_event(AsyncEvent::Kind::kQpAccessError);
  AsyncEvent event;
  EXPECT_FALSE(nic->next_event(&event));
}

}  // namespace peal::softnic::testing
