// Stages of the tokenizer whose errors the whole would hide: NFC, regex dialect, long words.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "controller/text/tokenizer/file/added_tokens.h"
#include "controller/text/tokenizer/model/bpe.h"
#include "controller/text/tokenizer/steps/regex_dialect.h"
#include "controller/text/tokenizer/steps/split_regex.h"
#include "controller/text/tokenizer/unicode/unicode_additions.h"
#include "controller/text/tokenizer/unicode/unicode_forms.h"
#include "controller/text/tokenizer/unicode/utf8.h"

namespace coxswain::data {
namespace {

std::string WholeNfc(const std::string& text) {
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string out(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
  std::free(composed);
  return out;
}

// Every code point alone, after a letter and between marks: cutting at inert ones changes nothing.
TEST(NfcTest, SegmentsEqualTheWholeForEveryCodePoint) {
  std::string storage;
  for (uint32_t c = 1; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text = "xe";
    AppendUtf8(c, &text);
    text += "\xCC\x81\xCC\xA3";  // acute, then dot below
    AppendUtf8(c, &text);
    ASSERT_EQ(NormalizeNfc(text, &storage), WholeNfc(text)) << std::hex << c;
  }
}

TEST(NfcTest, RandomSequencesOfMarksJamoAndLettersEqualTheWhole) {
  std::mt19937_64 random(2);
  const uint32_t starts[] = {0x20,   0x41,   0xC0,   0x300,  0x345,  0x915,  0x93C,
                             0x9BE,  0x1100, 0x1161, 0x11A8, 0xAC00, 0xAC1C, 0x1E00,
                             0x2126, 0x3099, 0x304B, 0xF900, 0x1D15E};
  std::string storage;
  for (int i = 0; i < 200000; ++i) {
    std::string text;
    for (int n = static_cast<int>(random() % 8); n >= 0; --n) {
      AppendUtf8(starts[random() % std::size(starts)] + static_cast<uint32_t>(random() % 12),
                 &text);
    }
    ASSERT_EQ(NormalizeNfc(text, &storage), WholeNfc(text)) << i;
  }
}

TEST(NfcTest, TextInFormCIsNotCopied) {
  std::string storage;
  const std::string text = "plain, é, 中文, 한국어, 👩";
  EXPECT_EQ(NormalizeNfc(text, &storage).data(), text.data());
  EXPECT_EQ(NormalizeNfc("", &storage), "");
}

TEST(RegexDialectTest, WhiteSpaceIsTheTwentyFiveCodePoints) {
  const auto space = SplitRegex::Compile(R"(\s)");
  const auto in_class = SplitRegex::Compile(R"([\s])");
  const auto not_space = SplitRegex::Compile(R"(\S)");
  ASSERT_TRUE(space.ok() && in_class.ok() && not_space.ok());
  RegexScratch scratch;
  int count = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    AppendUtf8(c, &text);
    SplitRegex::Match match{};
    ASSERT_TRUE((*space)->Find(text, 0, &scratch, &match).ok());
    const bool is_space = match.begin == 0;
    count += is_space;
    ASSERT_TRUE((*in_class)->Find(text, 0, &scratch, &match).ok());
    ASSERT_EQ(match.begin == 0, is_space) << std::hex << c;
    ASSERT_TRUE((*not_space)->Find(text, 0, &scratch, &match).ok());
    ASSERT_NE(match.begin == 0, is_space) << std::hex << c;
    ASSERT_FALSE(c == 0x180E && is_space);
  }
  EXPECT_EQ(count, 25);
}

TEST(RegexDialectTest, KeepsEverythingElse) {
  const std::string pattern = R"((?i:'s)|[^\r\n\p{L}]?\p{L}+|\p{N}{1,3}|[]$^\]\\]\$|\x{41}+|a++)";
  const auto translated = OnigurumaToPcre2(pattern);
  ASSERT_TRUE(translated.ok()) << translated.status();
  EXPECT_EQ(*translated, pattern);
}

AddedToken Added(int32_t id, const std::string& content) {
  AddedToken token;
  token.id = id;
  token.content = content;
  return token;
}

// Pieces as "id:text" in order; ordinary text has id -1.
std::string Pieces(const std::vector<AddedToken>& tokens, std::string_view text,
                   bool special_is_text = false) {
  std::vector<AddedTokenMatcher::Piece> pieces;
  std::vector<int32_t> as_text;
  AddedTokenMatcher(tokens).Split(text, {.special = special_is_text, .ids = &as_text}, &pieces);
  std::string out;
  for (const auto& piece : pieces) {
    out += std::to_string(piece.id) + ":" + std::string(piece.text) + ",";
  }
  return out;
}

TEST(AddedTokensTest, LongestOfTheLeftmostHidesWhatItHolds) {
  std::vector<AddedToken> tokens(3);
  tokens[0] = Added(0, "abcd");
  tokens[1] = Added(1, "bc");
  tokens[2] = Added(2, "ab");
  EXPECT_EQ(Pieces(tokens, "abcdbcab"), "0:abcd,1:bc,2:ab,");
  EXPECT_EQ(Pieces(tokens, "xabcyb"), "-1:x,2:ab,-1:cyb,");
  tokens[0].special = true;
  EXPECT_EQ(Pieces(tokens, "abcdbc", true), "-1:abcd,1:bc,");
}

TEST(AddedTokensTest, StrippedSpaceBelongsToOneToken) {
  std::vector<AddedToken> tokens(2);
  tokens[0] = Added(0, "<r>");
  tokens[0].rstrip = true;
  tokens[1] = Added(1, "<l>");
  tokens[1].lstrip = true;
  EXPECT_EQ(Pieces(tokens, "a <r>  <l> b"), "-1:a ,0:<r>  ,1:<l>,-1: b,");
  EXPECT_EQ(Pieces(tokens, "a \u3000<l><r>\u3000"), "-1:a,1: \u3000<l>,0:<r>\u3000,");
}

TEST(AddedTokensTest, SingleWordsStandAlone) {
  std::vector<AddedToken> tokens(1);
  tokens[0] = Added(0, "w");
  tokens[0].single_word = true;
  EXPECT_EQ(Pieces(tokens, "w ww \u00E9w w_ w-w"), "0:w,-1: ww \u00E9w w_ ,0:w,-1:-,0:w,");
}

// Of each category, a character younger than PCRE2's tables; its substitute keeps offsets.
TEST(UnicodeAdditionsTest, SubstitutesKeepCategoryAndSize) {
  const std::pair<std::string, std::string> cases[] = {
      {"L", "\u1C89"}, {"L", "\uA7DC"},     {"L", "\U000105C0"}, {"L", "\U0002EE5D"},
      {"M", "\u0897"}, {"M", "\U0001E5EF"}, {"N", "\U00010D40"}, {"N", "\U0001E5FA"},
      {"P", "\u1B4E"}, {"P", "\U00011F4F"}, {"S", "\u2427"},     {"S", "\U0001FBEF"}};
  RegexScratch scratch;
  std::string storage;
  for (const auto& [category, character] : cases) {
    const std::string text = absl::StrCat("plain text ", character, "\u4E2D", character);
    const std::string_view older = ReplaceUnicodeAdditions(text, &storage);
    ASSERT_EQ(older.size(), text.size());
    EXPECT_EQ(older.find(character), std::string_view::npos);
    SplitRegex::Match match{};
    const auto regex = SplitRegex::Compile("\\p{" + category + "}");
    ASSERT_TRUE((*regex)->Find(older, text.size() - character.size(), &scratch, &match).ok());
    EXPECT_EQ(match.begin, text.size() - character.size()) << category;
    EXPECT_EQ(match.end, text.size()) << category;
  }
  const std::string old = "caf\u00E9 \u4E2D\u6587 \U0001F469 \u2019";
  EXPECT_EQ(ReplaceUnicodeAdditions(old, &storage).data(), old.data());
}

TEST(SplitRegexTest, LongRunsNeedNoStack) {
  const auto regex = SplitRegex::Compile(R"(\s*[\r\n]+|\s+(?!\S)|\s+|(?:ab)+)");
  ASSERT_TRUE(regex.ok()) << regex.status();
  RegexScratch scratch;
  SplitRegex::Match match{};
  const std::string text = std::string(3000000, ' ') + "x";
  ASSERT_TRUE((*regex)->Find(text, 0, &scratch, &match).ok());
  EXPECT_EQ(match.end, 2999999u);
}

// BPE by its definition: scan for the lowest rank, merge its leftmost pair, again. O(n^3).
std::vector<int32_t> SlowBpe(const std::vector<Bpe::Rule>& rules, const std::string& word) {
  std::vector<int32_t> ids(word.begin(), word.end());
  for (;;) {
    size_t best_rank = rules.size();
    size_t best_at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      for (size_t r = 0; r < best_rank; ++r) {
        if (rules[r].left == ids[i] && rules[r].right == ids[i + 1]) {
          best_rank = r;
          best_at = i;
        }
      }
    }
    if (best_rank == rules.size()) return ids;
    ids[best_at] = rules[best_rank].merged;
    ids.erase(ids.begin() + static_cast<int64_t>(best_at) + 1);
  }
}

// Random rule sets over two letters collide in every way; lengths cross the short/long border.
TEST(BpeTest, ShortAndLongWordsFollowTheDefinition) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Bpe::Rule> rules;
    std::map<std::pair<int32_t, int32_t>, bool> used;
    std::vector<int32_t> symbols = {'a', 'b'};
    while (rules.size() < 25) {
      const int32_t left = symbols[random() % symbols.size()];
      const int32_t right = symbols[random() % symbols.size()];
      if (!used.emplace(std::pair(left, right), true).second) continue;
      const auto merged = static_cast<int32_t>(256 + rules.size());
      rules.push_back({left, right, merged, 0});
      symbols.push_back(merged);
    }
    std::shuffle(rules.begin(), rules.end(), random);
    for (size_t rank = 0; rank < rules.size(); ++rank) rules[rank].rank = static_cast<int>(rank);
    const Bpe bpe(rules);
    for (const int length : {1, 2, 3, 7, 31, 32, 47, 48, 49, 50, 90}) {
      std::string word;
      for (int i = 0; i < length; ++i) word.push_back("ab"[random() % 2]);
      std::vector<int32_t> ids;
      bpe.Merge(std::vector<int32_t>(word.begin(), word.end()), &ids);
      ASSERT_EQ(ids, SlowBpe(rules, word)) << word;
    }
  }
}

}  // namespace
}  // namespace coxswain::data
