#include "controller/data/class_labels.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "controller/data/readers/typed_fields.h"

namespace coxswain::data {
namespace {

using Label = ClassifiedRecord::Label;

constexpr size_t kNamesInErrors = 10;

// As JSON has it.
std::string ShownLabel(const Label& label) {
  return std::visit(
      [](const auto& value) {
        return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      },
      label);
}

std::string ShownLabels(const ClassifiedRecord& record) {
  std::vector<std::string> shown;
  for (const Label& label : record.labels) {
    shown.push_back(shown.size() < kNamesInErrors ? ShownLabel(label) : "...");
    if (shown.size() > kNamesInErrors) break;
  }
  const std::string text = absl::StrJoin(shown, ", ");
  return record.is_list ? absl::StrCat("[", text, "]") : text;
}

// An entry that says whether its class is one.
bool MayBeFlag(const Label& label) {
  const auto* index = std::get_if<int64_t>(&label);
  return std::holds_alternative<bool>(label) || std::holds_alternative<double>(label) ||
         (index != nullptr && (*index == 0 || *index == 1));
}

// Nothing: it is another number than 0 and 1.
std::optional<float> FlagOf(const Label& label) {
  if (const auto* truth = std::get_if<bool>(&label)) return *truth ? 1.0f : 0.0f;
  if (const auto* index = std::get_if<int64_t>(&label)) return static_cast<float>(*index);
  const double number = std::get<double>(label);
  if (number != 0 && number != 1) return std::nullopt;
  return static_cast<float>(number);
}

std::optional<float> NumberOf(const Label& label) {
  if (const auto* number = std::get_if<double>(&label)) return FiniteFloat(*number);
  if (const auto* text = std::get_if<std::string>(&label)) return FiniteFloat(*text);
  if (const auto* index = std::get_if<int64_t>(&label)) {
    return FiniteFloat(static_cast<double>(*index));
  }
  return std::nullopt;
}

}  // namespace

ClassLabels::ClassLabels(config::ClassificationSpec spec) : spec_(std::move(spec)) {
  for (size_t i = 0; i < spec_.label_names.size(); ++i) {
    index_of_name_.emplace(spec_.label_names[i], static_cast<int64_t>(i));
  }
}

// What a class may be: "an index of 0 to 2, or one of the names a, b, c".
std::string ClassLabels::Wanted() const {
  std::string wanted = absl::StrCat("an index of 0 to ", spec_.num_labels - 1);
  const std::vector<std::string>& names = spec_.label_names;
  if (!names.empty()) {
    const size_t shown = std::min(names.size(), kNamesInErrors);
    absl::StrAppend(&wanted, ", or one of the names ",
                    absl::StrJoin(names.begin(), names.begin() + static_cast<int64_t>(shown), ", "),
                    shown < names.size() ? ", ..." : "");
  }
  if (spec_.num_labels == 2) absl::StrAppend(&wanted, ", or true or false");
  return wanted;
}

absl::StatusOr<int64_t> ClassLabels::IndexOf(const Label& label) const {
  int64_t index = -1;
  if (const auto* text = std::get_if<std::string>(&label)) {
    const auto found = index_of_name_.find(*text);
    if (found != index_of_name_.end()) return found->second;
    if (!absl::SimpleAtoi(*text, &index)) index = -1;
  } else if (const auto* number = std::get_if<int64_t>(&label)) {
    index = *number;
  } else if (const auto* truth = std::get_if<bool>(&label); truth && spec_.num_labels == 2) {
    index = *truth ? 1 : 0;
  }
  if (index >= 0 && index < spec_.num_labels) return index;
  return absl::InvalidArgumentError(
      absl::StrCat("the label ", ShownLabel(label), " is no class; wanted: ", Wanted()));
}

absl::StatusOr<std::vector<float>> ClassLabels::OneClass(const ClassifiedRecord& record) const {
  if (record.is_list) {
    return absl::InvalidArgumentError(
        absl::StrCat("the label ", ShownLabels(record), " is a list; wanted: ", Wanted(),
                     ". With problem: multi_label a text has several classes"));
  }
  ASSIGN_OR_RETURN(const int64_t index, IndexOf(record.labels[0]));
  return std::vector<float>{static_cast<float>(index)};
}

absl::StatusOr<std::vector<float>> ClassLabels::Classes(const ClassifiedRecord& record) const {
  const auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("the label ", ShownLabels(record), what));
  };
  const auto count = static_cast<size_t>(spec_.num_labels);
  if (!record.is_list) {
    return bad(absl::StrCat(" is no list; wanted: a list, of each class ", Wanted(), ", or ", count,
                            " entries 0 or 1"));
  }
  std::vector<float> values(count, 0.0f);
  if (record.labels.size() == count &&
      std::all_of(record.labels.begin(), record.labels.end(), MayBeFlag)) {
    for (size_t i = 0; i < count; ++i) {
      const std::optional<float> flag = FlagOf(record.labels[i]);
      if (!flag)
        return bad(absl::StrCat(" holds ", ShownLabel(record.labels[i]), "; wanted: 0 or 1"));
      values[i] = *flag;
    }
    return values;
  }
  for (const Label& label : record.labels) {
    if (std::holds_alternative<bool>(label)) {
      return bad(absl::StrCat(" has ", record.labels.size(), " entries; wanted: ", count,
                              ", one for each class"));
    }
    ASSIGN_OR_RETURN(const int64_t index, IndexOf(label));
    float& value = values[static_cast<size_t>(index)];
    if (value == 1) return bad(absl::StrCat(" names ", NameOf(index), " twice"));
    value = 1;
  }
  return values;
}

