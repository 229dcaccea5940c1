/* SPDX-License-Identifier: Apache-2.0
 *
 * A C program that makes every call of peal/c_calls.h, at once and on a stream. Prints ok on PE 0.
 */
#include "peal/c_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                        \
  do {                                                                           \
    if (!(condition)) {                                                          \
      printf("c_calls: line %d: %s (%s)\n", __LINE__, #condition, peal_error()); \
      ++failures;                                                                \
    }                                                                            \
  } while (0)
#define WORKS(call) EXPECT((call) == 0)

enum { kCount = 8 };

static void transfers(uint64_t* data, uint64_t* flag, peal_stream_t stream) {
  const int me = peal_my_pe();
  const int n = peal_n_pes();
  const int next = (me + 1) % n;
  const uint64_t before = (uint64_t)((me + n - 1) % n);
  peal_signal_t signal = {flag, 1, next, PEAL_SIGNAL_ADD};
  uint64_t value = 0;
  data[0] = 100 + (uint64_t)me;
  WORKS(peal_barrier_all());
  WORKS(peal_put(data + 1, data, 8, next));
  WORKS(peal_get(data + 2, data, 8, next));
  WORKS(peal_quiet());
  WORKS(peal_put_signal(data + 3, data, 8, signal));
  WORKS(peal_wait_until(flag, PEAL_UINT64, PEAL_GE, 1));
  WORKS(peal_signal(signal));
  WORKS(peal_wait_until(flag, PEAL_UINT64, PEAL_GE, 2));
  WORKS(peal_p(data + 4, 7, 8, next));
  WORKS(peal_fence());
  WORKS(peal_barrier_all());
  EXPECT(data[1] == 100 + before && data[2] == 100 + (uint64_t)next && data[3] == 100 + before);
  WORKS(peal_g(&value, data + 4, 8, me));
  EXPECT(value == 7);

  WORKS(peal_barrier_all_on_stream(stream));
  WORKS(peal_put_signal_on_stream(data + 5, data, 8, signal, stream));
  WORKS(peal_wait_until_on_stream(flag, PEAL_UINT64, PEAL_GE, 3, stream));
  WORKS(peal_signal_on_stream(signal, stream));
  WORKS(peal_wait_until_on_stream(flag, PEAL_UINT64, PEAL_GE, 4, stream));
  WORKS(peal_put_on_stream(data + 6, data, 8, next, stream));
  WORKS(peal_get_on_stream(data + 7, data, 8, next, stream));
  WORKS(peal_p_on_stream(data + 4, 9, 8, next, stream));
  WORKS(peal_fence_on_stream(stream));
  WORKS(peal_quiet_on_stream(stream));
  WORKS(peal_sync_all_on_stream(stream));
  WORKS(peal_stream_synchronize(stream));
  EXPECT(data[5] == 100 + before && data[6] == 100 + before && data[7] == 100 + (uint64_t)next);
  EXPECT(data[4] == 9);
  WORKS(peal_sync_all());
}

static void atomics(uint64_t* data, peal_stream_t stream) {
  uint64_t old = 1;
  uint32_t old32 = 1;
  WORKS(peal_barrier_all());
  WORKS(peal_atomic(PEAL_ATOMIC_ADD, data, 2, 8, 0));
  WORKS(peal_atomic_on_stream(PEAL_ATOMIC_ADD, data, 1, 8, 0, stream));
  WORKS(peal_quiet_on_stream(stream));
  WORKS(peal_stream_synchronize(stream));
  WORKS(peal_barrier_all());
  WORKS(peal_atomic_fetching(PEAL_ATOMIC_FETCH, data, 0, 0, 0, &old));
  EXPECT(old == 3 * (uint64_t)peal_n_pes());
  WORKS(peal_barrier_all());
  if (peal_my_pe() == 0) {
    WORKS(peal_atomic_fetching(PEAL_ATOMIC_COMPARE_SWAP, data, 5, old, 0, &old));
    WORKS(peal_atomic_fetching32(PEAL_ATOMIC_SWAP, data + 1, 4, 0, 0, &old32));
    WORKS(peal_atomic_fetching32(PEAL_ATOMIC_OR, data + 1, 3, 0, 0, &old32));
    EXPECT(data[0] == 5 && old32 == 4);
  }
  WORKS(peal_barrier_all());
}

static void collectives(peal_team_t team, int32_t* data, peal_stream_t stream) {
  const int n = peal_team_n_pes(team);
  const int me = peal_team_my_pe(team);
  int32_t* const dst = data + 64 * kCount;
  const peal_buffers_t buffers = {dst, data, kCount, PEAL_INT32};
  int64_t* const lists = (int64_t*)(void*)(data + 128 * kCount);
  const peal_blocks_t blocks = {lists, lists + n};
  for (int i = 0; i < kCount * n; ++i) data[i] = 10 * me + i;
  for (int i = 0; i < n; ++i) {
    lists[i] = kCount;
    lists[n + i] = (int64_t)kCount * i;
  }
  WORKS(peal_team_sync(team));
  WORKS(peal_broadcast(team, buffers, n - 1));
  EXPECT(dst[1] == 10 * (n - 1) + 1);
  WORKS(peal_all_gather(team, buffers));
  EXPECT(dst[kCount * (n - 1) + 2] == 10 * (n - 1) + 2);
  WORKS(peal_all_to_all(team, buffers));
  EXPECT(dst[kCount * (n - 1)] == 10 * (n - 1) + kCount * me);
  WORKS(peal_all_to_all_v(team, buffers, blocks, blocks));
  EXPECT(dst[kCount * (n - 1)] == 10 * (n - 1) + kCount * me);
  WORKS(peal_all_reduce(team, buffers, PEAL_SUM));
  EXPECT(dst[3] == 10 * n * (n - 1) / 2 + 3 * n);
  WORKS(peal_reduce(team, buffers, PEAL_MAX, 0));
  EXPECT(me != 0 || dst[3] == 10 * (n - 1) + 3);
  WORKS(peal_reduce_scatter(team, buffers, PEAL_MIN));
  EXPECT(dst[0] == kCount * me);
  WORKS(peal_scan(team, buffers, PEAL_MAX));
  EXPECT(dst[0] == 10 * me);
  WORKS(peal_exclusive_scan(team, buffers, PEAL_MAX));
  EXPECT(me == 0 || dst[0] == 10 * (me - 1));
  WORKS(peal_team_barrier(team));

  WORKS(peal_all_reduce_on_stream(team, buffers, PEAL_XOR, stream));
  WORKS(peal_broadcast_on_stream(team, buffers, 0, stream));
  WORKS(peal_team_sync_on_stream(team, stream));
  WORKS(peal_all_reduce_on_stream(team, buffers, PEAL_SUM, stream));
  WORKS(peal_team_barrier_on_stream(team, stream));
  WORKS(peal_stream_synchronize(stream));
  EXPECT(dst[3] == 10 * n * (n - 1) / 2 + 3 * n);
  WORKS(peal_check());
}

static void refusals(uint64_t* data) {
  uint64_t outside = 0;
  const peal_buffers_t buffers = {data, data, 1, PEAL_FLOAT};
  EXPECT(peal_put(&outside, data, 8, 0) == -1 && strstr(peal_error(), "not symmetric") != NULL);
  EXPECT(strstr(peal_error(), "peal_put: dst ") == peal_error());
  EXPECT(strstr(peal_error(), "of peal_malloc or") != NULL && strstr(peal_error(), "::") == NULL);
  EXPECT(peal_free(&outside) == -1 && strstr(peal_error(), "peal_free(0x") == peal_error());
  EXPECT(peal_get(data, data, 8, 99) == -1 && strstr(peal_error(), "no PE 99") != NULL);
  EXPECT(peal_all_reduce(NULL, buffers, PEAL_SUM) == -1 && strstr(peal_error(), "NULL") != NULL);
  EXPECT(peal_all_reduce(peal_team_world(), buffers, PEAL_XOR) == -1 &&
         strstr(peal_error(), "bit_xor is not an operation of f32") != NULL);
  EXPECT(peal_wait_until(data, PEAL_FLOAT, PEAL_EQ, 0) == -1);
  EXPECT(peal_atomic(PEAL_ATOMIC_ADD, data, 1, 2, 0) == -1);
}

/* By the NIC alone there is no pointer to a peer. */
static void pointers(uint64_t* data) {
  const int next = (peal_my_pe() + 1) % peal_n_pes();
  const char* const transport = getenv("PEAL_TRANSPORT");
  const int mapped = transport != NULL && strcmp(transport, "p2p") == 0;
  uint64_t outside = 0;
  uint64_t* const there = peal_ptr(data + 1, next);
  data[1] = 50 + (uint64_t)peal_my_pe();
  WORKS(peal_barrier_all());
  EXPECT((there != NULL) == mapped && (!mapped || *there == 50 + (uint64_t)next));
  EXPECT(peal_ptr(data, peal_my_pe()) == data);
  EXPECT(peal_ptr(data, 99) == NULL && peal_ptr(data, -1) == NULL && peal_ptr(&outside, 0) == NULL);
  WORKS(peal_barrier_all());
}

static void tickets(uint64_t* data, peal_stream_t stream) {
  peal_stream_t own = peal_own_stream();
  peal_ticket_t put;
  peal_ticket_t wait;
  WORKS(peal_barrier_all());
  WORKS(peal_put_on_stream(data + 1, data, 8, peal_my_pe(), own));
  put = peal_ticket_create(own);
  EXPECT(own != NULL && put != NULL);
  WORKS(peal_ticket_wait(put));
  EXPECT(peal_ticket_test(put) == 1);
  WORKS(peal_wait_until_on_stream(data, PEAL_UINT64, PEAL_EQ, 77, own));
  wait = peal_ticket_create(own);
  EXPECT(peal_ticket_test(wait) == 0);
  WORKS(peal_p_on_stream(data, 77, 8, peal_my_pe(), stream));
  WORKS(peal_ticket_wait(wait));
  EXPECT(peal_ticket_test(wait) == 1);
  WORKS(peal_ticket_free(put));
  WORKS(peal_ticket_free(wait));
  EXPECT(peal_ticket_free(NULL) == 0);
  EXPECT(peal_ticket_test(NULL) == -1 && strstr(peal_error(), "peal_ticket_test: the ticket is"));
  EXPECT(peal_ticket_wait(NULL) == -1 && strstr(peal_error(), "peal_ticket_wait: the ticket is"));
}

/* Hazard: what lies at home is this program's own, and NULL there was a crash. */
static void nulls(uint64_t* data) {
  const peal_signal_t signal = {data + 1, 1, 0, PEAL_SIGNAL_SET};
  EXPECT(peal_put(data, NULL, 8, 0) == -1 && strstr(peal_error(), "src") != NULL);
  EXPECT(peal_get(NULL, data, 8, 0) == -1 && strstr(peal_error(), "dst") != NULL);
  EXPECT(peal_put_signal(data, NULL, 8, signal) == -1 && strstr(peal_error(), "src") != NULL);
  EXPECT(peal_g(NULL, data, 8, 0) == -1 && strstr(peal_error(), "value") != NULL);
  EXPECT(peal_atomic_fetching(PEAL_ATOMIC_FETCH, data, 0, 0, 0, NULL) == -1 &&
         strstr(peal_error(), "old") != NULL);
  EXPECT(peal_atomic_fetching32(PEAL_ATOMIC_FETCH, data, 0, 0, 0, NULL) == -1 &&
         strstr(peal_error(), "old") != NULL);
  EXPECT(peal_stream_synchronize(NULL) == -1 && strstr(peal_error(), "stream is NULL") != NULL);
  EXPECT(peal_stream_destroy(NULL) == 0);
  EXPECT(peal_team_split(peal_team_world(), 0, 0, NULL) == -1 &&
         strstr(peal_error(), "team is NULL"));
  EXPECT(peal_team_my_pe(NULL) == -1 && strstr(peal_error(), "peal_team_my_pe: the team is NULL"));
  EXPECT(peal_team_world_pe(peal_team_world(), 99) == -1 &&
         strstr(peal_error(), "peal_team_world_pe: the team has no member 99"));
  EXPECT(peal_register_window(data, SIZE_MAX) == -1 && strstr(peal_error(), "the end of") != NULL);
  EXPECT(peal_register_local(data, SIZE_MAX) == -1 && strstr(peal_error(), "the end of") != NULL);
  WORKS(peal_put(data, NULL, 0, 0));
  WORKS(peal_check());
}

int main(void) {
  uint64_t* words;
  int32_t* data;
  peal_stream_t stream;
  peal_team_t half = NULL;
  if (peal_init() != 0) {
    fprintf(stderr, "%s\n", peal_error());
    return 1;
  }
  words = peal_calloc(32, sizeof *words);
  data = peal_calloc(160 * kCount, sizeof *data);
  stream = peal_stream_create();
  EXPECT(words != NULL && data != NULL && stream != NULL);
  transfers(words, words + 16, stream);
  atomics(words + 20, stream);
  collectives(peal_team_world(), data, stream);
  WORKS(peal_team_split(peal_team_world(), peal_my_pe() % 2, 0, &half));
  EXPECT(peal_team_world_pe(half, 0) == peal_my_pe() % 2);
  collectives(half, data, stream);
  WORKS(peal_team_free(half));
  pointers(words);
  tickets(words + 28, stream);
  nulls(words);
  refusals(words);
  WORKS(peal_barrier_all());
  WORKS(peal_stream_destroy(stream));
  WORKS(peal_barrier());
  if (failures == 0 && peal_my_pe() == 0) printf("ok\n");
  WORKS(peal_finalize());
  return failures != 0;
}
