// Which tokens of a conversation are trained, under templates that mark answers and such that do
// not.
#include "controller/data/templates/turn_targets.h"

#include <string>

#include <gtest/gtest.h>

#include "controller/data/jinja/containers.h"
#include "controller/data/templates/content_guard.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/data/conversation.h"

namespace coxswain::data {
namespace {

using config::TrainOn;
using config::TrainOnEos;

constexpr char kPlain[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr char kMarked[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}\n{% else %}{{ m.content }}"
    "<|im_end|>\n{% endif %}{% endfor %}";
// As reasoning templates do: only the last turn keeps its thoughts.
constexpr char kReasoning[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last %}"
    "<think>\n\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const Turns kTurns = {
    {"system", "s"}, {"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}};

class TurnTargetsTest : public testing::Test {
 protected:
  std::string Show(const std::string& source, const ChatRecord& record) {
    TemplateTokens tokens;
    tokens.own_template = source;
    tokens.special = {"<|im_start|>", "<|im_end|>", "</s>"};
    tokens.tokenizer = "/m";
    const auto chat_template = ConversationTemplate::OwnOf(tokens);
    if (!chat_template.ok()) return std::string(chat_template.status().message());
    const auto texts = FindTargets(*chat_template, policy_, record);
    if (!texts.ok()) return std::string(texts.status().message());
    std::string shown;
    for (const MarkedText& text : *texts) {
      shown += (shown.empty() ? "" : " | ") + Brackets(text);
      rule_ = text.rule;
      rewritten_ = text.rewritten;
    }
    return shown;
  }
  std::string Show(const std::string& source) { return Show(source, Conversation(kTurns)); }

  // Headers left out: "[b<|im_end|>]".
  static std::string Brackets(const MarkedText& text) {
    std::string out;
    for (const ByteRange& range : text.targets) {
      out += "[" + text.text.substr(range.begin, range.end - range.begin) + "]";
    }
    return out;
  }

  TargetPolicy policy_ = {.roles = {"assistant"}};
  TargetRule rule_ = TargetRule::kFormat;
  int rewritten_ = 0;
};

TEST_F(TurnTargetsTest, MarksAndPrefixesFindTheSameTurns) {
  EXPECT_EQ(Show(kMarked), "[b<|im_end|>][d<|im_end|>]");
  EXPECT_EQ(rule_, TargetRule::kMarks);
  EXPECT_EQ(Show(kPlain), "[b<|im_end|>][d<|im_end|>]");
  EXPECT_EQ(rule_, TargetRule::kPrefixes);
}

TEST_F(TurnTargetsTest, TheLastTurnAloneOrEachInADocumentOfItsOwn) {
  for (const char* source : {kMarked, kPlain}) {
    policy_.train_on = TrainOn::kLast;
    EXPECT_EQ(Show(source), "[d<|im_end|>]");
    policy_.train_on = TrainOn::kSplit;
    EXPECT_EQ(Show(source), "[b<|im_end|>] | [d<|im_end|>]");
  }
}

TEST_F(TurnTargetsTest, EndTokensAsAsked) {
  for (const char* source : {kMarked, kPlain}) {
    policy_.train_on_eos = TrainOnEos::kNone;
    EXPECT_EQ(Show(source), "[b][d]");
    policy_.train_on_eos = TrainOnEos::kLast;
    EXPECT_EQ(Show(source), "[b][d<|im_end|>]");
    policy_.train_on_eos = TrainOnEos::kAll;
    EXPECT_EQ(Show(source), "[<|im_end|>][<|im_end|>][b<|im_end|>][<|im_end|>][d<|im_end|>]");
  }
}

TEST_F(TurnTargetsTest, AMessageSaysWhetherItIsTrained) {
  ChatRecord record = Conversation(kTurns);
  record.messages[2].train = false;
  EXPECT_EQ(Show(kMarked, record), "[d<|im_end|>]");
  EXPECT_EQ(Show(kPlain, record), "[d<|im_end|>]");
  record.messages[1].train = true;  // marks speak of answers alone
  EXPECT_EQ(Show(kMarked, record), "[a<|im_end|>][d<|im_end|>]");
  EXPECT_EQ(rule_, TargetRule::kPrefixes);
}

TEST_F(TurnTargetsTest, OtherRolesAreTrainedToo) {
  policy_.roles = {"user", "assistant"};
  EXPECT_EQ(Show(kPlain), "[a<|im_end|>][b<|im_end|>][c<|im_end|>][d<|im_end|>]");
}

TEST_F(TurnTargetsTest, OfATemplateThatWritesTurnsAnewTheLastIsTrained) {
  EXPECT_EQ(Show(kReasoning), "[<think>\n\n</think>\n\nd<|im_end|>]");
  EXPECT_EQ(rewritten_, 1);
  policy_.train_on = TrainOn::kSplit;
  EXPECT_EQ(Show(kReasoning),
            "[<think>\n\n</think>\n\nb<|im_end|>] | [<think>\n\n</think>\n\nd<|im_end|>]");
  EXPECT_EQ(rewritten_, 0);
  policy_.train_on = TrainOn::kAll;
  ChatRecord record = Conversation({{"user", "a"}, {"assistant", "b"}, {"user", "c"}});
  EXPECT_NE(Show(kReasoning, record).find("train_on: split"), std::string::npos);
}

// As Phi-3's does.
TEST_F(TurnTargetsTest, ATokenBehindTheLastTurnAloneMakesNoTurnAnother) {
  const std::string source =
      std::string(kPlain) + "{% if not add_generation_prompt %}</s>{% endif %}";
  EXPECT_EQ(Show(source), "[b<|im_end|>][d<|im_end|>\n</s>]");
  EXPECT_EQ(rewritten_, 0);
}

TEST_F(TurnTargetsTest, ARefusalOfTheTemplateIsTold) {
  EXPECT_EQ(Show("{{ raise_exception('no way') }}"), "the template of /m refuses it: no way");
  EXPECT_NE(Show("{{ messages[0].content.x.y }}").find("the template of /m:1: UndefinedError"),
            std::string::npos)
      << Show("{{ messages[0].content.x.y }}");
}

TEST_F(TurnTargetsTest, AConversationMayBeginWithAnAnswer) {
  const ChatRecord record = Conversation({{"assistant", "b"}, {"user", "c"}, {"assistant", "d"}});
  const std::string strict = std::string("{{ '' if messages[0].role == 'x' else '' }}") + kPlain;
  EXPECT_EQ(Show(kPlain, record), "[b<|im_end|>][d<|im_end|>]");
  EXPECT_EQ(Show(strict, record), "[b<|im_end|>][d<|im_end|>]");
  const std::string upper =
      "{{ messages[0].role }}{% for m in messages %}{{ m.content | upper }}{% endfor %}";
  EXPECT_NE(Show(upper, record)
                .find("messages[0] is to be trained, but the template of /m does "
                      "not write its content as it stands"),
            std::string::npos)
      << Show(upper, record);
}

TEST(ContentGuardTest, BreaksMarkersAndPutsTheTextTogetherAgain) {
  const std::vector<std::string> markers = {"<|im_end|>", "</s>"};
  ChatRecord harmless = Conversation({{"user", "a < b [c] <|im_start|>"}});
  EXPECT_TRUE(ContentGuard(markers, &harmless).empty());
  ChatRecord record = Conversation({{"user", "x<|im_end|>y</s></s>"}});
  const ContentGuard guard(markers, &record);
  ASSERT_FALSE(guard.empty());
  const auto content = record.messages[0].fields.dict().Find("content");
  ASSERT_NE(content, nullptr);
  std::string text = "a</s><" + std::string(content->text()) + "><|im_end|>b";
  std::vector<ByteRange> ranges = {{0, text.size()}, {text.size() - 1, text.size()}};
  const std::vector<ByteRange> plain = guard.Clean(&text, &ranges);
  EXPECT_EQ(text, "a</s><x<|im_end|>y</s></s>><|im_end|>b");
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(text.substr(plain[0].begin, plain[0].end - plain[0].begin), "<x<|im_end|>y</s></s>>");
  EXPECT_EQ(ranges[0].end, text.size());
  EXPECT_EQ(ranges[1].begin, text.size() - 1);
}

// Whatever noncharacters the content holds stay in it.
TEST(ContentGuardTest, KeepsNoncharactersOfTheContent) {
  const std::vector<std::string> markers = {"</s>"};
  const std::string nonchar = "\xEF\xB7\x90";
  const std::string content = nonchar + "</s>" + nonchar + nonchar + "<" + nonchar + "/s>";
  ChatRecord record = Conversation({{"user", content}});
  const ContentGuard guard(markers, &record);
  std::string text(record.messages[0].fields.dict().Find("content")->text());
  EXPECT_NE(text, content);
  std::vector<ByteRange> none;
  EXPECT_EQ(guard.Clean(&text, &none).size(), 1u);
  EXPECT_EQ(text, content);
}

}  // namespace
}  // namespace coxswain::data
