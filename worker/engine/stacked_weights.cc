#include "worker/engine/stacked_weights.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/files/safetensors.h"
#include "common/status_macros.h"
#include "worker/engine/work_count.h"

namespace coxswain::engine {
namespace {

absl::StatusOr<const TensorInfo*> FindFile(const plan::Plan& plan, const WeightFiles& files,
                                           const model::StackedFile& file, int64_t matrix) {
  const std::string name = file.NameOf(matrix);
  const TensorInfo* tensor = files.Find(name);
  if (tensor == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(plan.model_path, ": tensor \"", name,
                                                   "\" is missing; wanted ",
                                                   ShapeText(file.shape())));
  }
  if (tensor->shape == file.shape()) return tensor;
  return absl::InvalidArgumentError(absl::StrCat(plan.model_path, ": tensor \"", name,
                                                 "\" has shape ", ShapeText(tensor->shape),
                                                 ", the model needs ", ShapeText(file.shape())));
}

// Of all files into `matrix` [rows, cols] of memory.
absl::Status ReadMatrix(const plan::Plan& plan, const WeightFiles& files,
                        const std::vector<model::StackedFile>& stack, int64_t number,
                        std::vector<float>* matrix) {
  std::vector<float> values;
  for (const model::StackedFile& file : stack) {
    ASSIGN_OR_RETURN(const TensorInfo* tensor, FindFile(plan, files, file, number));
    const int64_t elements = file.rows * file.cols;
    values.resize(static_cast<size_t>(elements));
    const int64_t begin = file.one_each() ? 0 : number * elements;
    const absl::Status status = CopyRangeAsFloat(*tensor, begin, elements, values.data());
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(plan.model_path, ": ", tensor->name, ": ",
                                                      std::string(status.message())));
    }
    model::ToMemoryMatrix(file, values.data(), matrix->data());
    if (file.one_each()) ReleasePages(*tensor);
  }
  CountWork();
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadStack(const plan::Plan& plan, size_t i,
                       const std::vector<model::StackedFile>& stack, const WeightFiles& files,
                       plan::Range range, std::set<std::string>* known,
                       const std::function<void(plan::Range part, const float* values)>& use) {
  const model::Parameter& parameter = plan.parameters[i];
  const int64_t elements = parameter.elements() / parameter.batch;
  std::vector<float> matrix(static_cast<size_t>(elements));
  for (int64_t number = 0; number < parameter.batch; ++number) {
    for (const model::StackedFile& file : stack) known->insert(file.NameOf(number));
    const int64_t first = number * elements;
    const plan::Range part{std::max(range.begin, first), std::min(range.end, first + elements)};
    if (part.begin >= part.end) continue;
    RETURN_IF_ERROR(ReadMatrix(plan, files, stack, number, &matrix));
    use(part, matrix.data() + (part.begin - first));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::engine
