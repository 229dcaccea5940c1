// SPDX-License-Identifier: Apache-2.0
//
// The calls of NVSHMEM's guide in kernels: every transfer, signal, atomic and wait of every type.
// Each PE writes to the next one, and looks at what came from the one before.
#include "tests/support/nvshmem_job.h"

namespace peal::compat_test {
namespace {

constexpr int kCount = 70;  // more than travels inline, and no multiple of a warp

PEAL_DEVICE int next_of() { return (nvshmem_my_pe() + 1) % nvshmem_n_pes(); }
PEAL_DEVICE int previous_of() { return (nvshmem_my_pe() + nvshmem_n_pes() - 1) % nvshmem_n_pes(); }

/// Element `i` of PE `pe` in round `round`; small, for a char holds it.
template <class T>
PEAL_HD T sample(int pe, int round, int i) {
  return static_cast<T>((pe * 31 + round * 7 + i) % 113 + 1);
}

template <class T>
PEAL_HD constexpr T as(int value) {
  return static_cast<T>(value);
}

template <class T>
PEAL_DEVICE void expect_sample(Verdict* verdict, const T* data, int pe, int round, int count,
                               unsigned line = __builtin_LINE()) {
  for (int i = 0; i < count; ++i) {
    if (data[i] != sample<T>(pe, round, i)) {
      expect_eq(verdict, static_cast<unsigned long long>(data[i]),
                static_cast<unsigned long long>(sample<T>(pe, round, i)), line);
    }
  }
}

template <class T>
PEAL_DEVICE void fill(T* data, int pe, int round) {
  for (int i = 0; i < kCount; ++i) data[i] = sample<T>(pe, round, i);
}

// `box` and `mine` have kCount elements each. By one block; a round is: fill, send, meet, look,
// meet.
#define ROUND(T, SEND)                                                         \
  {                                                                            \
    ++round;                                                                   \
    if (threadIdx.x == 0) fill(mine, me, round);                               \
    __syncthreads();                                                           \
    SEND;                                                                      \
    nvshmemx_barrier_all_block();                                              \
    if (threadIdx.x == 0) expect_sample<T>(verdict, box, from, round, kCount); \
    nvshmemx_barrier_all_block();                                              \
  }
#define FETCH(T, GET)                                                          \
  {                                                                            \
    ++round;                                                                   \
    if (threadIdx.x == 0) fill(mine, me, round);                               \
    nvshmemx_barrier_all_block();                                              \
    GET;                                                                       \
    __syncthreads();                                                           \
    if (threadIdx.x == 0) expect_sample<T>(verdict, box, next, round, kCount); \
    nvshmemx_barrier_all_block();                                              \
  }
#define BY_THREAD(CALL) \
  if (threadIdx.x == 0) CALL
#define BY_WARP(CALL) \
  if (threadIdx.x < 32) CALL

#define BY_LANES(ACCESS) \
  for (int i = static_cast<int>(threadIdx.x); i < kCount; i += static_cast<int>(blockDim.x)) ACCESS

// A few calls of every type: names are made by one macro, so what one type has all have.
#define TYPE_KERNEL(NAME, T)                                           \
  PEAL_KERNEL type_##NAME(Verdict* verdict, T* box, T* mine) {         \
    const int me = nvshmem_my_pe();                                    \
    const int next = next_of();                                        \
    const int from = previous_of();                                    \
    int round = 0;                                                     \
    ROUND(T, BY_THREAD(nvshmem_##NAME##_put(box, mine, kCount, next))) \
    ROUND(T, nvshmemx_##NAME##_put_nbi_block(box, mine, kCount, next)) \
    ROUND(T, BY_LANES(nvshmem_##NAME##_p(box + i, mine[i], next)))     \
    FETCH(T, nvshmemx_##NAME##_get_block(box, mine, kCount, next))     \
    FETCH(T, BY_LANES(box[i] = nvshmem_##NAME##_g(mine + i, next)))    \
  }
PEAL_COMPAT_RMA_TYPES(TYPE_KERNEL)

template <class T>
void run_rma(void (*kernel)(Verdict*, T*, T*)) {
  Symmetric<T> box(kCount);
  Symmetric<T> mine(kCount);
  run_here({.threads = 64}, kernel, box.data(), mine.data());
}

TEST(NvshmemRma, OfEveryType) {
#define RUN_TYPE(NAME, T) run_rma<T>(type_##NAME);
  PEAL_COMPAT_RMA_TYPES(RUN_TYPE)
}

PEAL_KERNEL every_scope(Verdict* verdict, double* box, double* mine) {
  const int me = nvshmem_my_pe();
  const int next = next_of();
  const int from = previous_of();
  int round = 0;
  ROUND(double, BY_THREAD(nvshmem_double_put_nbi(box, mine, kCount, next)))
  ROUND(double, BY_WARP(nvshmemx_double_put_warp(box, mine, kCount, next)))
  ROUND(double, BY_WARP(nvshmemx_double_put_nbi_warp(box, mine, kCount, next)))
  ROUND(double, nvshmemx_double_put_block(box, mine, kCount, next))
  ROUND(double, BY_THREAD(nvshmem_double_iput(box, mine, 1, 1, kCount, next)))
  ROUND(double, BY_WARP(nvshmemx_double_iput_warp(box, mine, 1, 1, kCount, next)))
  ROUND(double, nvshmemx_double_iput_block(box, mine, 1, 1, kCount, next))
  FETCH(double, BY_THREAD(nvshmem_double_get(box, mine, kCount, next)))
  FETCH(double, BY_THREAD((nvshmem_double_get_nbi(box, mine, kCount, next), nvshmem_quiet())))
  FETCH(double, BY_WARP(nvshmemx_double_get_warp(box, mine, kCount, next)))
  FETCH(double, {
    nvshmemx_double_get_nbi_block(box, mine, kCount, next);
    __syncthreads();
    BY_THREAD(nvshmem_quiet());
  })
  FETCH(double, BY_THREAD(nvshmem_double_iget(box, mine, 1, 1, kCount, next)))
  FETCH(double, BY_WARP(nvshmemx_double_iget_warp(box, mine, 1, 1, kCount, next)))
  FETCH(double, nvshmemx_double_iget_block(box, mine, 1, 1, kCount, next))
}
TEST(NvshmemRma, ByEveryScope) { run_rma<double>(every_scope); }

// Elements of so many bits, every second of them.
#define SIZE_KERNEL(BITS, T)                                                               \
  PEAL_KERNEL size_##BITS(Verdict* verdict, T* box, T* mine) {                             \
    const int next = next_of();                                                            \
    const int from = previous_of();                                                        \
    auto* const bytes = reinterpret_cast<unsigned char*>(mine);                            \
    const auto* const got = reinterpret_cast<const unsigned char*>(box);                   \
    const int size = static_cast<int>(sizeof(T));                                          \
    for (int i = static_cast<int>(threadIdx.x); i < 8 * size; i += 32) {                   \
      bytes[i] = sample<unsigned char>(nvshmem_my_pe(), 1, i);                             \
    }                                                                                      \
    nvshmemx_barrier_all_block();                                                          \
    nvshmemx_put##BITS##_block(box, mine, 4, next);                                        \
    BY_THREAD(nvshmem_iput##BITS(box + 4, mine + 1, 1, 2, 2, next));                       \
    nvshmemx_barrier_all_block();                                                          \
    for (int i = 0; i < 4 * size; ++i) {                                                   \
      expect_eq(verdict, got[i], sample<unsigned char>(from, 1, i));                       \
    }                                                                                      \
    for (int i = 0; i < size; ++i) {                                                       \
      expect_eq(verdict, got[5 * size + i], sample<unsigned char>(from, 1, 3 * size + i)); \
    }                                                                                      \
    nvshmemx_barrier_all_block();                                                          \
    nvshmemx_get##BITS##_block(box, mine, 3, next);                                        \
    nvshmemx_iget##BITS##_warp(box + 4, mine + 4, 2, 1, 2, next);                          \
    __syncthreads();                                                                       \
    for (int i = 0; i < 3 * size; ++i) {                                                   \
      expect_eq(verdict, got[i], sample<unsigned char>(next, 1, i));                       \
    }                                                                                      \
    for (int i = 0; i < size; ++i) {                                                       \
      expect_eq(verdict, got[6 * size + i], sample<unsigned char>(next, 1, 5 * size + i)); \
    }                                                                                      \
    nvshmemx_barrier_all_block();                                                          \
  }
PEAL_COMPAT_SIZES(SIZE_KERNEL)

TEST(NvshmemRma, OfEverySize){
#define RUN_SIZE(BITS, T)                                            \
  {                                                                  \
    Symmetric<T> box(8);                                             \
    Symmetric<T> mine(8);                                            \
    run_here({.threads = 32}, size_##BITS, box.data(), mine.data()); \
  }
    PEAL_COMPAT_SIZES(RUN_SIZE)}

PEAL_KERNEL bytes(Verdict* verdict, char* box, char* mine) {
  const int me = nvshmem_my_pe();
  const int next = next_of();
  const int from = previous_of();
  int round = 0;
  ROUND(char, BY_THREAD(nvshmem_putmem(box, mine, kCount, next)))
  ROUND(char, BY_THREAD(nvshmem_putmem_nbi(box, mine, kCount, next)))
  ROUND(char, BY_WARP(nvshmemx_putmem_warp(box, mine, kCount, next)))
  ROUND(char, nvshmemx_putmem_block(box, mine, kCount, next))
  ROUND(char, nvshmemx_putmem_nbi_block(box, mine, kCount, next))
  FETCH(char, BY_THREAD(nvshmem_getmem(box, mine, kCount, next)))
  FETCH(char, nvshmemx_getmem_block(box, mine, kCount, next))
}
TEST(NvshmemRma, OfBytes) { run_rma<char>(bytes); }

// The signal vouches for the data: no barrier before the look.
PEAL_KERNEL signals(Verdict* verdict, int* box, int* mine, uint64_t* flag, uint64_t* ready) {
  const int me = nvshmem_my_pe();
  const int next = next_of();
  const int from = previous_of();
  uint64_t told = 0;
  int round = 0;
#define SIGNALLED(SEND, ...)                                                          \
  {                                                                                   \
    ++round;                                                                          \
    ++told;                                                                           \
    if (threadIdx.x == 0) {                                                           \
      nvshmem_signal_wait_until(ready, NVSHMEM_CMP_GE, told - 1);                     \
      fill(mine, me, round);                                                          \
    }                                                                                 \
    __syncthreads();                                                                  \
    SEND(box, mine, __VA_ARGS__, flag, round % 2 == 0 ? told : 1,                     \
         round % 2 == 0 ? NVSHMEM_SIGNAL_SET : NVSHMEM_SIGNAL_ADD, next);             \
    if (threadIdx.x == 0) {                                                           \
      expect(verdict, nvshmem_signal_wait_until(flag, NVSHMEM_CMP_GE, told) == told); \
      expect_sample<int>(verdict, box, from, round, kCount);                          \
      nvshmemx_signal_op(ready, 1, NVSHMEM_SIGNAL_ADD, from);                         \
      nvshmem_quiet();                                                                \
    }                                                                                 \
    __syncthreads();                                                                  \
  }
  SIGNALLED(BY_THREAD(nvshmem_int_put_signal), kCount)
  SIGNALLED(BY_THREAD(nvshmem_int_put_signal_nbi), kCount)
  SIGNALLED(BY_WARP(nvshmemx_int_put_signal_warp), kCount)
  SIGNALLED(BY_WARP(nvshmemx_int_put_signal_nbi_warp), kCount)
  SIGNALLED(nvshmemx_int_put_signal_block, kCount)
  SIGNALLED(nvshmemx_int_put_signal_nbi_block, kCount)
  SIGNALLED(BY_THREAD(nvshmem_putmem_signal), kCount * sizeof(int))
  SIGNALLED(nvshmemx_putmem_signal_block, kCount * sizeof(int))
  SIGNALLED(nvshmemx_putmem_signal_nbi_block, kCount * sizeof(int))
  SIGNALLED(BY_THREAD(nvshmem_put32_signal), kCount)
  SIGNALLED(nvshmemx_put64_signal_nbi_block, kCount / 2)
  expect_eq(verdict, nvshmem_signal_fetch(flag), told);
}
TEST(NvshmemSignals, VouchForTheirData) {
  Symmetric<int> box(kCount);
  Symmetric<int> mine(kCount);
  Symmetric<uint64_t> words(2);
  run_here({.threads = 64}, signals, box.data(), mine.data(), words.data(), words.data() + 1);
}

// By name and not by overload: two names may be one type.
#define ATOMIC_KERNEL(NAME, T)                                                              \
  PEAL_KERNEL atomics_##NAME(Verdict* verdict, T* word) {                                   \
    const int pe = next_of();                                                               \
    nvshmemx_##NAME##_signal(word, as<T>(3), pe);                                           \
    nvshmem_##NAME##_wait_until(word, NVSHMEM_CMP_EQ, as<T>(3));                            \
    nvshmem_barrier_all();                                                                  \
    nvshmem_##NAME##_atomic_set(word, as<T>(5), pe);                                        \
    nvshmem_quiet();                                                                        \
    expect(verdict, nvshmem_##NAME##_atomic_fetch(word, pe) == as<T>(5));                   \
    expect(verdict, nvshmem_##NAME##_atomic_swap(word, as<T>(6), pe) == as<T>(5));          \
    expect(verdict,                                                                         \
           nvshmem_##NAME##_atomic_compare_swap(word, as<T>(7), as<T>(9), pe) == as<T>(6)); \
    expect(verdict,                                                                         \
           nvshmem_##NAME##_atomic_compare_swap(word, as<T>(6), as<T>(9), pe) == as<T>(6)); \
    nvshmem_##NAME##_atomic_inc(word, pe);                                                  \
    nvshmem_##NAME##_atomic_add(word, as<T>(10), pe);                                       \
    expect(verdict, nvshmem_##NAME##_atomic_fetch_inc(word, pe) == as<T>(20));              \
    expect(verdict, nvshmem_##NAME##_atomic_fetch_add(word, as<T>(4), pe) == as<T>(21));    \
    nvshmem_barrier_all();                                                                  \
    expect(verdict, *word == as<T>(25));                                                    \
  }
PEAL_COMPAT_AMO_TYPES(ATOMIC_KERNEL)
#define BIT_KERNEL(NAME, T)                                                                   \
  PEAL_KERNEL bits_##NAME(Verdict* verdict, T* word) {                                        \
    const int pe = next_of();                                                                 \
    nvshmem_##NAME##_atomic_or(word, as<T>(0x0f), pe);                                        \
    nvshmem_##NAME##_atomic_and(word, as<T>(0x3c), pe);                                       \
    nvshmem_##NAME##_atomic_xor(word, as<T>(0x14), pe);                                       \
    expect(verdict, nvshmem_##NAME##_atomic_fetch_or(word, as<T>(0x40), pe) == as<T>(0x18));  \
    expect(verdict, nvshmem_##NAME##_atomic_fetch_and(word, as<T>(0x50), pe) == as<T>(0x58)); \
    expect(verdict, nvshmem_##NAME##_atomic_fetch_xor(word, as<T>(0x01), pe) == as<T>(0x50)); \
    nvshmem_barrier_all();                                                                    \
    expect(verdict, *word == as<T>(0x51));                                                    \
  }
PEAL_COMPAT_BIT_TYPES(BIT_KERNEL)
#define REAL_KERNEL(NAME, T)                                                       \
  PEAL_KERNEL reals_##NAME(Verdict* verdict, T* word) {                            \
    const int pe = next_of();                                                      \
    nvshmem_##NAME##_atomic_set(word, as<T>(5), pe);                               \
    nvshmem_quiet();                                                               \
    expect(verdict, nvshmem_##NAME##_atomic_fetch(word, pe) == as<T>(5));          \
    expect(verdict, nvshmem_##NAME##_atomic_swap(word, as<T>(6), pe) == as<T>(5)); \
    nvshmem_barrier_all();                                                         \
    expect(verdict, *word == as<T>(6));                                            \
  }
PEAL_COMPAT_REAL_TYPES(REAL_KERNEL)

template <class T>
void run_word(void (*kernel)(Verdict*, T*)) {
  Symmetric<T> word(1);
  run_here({}, kernel, word.data());
}

TEST(NvshmemAtomics, OfEveryType) {
#define RUN_ATOMIC(NAME, T) run_word<T>(atomics_##NAME);
  PEAL_COMPAT_AMO_TYPES(RUN_ATOMIC)
#define RUN_BIT(NAME, T) run_word<T>(bits_##NAME);
  PEAL_COMPAT_BIT_TYPES(RUN_BIT)
#define RUN_REAL(NAME, T) run_word<T>(reals_##NAME);
  PEAL_COMPAT_REAL_TYPES(RUN_REAL)
}

// Word i becomes i + 1; word 2 is left out where a status says so, and stays 0.
#define WAIT_KERNEL(NAME, T)                                                                       \
  PEAL_KERNEL waits_##NAME(Verdict* verdict, T* words, size_t* found) {                            \
    const int pe = next_of();                                                                      \
    const int status[4] = {0, 0, 1, 0};                                                            \
    const T values[4] = {as<T>(1), as<T>(2), as<T>(3), as<T>(4)};                                  \
    expect_eq(verdict, nvshmem_##NAME##_test(words + 2, NVSHMEM_CMP_NE, as<T>(0)), 0);             \
    expect(verdict, nvshmem_##NAME##_test_any(words + 2, 1, nullptr, NVSHMEM_CMP_NE, as<T>(0)) ==  \
                        SIZE_MAX);                                                                 \
    for (int i = 0; i < 4; ++i) {                                                                  \
      if (i != 2) nvshmem_##NAME##_p(words + i, values[i], pe);                                    \
    }                                                                                              \
    nvshmem_##NAME##_wait_until(words, NVSHMEM_CMP_EQ, as<T>(1));                                  \
    nvshmem_##NAME##_wait_until_all(words, 4, status, NVSHMEM_CMP_GT, as<T>(0));                   \
    nvshmem_##NAME##_wait_until_all_vector(words, 4, status, NVSHMEM_CMP_EQ, values);              \
    expect_eq(verdict,                                                                             \
              nvshmem_##NAME##_wait_until_any(words, 4, status, NVSHMEM_CMP_EQ, as<T>(4)), 3);     \
    expect(verdict,                                                                                \
           nvshmem_##NAME##_wait_until_any_vector(words, 4, status, NVSHMEM_CMP_EQ, values) != 2); \
    expect_eq(verdict,                                                                             \
              nvshmem_##NAME##_wait_until_some(words, 4, found, status, NVSHMEM_CMP_GE, as<T>(2)), \
              2);                                                                                  \
    expect(verdict, found[0] == 1 && found[1] == 3);                                               \
    expect_eq(                                                                                     \
        verdict,                                                                                   \
        nvshmem_##NAME##_wait_until_some_vector(words, 4, found, status, NVSHMEM_CMP_EQ, values),  \
        3);                                                                                        \
    expect_eq(verdict, nvshmem_##NAME##_test_all(words, 4, status, NVSHMEM_CMP_NE, as<T>(0)), 1);  \
    expect_eq(verdict, nvshmem_##NAME##_test_all(words, 4, nullptr, NVSHMEM_CMP_NE, as<T>(0)), 0); \
    expect_eq(verdict, nvshmem_##NAME##_test_all_vector(words, 4, status, NVSHMEM_CMP_EQ, values), \
              1);                                                                                  \
    expect_eq(verdict, nvshmem_##NAME##_test_any(words, 4, status, NVSHMEM_CMP_LT, as<T>(2)), 0);  \
    expect_eq(verdict, nvshmem_##NAME##_test_any_vector(words, 4, status, NVSHMEM_CMP_LE, values), \
              0);                                                                                  \
    expect_eq(verdict,                                                                             \
              nvshmem_##NAME##_test_some(words, 4, found, status, NVSHMEM_CMP_LE, as<T>(2)), 2);   \
    expect_eq(verdict,                                                                             \
              nvshmem_##NAME##_test_some_vector(words, 4, found, status, NVSHMEM_CMP_EQ, values),  \
              3);                                                                                  \
  }
PEAL_COMPAT_AMO_TYPES(WAIT_KERNEL)

TEST(NvshmemWaits, OfEveryType) {
  Symmetric<size_t> found(4);
#define RUN_WAIT(NAME, T)                                   \
  {                                                         \
    Symmetric<T> words(4);                                  \
    run_here({}, waits_##NAME, words.data(), found.data()); \
  }
  PEAL_COMPAT_AMO_TYPES(RUN_WAIT)
}

// NVIDIA's jacobi writes by p to memory of cudaMalloc, at the PE itself: refused, and wrong
// results.
constexpr int kMuch = 600;  // ints: more than what a NIC carries for memory that it does not know

template <class T>
PEAL_DEVICE void fill_all(T* data, int count, int round) {
  for (int i = 0; i < count; ++i) data[i] = sample<T>(nvshmem_my_pe(), round, i);
}
// `to` and `from` have kMuch elements; by one block.
#define TO_MYSELF(SEND)                                                      \
  {                                                                          \
    ++round;                                                                 \
    if (threadIdx.x == 0) fill_all(from, kMuch, round);                      \
    __syncthreads();                                                         \
    SEND;                                                                    \
    BY_THREAD(nvshmem_quiet());                                              \
    __syncthreads();                                                         \
    if (threadIdx.x == 0) expect_sample<int>(verdict, to, me, round, kMuch); \
    __syncthreads();                                                         \
  }
#define BY_ALL(ACCESS) \
  for (int i = static_cast<int>(threadIdx.x); i < kMuch; i += static_cast<int>(blockDim.x)) ACCESS
PEAL_KERNEL to_myself(Verdict* verdict, int* to, int* from, uint64_t* word) {
  const int me = nvshmem_my_pe();
  int round = 0;
  TO_MYSELF(BY_ALL(nvshmem_int_p(to + i, from[i], me)))
  TO_MYSELF(BY_ALL(to[i] = nvshmem_int_g(from + i, me)))
  TO_MYSELF(BY_THREAD(nvshmem_int_put(to, from, kMuch, me)))
  TO_MYSELF(BY_WARP(nvshmemx_int_put_nbi_warp(to, from, kMuch, me)))
  TO_MYSELF(nvshmemx_int_put_block(to, from, kMuch, me))
  TO_MYSELF(nvshmemx_int_get_block(to, from, kMuch, me))
  TO_MYSELF(BY_THREAD(nvshmem_int_get_nbi(to, from, kMuch, me)))
  TO_MYSELF(BY_WARP(nvshmemx_int_iput_warp(to, from, 1, 1, kMuch, me)))
  TO_MYSELF(nvshmemx_int_iget_block(to, from, 1, 1, kMuch, me))
  TO_MYSELF(nvshmemx_int_put_signal_block(to, from, kMuch, word, 7, NVSHMEM_SIGNAL_SET, me))
  TO_MYSELF(BY_THREAD(nvshmem_int_put_signal(to, from, kMuch, word, 2, NVSHMEM_SIGNAL_ADD, me)))
  if (threadIdx.x != 0) return;
  expect_eq(verdict, nvshmem_signal_wait_until(word, NVSHMEM_CMP_GE, 9), 9);
  nvshmemx_signal_op(word, 1, NVSHMEM_SIGNAL_ADD, me);
  expect_eq(verdict, nvshmem_uint64_atomic_fetch_add(word, 5, me), 10);
  expect_eq(verdict, nvshmem_uint64_atomic_compare_swap(word, 15, 20, me), 15);
  nvshmem_uint64_atomic_xor(word, 1, me);
  expect_eq(verdict, nvshmem_uint64_atomic_fetch(word, me), 21);
}
TEST(NvshmemRma, ToOneselfTakesAnyMemory) {
  std::vector<int> plain(kMuch);
  std::vector<int> other(kMuch);
  uint64_t word = 0;
  Symmetric<int> box(kMuch);
  Symmetric<uint64_t> flag(1);
  run_here({.threads = 64}, to_myself, plain.data(), other.data(), &word);
  run_here({.threads = 64}, to_myself, plain.data(), box.data(), flag.data());
  flag[0] = 0;
  run_here({.threads = 64}, to_myself, box.data(), other.data(), flag.data());
}

// Variables of a kernel, in its stack or shared by its block, and cudaMalloc's memory: a NIC knows
// none of them. What was fetched there did not come, and what was sent from there did not go.
constexpr int kFew = 70;    // ints
constexpr int kMost = 256;  // ints: 1 KiB
PEAL_KERNEL small_at_home(Verdict* verdict, int* box, int* mine, int* plain, uint64_t* flag) {
  const int me = nvshmem_my_pe();
  const int next = next_of();
  const int from = previous_of();
  int here[kFew];
  auto* const shared = dynamic_shared<int>();
  BY_THREAD(fill_all(mine, kMost, 1));
  nvshmemx_barrier_all_block();
  if (threadIdx.x == 0) {
    int one = 0;
    nvshmem_int_get(&one, mine, 1, next);
    expect(verdict, one == sample<int>(next, 1, 0));
    nvshmem_int_get(here, mine, kFew, next);
    expect_sample<int>(verdict, here, next, 1, kFew);
    nvshmem_int_get_nbi(plain, mine, kMost, next);
    nvshmem_quiet();
    expect_sample<int>(verdict, plain, next, 1, kMost);
    auto* const bytes = reinterpret_cast<char*>(here);
    nvshmem_getmem(bytes + 1, reinterpret_cast<char*>(mine) + 3, 61, next);
    const auto* const right = reinterpret_cast<const char*>(plain) + 3;
    for (int i = 0; i < 61; ++i) expect(verdict, bytes[1 + i] == right[i]);
    nvshmem_int_iget(here, mine, 1, 2, 9, next);
    for (int i = 0; i < 9; ++i) expect(verdict, here[i] == sample<int>(next, 1, 2 * i));
  }
  nvshmemx_int_get_block(shared, mine, kFew, next);
  __syncthreads();
  expect_sample<int>(verdict, shared, next, 1, kFew);
  __syncthreads();
  if (threadIdx.x == 0) {
    fill_all(here, kFew, 2);
    fill_all(plain, kMost, 2);
    nvshmem_int_put(box, here, kFew, next);
    nvshmem_int_put_signal(box + kFew, plain + kFew, kMost - kFew, flag, 1, NVSHMEM_SIGNAL_ADD,
                           next);
    nvshmem_signal_wait_until(flag, NVSHMEM_CMP_EQ, 1);
    for (int i = kFew; i < kMost; ++i) expect(verdict, box[i] == sample<int>(from, 2, i));
    fill_all(shared, kFew, 3);
  }
  nvshmemx_barrier_all_block();
  BY_THREAD(expect_sample<int>(verdict, box, from, 2, kFew));
  nvshmemx_barrier_all_block();
  BY_WARP(nvshmemx_int_put_warp(box, shared, kFew, next));
  nvshmemx_barrier_all_block();
  BY_THREAD(expect_sample<int>(verdict, box, from, 3, kFew));
  (void)me;
}
TEST(NvshmemRma, SmallBuffersAtHomeMayLieAnywhere) {
  std::vector<int> plain(kMost);
  Symmetric<int> box(kMost);
  Symmetric<int> mine(kMost);
  Symmetric<uint64_t> flag(1);
  const Grid grid{.threads = 64, .shared_bytes = kFew * sizeof(int)};
  run_here(grid, small_at_home, box.data(), mine.data(), plain.data(), flag.data());
}

PEAL_KERNEL who(Verdict* verdict, int me, int all, int* word) {
  expect_eq(verdict, static_cast<unsigned>(nvshmem_my_pe()), static_cast<unsigned>(me));
  expect_eq(verdict, static_cast<unsigned>(nvshmem_n_pes()), static_cast<unsigned>(all));
  expect(verdict, nvshmem_ptr(word, me) == word);
  if (auto* const theirs = static_cast<int*>(nvshmem_ptr(word, next_of()))) *theirs = 1 + me;
  expect_eq(verdict, static_cast<unsigned>(nvshmemx_peal_status()), 0u);
  nvshmem_barrier_all();
}
TEST(NvshmemSetup, KernelsKnowWhoTheyAre) {
  Symmetric<int> word(1);
  run_here({}, who, nvshmem_my_pe(), nvshmem_n_pes(), word.data());
  EXPECT_EQ(nvshmem_ptr(word.data(), nvshmem_my_pe()), word.data());
  const bool mapped = nvshmem_ptr(word.data(), previous_pe()) != nullptr;
  EXPECT_EQ(word[0], mapped ? 1 + previous_pe() : 0);
  EXPECT_EQ(nvshmem_ptr(word.data(), nvshmem_n_pes()), nullptr);
  int other = 0;
  EXPECT_EQ(nvshmem_ptr(&other, nvshmem_my_pe()), nullptr);
  nvshmem_barrier_all();
}

}  // namespace
}  // namespace peal::compat_test
