#include "controller/cli/import/report_text.h"

#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/foreign_keys/key_tables.h"

namespace coxswain::job_import {
namespace {

constexpr std::string_view kNotSet = "not set";

std::string WithoutSpec(const std::string& path) {
  return path.rfind("spec.", 0) == 0 ? path.substr(5) : path;
}

std::string LineText(const ReportLine& line, const std::string& file) {
  std::string text = line.line > 0 ? fmt::format("{}:{}: ", file, line.line) : file + ": ";
  text += OutcomeName(line.outcome);
  text += ": ";
  text += line.key;
  if (!line.value.empty()) text += fmt::format("{}{}", line.key.empty() ? "" : ": ", line.value);
  if (!line.ours.empty() && WithoutSpec(line.ours) != line.key + ": " + line.value) {
    text += fmt::format("{}{}", line.key.empty() ? "" : " -> ", WithoutSpec(line.ours));
  }
  if (!line.reason.empty()) text += fmt::format(" ({})", line.reason);
  return text + "\n";
}

std::string Summary(const Imported& imported, const std::string& file) {
  if (!imported.in_the_way.empty()) {
    return fmt::format("{}: not imported; in the way: {}\n", file,
                       fmt::join(imported.in_the_way, "; "));
  }
  std::map<Outcome, int> counts;
  for (const ReportLine& line : imported.report) ++counts[line.outcome];
  std::vector<std::string> parts;
  for (const auto& [outcome, count] : counts) {
    parts.push_back(fmt::format("{} {}", count, OutcomeName(outcome)));
  }
  return fmt::format("{}: imported from {}: {}\n", file, foreign_keys::ToolName(imported.tool),
                     fmt::join(parts, ", "));
}

}  // namespace

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kTaken:
      return "taken";
    case Outcome::kRenamed:
      return "renamed";
    case Outcome::kChanged:
      return "changed";
    case Outcome::kDefault:
      return "default";
    case Outcome::kLeftOut:
      return "left out";
    case Outcome::kDiffers:
      return "differs";
    case Outcome::kRefused:
      break;
  }
  return "in the way";
}

std::string ReportText(const Imported& imported, const std::string& shown_file) {
  std::string text;
  std::vector<std::string> unset;
  for (const ReportLine& line : imported.report) {
    if (line.outcome == Outcome::kLeftOut && line.reason == kNotSet) {
      unset.push_back(line.key);
    } else {
      text += LineText(line, shown_file);
    }
  }
  if (!unset.empty()) {
    text += fmt::format("{}: {}: {}\n", shown_file, kNotSet, fmt::join(unset, ", "));
  }
  return text + Summary(imported, shown_file);
}

}  // namespace coxswain::job_import
