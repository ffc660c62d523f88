// The files of a dataset, and which of their records are read.
#ifndef COXSWAIN_CONTROLLER_DATA_DATASET_PARTS_H_
#define COXSWAIN_CONTROLLER_DATA_DATASET_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::data {

// Parses `split:` as Hugging Face's datasets does: "train", "train[:90%]", "train[-100:]",
// "train[10:20]+test".
// Source: datasets 5.2, arrow_reader.py ReadInstruction.

// Records [from, to) of a split, as written: in percent or not; negative numbers count from the
// end.
struct SplitSlice {
  std::string split;
  std::optional<int64_t> from, to;  // absent: the beginning, the end
  bool percent = false;

  bool whole() const { return !from && !to; }
  // True when RowsOf needs the number of records.
  bool of_count() const { return percent || from.value_or(0) < 0 || to.value_or(0) < 0; }
};

struct RowRange {
  int64_t begin = 0, end = 0;
};

// True when `name` may name a split: words with dots between them.
bool IsSplitName(std::string_view name);

// The parts between plus signs, in their order. "all" gives one part with an empty name, and must
// stand alone. InvalidArgument: no such expression, a percentage above 100, or another rounding
// than closest.
absl::StatusOr<std::vector<SplitSlice>> ParseSplitExpression(std::string_view text);

// "train[:90%]".
std::string SplitText(const SplitSlice& slice);

// The records of a split of `count` that the slice selects; percentages round to the closest
// record, halves to the even one. InvalidArgument: it selects none.
absl::StatusOr<RowRange> RowsOf(const SplitSlice& slice, int64_t count);

// The splits that a source may be that names none, the best first.
std::vector<std::string> UsualSplits(bool held_out);

// The next so many files of a dataset, and which of their records are read.
struct DatasetPart {
  size_t files = 0;
  SplitSlice rows;
};

struct DatasetFiles {
  std::vector<std::string> paths;  // in the order in which they are read; at least one
  std::string note;                // which files of the folder were taken; empty: all
  std::vector<DatasetPart> parts;  // at least one; together they have all paths
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_DATASET_PARTS_H_
