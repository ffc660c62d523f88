// Real templates against transformers. Invariants jinja-1 and jinja-2.
#include <gtest/gtest.h>

#include <map>

#include "controller/text/jinja/chat_template.h"
#include "tests/controller/text/jinja/fixture.h"

namespace coxswain::data::jinja {
namespace {

using Json = nlohmann::ordered_json;
const char kFolder[] = "tests/fixtures/templates/";

std::map<std::string, std::shared_ptr<const Template>> ParseAll() {
  std::map<std::string, std::shared_ptr<const Template>> parsed;
  for (const Json& line : ReadLines(std::string(kFolder) + "templates.jsonl.gz")) {
    parsed[line["name"]] = ParseGood(line["source"]);
  }
  return parsed;
}

// What the row of a golden file has of a rendering: text and spans in code points, or error.
Json Outcome(const absl::StatusOr<Rendering>& rendering) {
  Json outcome;
  if (!rendering.ok()) {
    const auto refusal = RefusalOf(rendering.status());
    outcome["error"] = refusal.has_value() ? refusal->kind + ": " + refusal->message : "no refusal";
    return outcome;
  }
  outcome["text"] = rendering->text;
  for (const GenerationSpan& span : CodePointSpans(*rendering)) {
    outcome["spans"].push_back({span.begin, span.end});
  }
  return outcome;
}

Json Wanted(const Json& row) {
  Json wanted;
  for (const char* field : {"error", "text", "spans"}) {
    if (row.contains(field)) wanted[field] = row[field];
  }
  return wanted;
}

TEST(JinjaGoldenTest, RendersAndRefusesAsTransformersDoes) {
  const auto templates = ParseAll();
  const SpecialTokens tokens = {"<s>", "</s>", "<pad>", "<unk>"};
  int rows = 0;
  for (const Json& row : ReadLines(std::string(kFolder) + "golden.jsonl.gz")) {
    Conversation conversation;
    conversation.messages = *FromJson(row["messages"]);
    conversation.tools = *FromJson(row["tools"]);
    conversation.kwargs = *FromJson(row["kwargs"]);
    conversation.add_generation_prompt = row["add_generation_prompt"];
    const auto found = templates.find(row["template"]);
    ASSERT_NE(found, templates.end()) << row["template"];
    const Json got = Outcome(RenderChat(*found->second, conversation, tokens, FixedClock()));
    ASSERT_EQ(got, Wanted(row)) << row["template"] << ", " << row["conversation"];
    ++rows;
  }
  EXPECT_EQ(rows, 1320);
  EXPECT_EQ(templates.size(), 60U);
}

TEST(JinjaExpressionsTest, AnswersAsJinja2Does) {
  const std::vector<Json> lines = ReadLines("tests/fixtures/jinja/expressions.jsonl.gz");
  ASSERT_GT(lines.size(), 10000U);
  const Value variables = *FromJson(lines[0]["v"]);
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto parsed = Template::Parse(lines[i]["t"], "t");
    const absl::StatusOr<Rendering> rendering =
        parsed.ok() ? (*parsed)->Render(variables, FixedClock(), {}) : parsed.status();
    Json got;
    if (rendering.ok()) {
      got["text"] = rendering->text;
    } else {
      got["error"] = RefusalOf(rendering.status())->kind;
    }
    EXPECT_EQ(got, Wanted(lines[i])) << lines[i]["t"];
  }
}

}  // namespace
}  // namespace coxswain::data::jinja
