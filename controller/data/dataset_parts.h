// The files of a dataset, and which of their records are read.
#ifndef COXSWAIN_CONTROLLER_DATA_DATASET_PARTS_H_
#define COXSWAIN_CONTROLLER_DATA_DATASET_PARTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "controller/data/split_expression.h"

namespace coxswain::data {

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
