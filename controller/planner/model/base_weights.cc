#include "controller/planner/model/base_weights.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/weights/blocks_and_scales.h"
#include "common/files/weights/packed_matrix.h"
#include "common/files/weights/weight_files.h"
#include "common/model/family.h"
#include "common/model/files/stacked_files.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "common/plan/storage.h"
#include "common/status_macros.h"
#include "controller/planner/adapters/adapter_settings.h"
#include "controller/planner/model/gguf_check.h"
#include "controller/planner/model/quantization.h"
#include "controller/planner/model/score_head.h"
#include "controller/planner/model/tied_head.h"

namespace coxswain::planner {
namespace {

bool FitsBlocks(const model::StackedFile& file, const BlocksAndScales& blocks) {
  const model::StackedFile wanted = model::ByOutputs(file);
  return blocks.experts == file.matrices() && blocks.rows == wanted.rows &&
         blocks.cols == wanted.cols;
}

// The tensors of experts. `format` is what the job keeps of the files' quantisation.
absl::Status CheckStack(const config::JobSpec& job, const WeightFiles& files,
                        const std::vector<model::StackedFile>& stack, int64_t matrices,
                        Quantization format) {
  for (const model::StackedFile& file : stack) {
    for (int64_t matrix = 0; matrix < (file.one_each() ? matrices : 1); ++matrix) {
      const std::string name = file.NameOf(matrix);
      const TensorInfo* tensor = files.Find(name);
      ASSIGN_OR_RETURN(const std::optional<BlocksAndScales> blocks,
                       FindBlocksAndScales(files, name));
      if (blocks.has_value() && FitsBlocks(file, *blocks)) continue;
      if (blocks.has_value()) tensor = blocks->codes;
      if (!blocks.has_value() && tensor != nullptr && tensor->shape == file.shape()) {
        if (format == Quantization::kNone) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            files.PathOf(*tensor), ": tensor \"", name, "\" is not quantised, by ",
            "quantization_config of config.json it should be ", ToString(format),
            "; write quantization: {format: none} with adapter: lora, or use another checkpoint"));
      }
      return absl::InvalidArgumentError(absl::StrCat(
          tensor == nullptr ? job.model_path : files.PathOf(*tensor), ": tensor \"", name, "\" ",
          tensor == nullptr ? "is missing" : "has shape " + ShapeText(tensor->shape),
          "; config.json asks for ", ShapeText(file.shape())));
    }
  }
  return absl::OkStatus();
}

// What a job keeps as the files have it: MXFP4 or nothing, as other formats are of no stack.
absl::StatusOr<Quantization> KeptOfFiles(const config::JobSpec& job,
                                         const model::ModelConfig& model) {
  if (model.quantization != Quantization::kMxfp4) return Quantization::kNone;
  ASSIGN_OR_RETURN(const Quantization kept, QuantizationOf(job, model));
  return kept == model.quantization ? kept : Quantization::kNone;
}

}  // namespace

absl::Status CheckBaseWeights(const config::JobSpec& job, const model::ModelConfig& model) {
  RETURN_IF_ERROR(CheckAdapterSettings(job, model));
  if (job.init == BaseInit::kRandom) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<WeightFiles> files,
                   WeightFiles::Open(job.model_path, model::TextPartOf(model).spellings));
  const model::Architecture blocks = model::ArchitectureOf(model);
  ASSIGN_OR_RETURN(const Quantization kept, KeptOfFiles(job, model));
  for (const model::Parameter& parameter : model::BaseParameterTable(blocks)) {
    if (model::IsHead(parameter) && model.new_head) continue;
    const std::vector<model::StackedFile> stack = model::StackedFilesOf(blocks, parameter);
    if (!stack.empty()) {
      const Quantization format = plan::IsQuantizedIn(kept, parameter) ? kept : Quantization::kNone;
      RETURN_IF_ERROR(CheckStack(job, *files, stack, parameter.batch, format));
      continue;
    }
    std::vector<int64_t> wanted = {parameter.rows};
    if (parameter.cols != 1) wanted.push_back(parameter.cols);
    const TensorInfo* tensor = files->Find(parameter.name);
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(job.model_path, ": tensor \"", parameter.name,
                                                     "\" is missing; config.json asks for ",
                                                     ShapeText(wanted)));
    }
    const auto found = FindPackedMatrix(*files, parameter.name);
    if (!found.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(files->PathOf(*tensor), ": ", std::string(found.status().message())));
    }
    RETURN_IF_ERROR(FindBlocksAndScales(*files, parameter.name).status());
    const std::optional<PackedMatrix>& packed = *found;
    const std::vector<int64_t>& shape = packed.has_value() ? packed->shape : tensor->shape;
    if (shape != wanted) {
      return absl::InvalidArgumentError(
          absl::StrCat(files->PathOf(*tensor), ": tensor \"", parameter.name, "\" has shape ",
                       ShapeText(shape), ", config.json asks for ", ShapeText(wanted)));
    }
    // The linears of blocks are quantised alike, and nothing else is.
    const bool quantized = plan::IsQuantizedIn(model.quantization, parameter);
    const Quantization wanted_format = quantized ? model.quantization : Quantization::kNone;
    const Quantization format = packed.has_value() ? packed->format : Quantization::kNone;
    if (format != wanted_format) {
      const auto said = [](Quantization one) {
        return one == Quantization::kNone ? "not quantised" : ToString(one);
      };
      return absl::InvalidArgumentError(absl::StrCat(
          files->PathOf(*tensor), ": tensor \"", parameter.name, "\" is ", said(format),
          ", by quantization_config of config.json it should be ", said(wanted_format),
          "; use a checkpoint whose linears of blocks are all quantised, or ",
          "the unquantised model"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<model::ModelConfig> ReadBaseModel(const config::JobSpec& job,
                                                 std::vector<std::string>* warnings) {
  ASSIGN_OR_RETURN(model::ModelConfig model, model::ReadModelConfig(job.model_path, warnings));
  RETURN_IF_ERROR(PutScoreHead(job, &model, warnings));
  RETURN_IF_ERROR(UntieDifferingHead(job, &model, warnings));
  RETURN_IF_ERROR(CheckBaseWeights(job, model));
  RETURN_IF_ERROR(CheckGguf(job, model));
  return model;
}

}  // namespace coxswain::planner
