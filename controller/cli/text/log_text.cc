#include "controller/cli/text/log_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/format.h"
#include "common/outside_text.h"

namespace coxswain::cli {

constexpr size_t kMostLineBytes = 1 << 20;

std::string LogText(const v1::LogLine& line) {
  const std::string origin = line.rank() < 0 ? "controller" : fmt::format("rank {}", line.rank());
  const auto json = nlohmann::ordered_json::parse(line.json(), nullptr, /*allow_exceptions=*/false);
  const bool object = json.is_object();
  std::string message = object && json.contains("msg") && json["msg"].is_string()
                            ? json["msg"].get<std::string>()
                            : (object ? "" : line.json());
  std::string text = fmt::format("{}  {:<10}  {:<7}  {}", FormatTime(line.time_unix_ms()), origin,
                                 line.level(), message);
  if (!object) return OneLine(text, kMostLineBytes);
  for (const auto& [key, value] : json.items()) {
    if (key == "ts" || key == "level" || key == "msg" || key == "component" || key == "rank" ||
        key == "job")
      continue;
    const std::string shown =
        value.is_string()
            ? value.get<std::string>()
            : value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    text += fmt::format("  {}={}", key, shown);
  }
  return OneLine(text, kMostLineBytes);
}

std::string AnswerText(const std::string& heading, const std::string& text) {
  std::string out = fmt::format("    {}\n", heading);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += fmt::format("      {}\n", text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

}  // namespace coxswain::cli
