// SPDX-License-Identifier: Apache-2.0
//
// A preprocessed translation unit as tokens, each with the file and line that the line markers of
// g++ -E name. What system headers brought is one piece of white space: it holds no kernels.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace peal::cc {

/// What the program has and this compiler does not know: "FILE:LINE: error: WHAT".
class SyntaxError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Token {
  enum class Kind { kWord, kNumber, kString, kPunctuation };
  Kind kind;
  std::string_view space;  // in front of it: blanks, newlines, line markers, system headers
  std::string_view text;
  const std::string* file;
  int line;

  bool is(std::string_view what) const { return text == what; }
};

/// Throws SyntaxError at `token`.
[[noreturn]] void fail(const Token& token, const std::string& what);

/// The tokens of one text, which must outlive it.
class Tokens {
 public:
  /// Throws SyntaxError for a string that does not end.
  explicit Tokens(std::string_view text);

  size_t size() const { return tokens_.size(); }
  const Token& operator[](size_t i) const { return tokens_[i]; }
  bool is(size_t i, std::string_view what) const { return i < size() && tokens_[i].is(what); }
  /// White space behind the last token.
  std::string_view rest() const { return rest_; }
  /// Files that were read, system headers too.
  const std::vector<std::string>& files() const { return files_; }

  /// The bracket that closes the ( [ or { at `open`. Throws SyntaxError when there is none.
  size_t close_of(size_t open) const;
  /// The bracket that opens what ) ] or } closes. Throws SyntaxError when there is none.
  size_t open_of(size_t close) const;
  /// The tokens first..last-1 on one line.
  std::string text(size_t first, size_t last) const;

 private:
  friend class Reader;
  std::vector<Token> tokens_;
  std::vector<std::string> files_;
  std::string_view rest_;
};

}  // namespace peal::cc
