#include "controller/export/export_model.h"

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/family.h"
#include "common/model/read/read_model_config.h"
#include "common/status_macros.h"
#include "controller/export/base_model_name.h"
#include "controller/export/fp8_tensors.h"
#include "controller/export/list_model_tensors.h"
#include "controller/export/model_tensor.h"
#include "controller/export/score_labels.h"

namespace coxswain::exports {
namespace {

int64_t BytesOf(const TensorSource& tensor) {
  const int64_t elements =
      std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
  return elements * ElementBits(tensor.dtype) / 8;
}

// Greedy in table order, as transformers shards: a tensor that does not fit opens the next shard.
std::vector<std::vector<TensorSource>> Shards(const std::vector<ModelTensor>& tensors,
                                              double lora_scale, int64_t max_bytes) {
  std::vector<std::vector<TensorSource>> shards(1);
  int64_t filled = 0;
  for (const ModelTensor& tensor : tensors) {
    for (TensorSource& source : SourcesOf(tensor, lora_scale)) {
      const int64_t bytes = BytesOf(source);
      if (!shards.back().empty() && filled + bytes > max_bytes) {
        shards.emplace_back();
        filled = 0;
      }
      shards.back().push_back(std::move(source));
      filled += bytes;
    }
  }
  return shards;
}

std::string ShardName(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

// A path of whatever machine saved the source; bare names and Hub ids are none.
bool NamesAPath(const nlohmann::ordered_json& config) {
  const auto name = config.find("_name_or_path");
  if (name == config.end() || !name->is_string()) return false;
  const auto& text = name->get_ref<const std::string&>();
  return text.find_first_of("/\\~") != std::string::npos && !IsHubId(text);
}

// The head was trained apart from the embedding that config.json ties it to: the files hold both.
bool SaysTied(const plan::Plan& plan) {
  if (plan.model.tie_embeddings || plan.model.labels > 0) return false;
  const absl::StatusOr<model::ModelConfig> source = model::ReadModelConfig(plan.model_path);
  return source.ok() && source->tie_embeddings;
}

void Untie(const std::string& part, nlohmann::ordered_json* config) {
  constexpr char kTied[] = "tie_word_embeddings";
  (*config)[kTied] = false;
  if (!part.empty() && (*config)[part].contains(kTied)) (*config)[part][kTied] = false;
}

// The source's config.json; only a changed dtype, added tokens, a path in it, a head that it ties
// against its files, quantised linears, which are exported dequantised or in FP8, or a head of
// scores change it.
std::string ConfigText(const config::JobSpec& job, const plan::Plan& plan,
                       const ModelSource& source, const std::vector<ModelTensor>& tensors) {
  const bool path = NamesAPath(source.config);
  const bool grown = plan.model.added_tokens.count > 0;
  const bool quantized = source.config.contains("quantization_config");
  const bool says_tied = SaysTied(plan);
  const bool in_fp8 = job.export_dtype == "fp8";
  const bool dtype = job.export_dtype != "source" && !in_fp8;
  const bool scores = plan.model.labels > 0;
  if (!dtype && !in_fp8 && !path && !grown && !quantized && !says_tied && !scores) {
    return source.config_text;
  }
  nlohmann::ordered_json config = source.config;
  config.erase("quantization_config");
  if (in_fp8) config["quantization_config"] = Fp8Config(tensors);
  if (dtype) config[source.DTypeKey()] = job.export_dtype;
  if (path) config["_name_or_path"] = BaseModelName(job, plan);
  const std::string part(model::TextPartOf(plan.model).config);
  if (grown) (part.empty() ? config : config[part])["vocab_size"] = plan.model.vocab_size;
  if (says_tied) Untie(part, &config);
  if (scores) DescribeScores(job, plan, &config);
  return config.dump(2) + "\n";
}

}  // namespace

absl::Status WriteModel(const config::JobSpec& job, const plan::Plan& plan,
                        const CheckpointTensors& checkpoint, const std::string& directory) {
  ASSIGN_OR_RETURN(const ModelSource source, OpenModelSource(plan));
  ASSIGN_OR_RETURN(const std::vector<ModelTensor> tensors,
                   ListModelTensors(job, plan, source, checkpoint));
  RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(directory, "/config.json"),
                                   ConfigText(job, plan, source, tensors)));
  const auto shards = Shards(tensors, plan.lora.scale, job.export_max_shard_bytes);
  nlohmann::json weight_map = nlohmann::json::object();
  int64_t total_bytes = 0, total_parameters = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = ShardName(i, shards.size());
    RETURN_IF_ERROR(WriteSafetensors(absl::StrCat(directory, "/", name), shards[i]).status());
    for (const TensorSource& tensor : shards[i]) {
      weight_map[tensor.name] = name;
      total_bytes += BytesOf(tensor);
    }
  }
  for (const ModelTensor& tensor : tensors) total_parameters += tensor.elements();
  if (source.base != nullptr) RETURN_IF_ERROR(source.base->Intact());
  RETURN_IF_ERROR(checkpoint.Intact());
  if (shards.size() == 1) return absl::OkStatus();
  const nlohmann::json index = {
      {"metadata", {{"total_parameters", total_parameters}, {"total_size", total_bytes}}},
      {"weight_map", weight_map}};
  return WriteFileDurably(absl::StrCat(directory, "/model.safetensors.index.json"),
                          index.dump(2) + "\n");
}

}  // namespace coxswain::exports
