// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/rewrite.h"

#include <algorithm>
#include <string_view>

namespace peal::cc {
namespace {

// Which braces are open: those of namespaces and of all else.
class Scopes {
 public:
  explicit Scopes(const Tokens& tokens) : tokens_(tokens) {}

  bool in_namespace() const { return within_ == 0; }
  void pass(size_t i) {
    if (tokens_.is(i, "{")) {
      open_.push_back(opens_namespace(i));
      within_ += open_.back() ? 0 : 1;
    } else if (tokens_.is(i, "}") && !open_.empty()) {
      within_ -= open_.back() ? 0 : 1;
      open_.pop_back();
    } else if (!tokens_.is(i, ";")) {
      return;
    }
    statement_ = i + 1;
  }

 private:
  bool opens_namespace(size_t brace) const {
    const size_t first = statement_ + (tokens_.is(statement_, "inline") ? 1 : 0);
    if (tokens_.is(first, "namespace")) return true;
    return tokens_.is(statement_, "extern") && brace == statement_ + 2;  // extern "C" {
  }

  const Tokens& tokens_;
  std::vector<bool> open_;  // true: a namespace
  size_t within_ = 0;       // of those that are not
  size_t statement_ = 0;    // where the present one begins
};

// Instructions of PTX have types behind dots, those of CPUs have none.
bool is_ptx(std::string_view text) {
  const size_t begin = text.find_first_not_of("\" \\tn{");
  if (begin == text.npos) return false;
  const std::string_view word = text.substr(begin, text.find_first_of(" ;\"", begin) - begin);
  return word.find('.', 1) != word.npos && word.front() != '.';
}

void check_assembly(const Tokens& tokens, size_t at) {
  for (size_t i = at + 1; i < tokens.size() && !tokens.is(i, ";"); ++i) {
    if (tokens[i].kind == Token::Kind::kString && is_ptx(tokens[i].text)) {
      fail(tokens[at], "inline PTX " + std::string(tokens[i].text) +
                           ": a CPU does not know it; put it behind #ifdef __CUDA_ARCH__, with "
                           "plain C++ in the #else");
    }
  }
}

void rewrite_word(const Tokens& tokens, size_t at, const Scopes& scopes, Edits& edits) {
  const Token& token = tokens[at];
  if (token.is("__global__")) {
    rewrite_kernel(tokens, at, edits);
  } else if (token.is("__shared__")) {
    if (scopes.in_namespace()) {
      fail(token, "__shared__ outside of functions: declare it in the kernel that uses it");
    }
    rewrite_shared(tokens, at, edits);
  } else if (token.is("asm") || token.is("__asm__") || token.is("__asm")) {
    check_assembly(tokens, at);
  } else if (token.is("__noinline__") && !(at > 0 && tokens.is(at - 1, "("))) {
    edits.replace(at, "__attribute__((noinline))");  // no macro: g++'s own headers use the word
  } else if (token.is("__cluster_dims__")) {
    fail(token, "__cluster_dims__: a CPU has no clusters of blocks");
  }
}

// g++ has no #pragma unroll.
std::string without_unroll(std::string_view space) {
  std::string text(space);
  for (size_t at = 0; (at = text.find("#pragma unroll", at)) != text.npos;) {
    text.erase(at, std::min(text.find('\n', at), text.size()) - at);
  }
  return text;
}

}  // namespace

std::string rewrite(const Tokens& tokens) {
  Edits edits;
  Scopes scopes(tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    scopes.pass(i);
    if (tokens.is(i, "<<") && tokens.is(i + 1, "<") && !(i > 0 && tokens.is(i - 1, "operator"))) {
      rewrite_launch(tokens, i, edits);
    } else if (tokens[i].kind == Token::Kind::kWord) {
      rewrite_word(tokens, i, scopes, edits);
    }
  }
  return edits.apply(tokens);
}

std::string Edits::apply(const Tokens& tokens) const {
  std::string text;
  auto edit = at_.begin();
  for (size_t i = 0; i < tokens.size(); ++i) {
    text += without_unroll(tokens[i].space);
    const bool edited = edit != at_.end() && edit->first == i;
    if (edited) text += edit->second.before;
    if (!edited || !edit->second.dropped) text += tokens[i].text;
    if (edited) text += (edit++)->second.after;
  }
  return text += without_unroll(tokens.rest());
}

size_t skip_attributes(const Tokens& tokens, size_t at) {
  for (;;) {
    if ((tokens.is(at, "__attribute__") || tokens.is(at, "alignas")) && tokens.is(at + 1, "(")) {
      at = tokens.close_of(at + 1) + 1;
    } else if (tokens.is(at, "[") && tokens.is(at + 1, "[")) {
      at = tokens.close_of(at) + 1;
    } else {
      return at;
    }
  }
}

size_t skip_template(const Tokens& tokens, size_t open) {
  int depth = 0;
  for (size_t i = open; i < tokens.size(); ++i) {
    if (tokens.is(i, "(") || tokens.is(i, "[") || tokens.is(i, "{")) i = tokens.close_of(i);
    if (tokens.is(i, ";") || tokens.is(i, "}")) return 0;
    if (tokens.is(i, "<")) ++depth;
    if (tokens.is(i, ">")) --depth;
    if (tokens.is(i, ">>")) depth -= 2;
    if (depth <= 0) return i + 1;
  }
  return 0;
}

std::vector<size_t> split(const Tokens& tokens, size_t first, size_t last) {
  std::vector<size_t> begins = {first};
  for (size_t i = first; i < last; ++i) {
    if (tokens.is(i, "(") || tokens.is(i, "[") || tokens.is(i, "{")) {
      i = tokens.close_of(i);
    } else if (tokens.is(i, "<")) {
      const size_t behind = skip_template(tokens, i);
      if (behind != 0 && behind <= last) i = behind - 1;
    } else if (tokens.is(i, ",")) {
      begins.push_back(i + 1);
    }
  }
  begins.push_back(last + 1);  // as if a comma stood there
  return begins;
}

}  // namespace peal::cc
