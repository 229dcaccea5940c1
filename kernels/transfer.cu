// SPDX-License-Identifier: Apache-2.0
//
// put, get and put_signal. Where the peer is mapped the blocks of the grid share the bytes; by the
// NIC the first block asks for all of them. A put_signal is of one block.
#include "device/api.h"
#include "kernels/entry.h"

namespace peal::kernels {
namespace {

/// The calling block's part of `bytes`, in whole lines of 128 bytes.
struct Portion {
  uint64_t at;
  uint64_t bytes;
};
PEAL_DEVICE Portion portion_of(uint64_t bytes) {
  constexpr uint64_t kLine = 128;
  const uint64_t lines = (bytes + kLine - 1) / kLine;
  const uint64_t each = (lines + blocks_in_grid() - 1) / blocks_in_grid() * kLine;
  const uint64_t at = each * block_in_grid() < bytes ? each * block_in_grid() : bytes;
  return {at, bytes - at < each ? bytes - at : each};
}

PEAL_DEVICE Status transfer(const TransferArguments& args) {
  const Context& ctx = context_of(args.caller);
  const int pe = args.caller.pe;
  if (args.caller.call == Call::kPutSignal) {
    return put_signal(ctx, block, args.dst, args.src, args.bytes, args.signal);
  }
  const bool gets = args.caller.call == Call::kGet;
  const std::byte* const there = gets ? args.src : args.dst;
  Portion mine{0, args.bytes};
  if (ptr(ctx, there, pe) != nullptr) {
    mine = portion_of(args.bytes);
  } else if (block_in_grid() != 0) {
    return Status::kOk;
  }
  if (gets) return get(ctx, block, args.dst + mine.at, args.src + mine.at, mine.bytes, pe);
  return put(ctx, block, args.dst + mine.at, args.src + mine.at, mine.bytes, pe);
}

}  // namespace
}  // namespace peal::kernels

PEAL_ENTRY(transfer, TransferArguments) {
  peal::kernels::report(args.caller, peal::kernels::transfer(args));
}
