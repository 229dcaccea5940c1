// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/rewrite.h"

namespace peal::cc {
namespace {

// Where the template arguments begin that the > or >> at `close` ends.
size_t open_of_template(const Tokens& tokens, size_t close) {
  int depth = 0;
  for (size_t i = close + 1; i-- > 0;) {
    if (tokens.is(i, ")") || tokens.is(i, "]") || tokens.is(i, "}")) i = tokens.open_of(i);
    if (tokens.is(i, ">")) ++depth;
    if (tokens.is(i, ">>")) depth += 2;
    if (tokens.is(i, "<")) --depth;
    if (depth <= 0) return i;
    if (tokens.is(i, ";")) break;
  }
  fail(tokens[close], "<<<...>>>: what is launched is not understood");
}

bool is_name(const Tokens& tokens, size_t i) {
  return tokens[i].kind == Token::Kind::kWord && !tokens.is(i, "return") && !tokens.is(i, "else") &&
         !tokens.is(i, "do");
}

bool joins(const Tokens& tokens, size_t i) {
  return tokens.is(i, "::") || tokens.is(i, ".") || tokens.is(i, "->");
}

// What a call or an index may stand behind.
bool ends_operand(const Tokens& tokens, size_t i) {
  return is_name(tokens, i) || tokens.is(i, "]") || tokens.is(i, ")") || tokens.is(i, ">");
}

// The first token of the expression that ends in front of `end`: a::b<T>, p->k[i], (k), k_of(x).
size_t begin_of_callee(const Tokens& tokens, size_t end) {
  for (size_t begin = end; begin > 0;) {
    size_t i = begin - 1;
    if (tokens.is(i, "]") || tokens.is(i, ")")) {
      begin = tokens.open_of(i);
      if (begin == 0 || !ends_operand(tokens, begin - 1)) return begin;
      continue;
    }
    if (tokens.is(i, ">") || tokens.is(i, ">>")) {
      begin = open_of_template(tokens, i);
      continue;
    }
    if (!is_name(tokens, i)) break;
    if (i > 0 && tokens.is(i - 1, "template")) --i;
    if (i == 0 || !joins(tokens, i - 1)) return i;
    begin = i - 1;
    const bool global = tokens.is(begin, "::") && (begin == 0 || !ends_operand(tokens, begin - 1));
    if (global) return begin;
  }
  fail(tokens[end], "<<<...>>>: what is launched is not understood; put it in parentheses");
}

}  // namespace

void rewrite_launch(const Tokens& tokens, size_t at, Edits& edits) {
  if (at == 0) fail(tokens[at], "<<<...>>>: no kernel in front of it");
  const size_t first = at + 2;
  size_t close = first;
  while (!(tokens.is(close, ">>") && tokens.is(close + 1, ">") && tokens.is(close + 2, "("))) {
    if (close >= tokens.size() || tokens.is(close, ";") || tokens.is(close, "}")) {
      fail(tokens[at], "<<< without >>>(...)");
    }
    if (tokens.is(close, "<<") && tokens.is(close + 1, "<")) {
      fail(tokens[close], "<<<...>>> within <<<...>>>: launch it in a statement of its own");
    }
    const bool opens = tokens.is(close, "(") || tokens.is(close, "[") || tokens.is(close, "{");
    close = (opens ? tokens.close_of(close) : close) + 1;
  }
  const size_t values = split(tokens, first, close).size() - 1;
  if (close == first || values < 2 || values > 4) {
    fail(tokens[at], "<<<" + tokens.text(first, close) +
                         ">>>: give blocks, threads and, if wanted, bytes of shared memory and "
                         "a stream");
  }
  edits.insert_before(begin_of_callee(tokens, at),
                      "((void)::peal::simt::cuda::Configured(" + tokens.text(first, close) + "), ");
  edits.drop(at, close + 2);
  edits.insert_after(tokens.close_of(close + 2), ")");
}

}  // namespace peal::cc
