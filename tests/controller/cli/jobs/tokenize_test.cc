#include "controller/cli/jobs/tokenize.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/controller/text/tokenizer/tokenizer_fixture.h"

namespace coxswain::cli {
namespace {

struct Result {
  int code;
  std::string out;
  std::string err;
};

TokenizeArgs JsonLines() {
  TokenizeArgs args;
  args.json_lines = true;
  return args;
}

TokenizeArgs Decode() {
  TokenizeArgs args;
  args.decode = true;
  return args;
}

class TokenizeTest : public ::testing::Test {
 protected:
  Result Run(const std::string& text, TokenizeArgs args = {}) {
    args.tokenizer = std::string(data::kTokenizerFixtures) + "base.json.gz";
    args.file = directory_.Write("input", text);
    return RunCommand(args);
  }

  static Result RunCommand(const TokenizeArgs& args) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = RunTokenize(args, out, err);
    return {code, out.str(), err.str()};
  }

  // What the command prints for one line.
  std::string Line(const std::string& text) {
    return nlohmann::json(data::Ids(*tokenizer_, text)).dump() + "\n";
  }

  support::ScratchFolder directory_;
  std::unique_ptr<data::Tokenizer> tokenizer_ = data::BaseTokenizer();
};

TEST_F(TokenizeTest, PrintsOneArrayForEachLine) {
  const Result result = Run("The cat\n\n sat.\r\n<|im_end|>");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, Line("The cat") + "[]\n" + Line(" sat.\r") + Line("<|im_end|>"));
  EXPECT_EQ(Run("").out, "");
  EXPECT_EQ(Run("\n").out, "[]\n");
}

TEST_F(TokenizeTest, JsonLinesHoldAnyText) {
  const Result result = Run("\"a\\nb\\u00e9\"\n\"\"\n\n", JsonLines());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, Line("a\nb\u00e9") + "[]\n[]\n");
}

TEST_F(TokenizeTest, BatchesKeepOrder) {
  std::string input;
  std::string expected;
  for (int i = 0; i < 3; ++i) {
    const std::string line(3 << 20, static_cast<char>('a' + i));
    input += line + "\n" + std::to_string(i) + "\n";
    expected += Line(line) + Line(std::to_string(i));
  }
  EXPECT_TRUE(Run(input).out == expected);
}

TEST_F(TokenizeTest, DecodeUndoesEncode) {
  const std::string text = "Natalia \xE2\x80\x9Csold\xE2\x80\x9D\tclips <|im_end|>";
  const Result decoded = Run(Line(text) + "\n[]\n", Decode());
  EXPECT_EQ(decoded.code, 0) << decoded.err;
  EXPECT_EQ(decoded.out, nlohmann::json(text).dump() + "\n\"\"\n\"\"\n");
}

TEST_F(TokenizeTest, BadLinesAreNamed) {
  for (const auto& [text, args] : {std::pair<std::string, TokenizeArgs>{"\"a\"\n5\n", JsonLines()},
                                   {"\"a\"\n\"unclosed\n", JsonLines()},
                                   {"[1]\n[1.5]\n", Decode()},
                                   {"[1]\n[-1]\n", Decode()},
                                   {"[1]\n[9999999999]\n", Decode()},
                                   {"[1]\nx\n", Decode()}}) {
    const Result result = Run(text, args);
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_NE(result.err.find("input:2: "), std::string::npos) << result.err;
  }
}

TEST_F(TokenizeTest, BadArgumentsHaveTheirCodes) {
  TokenizeArgs args;
  args.tokenizer = "/nowhere";
  args.file = "-";
  EXPECT_EQ(RunCommand(args).code, 4);
  args.tokenizer = std::string(data::kTokenizerFixtures) + "base.json.gz";
  args.file = "/nowhere";
  EXPECT_EQ(RunCommand(args).code, 4);
  TokenizeArgs both = JsonLines();
  both.decode = true;
  EXPECT_EQ(Run("", both).code, 2);
}

TEST_F(TokenizeTest, FullOutputIsAFailure) {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  std::ostringstream err;
  TokenizeArgs args;
  args.tokenizer = std::string(data::kTokenizerFixtures) + "base.json.gz";
  args.file = directory_.Write("input", "a\n");
  EXPECT_EQ(RunTokenize(args, out, err), 1);
  EXPECT_NE(err.str().find("output"), std::string::npos) << err.str();
}

}  // namespace
}  // namespace coxswain::cli
