#include "controller/incidents/explain_incident.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/failure/odd_ranks.h"

namespace coxswain::incidents {
namespace {

using nlohmann::json;

constexpr int kMostThreads = 12, kMostFrames = 16;

std::vector<std::string> ThreadsOf(const std::string& stacks) {
  std::vector<std::string> threads;
  for (const absl::string_view line : absl::StrSplit(stacks, '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, " ") && !threads.empty()) {
      absl::StrAppend(&threads.back(), "\n", line);
    } else {
      threads.emplace_back(line);
    }
  }
  return threads;
}

std::string Indented(const std::string& thread) {
  std::string text;
  int lines = 0;
  for (const absl::string_view line : absl::StrSplit(thread, '\n')) {
    if (lines++ > kMostFrames) return absl::StrCat(text, "        ...\n");
    absl::StrAppend(&text, "    ", line, "\n");
  }
  return text;
}

// Where the ranks of a group stand; `alike` is in how many groups a thread is.
std::string GroupText(const json& group, const std::map<std::string, size_t>& alike,
                      size_t groups) {
  const auto ranks = group.at("ranks").get<std::vector<int>>();
  std::string text = absl::StrCat("  ", failure::NameRanks(ranks),
                                  ranks.size() == 1 ? " stands" : " stand", " at\n");
  int shown = 0, left = 0;
  for (const std::string& thread : ThreadsOf(group.at("stacks").get<std::string>())) {
    if ((groups > 1 && alike.at(thread) == groups) || shown == kMostThreads) {
      ++left;
      continue;
    }
    ++shown;
    absl::StrAppend(&text, Indented(thread));
  }
  if (left > 0) absl::StrAppend(&text, "    (and ", left, " other threads)\n");
  return text;
}

std::string GroupsText(const json& groups) {
  std::map<std::string, size_t> alike;
  for (const json& group : groups) {
    for (const std::string& thread : ThreadsOf(group.at("stacks").get<std::string>())) {
      ++alike[thread];
    }
  }
  std::string text;
  for (const json& group : groups) absl::StrAppend(&text, GroupText(group, alike, groups.size()));
  return text;
}

// Ranks of no group, each reason once.
std::string WithoutStacks(const json& ranks) {
  std::map<std::string, std::vector<int>> by_reason;
  for (const json& rank : ranks) {
    if (!rank.contains("stacks_error")) continue;
    by_reason[rank.at("stacks_error").get<std::string>()].push_back(rank.at("rank").get<int>());
  }
  std::string text;
  for (const auto& [reason, of] : by_reason) {
    absl::StrAppend(&text, "  no stacks of ", failure::NameRanks(of), ": ", reason, "\n");
  }
  return text;
}

}  // namespace

std::string ExplainIncident(const json& incident) {
  std::string text = absl::StrCat("Dump of gang ", incident.at("epoch").get<uint64_t>());
  const auto error = incident.at("error").get<std::string>();
  absl::StrAppend(&text, error.empty() ? ", as a user asked" : ", which failed: ", error, "\n");
  const json& finding = incident.at("finding");
  const auto advice = finding.at("advice").get<std::string>();
  const auto odd = finding.at("ranks").get<std::vector<int>>();
  absl::StrAppend(&text, "  ",
                  odd.empty() ? "" : absl::StrCat("Odd: ", failure::NameRanks(odd), ". "),
                  "Found: ", finding.at("why").get<std::string>(), "\n");
  if (!advice.empty()) absl::StrAppend(&text, "  To do: ", advice, "\n");
  return absl::StrCat(text, GroupsText(incident.at("groups")), WithoutStacks(incident.at("ranks")));
}

}  // namespace coxswain::incidents
