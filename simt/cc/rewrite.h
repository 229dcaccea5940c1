// SPDX-License-Identifier: Apache-2.0
//
// CUDA's own syntax in plain C++, for g++: what simt/runtime/syntax.h gives a meaning to.
//
//   k<<<g, b>>>(a)               ((void)::peal::simt::cuda::Configured(g, b), k(a))
//   __global__ void k(int a) {}  void k(int a) { ::peal::simt::cuda::enter("k", ..., [=]() mutable
//   {}); }
//   __shared__ float t[8];       struct S { float t[8]; }; auto& t =
//   ::peal::simt::cuda::shared<S>().t; extern __shared__ T s[];     T* s =
//   static_cast<T*>(::peal::simt::dynamic_shared());
//
// Every line stays where it was. What else looks like CUDA and is not known is an error.
#pragma once

#include <map>
#include <string>

#include "simt/cc/tokens.h"

namespace peal::cc {

/// The whole text of `tokens`, rewritten. Throws SyntaxError.
std::string rewrite(const Tokens& tokens);

/// What becomes of the tokens, by their numbers.
class Edits {
 public:
  void insert_before(size_t token, const std::string& text) { at_[token].before += text; }
  void insert_after(size_t token, const std::string& text) { at_[token].after += text; }
  void drop(size_t token) { at_[token].dropped = true; }
  void drop(size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) drop(i);
  }
  void replace(size_t token, const std::string& text) {
    drop(token);
    insert_before(token, text);
  }
  std::string apply(const Tokens& tokens) const;

 private:
  struct Edit {
    std::string before;
    std::string after;
    bool dropped = false;
  };
  std::map<size_t, Edit> at_;
};

// One construct each, at the token that it is known by. Throw Error.

/// k<<<...>>>(...), at the <<.
void rewrite_launch(const Tokens& tokens, size_t at, Edits& edits);
/// __global__ in front of a declaration or definition.
void rewrite_kernel(const Tokens& tokens, size_t at, Edits& edits);
/// __shared__ within a function.
void rewrite_shared(const Tokens& tokens, size_t at, Edits& edits);

// Parts of declarations.

/// The first token at or behind `at` that belongs to no __attribute__((...)), alignas(...) or
/// [[...]].
size_t skip_attributes(const Tokens& tokens, size_t at);
/// The token behind the > that closes the < at `open`; 0 where it is no template's.
size_t skip_template(const Tokens& tokens, size_t open);
/// Where the pieces between `first` and `last` begin that commas outside of brackets separate;
/// `last` at the end.
std::vector<size_t> split(const Tokens& tokens, size_t first, size_t last);

}  // namespace peal::cc
