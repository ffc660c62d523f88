#include "controller/export/export_model.h"

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/family.h"
#include "common/model/read/read_model_config.h"
#include "common/status_macros.h"
#include "controller/export/base_model_name.h"
#include "controller/export/list_model_tensors.h"
#include "controller/export/model_tensor.h"
#include "controller/export/score_labels.h"

namespace coxswain::exports {
namespace {

int64_t BytesOf(const ModelTensor& tensor) {
  return tensor.elements() * ElementBits(tensor.dtype) / 8;
}

// Greedy in table order, as transformers shards: a tensor that does not fit opens the next shard.
std::vector<std::vector<const ModelTensor*>> Shards(const std::vector<ModelTensor>& tensors,
                                                    int64_t max_bytes) {
  std::vector<std::vector<const ModelTensor*>> shards(1);
  int64_t filled = 0;
  for (const ModelTensor& tensor : tensors) {
    if (!shards.back().empty() && filled + BytesOf(tensor) > max_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(&tensor);
    filled += BytesOf(tensor);
  }
  return shards;
}

std::string ShardName(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

absl::Status WriteShard(const std::vector<const ModelTensor*>& shard, double lora_scale,
                        const std::string& path) {
  std::vector<TensorSource> sources;
  for (const ModelTensor* tensor : shard) {
    sources.push_back(
        {tensor->name, tensor->dtype, tensor->shape,
         [tensor, lora_scale](uint8_t* out) { return FillTensor(*tensor, lora_scale, out); }});
  }
  return WriteSafetensors(path, sources).status();
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
// against its files, quantised linears, which are exported dequantised, or a head of scores change
// it.
std::string ConfigText(const config::JobSpec& job, const plan::Plan& plan,
                       const ModelSource& source) {
  const bool path = NamesAPath(source.config);
  const bool grown = plan.model.added_tokens.count > 0;
  const bool quantized = source.config.contains("quantization_config");
  const bool says_tied = SaysTied(plan);
  const bool dtype = job.export_dtype != "source";
  const bool scores = plan.model.labels > 0;
  if (!dtype && !path && !grown && !quantized && !says_tied && !scores) return source.config_text;
  nlohmann::ordered_json config = source.config;
  config.erase("quantization_config");
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
  RETURN_IF_ERROR(
      WriteFileDurably(absl::StrCat(directory, "/config.json"), ConfigText(job, plan, source)));
  ASSIGN_OR_RETURN(const std::vector<ModelTensor> tensors,
                   ListModelTensors(job, plan, source, checkpoint));
  const auto shards = Shards(tensors, job.export_max_shard_bytes);
  nlohmann::json weight_map = nlohmann::json::object();
  int64_t total_bytes = 0, total_parameters = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = ShardName(i, shards.size());
    RETURN_IF_ERROR(WriteShard(shards[i], plan.lora.scale, absl::StrCat(directory, "/", name)));
    for (const ModelTensor* tensor : shards[i]) {
      weight_map[tensor->name] = name;
      total_bytes += BytesOf(*tensor);
      total_parameters += tensor->elements();
    }
  }
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
