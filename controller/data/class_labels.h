// What the labels of classification records mean: classes by index or name, or numbers.
#ifndef COXSWAIN_CONTROLLER_DATA_CLASS_LABELS_H_
#define COXSWAIN_CONTROLLER_DATA_CLASS_LABELS_H_

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/text/records/record.h"

namespace coxswain::data {

// The values of a document, as the token store keeps them (token_store.h):
//   single_label   1: the index of its class
//   multi_label    num_labels: 1 for each of its classes, else 0
//   regression     num_labels: its numbers
class ClassLabels {
 public:
  explicit ClassLabels(config::ClassificationSpec spec);

  // A class is its index, its name, or true or false of two classes; a text that is no name may be
  // an index, as CSV has it. A list of num_labels entries that are all 0, 1, true, false, 0.0 or
  // 1.0 says of each class whether it is one; any other list names classes. InvalidArgument: the
  // label, and what is wanted. No values where the job has no classes.
  absl::StatusOr<std::vector<float>> ValuesOf(const ClassifiedRecord& record) const;

  // The inverse, for people: "positive", "a, c", "none", "0.5, 2".
  std::string Text(std::span<const float> values) const;

  // The indices of the classes that `values` say; none of regression.
  std::vector<int64_t> ClassesOf(std::span<const float> values) const;

  // "positive", or its index where classes have no names.
  std::string NameOf(int64_t index) const;

 private:
  absl::StatusOr<int64_t> IndexOf(const ClassifiedRecord::Label& label) const;
  absl::StatusOr<std::vector<float>> OneClass(const ClassifiedRecord& record) const;
  absl::StatusOr<std::vector<float>> Classes(const ClassifiedRecord& record) const;
  absl::StatusOr<std::vector<float>> Numbers(const ClassifiedRecord& record) const;
  std::string Wanted() const;

  config::ClassificationSpec spec_;
  std::unordered_map<std::string, int64_t> index_of_name_;
};

// As the record has it: a text without quotes, else JSON.
std::string LabelText(const ClassifiedRecord::Label& label);

// "no record of 2 of 3 classes: b, c"; empty: each class has one. `records`: of each class.
std::string MissingClasses(const ClassLabels& labels, std::span<const int64_t> records);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_CLASS_LABELS_H_