absl::StatusOr<std::vector<float>> ClassLabels::Numbers(const ClassifiedRecord& record) const {
  const auto count = static_cast<size_t>(spec_.num_labels);
  std::vector<float> values;
  for (const Label& label : record.labels) {
    if (const std::optional<float> number = NumberOf(label)) values.push_back(*number);
  }
  const bool formed = record.is_list || count == 1;
  if (formed && values.size() == record.labels.size() && values.size() == count) return values;
  return absl::InvalidArgumentError(absl::StrCat(
      "the label ", ShownLabels(record), " is not what problem: regression wants: ",
      count == 1 ? "a finite number" : absl::StrCat("a list of ", count, " finite numbers")));
}

absl::StatusOr<std::vector<float>> ClassLabels::ValuesOf(const ClassifiedRecord& record) const {
  if (spec_.num_labels == 0) return std::vector<float>();
  if (spec_.problem == "regression") return Numbers(record);
  return spec_.problem == "multi_label" ? Classes(record) : OneClass(record);
}

std::string ClassLabels::NameOf(int64_t index) const {
  if (spec_.label_names.empty()) return absl::StrCat(index);
  return spec_.label_names[static_cast<size_t>(index)];
}

std::vector<int64_t> ClassLabels::ClassesOf(std::span<const float> values) const {
  std::vector<int64_t> classes;
  if (spec_.problem == "regression") return classes;
  if (spec_.problem == "single_label") {
    for (const float value : values) classes.push_back(static_cast<int64_t>(value));
    return classes;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 1) classes.push_back(static_cast<int64_t>(i));
  }
  return classes;
}

std::string ClassLabels::Text(std::span<const float> values) const {
  if (spec_.problem == "regression") return absl::StrJoin(values, ", ");
  std::vector<std::string> names;
  for (const int64_t index : ClassesOf(values)) names.push_back(NameOf(index));
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

std::string LabelText(const Label& label) {
  const auto* text = std::get_if<std::string>(&label);
  return text != nullptr ? *text : ShownLabel(label);
}

std::string MissingClasses(const ClassLabels& labels, std::span<const int64_t> records) {
  std::vector<std::string> missing;
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i] == 0) missing.push_back(labels.NameOf(static_cast<int64_t>(i)));
  }
  if (missing.empty()) return "";
  const size_t count = missing.size();
  if (count > kNamesInErrors) missing.resize(kNamesInErrors);
  return absl::StrCat("no record of ", count, " of ", records.size(),
                      " classes: ", absl::StrJoin(missing, ", "),
                      count > kNamesInErrors ? ", ..." : "");
}

}  // namespace coxswain::data
