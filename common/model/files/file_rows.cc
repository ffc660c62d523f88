#include "common/model/files/file_rows.h"

#include <algorithm>
#include <numeric>

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

// The rows of a stack in PEFT's order: that of the file where one tensor has them, else of memory.
std::vector<int64_t> RowsForPeft(const Architecture& model, const Parameter& b) {
  std::vector<int64_t> rows(static_cast<size_t>(b.rows / b.batch));
  std::iota(rows.begin(), rows.end(), 0);
  const Block& block = model.blocks[static_cast<size_t>(b.layer)];
  for (const FileMember& member : block.tensors[static_cast<size_t>(b.tensor)].members) {
    for (int64_t i = 0; i < member.rows && !member.one_each(); ++i) {
      rows[static_cast<size_t>(member.row + i)] = member.first + i * member.step;
    }
  }
  return rows;
}

// Calls move(index in memory, index in the file).
template <typename Move>
void ForRankMajor(const Architecture& model, const Parameter& b, const Move& move) {
  const int64_t experts = b.batch, out = b.rows / b.batch, rank = b.cols;
  const std::vector<int64_t> rows = RowsForPeft(model, b);
  for (int64_t e = 0; e < experts; ++e) {
    for (int64_t i = 0; i < out; ++i) {
      const int64_t row = rows[static_cast<size_t>(i)];
      for (int64_t j = 0; j < rank; ++j) {
        move((e * out + i) * rank + j, (row * rank + j) * experts + e);
      }
    }
  }
}

}  // namespace

std::vector<RowRange> FileRows(const Architecture& model, const Parameter& parameter) {
  if (parameter.layer < 0 || IsLoraA(parameter) || parameter.batch > 1) return {};
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

void ToRankMajor(const Architecture& model, const Parameter& b, std::vector<float>* values) {
  const std::vector<float> memory = *values;
  ForRankMajor(model, b,
               [&](int64_t in_memory, int64_t in_file) { (*values)[in_file] = memory[in_memory]; });
}

void FromRankMajor(const Architecture& model, const Parameter& b, std::vector<float>* values) {
  const std::vector<float> file = *values;
  ForRankMajor(model, b,
               [&](int64_t in_memory, int64_t in_file) { (*values)[in_memory] = file[in_file]; });
}

void Transpose(int64_t rows, int64_t cols, std::vector<float>* values) {
  const std::vector<float> before = *values;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) (*values)[j * rows + i] = before[i * cols + j];
  }
}

}  // namespace coxswain::model
