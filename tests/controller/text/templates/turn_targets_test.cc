// Which tokens of a conversation are trained, under templates that mark answers and such that do
// not.
#include "controller/text/templates/turn_targets.h"

#include <string>

#include <gtest/gtest.h>

#include "controller/text/jinja/values/containers.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/templates/content_guard.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/templates/conversation.h"

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
    tokens.ends = ends_;
    const auto chat_template = ConversationTemplate::OwnOf(tokens);
    if (!chat_template.ok()) return std::string(chat_template.status().message());
    const auto texts = FindTargets(*chat_template, policy_, record);
    if (!texts.ok()) return std::string(texts.status().message());
    std::string shown;
    for (const MarkedText& text : *texts) {
      shown += (shown.empty() ? "" : " | ") + Brackets(text);
      rule_ = text.rule;
      turns_ = text.turns;
      text_ = text.text;
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
  std::vector<std::string> ends_;
  TurnCounts turns_;
  std::string text_;
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

// Each answer stands as it was said: its thoughts stay, though the template drops them later on.
TEST_F(TurnTargetsTest, AnswersThatAreWrittenAnewAreTrainedAsTheyWereSaid) {
  const std::string said =
      "[<think>\n\n</think>\n\nb<|im_end|>][<think>\n\n</think>\n\nd<|im_end|>]";
  EXPECT_EQ(Show(kReasoning), said);
  EXPECT_EQ(turns_.as_said, 1);
  EXPECT_EQ(turns_.rewritten, 0);
  EXPECT_EQ(text_,
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
            "<|im_start|>assistant\n<think>\n\n</think>\n\nb<|im_end|>\n"
            "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
            "d<|im_end|>\n");
  // The answer's words stand in markers and in questions too.
  const ChatRecord words = Conversation({{"user", "b"},
                                         {"assistant", "a"},
                                         {"user", "a"},
                                         {"assistant", "t"},
                                         {"user", "t\nt"},
                                         {"assistant", "e"}});
  EXPECT_EQ(Show(kReasoning, words),
            "[<think>\n\n</think>\n\na<|im_end|>][<think>\n\n</think>\n\nt<|im_end|>]"
            "[<think>\n\n</think>\n\ne<|im_end|>]");
  EXPECT_EQ(turns_.unended, 0);
  policy_.train_on = TrainOn::kSplit;
  EXPECT_EQ(Show(kReasoning),
            "[<think>\n\n</think>\n\nb<|im_end|>] | [<think>\n\n</think>\n\nd<|im_end|>]");
  EXPECT_EQ(turns_.as_said, 0);
  policy_.train_on = TrainOn::kAll;
  ChatRecord record = Conversation({{"user", "a"}, {"assistant", "b"}, {"user", "You said: b"}});
  EXPECT_EQ(Show(kReasoning, record), "[<think>\n\n</think>\n\nb<|im_end|>]");
  EXPECT_TRUE(text_.ends_with("b<|im_end|>\n<|im_start|>user\nYou said: b<|im_end|>\n")) << text_;
}

// A template that moves other text (Mistral's tools) is not put together.
TEST_F(TurnTargetsTest, WhereMoreThanAnswersIsWrittenAnewTheLastIsTrained) {
  const std::string moving =
      "{% for m in messages %}{% if m.role == 'user' and loop.index0 >= loop.length - 2 %}TOOLS"
      "{% endif %}{{ m.role }}:{{ m.content }}</s>{% endfor %}";
  const ChatRecord record =
      Conversation({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}});
  EXPECT_EQ(Show(moving, record), "[d</s>]");
  EXPECT_EQ(turns_.rewritten, 1);
  EXPECT_EQ(turns_.as_said, 0);
}

