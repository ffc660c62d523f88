#include "controller/export/export_gguf.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/files/gguf_writer.h"
#include "common/model/files/gguf_family.h"
#include "common/model/gguf_form.h"
#include "common/status_macros.h"
#include "controller/export/gguf_fields.h"
#include "controller/export/gguf_types.h"
#include "controller/export/list_model_tensors.h"

namespace coxswain::exports {
namespace {

// What of the model's files makes one tensor of the GGUF: one tensor, or that of each expert.
struct Pieces {
  std::vector<const ModelTensor*> tensors;
  bool pairs = false;
};

absl::Status FillPiece(const plan::Plan& plan, const Pieces& pieces, int64_t number, float* out) {
  const ModelTensor& tensor = *pieces.tensors[static_cast<size_t>(number)];
  RETURN_IF_ERROR(FillTensor(tensor, plan.lora.scale, reinterpret_cast<uint8_t*>(out)));
  if (pieces.pairs) {
    const int64_t rows = tensor.shape.front();
    model::PairRows(rows / plan.model.head_dim, rows, tensor.elements() / rows, out);
  }
  // There norms multiply by the weight as it stands.
  if (plan.model.norm_weights_from_one && tensor.parameter->kind == model::Kind::kNorm) {
    for (int64_t i = 0; i < tensor.elements(); ++i) out[i] += 1.0f;
  }
  return absl::OkStatus();
}

GgufTensor TensorOf(const plan::Plan& plan, GgufFileType file, std::string name, Pieces pieces) {
  const ModelTensor& first = *pieces.tensors.front();
  GgufTensor tensor{.name = std::move(name), .shape = first.shape};
  const bool plain = first.shape.size() == 1 || first.parameter->kind == model::Kind::kRouter;
  tensor.type =
      plain ? GgufType::kF32 : TypeOfGgufMatrix(file, plan.model, tensor.name, first.shape.back());
  if (pieces.tensors.size() > 1) {
    tensor.parts = static_cast<int64_t>(pieces.tensors.size());
    tensor.shape.insert(tensor.shape.begin(), tensor.parts);
  }
  tensor.fill = [&plan, pieces = std::move(pieces)](int64_t part, float* out) {
    return FillPiece(plan, pieces, part, out);
  };
  return tensor;
}

// In the order of the model's files, experts of a stack together.
absl::StatusOr<std::vector<GgufTensor>> TensorsOf(const plan::Plan& plan, GgufFileType file,
                                                  const std::vector<ModelTensor>& of_files) {
  const model::GgufForm& form = *model::FindGgufForm(plan.model);
  std::vector<std::pair<std::string, Pieces>> all;
  for (const ModelTensor& tensor : of_files) {
    model::GgufPlace place;
    RETURN_IF_ERROR(model::FindGgufPlace(form, plan.architecture.outside, tensor.name, &place));
    // The experts of a stack follow one another (ListModelTensors), by number.
    if (place.expert > 0 && all.back().first == place.name) {
      all.back().second.tensors.push_back(&tensor);
      continue;
    }
    all.push_back({place.name, {{&tensor}, place.pairs}});
  }
  std::vector<GgufTensor> tensors;
  if (plan.model.rope.type == "llama3") {
    const std::vector<float> divisors = model::Llama3Divisors(plan.model);
    tensors.push_back({.name = "rope_freqs.weight",
                       .type = GgufType::kF32,
                       .shape = {static_cast<int64_t>(divisors.size())},
                       .fill = [divisors](int64_t, float* out) {
                         std::copy(divisors.begin(), divisors.end(), out);
                         return absl::OkStatus();
                       }});
  }
  for (auto& [name, pieces] : all) {
    tensors.push_back(TensorOf(plan, file, std::move(name), std::move(pieces)));
  }
  return tensors;
}

std::string PathOf(const std::string& directory, const char* what, GgufFileType type) {
  return absl::StrCat(directory, "/", what, "-", std::string(GgufFileTypeName(type)), ".gguf");
}

}  // namespace

absl::Status WriteGgufModel(const config::JobSpec& job, const plan::Plan& plan,
                            const CheckpointTensors& checkpoint, const TrainedFormat& format,
                            const std::string& directory) {
  RETURN_IF_ERROR(model::CheckGgufForm(plan.model));
  config::JobSpec in_float32 = job;
  in_float32.export_dtype = "float32";
  ASSIGN_OR_RETURN(const ModelSource source, OpenModelSource(plan));
  ASSIGN_OR_RETURN(const std::vector<ModelTensor> of_files,
                   ListModelTensors(in_float32, plan, source, checkpoint));
  const GgufFileType type = *GgufFileTypeOf(job.export_gguf.model);
  ASSIGN_OR_RETURN(const std::vector<GgufTensor> tensors, TensorsOf(plan, type, of_files));
  ASSIGN_OR_RETURN(const std::vector<GgufField> fields,
                   GgufModelFields(job, plan, format, directory, tensors));
  RETURN_IF_ERROR(WriteGguf(PathOf(directory, "model", type), fields, tensors));
  if (source.base != nullptr) RETURN_IF_ERROR(source.base->Intact());
  return checkpoint.Intact();
}

absl::Status WriteGgufAdapter(const config::JobSpec& job, const plan::Plan& plan,
                              const CheckpointTensors& checkpoint, const std::string& directory) {
  RETURN_IF_ERROR(model::CheckGgufForm(plan.model));
  RETURN_IF_ERROR(model::CheckGgufAdapter(plan.model, plan.parameters));
  const model::GgufForm& form = *model::FindGgufForm(plan.model);
  const GgufFileType type = *GgufFileTypeOf(job.export_gguf.adapter);
  std::vector<GgufTensor> tensors;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!parameter.trainable()) continue;
    const PiecedTensor* master = checkpoint.Find(parameter.name);
    if (master == nullptr) {
      return absl::NotFoundError(absl::StrCat("checkpoint ", checkpoint.directory(),
                                              " lacks adapter tensor ", parameter.name));
    }
    model::GgufPlace place;
    const bool a = model::IsLoraA(parameter);
    const std::string base = absl::StrReplaceAll(
        parameter.name, {{"base_model.model.", ""}, {a ? ".lora_A" : ".lora_B", ""}});
    RETURN_IF_ERROR(model::FindGgufPlace(form, plan.architecture.outside, base, &place));
    const bool pairs = place.pairs && !a;
    tensors.push_back({.name = absl::StrCat(place.name, a ? ".lora_a" : ".lora_b"),
                       .type = MainGgufType(type),
                       .shape = {parameter.rows, parameter.cols},
                       .fill = [master, &parameter, &plan, pairs](int64_t, float* out) {
                         RETURN_IF_ERROR(CopyAsFloat(*master, out));
                         if (pairs) {
                           model::PairRows(parameter.rows / plan.model.head_dim, parameter.rows,
                                           parameter.cols, out);
                         }
                         return absl::OkStatus();
                       }});
  }
  RETURN_IF_ERROR(
      WriteGguf(PathOf(directory, "adapter", type), GgufAdapterFields(job, plan), tensors));
  return checkpoint.Intact();
}

}  // namespace coxswain::exports
