// SPDX-License-Identifier: Apache-2.0
#include "simt/cc/tokens.h"

#include <gtest/gtest.h>

namespace peal::cc {
namespace {

std::string joined(const Tokens& tokens) {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) text += std::string(tokens[i].text) + "|";
  return text;
}

TEST(Tokens, AreWordsNumbersStringsAndPunctuation) {
  EXPECT_EQ(joined(Tokens("a1=0x1p+3+1'000;b->c(\"x;y\\\"\",'\\'',u8\"z\")")),
            "a1|=|0x1p+3|+|1'000|;|b|->|c|(|\"x;y\\\"\"|,|'\\''|,|u8\"z\"|)|");
  EXPECT_EQ(joined(Tokens("k<4><<<a>>>(.5f)")), "k|<|4|>|<<|<|a|>>|>|(|.5f|)|");
  EXPECT_EQ(joined(Tokens("R\"x(\"a\n)\" )x\";b")), "R\"x(\"a\n)\" )x\"|;|b|");
}

TEST(Tokens, HaveTheFileAndLineOfTheirMarkers) {
  const Tokens tokens("# 1 \"a.cu\"\na\n# 7 \"b.h\" 1\n\nb\n# 3 \"a.cu\" 2\nR\"(\n\n)\" c\nd");
  ASSERT_EQ(tokens.size(), 5u);
  EXPECT_EQ(*tokens[0].file, "a.cu");
  EXPECT_EQ(tokens[0].line, 1);
  EXPECT_EQ(*tokens[1].file, "b.h");
  EXPECT_EQ(tokens[1].line, 8);
  EXPECT_EQ(*tokens[2].file, "a.cu");
  EXPECT_EQ(tokens[2].line, 3);
  EXPECT_EQ(tokens[3].line, 5);
  EXPECT_EQ(tokens[4].line, 6);
  EXPECT_EQ(tokens.files(), std::vector<std::string>{"b.h"});
}

// A macro of a system header, expanded in a program, has a marker with 3 and none with 1.
TEST(Tokens, LeaveSystemHeadersAlone) {
  const Tokens tokens(
      "# 1 \"a.cu\"\nb\n# 1 \"/usr/include/x.h\" 1 3\n{ \"\n# 1 \"/usr/include/y.h\" 1 3 4\n'\n"
      "# 2 \"/usr/include/x.h\" 2 3\n{\n# 2 \"a.cu\" 2\nc\n# 3 \"a.cu\" 3 4\nd\n# 3 \"a.cu\"\ne");
  EXPECT_EQ(joined(tokens), "b|c|d|e|");
}

TEST(Tokens, BracketsThatDoNotCloseAreErrorsWithTheirPlace) {
  const Tokens open("# 4 \"a.cu\"\nf(x[1]");
  try {
    open.close_of(1);
    FAIL();
  } catch (const SyntaxError& error) {
    EXPECT_STREQ(error.what(), "a.cu:4: error: ( is never closed");
  }
  EXPECT_EQ(open.close_of(3), 5u);
  EXPECT_EQ(open.open_of(5), 3u);
  EXPECT_THROW(Tokens("a \"b\n\""), SyntaxError);
  EXPECT_THROW(Tokens("R\"(b"), SyntaxError);
}

}  // namespace
}  // namespace peal::cc