// The prompt ends inside of a reasoning tag that the answer does not write: none of its bytes are
// lost, however it begins.
TEST_F(TurnTargetsTest, TheMaskBeginsBehindTheLastTagOfThePrompt) {
  const std::string forced =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";
  EXPECT_EQ(Show(forced, Conversation({{"user", "a"}, {"assistant", "<thanks> b"}})),
            "[<thanks> b<|im_end|>]");
  EXPECT_EQ(Show(forced, Conversation({{"user", "a"}, {"assistant", "b"}})), "[b<|im_end|>]");
  EXPECT_EQ(Show(forced, Conversation({{"user", "a"}, {"assistant", "<think>\nx</think>b"}})),
            "[x</think>b<|im_end|>]");
  const std::string closed =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}<think>"
      "</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";
  EXPECT_EQ(Show(closed, Conversation({{"user", "a"}, {"assistant", "</b>"}})),
            "[</think></b><|im_end|>]");
}

// As FastChat's templates write turns: the prompt is indented otherwise than the turn's header.
TEST_F(TurnTargetsTest, APromptOfOtherWhiteSpaceIsNoTarget) {
  const std::string indented =
      "{% for m in messages %}\n    ### {{ m.role }}:\n{{ m.content }}</s>\n{% endfor %}"
      "{% if add_generation_prompt %}### assistant:\n{% endif %}";
  EXPECT_EQ(Show(indented, Conversation({{"user", "a"}, {"assistant", "b"}})), "[b</s>]");
}

TEST_F(TurnTargetsTest, AnAnswerEndsWithTheTokenThatStandsBehindIt) {
  const ChatRecord record =
      Conversation({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}});
  // Marks without the end, as older training templates have them.
  EXPECT_EQ(Show("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
                 "{% generation %}{{ m.content }}{% endgeneration %}<|im_end|>\n{% else %}"
                 "{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}",
                 record),
            "[b<|im_end|>][d<|im_end|>]");
  EXPECT_EQ(turns_.unended, 0);
  // The last turn ends with another token, as gpt-oss's does.
  EXPECT_EQ(Show("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% if loop.last "
                 "and not add_generation_prompt %}</s>{% else %}<|im_end|>{% endif %}{% endfor %}"
                 "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
                 record),
            "[b<|im_end|>][d</s>]");
  EXPECT_EQ(turns_.unended, 0);
}

// Also where it is written anew: the marker that it ends with as the last one begins alike.
TEST_F(TurnTargetsTest, AnAnswerAsItWasSaidEndsWithAWholeToken) {
  const ChatRecord record = Conversation({{"user", "a"},
                                          {"assistant", "b"},
                                          {"user", "c"},
                                          {"assistant", "d"},
                                          {"user", "e"},
                                          {"assistant", "f"}});
  EXPECT_EQ(Show("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and "
                 "loop.last %}<think></think>{% endif %}{{ m.content }}{% if loop.last and not "
                 "add_generation_prompt %}</s>{% else %}<|im_end|>{% endif %}{% endfor %}"
                 "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
                 record),
            "[<think></think>b<|im_end|>][<think></think>d<|im_end|>][<think></think>f</s>]");
  EXPECT_EQ(turns_.unended, 0);
  EXPECT_EQ(turns_.as_said, 2);
}

// Thoughts that stand in the content are cut off there; one without words is not found again, and
// no end is taken for its words.
TEST_F(TurnTargetsTest, ThoughtsOfContentsAreTrainedAsTheyWereSaid) {
  const std::string cutting =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and not "
      "loop.last %}{{ m.content.split('</think>')[-1] | trim }}{% else %}{{ m.content }}{% endif %}"
      "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  ChatRecord record = Conversation({{"user", "a"},
                                    {"assistant", "<think>\nx\n</think>\n\nb"},
                                    {"user", "c"},
                                    {"assistant", "<think>\ny\n</think>\n\nd"}});
  EXPECT_EQ(Show(cutting, record),
            "[<think>\nx\n</think>\n\nb<|im_end|>][<think>\ny\n</think>\n\nd<|im_end|>]");
  EXPECT_EQ(turns_.as_said, 1);
  record.messages[1] = TextMessage("assistant", "<think>\nx\n</think>");
  EXPECT_EQ(Show(cutting, record), "[<think>\ny\n</think>\n\nd<|im_end|>]");
  EXPECT_EQ(turns_.rewritten, 1);
  EXPECT_TRUE(text_.find("assistant\n<|im_end|>\n<|im_start|>user") != std::string::npos) << text_;
}

