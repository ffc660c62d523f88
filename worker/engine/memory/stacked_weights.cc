#include "worker/engine/memory/stacked_weights.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/files/safetensors/safetensors.h"
#include "common/files/weights/blocks_and_scales.h"
#include "common/status_macros.h"
#include "kernels/quantize/quantized_formats.h"
#include "worker/engine/commands/work_count.h"

namespace coxswain::engine {
namespace {

absl::StatusOr<const TensorInfo*> FindFile(const plan::Plan& plan, const WeightFiles& files,
                                           const model::StackedFile& file, int64_t matrix) {
  const std::string name = file.NameOf(matrix);
  const TensorInfo* tensor = files.Find(name);
  if (tensor == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        plan.model_path, ": tensor \"", name, "\" is missing; wanted ", ShapeText(file.shape())));
  }
  if (tensor->shape == file.shape()) return tensor;
  return absl::InvalidArgumentError(absl::StrCat(plan.model_path, ": tensor \"", name,
                                                 "\" has shape ", ShapeText(tensor->shape),
                                                 ", the model needs ", ShapeText(file.shape())));
}

// Where a matrix of a stack is: in a tensor, or in blocks with scales.
struct Source {
  const TensorInfo* tensor = nullptr;  // of the blocks: their codes
  std::optional<BlocksAndScales> blocks;
};

absl::StatusOr<Source> Find(const plan::Plan& plan, const WeightFiles& files,
                            const model::StackedFile& file, int64_t matrix) {
  ASSIGN_OR_RETURN(const std::optional<BlocksAndScales> blocks,
                   FindBlocksAndScales(files, file.NameOf(matrix)));
  if (!blocks.has_value()) {
    ASSIGN_OR_RETURN(const TensorInfo* tensor, FindFile(plan, files, file, matrix));
    return Source{tensor, std::nullopt};
  }
  const model::StackedFile wanted = model::ByOutputs(file);
  if (blocks->experts == file.matrices() && blocks->rows == wanted.rows &&
      blocks->cols == wanted.cols) {
    return Source{blocks->codes, blocks};
  }
  return absl::InvalidArgumentError(
      absl::StrCat(plan.model_path, ": tensor \"", blocks->codes->name, "\" has ", blocks->experts,
                   " matrices [", blocks->rows, ", ", blocks->cols, "] in blocks, the model needs ",
                   file.matrices(), " of [", wanted.rows, ", ", wanted.cols, "]"));
}

// Matrix `number` of the source as rows of the file, or of a file by outputs for blocks.
absl::Status CopyMatrix(const model::StackedFile& file, const Source& source, int64_t number,
                        std::vector<float>* values) {
  const int64_t elements = file.rows * file.cols;
  values->resize(static_cast<size_t>(elements));
  const int64_t in_tensor = file.one_each() ? 0 : number;
  if (source.blocks.has_value()) {
    return CopyRowsAsFloat(*source.blocks, {in_tensor, 0, source.blocks->rows}, values->data());
  }
  return CopyRangeAsFloat(*source.tensor, in_tensor * elements, elements, values->data());
}

// Of all files into `matrix` [rows, cols] of memory.
absl::Status ReadMatrix(const plan::Plan& plan, const WeightFiles& files,
                        const std::vector<model::StackedFile>& stack, int64_t number,
                        std::vector<float>* matrix) {
  std::vector<float> values;
  for (const model::StackedFile& file : stack) {
    ASSIGN_OR_RETURN(const Source source, Find(plan, files, file, number));
    const absl::Status status = CopyMatrix(file, source, number, &values);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(plan.model_path, ": ", source.tensor->name,
                                                      ": ", std::string(status.message())));
    }
    model::ToMemoryMatrix(source.blocks.has_value() ? model::ByOutputs(file) : file, values.data(),
                          matrix->data());
    if (file.one_each()) ReleasePages(*source.tensor);
  }
  CountWork();
  return absl::OkStatus();
}

// The names of what holds the matrix in the files.
absl::Status AddNames(const WeightFiles& files, const std::string& name,
                      std::set<std::string>* known) {
  ASSIGN_OR_RETURN(const std::optional<BlocksAndScales> blocks, FindBlocksAndScales(files, name));
  known->insert(name);
  if (!blocks.has_value()) return absl::OkStatus();
  known->insert(blocks->codes->name);
  known->insert(blocks->scales->name);
  return absl::OkStatus();
}

