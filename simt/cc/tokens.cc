// SPDX-License-Identifier: Apache-2.0
//
// Line markers are those of the GNU preprocessor ("Preprocessor Output" in its manual):
// # LINE "FILE" FLAGS, with 1: a file begins, 2: back in a file, 3: a system header.
#include "simt/cc/tokens.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>

namespace peal::cc {
namespace {

using Kind = Token::Kind;

bool begins_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || (c & 0x80) != 0;
}
bool goes_on(char c) { return begins_word(c) || std::isdigit(static_cast<unsigned char>(c)); }

// File names stay where they are for as long as the program runs: tokens and errors name them.
const std::string* kept_name(std::string_view name) {
  static std::map<std::string, int, std::less<>> names;
  const auto found = names.find(name);
  return &(found != names.end() ? found : names.emplace(name, 0).first)->first;
}

}  // namespace

void fail(const Token& token, const std::string& what) {
  throw SyntaxError(*token.file + ":" + std::to_string(token.line) + ": error: " + what);
}

class Reader {
 public:
  Reader(std::string_view text, Tokens& tokens) : text_(text), tokens_(tokens) {}

  void read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (at_line_start_ && c == '#') {
        directive();
      } else if (c == '\n') {
        ++line_;
        ++at_;
        at_line_start_ = true;
      } else if (std::isspace(static_cast<unsigned char>(c))) {
        ++at_;
      } else if (in_system_header()) {
        skip_line();
      } else {
        token();
      }
    }
    tokens_.rest_ = text_.substr(space_);
  }

 private:
  bool in_system_header() const { return !included_.empty() && included_.back(); }

  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  // A line marker; other directives, such as #pragma, are white space.
  void directive() {
    const size_t begin = at_;
    skip_line();
    std::string_view words = text_.substr(begin + 1, at_ - begin - 1);
    int line = 0;
    words.remove_prefix(std::min(words.find_first_not_of(' '), words.size()));
    const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), line);
    if (error != std::errc()) return;
    words.remove_prefix(static_cast<size_t>(end - words.data()));
    const size_t open = words.find('"');
    const size_t close = words.rfind('"');
    if (open == words.npos || close == open) return;
    file_ = kept_name(words.substr(open + 1, close - open - 1));
    line_ = line - 1;  // of this marker; the newline behind it counts
    const std::string_view flags = words.substr(close + 1);
    if (flags.find('1') != flags.npos) {
      included_.push_back(flags.find('3') != flags.npos);
      tokens_.files_.push_back(*file_);
    } else if (flags.find('2') != flags.npos && !included_.empty()) {
      included_.pop_back();
    }
  }

  void token() {
    at_line_start_ = false;
    const size_t begin = at_;
    const int line = line_;
    const Kind kind = take();
    tokens_.tokens_.push_back({kind, text_.substr(space_, begin - space_),
                               text_.substr(begin, at_ - begin), file_, line});
    space_ = at_;
  }

  // Moves behind the token that begins here.
  Kind take() {
    const char c = text_[at_];
    if (begins_word(c)) {
      while (at_ < text_.size() && goes_on(text_[at_])) ++at_;
      const std::string_view word = text_.substr(word_begin(), at_ - word_begin());
      if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'') && is_prefix(word)) {
        return word.back() == 'R' ? raw_string() : quoted();
      }
      return Kind::kWord;
    }
    const bool fraction = c == '.' && at_ + 1 < text_.size() && std::isdigit(text_[at_ + 1]);
    if (std::isdigit(static_cast<unsigned char>(c)) || fraction) return number();
    if (c == '"' || c == '\'') return quoted();
    return punctuation();
  }

  size_t word_begin() const {
    size_t begin = at_;
    while (begin > space_ && goes_on(text_[begin - 1])) --begin;
    return begin;
  }

  static bool is_prefix(std::string_view word) {
    static constexpr std::array<std::string_view, 9> kPrefixes = {"u",  "U",  "L",  "u8", "R",
                                                                  "uR", "UR", "LR", "u8R"};
    return std::find(kPrefixes.begin(), kPrefixes.end(), word) != kPrefixes.end();
  }

  Kind number() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const char before = at_ > 0 ? text_[at_ - 1] : ' ';
      const bool sign =
          (c == '+' || c == '-') && std::string_view("eEpP").find(before) != std::string_view::npos;
      const bool separator = c == '\'' && at_ + 1 < text_.size() && goes_on(text_[at_ + 1]);
      if (!goes_on(c) && c != '.' && !sign && !separator) break;
      ++at_;
    }
    return Kind::kNumber;
  }

  Kind quoted() {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    if (at_ >= text_.size() || text_[at_] == '\n') unfinished();
    ++at_;
    return Kind::kString;
  }

  Kind raw_string() {
    const size_t open = text_.find('(', at_);
    if (open == text_.npos) unfinished();
    std::string end = ")";
    end += text_.substr(at_ + 1, open - at_ - 1);
    end += '"';
    const size_t close = text_.find(end, open);
    if (close == text_.npos) unfinished();
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<ptrdiff_t>(at_),
                                         text_.begin() + static_cast<ptrdiff_t>(close), '\n'));
    at_ = close + end.size();
    return Kind::kString;
  }

  [[noreturn]] void unfinished() const {
    throw SyntaxError(*file_ + ":" + std::to_string(line_) + ": error: a string that does not end");
  }

  Kind punctuation() {
    static constexpr std::array<std::string_view, 24> kLong = {
        "<<=", ">>=", "<=>", "->*", "...", "::", "->", "<<", ">>", "<=", ">=", "==",
        "!=",  "&&",  "||",  "++",  "--",  "+=", "-=", "*=", "/=", "%=", "&=", "|="};
    for (const std::string_view one : kLong) {
      if (text_.substr(at_, one.size()) == one) {
        at_ += one.size();
        return Kind::kPunctuation;
      }
    }
    ++at_;
    return Kind::kPunctuation;
  }

  const std::string_view text_;
  Tokens& tokens_;
  size_t at_ = 0;
  size_t space_ = 0;  // where the white space in front of the next token begins
  bool at_line_start_ = true;
  const std::string* file_ = kept_name("<input>");
  int line_ = 1;
  std::vector<bool> included_;  // the files on the way to this one: is it a system header?
};

Tokens::Tokens(std::string_view text) { Reader(text, *this).read(); }

size_t Tokens::close_of(size_t open) const {
  size_t depth = 0;
  for (size_t i = open; i < size(); ++i) {
    if (is(i, "(") || is(i, "[") || is(i, "{")) ++depth;
    if ((is(i, ")") || is(i, "]") || is(i, "}")) && --depth == 0) return i;
  }
  fail(tokens_[open], std::string(tokens_[open].text) + " is never closed");
}

size_t Tokens::open_of(size_t close) const {
  size_t depth = 0;
  for (size_t i = close + 1; i-- > 0;) {
    if (is(i, ")") || is(i, "]") || is(i, "}")) ++depth;
    if ((is(i, "(") || is(i, "[") || is(i, "{")) && --depth == 0) return i;
  }
  fail(tokens_[close], std::string(tokens_[close].text) + " was never opened");
}

std::string Tokens::text(size_t first, size_t last) const {
  std::string line;
  for (size_t i = first; i < last; ++i) {
    if (!line.empty()) line += ' ';
    line += tokens_[i].text;
  }
  return line;
}

}  // namespace peal::cc
