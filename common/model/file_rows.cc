#include "common/model/file_rows.h"

#include <algorithm>

#include "common/model/family.h"

namespace coxswain::model {
namespace {

// Of the linear that an adapter's tensor belongs to, or the role itself.
Role BaseRole(Role role) {
  constexpr uint32_t kAdapterBits = static_cast<uint32_t>(Role::kLoraA) |
                                    static_cast<uint32_t>(Role::kLoraB) |
                                    static_cast<uint32_t>(Role::kLoraMagnitude);
  return static_cast<Role>(static_cast<uint32_t>(role) & ~kAdapterBits);
}

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

std::vector<RowRange> FileRows(const ModelConfig& config, const Parameter& parameter) {
  if (parameter.layer < 0 || IsLoraA(parameter.role)) return {};
  const Role role = BaseRole(parameter.role);
  for (const TensorSpec& tensor : BlockOf(config, parameter.layer).tensors) {
    if (tensor.role == role) return tensor.file_rows;
  }
  return {};
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
