#include "controller/cli/jobs/render_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "controller/text/tokenizer/file/gzip_file.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Rendered {
  int code;
  std::string out;
  std::string err;
};

class RenderTemplateTest : public ::testing::Test {
 protected:
  Rendered Run(const std::string& source, const std::string& lines) {
    args_.template_file = directory_.Write("chat.jinja", source);
    args_.lines = directory_.Write("lines.jsonl", lines);
    return RunArgs();
  }

  Rendered RunArgs() {
    std::ostringstream out;
    std::ostringstream err;
    const int code = RunRenderTemplate(args_, out, err);
    return {code, out.str(), err.str()};
  }

  support::ScratchFolder directory_;
  RenderTemplateArgs args_;
};

TEST_F(RenderTemplateTest, PrintsTextAndSpansOfEachLine) {
  args_.bos = "<s>";
  args_.now = "2025-07-26T12:00:00";
  const Rendered result = Run(
      "{{ bos_token }}{{ eos_token is defined }}{{ strftime_now('%d.%m.%Y') }}{{ x }}"
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
      "{{ '!' if add_generation_prompt }}{{ tools|length if tools }}",
      R"({"messages": [{"content": "\u00e9\u00e9"}, {"content": "b"}], "kwargs": {"x": "\u00fc"}})"
      "\n"
      R"({"messages": [], "add_generation_prompt": true, "tools": [{}]})"
      "\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "{\"text\":\"<s>False26.07.2025\u00fc\u00e9\u00e9b\",\"spans\":[[19,21],[21,22]]}\n"
            "{\"text\":\"<s>False26.07.2025!1\",\"spans\":[]}\n");
}

TEST_F(RenderTemplateTest, RefusalsAndBrokenLinesAreErrorsInTheirPlace) {
  const Rendered result =
      Run("{% if not messages %}{{ raise_exception('Empty \"chat\"') }}{% endif %}\n"
          "{{ 'a' + messages }}",
          "{\"messages\": []}\n{\"messages\": [{}]}\n{\"messages\"\n\n[1]\n{\"messages\": 5}\n{}");
  EXPECT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  std::vector<std::string> errors;
  for (std::string line; std::getline(lines, line);)
    errors.push_back(OrderedJson::parse(line)["error"]);
  ASSERT_EQ(errors.size(), 7U) << result.out;
  EXPECT_EQ(errors[0], "TemplateError: Empty \"chat\"");
  EXPECT_EQ(errors[1], "TypeError: can only concatenate str (not \"list\") to str (" +
                           args_.template_file + ":2)");
  EXPECT_EQ(errors[2].find("ValueError: " + args_.lines + ":3: not JSON at byte "), 0U);
  EXPECT_EQ(errors[3].find("ValueError: " + args_.lines + ":4: not JSON"), 0U);
  EXPECT_EQ(errors[4], "ValueError: " + args_.lines + ":5: not a JSON object");
  EXPECT_EQ(errors[5].find("TypeError: messages should be a list of objects, got int"), 0U);
  EXPECT_EQ(errors[6].find("TypeError: messages should be a list of objects"), 0U);
}

// The goldens of transformers through the command. Invariant jinja-1.
TEST_F(RenderTemplateTest, GoldensOfATemplate) {
  const std::string folder = "tests/fixtures/templates/";
  const std::string name = "ct--qwen2.5-instruct.jinja";
  std::string source;
  std::istringstream templates(*data::ReadMaybeGzip(folder + "templates.jsonl.gz"));
  for (std::string line; std::getline(templates, line);) {
    const OrderedJson entry = OrderedJson::parse(line);
    if (entry["name"] == name) source = entry["source"];
  }
  std::string lines;
  std::vector<OrderedJson> rows;
  std::istringstream golden(*data::ReadMaybeGzip(folder + "golden.jsonl.gz"));
  for (std::string line; std::getline(golden, line);) {
    const OrderedJson row = OrderedJson::parse(line);
    if (row["template"] != name) continue;
    rows.push_back(row);
    lines += line + "\n";
  }
  ASSERT_GT(rows.size(), 10U);
  const Rendered result = Run(source, lines);
  std::istringstream out(result.out);
  for (const OrderedJson& row : rows) {
    std::string line;
    ASSERT_TRUE(std::getline(out, line));
    const OrderedJson got = OrderedJson::parse(line);
    if (row.contains("text")) {
      EXPECT_EQ(got["text"], row["text"]);
    } else {
      EXPECT_TRUE(got.contains("error"));
    }
  }
}

TEST_F(RenderTemplateTest, BadArgumentsHaveTheirCodes) {
  EXPECT_EQ(Run("{% nosuch %}", "").code, 2);
  EXPECT_NE(RunArgs().err.find("chat.jinja:1: TemplateSyntaxError: "), std::string::npos);
  args_.now = "yesterday";
  EXPECT_EQ(Run("x", "").code, 2);
  args_.now = "";
  EXPECT_EQ(Run("", "").code, 0);
  args_.lines = "/nowhere";
  EXPECT_EQ(RunArgs().code, 4);
  args_.template_file = "/nowhere";
  EXPECT_EQ(RunArgs().code, 4);
}

}  // namespace
}  // namespace coxswain::cli
