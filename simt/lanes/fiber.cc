// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/fiber.h"

namespace peal::simt {

using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

Fiber::Fiber(const Stack& stack, size_t colour, Entry entry) : stack_(stack), entry_(entry) {
  // Another fiber's frames that stood there for good are still poisoned.
  if (address_sanitized()) __asan_unpoison_memory_region(stack.bottom, stack.bytes);
  std::byte* const top = static_cast<std::byte*>(stack.bottom) + stack.bytes - colour;
  saved_ = make_fcontext(top, stack.bytes - colour, &Fiber::begin);
}

PEAL_SIMT_UNSEEN void Fiber::begin(transfer_t from) {
  Fiber& self = *static_cast<Fiber*>(from.data)->next_;
  arrive(from, nullptr);
  self.entry_(self);
}

}  // namespace peal::simt
