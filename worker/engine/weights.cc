#include "worker/engine/weights.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/safetensors.h"
#include "common/files/weight_files.h"
#include "common/model/family.h"
#include "common/model/file_rows.h"
#include "common/status_macros.h"
#include "worker/engine/random_init.h"

namespace coxswain::engine {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Checks `tensor` (null: absent) of `source` and uploads what this rank loads of parameter i.
absl::Status Load(const plan::Plan& plan, size_t i, const TensorInfo* tensor,
                  const std::string& source, const ParameterStore& store) {
  const model::Parameter& parameter = plan.parameters[i];
  if (tensor == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": tensor \"", parameter.name,
                                                   "\" is missing; wanted ",
                                                   ShapeText(FileShape(parameter))));
  }
  const std::vector<int64_t> wanted = FileShape(parameter);
  if (tensor->shape != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": tensor \"", parameter.name,
                                                   "\" has shape ", ShapeText(tensor->shape),
                                                   ", the model needs ", ShapeText(wanted)));
  }
  const plan::Range range = store.Loaded(i);
  const std::vector<model::RowRange> rows = model::FileRows(plan.model, parameter);
  // Rows in another order are read whole.
  const plan::Range read = rows.empty() ? range : plan::Range{0, parameter.elements()};
  std::vector<float> staging(static_cast<size_t>(read.count()));
  if (absl::Status status = CopyRangeAsFloat(*tensor, read.begin, read.count(), staging.data());
      !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(source, ": ", std::string(status.message())));
  }
  model::ToMemoryOrder(rows, parameter.cols, &staging);
  store.Upload(i, staging.data() + (range.begin - read.begin));
  return absl::OkStatus();
}

absl::Status CheckNothingLeft(const std::vector<const TensorInfo*>& tensors,
                              const std::set<std::string>& known, const model::TextPart& text,
                              const std::string& source) {
  for (const TensorInfo* tensor : tensors) {
    if (known.count(WeightFiles::Renamed(tensor->name, text.spellings)) != 0) continue;
    if (text.IsBeside(tensor->name)) continue;
    if (absl::EndsWith(tensor->name, "rotary_emb.inv_freq")) continue;
    return absl::InvalidArgumentError(absl::StrCat(source, ": the model has no place for tensor \"",
                                                   tensor->name, "\" of shape ",
                                                   ShapeText(tensor->shape)));
  }
  return absl::OkStatus();
}

absl::Status LoadPretrained(const plan::Plan& plan, const ParameterStore& store) {
  const model::TextPart& text = model::TextPartOf(plan.model);
  ASSIGN_OR_RETURN(const std::unique_ptr<WeightFiles> files,
                   WeightFiles::Open(plan.model_path, text.spellings));
  std::set<std::string> known;
  if (plan.model.tie_embeddings) known.insert(model::OutsideOf(plan.model).head.name);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (model::IsAdapter(parameter.role)) continue;
    known.insert(parameter.name);
    RETURN_IF_ERROR(Load(plan, i, files->Find(parameter.name), plan.model_path, store));
  }
  return CheckNothingLeft(files->tensors(), known, text, plan.model_path);
}

absl::Status LoadAdapterFile(const plan::Plan& plan, const ParameterStore& store) {
  const std::string path = absl::StrCat(plan.lora.init_from, "/adapter_model.safetensors");
  ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
  std::set<std::string> known;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (!model::IsAdapter(parameter.role)) continue;
    known.insert(parameter.name);
    RETURN_IF_ERROR(Load(plan, i, file->Find(parameter.name), path, store));
  }
  std::vector<const TensorInfo*> tensors;
  for (const TensorInfo& tensor : file->tensors()) tensors.push_back(&tensor);
  return CheckNothingLeft(tensors, known, /*text=*/{}, path);
}

}  // namespace

std::vector<int64_t> FileShape(const model::Parameter& parameter) {
  const bool matrix = model::IsAdapter(parameter.role) && !model::IsMagnitude(parameter.role);
  if (parameter.cols == 1 && !matrix) return {parameter.rows};
  return {parameter.rows, parameter.cols};
}

absl::Status LoadBaseWeights(const plan::Plan& plan, const ParameterStore& store) {
  if (plan.init == "pretrained") return LoadPretrained(plan, store);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (!model::IsAdapter(parameter.role))
      store.Fill(i, RandomInit(plan.init_seed, parameter, plan.model));
  }
  return absl::OkStatus();
}

absl::Status LoadWholeBlock(const plan::Plan& plan, int32_t layer, const ParameterStore& store) {
  std::unique_ptr<WeightFiles> files;
  if (plan.init == "pretrained") {
    const model::TextPart& text = model::TextPartOf(plan.model);
    ASSIGN_OR_RETURN(files, WeightFiles::Open(plan.model_path, text.spellings));
  }
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (parameter.layer != layer || model::IsAdapter(parameter.role)) continue;
    if (files == nullptr) {
      store.FillWhole(i, RandomInit(plan.init_seed, parameter, plan.model));
      continue;
    }
    // LoadBaseWeights has found and checked it.
    std::vector<float> staging(static_cast<size_t>(parameter.elements()));
    RETURN_IF_ERROR(CopyAsFloat(*files->Find(parameter.name), staging.data()));
    model::ToMemoryOrder(model::FileRows(plan.model, parameter), parameter.cols, &staging);
    store.UploadWhole(i, staging.data());
  }
  return absl::OkStatus();
}

absl::Status LoadAdapter(const plan::Plan& plan, const ParameterStore& store) {
  if (plan.lora.rank == 0) return absl::OkStatus();
  if (!plan.lora.init_from.empty()) return LoadAdapterFile(plan, store);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const model::Parameter& parameter = plan.parameters[i];
    if (!model::IsAdapter(parameter.role) || model::IsMagnitude(parameter.role)) continue;
    store.Fill(i, RandomInit(plan.seed, parameter, plan.model));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::engine