// As markup and code do: the words begin as the tag of the thought does.
TEST_F(TurnTargetsTest, AnswersThatBeginWithATagAreTrainedAsTheyWereSaid) {
  const ChatRecord record =
      Conversation({{"user", "a"}, {"assistant", "<b> x"}, {"user", "c"}, {"assistant", "<"}});
  EXPECT_EQ(Show("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and "
                 "loop.last %}<think>\n\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n"
                 "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
                 "{% endif %}",
                 record),
            "[\n</think>\n\n<b> x<|im_end|>][\n</think>\n\n<<|im_end|>]");
  EXPECT_EQ(turns_.as_said, 1);
}

// As gpt-oss's does: an answer takes away the thoughts of the calls before it.
TEST_F(TurnTargetsTest, AnAnswerThatRewritesTheTurnsBeforeItBeginsBehindItsPrompt) {
  const ChatRecord record =
      Conversation({{"user", "a"}, {"assistant", "b"}, {"tool", "t"}, {"assistant", "d"}});
  EXPECT_EQ(Show("{% for m in messages %}<|im_start|>{{ m.role }}{% if m.role == 'assistant' and "
                 "(loop.last or messages[-1].role == 'tool') %}<t></t>{% endif %}{{ m.content }}"
                 "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant"
                 "{% endif %}",
                 record),
            "[<t></t>b<|im_end|>][<t></t>d<|im_end|>]");
  EXPECT_EQ(turns_.as_said, 1);
}

TEST_F(TurnTargetsTest, WhiteSpaceWithWhichAnAnswerBeginsIsATarget) {
  const ChatRecord record = Conversation({{"user", "a"}, {"assistant", " \n b"}});
  EXPECT_EQ(Show("{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}", record),
            "[ \n b</s>]");
  EXPECT_EQ(
      Show("{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}</s>{% endfor %}", record),
      "[b</s>]");
}

TEST_F(TurnTargetsTest, WhiteSpaceBehindAThoughtThatIsCutOffIsATarget) {
  EXPECT_EQ(Show("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
                 "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}"
                 "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
                 "<think>\n{% endif %}",
                 Conversation({{"user", "a"}, {"assistant", "<think>\nx\n</think>\n\nb"}})),
            "[\n\nb<|im_end|>]");
}

// As those of Phi-3.5 and Gemma do that are made for training.
TEST_F(TurnTargetsTest, MarksThatTouchAreOne) {
  EXPECT_EQ(
      Show("{% for m in messages %}{% generation %}{% endgeneration %}<|im_start|>{{ m.role }}\n"
           "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
           "{% generation %}<|im_end|>\n{% endgeneration %}{% else %}{{ m.content }}"
           "<|im_end|>\n{% endif %}{% endfor %}"),
      "[b<|im_end|>\n][d<|im_end|>\n]");
  EXPECT_EQ(rule_, TargetRule::kMarks);
}

// As GLM-4's does: the marker of the next turn is the end, where the model ends with it.
TEST_F(TurnTargetsTest, TheNextTurnsMarkerIsTheEndWhereTheModelEndsWithIt) {
  const std::string glm =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  EXPECT_EQ(Show(glm), "[b][d]");
  EXPECT_EQ(turns_.unended, 2);
  ends_ = {"<|im_start|>"};
  EXPECT_EQ(Show(glm), "[b<|im_start|>][d]");
  EXPECT_EQ(turns_.unended, 1);
  policy_.train_on_eos = TrainOnEos::kNone;
  EXPECT_EQ(Show(glm), "[b][d]");
  EXPECT_EQ(turns_.unended, 0);
}

ChatRecord Calling(const std::string& content) {
  ChatRecord record = Conversation({{"user", "a"}, {"assistant", content}});
  Message& call = record.messages[1];
  call.has_more = true;
  call.fields = *jinja::ParseJson(
      R"({"role": "assistant", "content": ")" + content +
      R"(", "tool_calls": [{"type": "function", "function": {"name": "rain", "arguments": {}}}]})");
  return record;
}

