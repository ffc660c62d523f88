#include "controller/export/list_model_tensors.h"

#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files/read_file.h"
#include "common/files/weights/packed_matrix.h"
#include "common/model/family.h"
#include "common/model/files/file_rows.h"
#include "common/model/files/fp8_weights.h"
#include "common/model/files/stacked_files.h"
#include "common/plan/routers.h"
#include "common/status_macros.h"

namespace coxswain::exports {
namespace {

absl::StatusOr<ElementType> DTypeByName(const std::string& name) {
  if (name == "float32") return ElementType::kF32;
  if (name == "bfloat16") return ElementType::kBF16;
  if (name == "float16") return ElementType::kF16;
  return absl::InvalidArgumentError(
      absl::StrCat("dtype ", name, " is not known; set export.dtype"));
}

// The blocks that stand for tensor `name` of the base; none where there is no base.
absl::StatusOr<std::optional<BlocksAndScales>> BlocksOf(const ModelSource& source,
                                                        const std::string& name) {
  if (source.base == nullptr) return std::nullopt;
  return FindBlocksAndScales(*source.base, name);
}

// The dtype of a tensor of the export; `tensor` is that of the base, null where there is none. That
// of codes is what config.json says, and that of what is not in FP8 is the source's.
absl::StatusOr<ElementType> ExportDType(const std::string& name, const ModelSource& source,
                                        const TensorInfo* tensor) {
  if (name != "source" && name != "fp8") return DTypeByName(name);
  if (tensor != nullptr && tensor->dtype != ElementType::kF8E4M3) return tensor->dtype;
  const auto named = source.config.find(source.DTypeKey());
  if (named == source.config.end() || !named->is_string()) return ElementType::kF32;
  return DTypeByName(named->get<std::string>());
}

// Of codes in FP8, which are exported as what they stand for.
bool AreScales(const ModelSource& from, const std::string& name) {
  return absl::EndsWith(name, kScalesOfFp8) &&
         from.Find(std::string(absl::StripSuffix(name, kScalesOfFp8))) != nullptr;
}

absl::Status AddTensorsBeside(const config::JobSpec& job, const plan::Plan& plan,
                              const ModelSource& from, std::vector<ModelTensor>* tensors) {
  if (from.base == nullptr) return absl::OkStatus();
  const WeightFiles::Renames& spellings = model::TextPartOf(plan.model).spellings;
  for (const TensorInfo* tensor : from.base->tensors()) {
    const std::string name = WeightFiles::Renamed(tensor->name, spellings);
    if (!model::IsBeside(plan.model, tensor->name) || AreScales(from, name)) continue;
    ASSIGN_OR_RETURN(const ElementType dtype, ExportDType(job.export_dtype, from, tensor));
    ASSIGN_OR_RETURN(std::optional<BlocksAndScales> blocks, BlocksOf(from, name));
    tensors->push_back({.name = tensor->name,
                        .weights = PiecedTensor(*tensor),
                        .dtype = dtype,
                        .shape = tensor->shape,
                        .from_base = true,
                        .blocks = std::move(blocks)});
  }
  return absl::OkStatus();
}

// As in the base, but for rows that tokens have added.
std::vector<int64_t> ShapeOf(const model::Parameter& parameter, const TensorInfo* source,
                             const PiecedTensor& weights) {
  const bool grown = source != nullptr && source->elements() != parameter.elements();
  return source == nullptr || grown ? weights.shape : source->shape;
}

// Holds `shape`, of the base's files now, against what the job was planned with: days may lie
// between.
absl::Status CheckShape(const plan::Plan& plan, const model::Parameter& parameter,
                        const std::vector<int64_t>& shape) {
  std::vector<int64_t> planned = {parameter.rows};
  if (parameter.cols != 1) planned.push_back(parameter.cols);
  const model::AddedTokens& added = plan.model.added_tokens;
  if (added.count > 0 && parameter.rows == plan.model.vocab_size) planned[0] = added.base_rows;
  if (shape == planned) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(plan.model_path, ": tensor \"", parameter.name, "\" has shape ",
                   ShapeText(shape), ", the job was planned with ", ShapeText(planned),
                   "; put the model's files back, the checkpoint stays"));
}

// `tensors` point into the plan's parameters.
void PutInFp8(const plan::Plan& plan, std::vector<ModelTensor>* tensors) {
  const std::vector<bool> in_fp8 = model::WeightsInFp8(plan.parameters);
  for (ModelTensor& tensor : *tensors) {
    if (tensor.parameter == nullptr) continue;
    const auto index = static_cast<size_t>(tensor.parameter - plan.parameters.data());
    if (in_fp8[index]) tensor.dtype = ElementType::kF8E4M3;
  }
}

// What adapts a tensor of the base; null without.
struct AdaptedBy {
  const PiecedTensor *a = nullptr, *b = nullptr;
};

// The tensors of the files that make the stack `parameter`.
absl::Status AddStack(const config::JobSpec& job, const plan::Plan& plan, const ModelSource& from,
                      const CheckpointTensors& checkpoint, const model::Parameter& parameter,
                      const AdaptedBy& adapters, std::vector<ModelTensor>* tensors) {
  const PiecedTensor* trained = parameter.trainable() ? checkpoint.Find(parameter.name) : nullptr;
  for (const model::StackedFile& file : model::StackedFilesOf(plan.architecture, parameter)) {
    for (int64_t matrix = 0; matrix < (file.one_each() ? parameter.batch : 1); ++matrix) {
      const std::string name = file.NameOf(matrix);
      const TensorInfo* source = from.Find(name);
      ASSIGN_OR_RETURN(const std::optional<BlocksAndScales> blocks, BlocksOf(from, name));
      const bool in_base = source != nullptr || blocks.has_value();
      if (trained == nullptr && (parameter.trainable() || !in_base)) {
        return absl::NotFoundError(
            absl::StrCat("no values for ", name, " in ",
                         parameter.trainable() ? checkpoint.directory() : plan.model_path));
      }
      // What MXFP4 stands for, bfloat16 holds.
      const bool held = source == nullptr && blocks.has_value() && job.export_dtype == "source";
      ASSIGN_OR_RETURN(const ElementType dtype,
                       ExportDType(held ? "bfloat16" : job.export_dtype, from, source));
      ModelTensor tensor{.name = source != nullptr ? source->name : name,
                         .parameter = &parameter,
                         .weights = trained != nullptr  ? *trained
                                    : source != nullptr ? PiecedTensor(*source)
                                                        : PiecedTensor(),
                         .lora_a = adapters.a,
                         .lora_b = adapters.b,
                         .dtype = dtype,
                         .shape = file.shape(),
                         .from_base = trained == nullptr};
      if (trained == nullptr) tensor.blocks = blocks;
      if (trained != nullptr || adapters.a != nullptr || blocks.has_value()) tensor.stacked = file;
      tensor.matrix = matrix;
      tensors->push_back(std::move(tensor));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelSource> OpenModelSource(const plan::Plan& plan) {
  const std::string path = absl::StrCat(plan.model_path, "/config.json");
  absl::StatusOr<std::string> text = ReadFile(path, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return absl::NotFoundError(absl::StrCat(path, " is gone"));
  RETURN_IF_ERROR(text.status());
  ModelSource source;
  source.config_text = *std::move(text);
  source.config = nlohmann::ordered_json::parse(source.config_text, nullptr,
                                                /*allow_exceptions=*/false);
  if (!source.config.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a JSON object"));
  }
  const std::string part(model::TextPartOf(plan.model).config);
  if (!part.empty() && !source.config.value(part, nlohmann::ordered_json()).is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", part, " is missing"));
  }
  if (plan.init == BaseInit::kRandom) return source;
  ASSIGN_OR_RETURN(source.base,
                   WeightFiles::Open(plan.model_path, model::TextPartOf(plan.model).spellings));
  return source;
}

absl::StatusOr<std::vector<ModelTensor>> ListModelTensors(const config::JobSpec& job,
                                                          const plan::Plan& plan,
                                                          const ModelSource& from,
                                                          const CheckpointTensors& checkpoint) {
  std::map<std::tuple<int32_t, int32_t, model::Part>, const model::Parameter*> adapters;
  for (const model::Parameter& parameter : plan.parameters) {
    adapters[{parameter.layer, parameter.tensor, parameter.part}] = &parameter;
  }
  const auto adapter = [&](const model::Parameter& base, model::Part part) -> const PiecedTensor* {
    const auto found = adapters.find({base.layer, base.tensor, part});
    return found == adapters.end() ? nullptr : checkpoint.Find(found->second->name);
  };
  std::vector<ModelTensor> tensors;
  for (const model::Parameter& parameter : plan.parameters) {
    if (model::IsAdapter(parameter)) continue;
    if (!model::StackedFilesOf(plan.architecture, parameter).empty()) {
      const AdaptedBy adapters{adapter(parameter, model::Part::kLoraA),
                               adapter(parameter, model::Part::kLoraB)};
      RETURN_IF_ERROR(AddStack(job, plan, from, checkpoint, parameter, adapters, &tensors));
      continue;
    }
    const TensorInfo* source = from.Find(parameter.name);
    const bool changed = parameter.trainable() || plan::IsMovedCorrection(plan, parameter);
    const PiecedTensor* trained = changed ? checkpoint.Find(parameter.name) : nullptr;
    if (trained == nullptr && (changed || source == nullptr)) {
      return absl::NotFoundError(absl::StrCat("no values for ", parameter.name, " in ",
                                              changed ? checkpoint.directory() : plan.model_path));
    }
    std::optional<PackedMatrix> packed;
    std::optional<BlocksAndScales> blocks;
    if (trained == nullptr) {
      ASSIGN_OR_RETURN(packed, FindPackedMatrix(*from.base, parameter.name));
      ASSIGN_OR_RETURN(blocks, BlocksOf(from, parameter.name));
      RETURN_IF_ERROR(
          CheckShape(plan, parameter, packed.has_value() ? packed->shape : source->shape));
    }
    // What no gradient changes keeps its dtype; what an update moves, whose steps are small, is
    // float32.
    const std::string kept = changed ? "float32" : "source";
    const std::string wanted = model::IsBuffer(parameter) ? kept : job.export_dtype;
    ASSIGN_OR_RETURN(const ElementType dtype,
                     ExportDType(wanted, from, packed.has_value() ? nullptr : source));
    const PiecedTensor weights = trained != nullptr ? *trained : PiecedTensor(*source);
    tensors.push_back(
        {source != nullptr ? source->name : parameter.name, &parameter, weights,
         adapter(parameter, model::Part::kLoraA), adapter(parameter, model::Part::kLoraB),
         adapter(parameter, model::Part::kMagnitude), dtype,
         packed.has_value() ? packed->shape : ShapeOf(parameter, source, weights),
         model::FileRows(plan.architecture, parameter), trained == nullptr, std::move(packed)});
    tensors.back().blocks = std::move(blocks);
  }
  if (job.export_dtype == "fp8") PutInFp8(plan, &tensors);
  RETURN_IF_ERROR(AddTensorsBeside(job, plan, from, &tensors));
  return tensors;
}

}  // namespace coxswain::exports
