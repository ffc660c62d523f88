// What the tests of templates share: files of JSON lines, and a clock that stands.
#ifndef COXSWAIN_TESTS_CONTROLLER_TEXT_JINJA_FIXTURE_H_
#define COXSWAIN_TESTS_CONTROLLER_TEXT_JINJA_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "controller/text/jinja/template.h"
#include "controller/text/jinja/values/operators.h"
#include "controller/text/tokenizer/file/gzip_file.h"

namespace coxswain::data::jinja {

inline std::vector<nlohmann::ordered_json> ReadLines(const std::string& path) {
  const auto text = ReadMaybeGzip(path);
  EXPECT_TRUE(text.ok()) << text.status();
  std::vector<nlohmann::ordered_json> lines;
  std::istringstream in(text.value_or(""));
  for (std::string line; std::getline(in, line);) {
    lines.push_back(nlohmann::ordered_json::parse(line));
  }
  return lines;
}

// 2025-07-26 12:00, as in the goldens.
inline Clock FixedClock() {
  const absl::TimeZone zone = absl::UTCTimeZone();
  return {absl::FromCivil(absl::CivilSecond(2025, 7, 26, 12, 0, 0), zone), zone};
}

inline std::shared_ptr<const Template> ParseGood(const std::string& source) {
  auto parsed = Template::Parse(source, "test.jinja");
  EXPECT_TRUE(parsed.ok()) << source << ": " << parsed.status();
  return *std::move(parsed);
}

inline absl::StatusOr<Rendering> RenderWith(const std::string& source,
                                            const std::string& variables = "{}",
                                            const Limits& limits = {}) {
  auto parsed = Template::Parse(source, "test.jinja");
  if (!parsed.ok()) return parsed.status();
  const auto values = ParseJson(variables);
  EXPECT_TRUE(values.ok()) << values.status();
  return (*parsed)->Render(*values, FixedClock(), limits);
}

// The text, or the status where there is none.
inline std::string TextOf(const std::string& source, const std::string& variables = "{}") {
  const auto rendering = RenderWith(source, variables);
  return rendering.ok() ? rendering->text : std::string(rendering.status().message());
}

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_TESTS_CONTROLLER_TEXT_JINJA_FIXTURE_H_
