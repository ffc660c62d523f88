#include "controller/text/jinja/template.h"

#include <gtest/gtest.h>

#include <thread>

#include "controller/text/jinja/chat_template.h"
#include "controller/text/jinja/values/containers.h"
#include "tests/controller/text/jinja/fixture.h"

namespace coxswain::data::jinja {
namespace {

std::string KindOf(const absl::StatusOr<Rendering>& rendering) {
  const auto refusal = RefusalOf(rendering.status());
  return refusal.has_value() ? refusal->kind : "";
}

TEST(JinjaTemplateTest, RefusesInTheTemplatesOwnWords) {
  const auto rendering = RenderWith("a\n{{ raise_exception('Roles: ' ~ n) }}", R"({"n": 3})");
  ASSERT_FALSE(rendering.ok());
  EXPECT_EQ(rendering.status().message(), "Roles: 3");
  const auto refusal = RefusalOf(rendering.status());
  EXPECT_EQ(refusal->kind, kTemplateError);
  EXPECT_EQ(refusal->message, "Roles: 3");
  EXPECT_EQ(refusal->line, 2);
}

TEST(JinjaTemplateTest, OtherRefusalsNameTemplateLineAndKind) {
  EXPECT_EQ(TextOf("a\n{% if 1 %}\n{{ 'a' + 1 }}{% endif %}"),
            "test.jinja:3: TypeError: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(TextOf("{{ x.y }}"), "test.jinja:1: UndefinedError: 'x' is undefined");
  EXPECT_EQ(
      TextOf("\n\n{% include 'x' %}"),
      "test.jinja:3: TemplateSyntaxError: the tag 'include' is not supported: a chat template "
      "is one file");
  EXPECT_EQ(TextOf("{{ [1]|random }}"),
            "test.jinja:1: TemplateSyntaxError: the filter 'random' is not supported: a rendering "
            "is a function of its variables");
  EXPECT_FALSE(RefusalOf(absl::InternalError("x")).has_value());
}

TEST(JinjaTemplateTest, UnsupportedTagsAreRefusedAtParse) {
  for (const char* tag : {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'",
                          "block x", "autoescape true"}) {
    const auto parsed = Template::Parse(absl::StrCat("{% ", tag, " %}"), "t");
    EXPECT_FALSE(parsed.ok()) << tag;
  }
}

TEST(JinjaTemplateTest, SpansAreBytesOfTheText) {
  const auto rendering = RenderWith(
      "{% for m in ms %}<{{ m }}>{% generation %}é{{ m }}{% endgeneration %}{% endfor %}",
      R"({"ms": ["a", "bc"]})");
  ASSERT_TRUE(rendering.ok()) << rendering.status();
  ASSERT_EQ(rendering->spans.size(), 2U);
  EXPECT_EQ(rendering->text.substr(rendering->spans[0].begin,
                                   rendering->spans[0].end - rendering->spans[0].begin),
            "éa");
  EXPECT_EQ(rendering->text.substr(rendering->spans[1].begin,
                                   rendering->spans[1].end - rendering->spans[1].begin),
            "ébc");
  EXPECT_TRUE(ParseGood("{% generation %}{% endgeneration %}")->marks_generation());
  EXPECT_FALSE(ParseGood("x")->marks_generation());
}

// A block that catches its text may drop it: then there is nothing to mark.
TEST(JinjaTemplateTest, SpansStayInsideOfTheText) {
  const auto rendering =
      RenderWith("ab{% set x %}{% generation %}cdef{% endgeneration %}{% endset %}");
  ASSERT_TRUE(rendering.ok());
  ASSERT_EQ(rendering->spans.size(), 1U);
  EXPECT_EQ(rendering->spans[0].begin, 2U);
  EXPECT_EQ(rendering->spans[0].end, 2U);
}

// Invariant jinja-3: each bound is met by a template, and named.
TEST(JinjaLimitsTest, EachIsNamed) {
  Limits limits;
  limits.steps = 10'000;
  limits.output_bytes = 1000;
  limits.value_bytes = 100'000;
  const auto message = [&](const std::string& source) {
    const auto rendering = RenderWith(source, "{}", limits);
    return rendering.ok() ? "rendered" : std::string(rendering.status().message());
  };
  const auto meets = [&](const std::string& source, const std::string& what) {
    EXPECT_NE(message(source).find(what), std::string::npos) << source << ": " << message(source);
  };
  const std::string loops = "{% for a in range(1000) %}{% for b in range(1000) %}";
  meets(loops + "{% set x = b %}{% endfor %}{% endfor %}", "steps");
  meets("{% for a in range(200) %}0123456789{% endfor %}", "1000 output_bytes");
  meets("{{ 'a' * 1000000000 }}", "100000 value_bytes");
  meets("{{ [0] * 1000000000 }}", "100000 value_bytes");
  meets("{{ 'a'.ljust(1000000000) }}", "value_bytes");
  meets("{{ 'a'|indent(1000000000, true) }}", "value_bytes");
  meets("{{ '%1000000d' % 1 }}", "wider than");
  meets("{{ '{:1000000}'.format(1) }}", "wider than");
  meets("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "depth");
  meets("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "depth");
  meets("{{ " + std::string(300, '(') + "1" + std::string(300, ')') + " }}", "nested deeper");
  meets("{{ " + std::string(300, '-') + "1 }}", "nested deeper");
  std::string sum = "{{ 1";
  for (int i = 0; i < 300; ++i) sum += " + 1";
  meets(sum + " }}", "deeper than 200");
  std::string nested;
  for (int i = 0; i < 300; ++i) nested += "{% if 1 %}";
  meets(nested, "nested deeper");
}

TEST(JinjaLimitsTest, ValuesCannotBeNestedWithoutEnd) {
  const std::string grow = "{% set ns = namespace(x=0) %}{% for i in range(9000) %}";
  for (const char* step : {"[ns.x]", "(ns.x, 1)", "{'a': ns.x}", "[ns.x]|map('list')",
                           "cycler(ns.x)", "{'a': ns.x}.get", "[ns.x]|batch(2, ns.x)"}) {
    const auto rendering = RenderWith(grow + "{% set ns.x = " + step + " %}{% endfor %}");
    EXPECT_EQ(KindOf(rendering), "RecursionError") << step << rendering.status();
  }
  // Lists that hold one list twice: 2^n items in n steps.
  const auto doubled = RenderWith(grow + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}");
  EXPECT_EQ(KindOf(doubled), "LimitError") << doubled.status();
}

TEST(JinjaLimitsTest, NamespacesMayHoldEachOther) {
  EXPECT_EQ(TextOf("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}"
                   "{% set a.self = [a] %}{{ a.b.a.b.a is sameas a }}"),
            "True");
  EXPECT_EQ(TextOf("{% set ns = namespace(x=0) %}{% for i in range(50000) %}"
                   "{% set ns.x = namespace(x=ns.x) %}{% endfor %}ok"),
            "ok");
}

// What outlives its statement is harmless.
TEST(JinjaTemplateTest, LoopsAndMacrosMayEscape) {
  EXPECT_EQ(TextOf("{% set ns = namespace() %}{% for a in [1, 2] %}{% set ns.l = loop %}"
                   "{% set ns.c = loop.changed %}{% endfor %}"
                   "{{ ns.l.index }}{{ ns.l.last }}{{ ns.c(ns.c) }}{{ ns.l|list }}"),
            "2TrueTrue[]");
  EXPECT_EQ(TextOf("{% set ns = namespace() %}{% macro m(x) %}{% macro inner() %}{{ x }}"
                   "{% endmacro %}{% set ns.f = inner %}{% endmacro %}{{ m(7) }}{{ ns.f() }}"),
            "7");
}

TEST(JinjaTemplateTest, NumbersOfTheInputKeepTheirDigits) {
  EXPECT_EQ(TextOf("{{ a }} {{ a|tojson }} {{ b }} {{ c|tojson }}",
                   R"({"a": 123456789012345678901234567890, "b": -1e-7, "c": [1.0, 1e100]})"),
            "123456789012345678901234567890 123456789012345678901234567890 -1e-07 [1.0, 1e+100]");
  EXPECT_FALSE(ParseJson("[1").ok());
  EXPECT_FALSE(ParseJson(std::string(500, '[') + std::string(500, ']')).ok());
}

TEST(JinjaChatTest, TypesOfTheConversationAreChecked) {
  const auto parsed = ParseGood("{{ messages|length }}");
  Conversation conversation;
  conversation.messages = Value::Int(1);
  EXPECT_EQ(KindOf(RenderChat(*parsed, conversation, {}, FixedClock())), "TypeError");
  conversation.messages = *ParseJson(R"([{"role": "user"}])");
  EXPECT_EQ(RenderChat(*parsed, conversation, {}, FixedClock())->text, "1");
  conversation.tools = Value::Text("x");
  EXPECT_EQ(KindOf(RenderChat(*parsed, conversation, {}, FixedClock())), "TypeError");
}

TEST(JinjaChatTest, ReasoningIsKnownByItsNames) {
  const auto parsed = ParseGood(
      "{% for m in messages %}{{ m.thinking }}|{{ m.reasoning_content }}|{{ m.reasoning }};"
      "{% endfor %}{{ bos_token is defined }}{{ eos_token }}");
  Conversation conversation;
  conversation.messages = *ParseJson(
      R"([{"reasoning": "a"}, {"thinking": "b"}, {"reasoning_content": "c"}, {"thinking": null}])");
  SpecialTokens tokens;
  tokens.eos = "</s>";
  EXPECT_EQ(RenderChat(*parsed, conversation, tokens, FixedClock())->text,
            "a|a|a;b|b|;c|c|;None||;False</s>");
}

// Invariant jinja-4.
TEST(JinjaTemplateTest, ThreadsShareATemplate) {
  const auto parsed = ParseGood(
      "{% macro m(x) %}{{ 'é' ~ x }}{% endmacro %}{% for a in l %}{{ m(a)|upper }}{{ 'k' in d }}"
      "{{ 'text'[::-1] }}{% endfor %}");
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (std::string& text : texts) {
    threads.emplace_back([&parsed, &text] {
      for (int i = 0; i < 200; ++i) {
        const Value variables = *ParseJson(R"({"l": ["a", "b"], "d": {"k": 1}})");
        text = parsed->Render(variables, FixedClock(), {})->text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "ÉATruetxetÉBTruetxet");
}

}  // namespace
}  // namespace coxswain::data::jinja
