#include "common/model/file_rows.h"

#include <algorithm>

namespace coxswain::model {
namespace {

// Calls copy(file element, memory element, elements) for every range.
template <typename Copy>
void ForEachRange(const std::vector<RowRange>& ranges, int64_t cols, const Copy& copy) {
  int64_t memory = 0;
  for (const RowRange& range : ranges) {
    copy(range.begin * cols, memory * cols, range.count * cols);
    memory += range.count;
  }
}

}  // namespace

std::vector<RowRange> FileRows(const Architecture& model, const Parameter& parameter) {
  if (parameter.layer < 0 || IsLoraA(parameter)) return {};
  const Block& block = model.blocks[static_cast<size_t>(parameter.layer)];
  return block.tensors[static_cast<size_t>(parameter.tensor)].file_rows;
}

void ToMemoryOrder(const std::vector<RowRange>& ranges, int64_t cols, std::vector<float>* values) {
  if (ranges.empty()) return;
  const std::vector<float> file = *values;
  ForEachRange(ranges, cols, [&](int64_t from, int64_t to, int64_t count) {
    std::copy_n(file.begin() + from, count, values->begin() + to);
  });
}

void ToFileOrder(const std::vector<RowRange>& ranges, int64_t cols, std::vector<float>* values) {
  if (ranges.empty()) return;
  const std::vector<float> memory = *values;
  ForEachRange(ranges, cols, [&](int64_t to, int64_t from, int64_t count) {
    std::copy_n(memory.begin() + from, count, values->begin() + to);
  });
}

void Transpose(int64_t rows, int64_t cols, std::vector<float>* values) {
  const std::vector<float> before = *values;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) (*values)[j * rows + i] = before[i * cols + j];
  }
}

}  // namespace coxswain::model
