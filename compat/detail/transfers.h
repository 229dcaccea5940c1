// SPDX-License-Identifier: Apache-2.0
//
// put, get and their relatives: typed, by size and of bytes; by a thread, a warp or a block of a
// kernel, from the host, and in a stream's order.
//
//   nvshmem_float_put        nvshmemx_float_put_block       nvshmemx_float_put_on_stream
//   nvshmem_put32_nbi        nvshmemx_put32_nbi_warp        nvshmemx_put32_nbi_on_stream
//   nvshmem_putmem_signal    nvshmemx_putmem_signal_block   nvshmemx_putmem_signal_on_stream
#pragma once

#include "compat/detail/process.h"

namespace peal::compat {

PEAL_HD Signal signal_of(uint64_t* word, uint64_t value, int op, int pe) {
  return {word, value, pe, static_cast<Signal::Kind>(op)};
}

/// A signal by itself, as the guide has it: it vouches for nothing ahead of it, unlike
/// peal::signal(); nvshmem_fence() does. That is a fence of system scope less over NVLink.
PEAL_DEVICE void signal_alone(const Signal& signal) {
  (void)detail::signal_alone<nic::Rings::kNow, Order::kRelaxed>(unordered(), signal);
}

}  // namespace peal::compat

// What a call's arguments are in a kernel and to the library.
#define PEAL_COMPAT_COPY(T) static_cast<T*>(dest), static_cast<const T*>(source)
#define PEAL_COMPAT_SIGNAL ::peal::compat::signal_of(sig_addr, signal, sig_op, pe)
#define PEAL_COMPAT_BYTES(T) ::peal::detail::length_of<T>(nelems)

// A put that could not be done is told by the next quiet or barrier; a get's caller needs the data.
#define PEAL_COMPAT_DONE_put(status) (void)status
#define PEAL_COMPAT_DONE_get(status) ::peal::compat::keep(status)