TEST_F(TurnTargetsTest, AnAnswerOfWhichTheTemplateWritesNothingIsRefused) {
  EXPECT_EQ(Show(kPlain, Calling("")),
            "the template of /m writes nothing of messages[1], whose tool_calls it does not know, "
            "so that its end alone would be trained; use another template, or set train: false in "
            "it");
  EXPECT_EQ(Show(kPlain, Calling("I look.")), "[I look.<|im_end|>]");
  EXPECT_EQ(turns_.without_calls, 1);
  const std::string calls =
      "{% for m in messages %}{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.name }}{% endfor %}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}assistant\n{% endif %}";
  EXPECT_EQ(Show(calls, Calling("")), "[rain<|im_end|>]");
  EXPECT_EQ(turns_.without_calls, 0);
}

// As gpt-oss's does: it writes the first call alone.
TEST_F(TurnTargetsTest, OneCallOfTwoIsNoEmptyAnswer) {
  const auto record = ParseConversation(
      nlohmann::ordered_json::parse(R"({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [
          {"function": {"name": "rain", "arguments": {}}},
          {"function": {"name": "wind", "arguments": {}}}]}]})"),
      {});
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(Show("{% for m in messages %}{{ m.role }}\n{{ m.content }}{% if m.tool_calls %}"
                 "{{ m.tool_calls[0].function.name }}{% endif %}<|im_end|>{% endfor %}"
                 "{% if add_generation_prompt %}assistant\n{% endif %}",
                 *record),
            "[rain<|im_end|>]");
  EXPECT_EQ(turns_.without_calls, 1);
}

// As Phi-3's does.
TEST_F(TurnTargetsTest, ATokenBehindTheLastTurnAloneMakesNoTurnAnother) {
  const std::string source =
      std::string(kPlain) + "{% if not add_generation_prompt %}</s>{% endif %}";
  EXPECT_EQ(Show(source), "[b<|im_end|>][d<|im_end|>\n</s>]");
  EXPECT_EQ(turns_.rewritten, 0);
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
  EXPECT_EQ(Show(upper, record), "[B][D]");
}

// Arguments came as text: a template that adds them to text gets the text, as transformers gives
// it, and one that dumps them the value.
TEST_F(TurnTargetsTest, ArgumentsAreWhatTheTemplateTakes) {
  const auto record = ParseConversation(
      nlohmann::ordered_json::parse(R"({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function":
          {"name": "rain", "arguments": "{\"city\":  \"Oslo\"}"}}]}]})"),
      {});
  ASSERT_TRUE(record.ok()) << record.status();
  const auto source = [](const std::string& call) {
    return "{% for m in messages %}{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}" +
           call + "{% endfor %}<|im_end|>{% endfor %}" +
           "{% if add_generation_prompt %}assistant\n{% endif %}";
  };
  const std::string text = "[rain {\"city\":  \"Oslo\"}<|im_end|>]";
  EXPECT_EQ(Show(source("{{ c.function.name + ' ' + c.function.arguments }}"), *record), text);
  EXPECT_EQ(Show(source("{{ c.function.name }} {{ c.function.arguments }}"), *record), text);
  EXPECT_EQ(Show(source("{{ c.function.name }} {{ c.function.arguments | tojson }}"), *record),
            "[rain {\"city\": \"Oslo\"}<|im_end|>]");
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
  const std::vector<size_t> seams = guard.Clean(&text, &ranges);
  EXPECT_EQ(text, "a</s><x<|im_end|>y</s></s>><|im_end|>b");
  EXPECT_EQ(seams, (std::vector<size_t>{8, 19, 23}));  // behind each "<"
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
  EXPECT_EQ(guard.Clean(&text, &none).size(), 1u);  // of the whole marker
  EXPECT_EQ(text, content);
}

}  // namespace
}  // namespace coxswain::data