bool IsMxfp4(const std::optional<BlocksAndScales>& blocks) {
  return blocks.has_value() && blocks->format == BlocksAndScales::Format::kMxfp4;
}

// Rows `count` bytes wide from their order in the file into that in memory.
void CopyRows(const model::FileMember& member, const uint8_t* rows, size_t count, uint8_t* out) {
  for (int64_t row = 0; row < member.rows; ++row) {
    std::memcpy(out + static_cast<size_t>(member.row + row) * count,
                rows + static_cast<size_t>(member.first + row * member.step) * count, count);
  }
}

// Matrix `number` of the stack into where its codes and scales begin.
absl::Status ReadPackedMatrix(const plan::Plan& plan, const WeightFiles& files,
                              const std::vector<model::StackedFile>& stack, int64_t number,
                              uint8_t* codes, uint8_t* scales) {
  for (const model::StackedFile& file : stack) {
    ASSIGN_OR_RETURN(const Source source, Find(plan, files, file, number));
    if (!IsMxfp4(source.blocks)) {
      return absl::InvalidArgumentError(absl::StrCat(plan.model_path, ": tensor \"",
                                                     file.NameOf(number),
                                                     "\" is not in MXFP4 as others of its stack"));
    }
    const BlocksAndScales& blocks = *source.blocks;
    const int64_t in_tensor = file.one_each() ? 0 : number;
    const Mxfp4Rows rows = Mxfp4RowsOf(blocks, {in_tensor, 0, blocks.rows});
    for (const model::FileMember& member : file.members) {
      CopyRows(member, rows.codes, static_cast<size_t>(blocks.cols / 2), codes);
      CopyRows(member, rows.scales, static_cast<size_t>(kernels::Mxfp4Blocks(blocks.cols)), scales);
    }
    if (file.one_each()) ReleasePages(*source.tensor);
  }
  CountWork();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<PackedStack>> ReadPackedStack(
    const plan::Plan& plan, size_t i, const std::vector<model::StackedFile>& stack,
    const WeightFiles& files, std::set<std::string>* known) {
  ASSIGN_OR_RETURN(const std::optional<BlocksAndScales> first,
                   FindBlocksAndScales(files, stack.front().NameOf(0)));
  if (!IsMxfp4(first)) return std::nullopt;
  const model::Parameter& parameter = plan.parameters[i];
  const auto code_bytes = static_cast<size_t>(parameter.elements() / 2 / parameter.batch);
  const auto scale_bytes =
      static_cast<size_t>(kernels::Mxfp4Blocks(parameter.elements()) / parameter.batch);
  PackedStack packed;
  packed.codes.resize(code_bytes * static_cast<size_t>(parameter.batch));
  packed.scales.resize(scale_bytes * static_cast<size_t>(parameter.batch));
  for (int64_t number = 0; number < parameter.batch; ++number) {
    for (const model::StackedFile& file : stack) {
      RETURN_IF_ERROR(AddNames(files, file.NameOf(number), known));
    }
    const auto at = static_cast<size_t>(number);
    RETURN_IF_ERROR(ReadPackedMatrix(plan, files, stack, number,
                                     packed.codes.data() + at * code_bytes,
                                     packed.scales.data() + at * scale_bytes));
  }
  return packed;
}

absl::Status ReadStack(const plan::Plan& plan, size_t i,
                       const std::vector<model::StackedFile>& stack, const WeightFiles& files,
                       plan::Range range, std::set<std::string>* known,
                       const std::function<void(plan::Range part, const float* values)>& use) {
  const model::Parameter& parameter = plan.parameters[i];
  const int64_t elements = parameter.elements() / parameter.batch;
  std::vector<float> matrix(static_cast<size_t>(elements));
  for (int64_t number = 0; number < parameter.batch; ++number) {
    for (const model::StackedFile& file : stack) {
      RETURN_IF_ERROR(AddNames(files, file.NameOf(number), known));
    }
    const int64_t first = number * elements;
    const plan::Range part{std::max(range.begin, first), std::min(range.end, first + elements)};
    if (part.begin >= part.end) continue;
    RETURN_IF_ERROR(ReadMatrix(plan, files, stack, number, &matrix));
    use(part, matrix.data() + (part.begin - first));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::engine
