// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/rewrite.h"

namespace peal::cc {
namespace {

bool is_specifier(const Tokens& tokens, size_t i) {
  return tokens.is(i, "static") || tokens.is(i, "extern") || tokens.is(i, "const") ||
         tokens.is(i, "volatile") || tokens.is(i, "__shared__");
}

// Where the declaration begins that has __shared__ at `at`, behind `static` and the like.
size_t begin_of_declaration(const Tokens& tokens, size_t at) {
  while (at > 0) {
    if (is_specifier(tokens, at - 1) || tokens[at - 1].kind == Token::Kind::kWord) {
      --at;
    } else if (tokens.is(at - 1, ")") || tokens.is(at - 1, "]")) {
      const size_t open = tokens.open_of(at - 1);
      const bool attribute =
          tokens.is(open, "[") ||
          (open > 0 && (tokens.is(open - 1, "alignas") || tokens.is(open - 1, "__attribute__")));
      if (!attribute) return at;
      at = tokens.is(open, "[") ? open : open - 1;
    } else {
      return at;
    }
  }
  return at;
}

// The name in `T x`, `x[8]`, `*x`: the last word in front of brackets.
size_t name_of(const Tokens& tokens, size_t first, size_t last) {
  size_t name = last;
  for (size_t i = skip_attributes(tokens, first); i < last; i = skip_attributes(tokens, i + 1)) {
    const bool type = tokens.is(i, "{") || (i > first && tokens.is(i - 1, "decltype"));
    if (type && i > first) {  // struct { ... } x
      i = tokens.close_of(i);
      continue;
    }
    if (tokens.is(i, "=") || tokens.is(i, "(") || tokens.is(i, "{")) {
      fail(tokens[i],
           "__shared__: this declaration is not understood; shared memory has no "
           "initial values");
    }
    if (tokens.is(i, "<")) {
      const size_t behind = skip_template(tokens, i);
      if (behind != 0) i = behind - 1;
      continue;
    }
    if (tokens.is(i, "[")) break;
    if (tokens[i].kind == Token::Kind::kWord && !is_specifier(tokens, i)) name = i;
  }
  if (name == last) fail(tokens[first], "__shared__: no name is declared");
  return name;
}

// extern __shared__ T s[];
void rewrite_dynamic(const Tokens& tokens, size_t first, size_t end, Edits& edits) {
  const size_t name = name_of(tokens, first, end);
  if (name + 3 != end || !tokens.is(name + 1, "[") || !tokens.is(name + 2, "]")) {
    fail(tokens[name],
         "extern __shared__: one array without a size is understood: extern "
         "__shared__ T name[];");
  }
  std::string type;
  for (size_t i = skip_attributes(tokens, first); i < name; i = skip_attributes(tokens, i)) {
    if (!tokens.is(i, "extern") && !tokens.is(i, "__shared__")) {
      type += std::string(tokens[i].text) + " ";
    }
    ++i;
  }
  edits.drop(first, end);
  edits.insert_before(first, type + "*" + std::string(tokens[name].text) + " = static_cast<" +
                                 type + "*>(::peal::simt::dynamic_shared())");
}

}  // namespace

void rewrite_shared(const Tokens& tokens, size_t at, Edits& edits) {
  const size_t first = begin_of_declaration(tokens, at);
  size_t end = at;
  while (end < tokens.size() && !tokens.is(end, ";")) {
    const bool opens = tokens.is(end, "(") || tokens.is(end, "[") || tokens.is(end, "{");
    end = (opens ? tokens.close_of(end) : end) + 1;
  }
  for (size_t i = first; i < at; ++i) {
    if (tokens.is(i, "extern")) return rewrite_dynamic(tokens, first, end, edits);
  }
  if (tokens.is(at + 1, "extern")) return rewrite_dynamic(tokens, first, end, edits);
  for (size_t i = first; i < end; ++i) {
    if (tokens.is(i, "static") || tokens.is(i, "__shared__")) edits.drop(i);
  }
  const std::string number = std::to_string(at);
  edits.insert_before(first, "struct peal_shared_" + number + " { ");
  std::string references = "; }; auto& peal_in_" + number +
                           " = ::peal::simt::cuda::shared<peal_shared_" + number + ">()";
  const std::vector<size_t> begins = split(tokens, first, end);
  for (size_t d = 0; d + 1 < begins.size(); ++d) {
    const size_t name = name_of(tokens, begins[d], begins[d + 1] - 1);
    const std::string text(tokens[name].text);
    references += "; auto& " + text + " = peal_in_" + number + "." + text;
  }
  edits.insert_before(end, references);
}

}  // namespace peal::cc
