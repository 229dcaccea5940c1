// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "simt/cc/rewrite.h"

namespace peal::cc {
namespace {

/// A kernel's declaration. Ranges are first and last + 1.
struct Declaration {
  size_t name;        // may be a specialization: k<int>
  size_t parameters;  // the (
  size_t end;         // behind the )
};

Declaration declaration_at(const Tokens& tokens, size_t at) {
  for (size_t i = at + 1; i < tokens.size(); ++i) {
    i = skip_attributes(tokens, i);
    if (tokens.is(i, ";") || tokens.is(i, "{") || tokens.is(i, "=")) break;
    if (tokens[i].kind != Token::Kind::kWord) continue;
    size_t behind = i + 1;
    if (tokens.is(behind, "<")) behind = skip_template(tokens, behind);
    if (behind != 0 && tokens.is(behind, "(")) {
      return {i, behind, tokens.close_of(behind) + 1};
    }
  }
  fail(tokens[at], "__global__ in front of what is no function");
}

// The names of `template <class T, int N, class... Rest>`: "T, N, Rest..."; none where a parameter
// has no name.
std::optional<std::string> names_of_template(const Tokens& tokens, size_t open, size_t end) {
  std::string names;
  const std::vector<size_t> begins = split(tokens, open + 1, end - 1);
  for (size_t p = 0; p + 1 < begins.size(); ++p) {
    size_t last = begins[p];
    while (last + 1 < begins[p + 1] && !tokens.is(last, "=") && !tokens.is(last, ",")) ++last;
    if (last - begins[p] < 2) return std::nullopt;
    const bool pack = tokens.is(last - 2, "...");
    if (tokens[last - 1].kind != Token::Kind::kWord) return std::nullopt;
    if (!names.empty()) names += ", ";
    names += std::string(tokens[last - 1].text) + (pack ? "..." : "");
  }
  return names;
}

// Where the statement with the token `at` begins.
size_t begin_of_statement(const Tokens& tokens, size_t at) {
  while (at > 0 && !tokens.is(at - 1, ";") && !tokens.is(at - 1, "}") && !tokens.is(at - 1, "{")) {
    --at;
  }
  return at;
}

// A default argument has no place in a type.
std::string parameters_of_type(const Tokens& tokens, const Declaration& kernel) {
  std::string text;
  const std::vector<size_t> begins = split(tokens, kernel.parameters + 1, kernel.end - 1);
  for (size_t p = 0; p + 1 < begins.size(); ++p) {
    size_t end = begins[p];
    while (end + 1 < begins[p + 1] && !tokens.is(end, "=")) ++end;
    if (!text.empty()) text += ", ";
    text += tokens.text(begins[p], end);
  }
  return text;
}

// The address of the kernel with the types it has here, or nothing where they have no names.
std::optional<std::string> address_of(const Tokens& tokens, size_t at, const Declaration& kernel) {
  std::string name = tokens.text(kernel.name, kernel.parameters);
  size_t begin = begin_of_statement(tokens, at);
  if (tokens.is(begin, "extern")) begin += 2;
  if (tokens.is(begin, "template") && tokens.is(begin + 1, "<")) {
    const size_t end = skip_template(tokens, begin + 1);
    if (end == 0) return std::nullopt;
    if (end > begin + 3) {  // else template <>
      const auto names = names_of_template(tokens, begin + 1, end);
      if (!names) return std::nullopt;
      name += "<" + *names + ">";
    }
  }
  for (size_t i = kernel.parameters; i < kernel.end; ++i) {
    if (tokens.is(i, "auto")) return std::nullopt;
  }
  return "static_cast<void (*)(" + parameters_of_type(tokens, kernel) + ")>(&" + name + ")";
}

}  // namespace

void rewrite_kernel(const Tokens& tokens, size_t at, Edits& edits) {
  edits.drop(at);
  const Declaration kernel = declaration_at(tokens, at);
  size_t body = skip_attributes(tokens, kernel.end);
  if (tokens.is(body, ";")) return;
  if (!tokens.is(body, "{")) {
    fail(tokens[kernel.name], "kernel " + std::string(tokens[kernel.name].text) +
                                  ": a body or ; is expected behind its parameters");
  }
  const auto address = address_of(tokens, at, kernel);
  edits.insert_after(
      body,
      " ::peal::simt::cuda::enter(\"" + std::string(tokens[kernel.name].text) + "\", " +
          (address ? "&::peal::simt::offered_kernel<" + *address + ">" : std::string("nullptr")) +
          ", [=]() mutable {");
  edits.insert_before(tokens.close_of(body), "});");
}

}  // namespace peal::cc