// Parameters are A*, elements T; OP is put or get, and CALL what the library calls it.
#define PEAL_COMPAT_TRANSFER(STEM, A, T, OP, CALL)                          \
  PEAL_COMPAT_TRANSFER_AS(STEM, A, T, now, PEAL_COMPAT_DONE_##OP, OP, CALL) \
  PEAL_COMPAT_TRANSFER_AS(STEM##_nbi, A, T, later, (void), OP##_nbi, CALL)
#define PEAL_COMPAT_TRANSFER_AS(STEM, A, T, WHEN, DONE, OP, CALL)                                  \
  PEAL_COMPAT_ALL(                                                                                 \
      void, STEM, WHEN,                                                                            \
      DONE(::peal::OP(PEAL_COMPAT_UNORDERED, scope, PEAL_COMPAT_COPY(T), nelems, pe)),             \
      (::peal::detail::transfer_call(::peal::Call::CALL, dest, source, PEAL_COMPAT_BYTES(T), pe)), \
      A* dest, const A* source, size_t nelems, int pe)

#define PEAL_COMPAT_PUT_SIGNAL(STEM, A, T)                        \
  PEAL_COMPAT_PUT_SIGNAL_AS(STEM##_signal, A, T, now, put_signal) \
  PEAL_COMPAT_PUT_SIGNAL_AS(STEM##_signal_nbi, A, T, later, put_signal_nbi)
#define PEAL_COMPAT_PUT_SIGNAL_AS(STEM, A, T, WHEN, OP)                                          \
  PEAL_COMPAT_ALL(void, STEM, WHEN,                                                              \
                  (void)::peal::OP(PEAL_COMPAT_UNORDERED, scope, PEAL_COMPAT_COPY(T), nelems,    \
                                   PEAL_COMPAT_SIGNAL),                                          \
                  (::peal::detail::transfer_call(::peal::Call::kPutSignal, dest, source,         \
                                                 PEAL_COMPAT_BYTES(T), pe, PEAL_COMPAT_SIGNAL)), \
                  A* dest, const A* source, size_t nelems, uint64_t* sig_addr, uint64_t signal,  \
                  int sig_op, int pe)

#define PEAL_COMPAT_STRIDED(STEM, A, T, OP, CALL)                                                  \
  PEAL_COMPAT_ALL(void, STEM, now,                                                                 \
                  PEAL_COMPAT_DONE_##OP(::peal::i##OP(PEAL_COMPAT_CTX, scope, PEAL_COMPAT_COPY(T), \
                                                      {dst, sst}, nelems, pe)),                    \
                  (::peal::detail::transfer_call(::peal::Call::CALL, dest, source, sizeof(T), pe), \
                   {dst, sst}, nelems),                                                            \
                  A* dest, const A* source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)

#define PEAL_COMPAT_HOST_P(T) \
  (::peal::detail::word_call(::peal::Call::kP, dest, ::peal::detail::bits_of(value), sizeof(T), pe))
#define PEAL_COMPAT_HOST_G(T, PLACE)                 \
  ::peal::detail::value_of<T>(::peal::compat::fetch( \
      ::peal::compat::PLACE,                         \
      ::peal::detail::word_call(::peal::Call::kG, source, 0, sizeof(T), pe)))

#define PEAL_COMPAT_SINGLE(NAME, T)                                                             \
  PEAL_COMPAT_ONE(void, NAME##_p, now, (void)::peal::p(PEAL_COMPAT_UNORDERED, dest, value, pe), \
                  PEAL_COMPAT_HOST_P(T), T* dest, const T value, int pe)                        \
  PEAL_COMPAT_ON_STREAM(NAME##_p, PEAL_COMPAT_HOST_P(T), T* dest, const T value, int pe)        \
  PEAL_COMPAT_LAZY PEAL_HD T nvshmem_##NAME##_g(const T* source, int pe) {                      \
    PEAL_COMPAT_BY_PLACE((::peal::compat::value(::peal::g(PEAL_COMPAT_UNORDERED, source, pe))), \
                         (PEAL_COMPAT_HOST_G(T, now("nvshmem_" #NAME "_g"))));                  \
  }                                                                                             \
  PEAL_COMPAT_LAZY inline T nvshmemx_##NAME##_g_on_stream(const T* source, int pe,              \
                                                          cudaStream_t stream) {                \
    return PEAL_COMPAT_HOST_G(T, in_order("nvshmemx_" #NAME "_g_on_stream", stream));           \
  }

#define PEAL_COMPAT_RMA(NAME, T)                    \
  PEAL_COMPAT_TRANSFER(NAME##_put, T, T, put, kPut) \
  PEAL_COMPAT_TRANSFER(NAME##_get, T, T, get, kGet) \
  PEAL_COMPAT_PUT_SIGNAL(NAME##_put, T, T)          \
  PEAL_COMPAT_STRIDED(NAME##_iput, T, T, put, kPut) \
  PEAL_COMPAT_STRIDED(NAME##_iget, T, T, get, kGet) \
  PEAL_COMPAT_SINGLE(NAME, T)
#define PEAL_COMPAT_RMA_BY_SIZE(BITS, T)              \
  PEAL_COMPAT_TRANSFER(put##BITS, void, T, put, kPut) \
  PEAL_COMPAT_TRANSFER(get##BITS, void, T, get, kGet) \
  PEAL_COMPAT_PUT_SIGNAL(put##BITS, void, T)          \
  PEAL_COMPAT_STRIDED(iput##BITS, void, T, put, kPut) \
  PEAL_COMPAT_STRIDED(iget##BITS, void, T, get, kGet)

PEAL_COMPAT_RMA_TYPES(PEAL_COMPAT_RMA)
PEAL_COMPAT_SIZES(PEAL_COMPAT_RMA_BY_SIZE)
PEAL_COMPAT_TRANSFER(putmem, void, void, put, kPut)
PEAL_COMPAT_TRANSFER(getmem, void, void, get, kGet)
PEAL_COMPAT_PUT_SIGNAL(putmem, void, void)

PEAL_HD void nvshmemx_signal_op(uint64_t* sig_addr, uint64_t signal, int sig_op, int pe) {
  PEAL_COMPAT_BY_PLACE(::peal::compat::signal_alone(PEAL_COMPAT_SIGNAL),
                       (void)::peal::compat::make(::peal::compat::now("nvshmemx_signal_op"),
                                                  ::peal::detail::signal_call(PEAL_COMPAT_SIGNAL)));
}
PEAL_COMPAT_ON_STREAM(signal_op, (::peal::detail::signal_call(PEAL_COMPAT_SIGNAL)),
                      uint64_t* sig_addr, uint64_t signal, int sig_op, int pe)

/// The memory of `pe` as an address of this PE, or null where only a NIC reaches it.
PEAL_HD void* nvshmem_ptr(const void* dest, int pe) {
  PEAL_COMPAT_BY_PLACE(
      (::peal::ptr(PEAL_COMPAT_CTX, static_cast<std::byte*>(const_cast<void*>(dest)), pe)),
      ::peal::compat::address_at("nvshmem_ptr", dest, pe));
}
