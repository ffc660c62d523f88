#include "controller/data/readers/preference_sides.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coxswain::data {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::vector<std::string>;

// Source: TRL, Axolotl's chatml.argilla, LLaMA-Factory.
Names ChosenNames(const config::RecordFields& fields) {
  if (!fields.chosen.empty()) return {fields.chosen};
  return {"chosen", "chosen_response"};
}

Names RejectedNames(const config::RecordFields& fields) {
  if (!fields.rejected.empty()) return {fields.rejected};
  return {"rejected", "rejected_response"};
}

// Lists of completions. Source: UltraFeedback (completions), Nectar (answers), LLaMA-Factory before
// its `ranking` (output).
Names ListNames(const config::RecordFields& fields) {
  return {"completions", "responses", "answers", fields.output};
}

constexpr std::pair<const char*, const char*> kSideScores[] = {
    {"score_chosen", "score_rejected"},
    {"chosen_score", "rejected_score"},
    {"chosen_rating", "rejected_rating"},
    {"chosen-rating", "rejected-rating"},
};
constexpr const char* kScoreLists[] = {"scores", "ratings", "rewards"};
constexpr const char* kScoreKeys[] = {"score", "overall_score", "rating", "reward"};
constexpr const char* kRankLists[] = {"ranks", "ranking"};
constexpr const char* kRankKeys[] = {"rank"};
constexpr const char* kTextKeys[] = {"answer", "response", "completion", "text"};

absl::Status BadSides(const std::string& what) { return absl::InvalidArgumentError(what); }

RecordPart FindPart(const Json& record, const Names& names) {
  for (const std::string& name : names) {
    const auto found = record.find(name);
    if (found != record.end() && !found->is_null()) return {&*found, name};
  }
  return {};
}

std::optional<double> NumberOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

void NoteScores(const Json& record, RecordNotes* notes) {
  for (const auto& [chosen, rejected] : kSideScores) {
    const auto better = NumberOf(record, chosen), worse = NumberOf(record, rejected);
    if (better && worse && *better < *worse) return Note(NoteKind::kScoresDisagree, "", notes);
  }
}

// Numbers of the completions of a list, the greatest of which is the best; empty: none are given.
class Scores {
 public:
  Scores(const Json& record, const Json& list) : record_(record), list_(list) {}

  std::vector<double> Find() const {
    for (const char* key : kScoreLists) {
      if (auto of = OfRecord(key, 1); !of.empty()) return of;
    }
    for (const char* key : kRankLists) {
      if (auto of = OfRecord(key, -1); !of.empty()) return of;
    }
    for (const char* key : kScoreKeys) {
      if (auto of = OfItems(key, 1); !of.empty()) return of;
    }
    for (const char* key : kRankKeys) {
      if (auto of = OfItems(key, -1); !of.empty()) return of;
    }
    return {};
  }

 private:
  std::vector<double> OfRecord(const char* key, double sign) const {
    const auto found = record_.find(key);
    if (found == record_.end() || !found->is_array() || found->size() != list_.size()) return {};
    std::vector<double> scores;
    for (const Json& number : *found) {
      if (number.is_number()) scores.push_back(sign * number.get<double>());
    }
    return scores.size() == list_.size() ? scores : std::vector<double>();
  }
  std::vector<double> OfItems(const char* key, double sign) const {
    std::vector<double> scores;
    for (const Json& item : list_) {
      const auto number = item.is_object() ? NumberOf(item, key) : std::nullopt;
      if (!number) return {};
      scores.push_back(sign * *number);
    }
    return scores;
  }

  const Json& record_;
  const Json& list_;
};

// The text of an item {answer, rank}; a message or a text is what it is.
RecordPart ItemOf(const RecordPart& list, size_t index) {
  const Json& item = (*list.value)[index];
  const std::string name = absl::StrCat(list.name, "[", index, "]");
  for (const char* key : kTextKeys) {
    const auto text = item.is_object() ? item.find(key) : item.end();
    if (text != item.end() && text->is_string()) return {&*text, absl::StrCat(name, ".", key)};
  }
  return {&item, name};
}

absl::StatusOr<PreferenceSides> FromRanking(const Json& record, const RecordPart& list) {
  const size_t count = list.value->size();
  if (count < 2) {
    return BadSides(absl::StrCat("field \"", list.name, "\" holds ", count,
                                 " completions; a preference needs two or more"));
  }
  const std::vector<double> scores = Scores(record, *list.value).Find();
  if (scores.empty()) return PreferenceSides{ItemOf(list, 0), ItemOf(list, count - 1)};
  const auto best = std::max_element(scores.begin(), scores.end());
  const auto worst = std::min_element(scores.begin(), scores.end());
  if (!(*worst < *best)) {
    return BadSides(
        absl::StrCat("field \"", list.name,
                     "\" holds completions with equal scores: none of them is preferred"));
  }
  return PreferenceSides{ItemOf(list, static_cast<size_t>(best - scores.begin())),
                         ItemOf(list, static_cast<size_t>(worst - scores.begin()))};
}

}  // namespace

bool NamesSides(const Json& record, const config::RecordFields& fields) {
  return FindPart(record, ChosenNames(fields)).value != nullptr ||
         FindPart(record, RejectedNames(fields)).value != nullptr;
}

absl::StatusOr<PreferenceSides> FindSides(const Json& record, const config::RecordFields& fields,
                                          RecordNotes* notes) {
  const RecordPart chosen = FindPart(record, ChosenNames(fields));
  const RecordPart rejected = FindPart(record, RejectedNames(fields));
  if (chosen.value != nullptr && rejected.value != nullptr) {
    NoteScores(record, notes);
    return PreferenceSides{chosen, rejected};
  }
  if (chosen.value != nullptr || rejected.value != nullptr) {
    const std::string there = chosen.value != nullptr ? chosen.name : rejected.name;
    const std::string missing =
        chosen.value != nullptr ? RejectedNames(fields).front() : ChosenNames(fields).front();
    return BadSides(absl::StrCat("field \"", missing, "\" is missing beside \"", there,
                                 "\"; a preference pair has both"));
  }
  const RecordPart list = FindPart(record, ListNames(fields));
  if (list.value != nullptr && list.value->is_array()) return FromRanking(record, list);
  return BadSides(absl::StrCat(
      "fields \"", ChosenNames(fields).front(), "\" and \"", RejectedNames(fields).front(),
      "\" are missing; a preference pair has both, or a list of completions, "
      "the best one first"));
}

std::vector<std::string> SideFields(const config::RecordFields& fields) {
  Names names = ChosenNames(fields);
  for (const Names& more : {RejectedNames(fields), ListNames(fields)}) {
    names.insert(names.end(), more.begin(), more.end());
  }
  for (const auto& [chosen, rejected] : kSideScores) {
    names.emplace_back(chosen);
    names.emplace_back(rejected);
  }
  names.insert(names.end(), std::begin(kScoreLists), std::end(kScoreLists));
  names.insert(names.end(), std::begin(kRankLists), std::end(kRankLists));
  return names;
}

}  // namespace coxswain::data
