// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/fiber.h"

namespace peal::simt {

using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

void Fiber::start(const Stack& stack, size_t colour, Entry entry, void* argument) {
  // The frames that finish() left behind for good are still poisoned.
  if (address_sanitized()) __asan_unpoison_memory_region(stack.bottom, stack.bytes);
  stack_ = stack;
  entry_ = entry;
  argument_ = argument;
  std::byte* const top = static_cast<std::byte*>(stack.bottom) + stack.bytes - colour;
  fiber_ = make_fcontext(top, stack.bytes - colour, &Fiber::begin);
}

PEAL_SIMT_UNSEEN void Fiber::begin(transfer_t from) {
  Fiber& self = *static_cast<Fiber*>(from.data);
  self.worker_ = from.fctx;
  if (address_sanitized()) {
    __sanitizer_finish_switch_fiber(nullptr, &self.worker_bottom_, &self.worker_bytes_);
  }
  self.entry_(self.argument_);
}

PEAL_SIMT_UNSEEN void Fiber::finish() {
  switch_out(nullptr);  // null: AddressSanitizer frees what it kept for this fiber
  __builtin_unreachable();
}

}  // namespace peal::simt
