// SPDX-License-Identifier: Apache-2.0
//
// Words and waits by one thread; fence, quiet and barriers of all PEs by a warp, whose lanes share
// the look at the queues.
#include "device/api.h"
#include "kernels/entry.h"

namespace peal::kernels {
namespace {

template <class T>
PEAL_DEVICE Status wait_for(const Context& ctx, const Word& args) {
  return wait_until(ctx, static_cast<const T*>(args.word), args.compare,
                    static_cast<T>(args.value));
}

PEAL_DEVICE Status wait_for_word(const Context& ctx, const Word& args) {
  if (args.bytes == 4) {
    return args.is_signed != 0 ? wait_for<int32_t>(ctx, args) : wait_for<uint32_t>(ctx, args);
  }
  return args.is_signed != 0 ? wait_for<int64_t>(ctx, args) : wait_for<uint64_t>(ctx, args);
}

template <class T>
PEAL_DEVICE Status answer(const Word& args, const Fetched<T>& fetched) {
  if (args.result != nullptr) *args.result = static_cast<uint64_t>(fetched.value);
  return fetched.status;
}

/// One value there or back.
template <class T>
PEAL_DEVICE Status move_word(const Context& ctx, const Word& args) {
  T* const word = static_cast<T*>(args.word);
  if (args.caller.call == Call::kG) return answer(args, g(ctx, word, args.caller.pe));
  return p(ctx, word, static_cast<T>(args.value), args.caller.pe);
}

PEAL_DEVICE Status move_any_word(const Context& ctx, const Word& args) {
  switch (args.bytes) {
    case 1:
      return move_word<uint8_t>(ctx, args);
    case 2:
      return move_word<uint16_t>(ctx, args);
    case 4:
      return move_word<uint32_t>(ctx, args);
    default:
      return move_word<uint64_t>(ctx, args);
  }
}

template <class T>
PEAL_DEVICE Status update_word(const Context& ctx, const Word& args) {
  T* const word = static_cast<T*>(args.word);
  const T value = static_cast<T>(args.value);
  const int pe = args.caller.pe;
  switch (args.caller.call) {
    case Call::kAtomicFetch:
      return answer(args, atomic_fetch(ctx, word, pe));
    case Call::kAtomicSet:
      return atomic_set(ctx, word, value, pe);
    case Call::kAtomicSwap:
      return answer(args, atomic_swap(ctx, word, value, pe));
    case Call::kAtomicCompareSwap:
      return answer(args, atomic_compare_swap(ctx, word, static_cast<T>(args.expected), value, pe));
    case Call::kAtomicFetchAdd:
      return answer(args, atomic_fetch_add(ctx, word, value, pe));
    case Call::kAtomicFetchAnd:
      return answer(args, atomic_fetch_and(ctx, word, value, pe));
    case Call::kAtomicFetchOr:
      return answer(args, atomic_fetch_or(ctx, word, value, pe));
    default:
      return answer(args, atomic_fetch_xor(ctx, word, value, pe));
  }
}

PEAL_DEVICE Status do_word(const Word& args) {
  const Context& ctx = context_of(args.caller);
  switch (args.caller.call) {
    case Call::kFence:
      return fence(ctx, warp);
    case Call::kQuiet:
      return quiet(ctx, warp);
    case Call::kSyncAll:
      return sync_all(ctx, warp);
    case Call::kBarrierAll:
      return barrier_all(ctx, warp);
    case Call::kWaitUntil:
      return wait_for_word(ctx, args);
    case Call::kSignal:
      return signal(
          ctx, Signal{static_cast<uint64_t*>(args.word), args.value, args.caller.pe, args.kind});
    case Call::kP:
    case Call::kG:
      return move_any_word(ctx, args);
    default:
      return args.bytes == 4 ? update_word<uint32_t>(ctx, args) : update_word<uint64_t>(ctx, args);
  }
}

}  // namespace
}  // namespace peal::kernels

PEAL_ENTRY(word, Word) { peal::kernels::report(args.caller, peal::kernels::do_word(args)); }
