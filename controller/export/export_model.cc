#include "controller/export/export_model.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/packed_matrix.h"
#include "common/files/read_file.h"
#include "common/files/safetensors.h"
#include "common/files/safetensors_writer.h"
#include "common/files/weight_files.h"
#include "common/model/family.h"
#include "common/model/file_rows.h"
#include "common/model/read_model_config.h"
#include "common/model/stacked_files.h"
#include "common/status_macros.h"
#include "controller/export/base_model_name.h"

namespace coxswain::exports {
namespace {

// One tensor of the exported model and where its values come from.
struct ModelTensor {
  std::string name;                             // in the file
  const model::Parameter* parameter = nullptr;  // null: beside the text model, taken as it is
  PiecedTensor weights;                         // checkpoint master, or base
  const PiecedTensor* lora_a = nullptr;         // [r, cols], null: nothing to merge
  const PiecedTensor* lora_b = nullptr;         // [rows, r]
  const PiecedTensor* magnitude = nullptr;      // [rows], null: no DoRA
  DType dtype{};
  std::vector<int64_t> shape;
  std::vector<model::RowRange> file_rows = {};
  bool from_base = false;  // in the order of the file; a checkpoint's are in that of memory
  std::optional<PackedMatrix> packed = {};  // the base's, quantised, in place of `weights`
  // Of a stack of matrices in `weights` that was trained: the file, and the number of its matrix or,
  // where the file has all of them, 0.
  std::optional<model::StackedFile> stacked = {};
  int64_t matrix = 0;

  int64_t elements() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
};

absl::StatusOr<DType> DTypeByName(const std::string& name) {
  if (name == "float32") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  return absl::InvalidArgumentError(
      absl::StrCat("dtype ", name, " is not known; set export.dtype"));
}

// What the model's config.json says and a base to read from. Drawn weights have no base.
struct Source {
  nlohmann::ordered_json config;
  std::string config_text;
  std::unique_ptr<WeightFiles> base;  // null: base_model.init is random

  const TensorInfo* Find(const std::string& name) const {
    return base == nullptr ? nullptr : base->Find(name);
  }
  // The key of the dialect: transformers 5 says dtype.
  const char* DTypeKey() const { return config.contains("torch_dtype") ? "torch_dtype" : "dtype"; }
};

absl::StatusOr<Source> OpenSource(const plan::Plan& plan) {
  const std::string path = absl::StrCat(plan.model_path, "/config.json");
  absl::StatusOr<std::string> text = ReadFile(path, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return absl::NotFoundError(absl::StrCat(path, " is gone"));
  RETURN_IF_ERROR(text.status());
  Source source;
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
  if (plan.init == "random") return source;
  ASSIGN_OR_RETURN(source.base,
                   WeightFiles::Open(plan.model_path, model::TextPartOf(plan.model).spellings));
  return source;
}

// The dtype of a tensor of the export; `tensor` is that of the base, null where there is none.
absl::StatusOr<DType> ExportDType(const std::string& name, const Source& source,
                                  const TensorInfo* tensor) {
  if (name != "source") return DTypeByName(name);
  if (tensor != nullptr) return tensor->dtype;
  const auto named = source.config.find(source.DTypeKey());
  if (named == source.config.end() || !named->is_string()) return DType::kF32;
  return DTypeByName(named->get<std::string>());
}

// w [rows, cols] += scale * b [rows, r] a [r, cols], float32. Source: PEFT
// lora.Linear.get_delta_weight.
void AddLowRankProduct(const ModelTensor& tensor, double scale, std::vector<float>* w) {
  const int64_t rows = tensor.parameter->rows, cols = tensor.parameter->cols;
  // An embedding's are A [rows, r] and B [cols, r].
  const bool embedding = model::IsEmbedding(*tensor.parameter);
  const int64_t r = tensor.lora_a->shape[embedding ? 1 : 0];
  std::vector<float> a(embedding ? rows * r : r * cols), b(embedding ? cols * r : rows * r);
  std::vector<float> delta(cols);
  // Sizes and dtypes were checked when the tensor list was made.
  (void)CopyAsFloat(*tensor.lora_a, a.data());
  (void)CopyAsFloat(*tensor.lora_b, b.data());
  if (embedding) {
    std::swap(a, b);
    model::Transpose(cols, r, &a);
  }
  for (int64_t i = 0; i < rows; ++i) {
    std::fill(delta.begin(), delta.end(), 0.0f);
    for (int64_t k = 0; k < r; ++k) {
      const float factor = b[i * r + k];
      const float* row = &a[k * cols];
      for (int64_t j = 0; j < cols; ++j) delta[j] += factor * row[j];
    }
    float* out = w->data() + i * cols;
    for (int64_t j = 0; j < cols; ++j) out[j] += static_cast<float>(scale) * delta[j];
  }
}

// Row i of w [rows, cols] gets length m_i. Source: PEFT DoraLinearLayer and lora.Linear.merge.
void ScaleRows(const ModelTensor& tensor, std::vector<float>* w) {
  const int64_t rows = tensor.parameter->rows, cols = tensor.parameter->cols;
  std::vector<float> magnitude(rows);
  (void)CopyAsFloat(*tensor.magnitude, magnitude.data());
  for (int64_t i = 0; i < rows; ++i) {
    float* row = w->data() + i * cols;
    double squares = 0;
    for (int64_t j = 0; j < cols; ++j) squares += static_cast<double>(row[j]) * row[j];
    const auto factor = static_cast<float>(magnitude[i] / std::sqrt(squares));
    for (int64_t j = 0; j < cols; ++j) row[j] *= factor;
  }
}

absl::Status StoreAs(DType dtype, const std::vector<float>& values, uint8_t* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, values.data(), values.size() * sizeof(float));
    return absl::OkStatus();
  }
  if (dtype != DType::kBF16 && dtype != DType::kF16) {
    return absl::UnimplementedError(absl::StrCat("cannot export dtype ",
                                                 std::string(DTypeName(dtype)),
                                                 "; set export.dtype to float32 or bfloat16"));
  }
  auto convert = dtype == DType::kBF16 ? FloatToBf16 : FloatToHalf;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = convert(values[i]);
    std::memcpy(out + i * sizeof(bits), &bits, sizeof(bits));
  }
  return absl::OkStatus();
}

// A file of a stack, from the matrices that were trained.
absl::Status FillStacked(const ModelTensor& tensor, uint8_t* out) {
  const model::StackedFile& file = *tensor.stacked;
  const model::Parameter& parameter = *tensor.parameter;
  const int64_t of_memory = parameter.elements() / parameter.batch, of_file = file.rows * file.cols;
  std::vector<float> matrix(of_memory), values(tensor.elements());
  for (int64_t i = 0; i < tensor.elements() / of_file; ++i) {
    RETURN_IF_ERROR(CopyRangeAsFloat(tensor.weights, (tensor.matrix + i) * of_memory, of_memory,
                                     matrix.data()));
    model::ToFileMatrix(file, matrix.data(), values.data() + i * of_file);
  }
  return StoreAs(tensor.dtype, values, out);
}

absl::Status FillTensor(const ModelTensor& tensor, double lora_scale, uint8_t* out) {
  if (tensor.stacked.has_value()) return FillStacked(tensor, out);
  const bool ordered = tensor.from_base || tensor.file_rows.empty();
  const bool unchanged = !tensor.packed.has_value() && tensor.lora_a == nullptr &&
                         tensor.weights.dtype == tensor.dtype && ordered;
  if (unchanged) {
    CopyBytes(tensor.weights, out);
    return absl::OkStatus();
  }
  std::vector<float> values(tensor.elements());
  if (tensor.packed.has_value()) {
    CopyAsFloat(*tensor.packed, values.data());
  } else {
    RETURN_IF_ERROR(CopyAsFloat(tensor.weights, values.data()));
  }
  if (tensor.parameter == nullptr) return StoreAs(tensor.dtype, values, out);
  const int64_t cols = tensor.parameter->cols;
  if (tensor.from_base) model::ToMemoryOrder(tensor.file_rows, cols, &values);
  if (tensor.lora_a != nullptr) AddLowRankProduct(tensor, lora_scale, &values);
  if (tensor.magnitude != nullptr) ScaleRows(tensor, &values);
  model::ToFileOrder(tensor.file_rows, cols, &values);
  return StoreAs(tensor.dtype, values, out);
}

absl::Status AddTensorsBeside(const config::JobSpec& job, const plan::Plan& plan,
                              const Source& from, std::vector<ModelTensor>* tensors) {
  if (from.base == nullptr) return absl::OkStatus();
  for (const TensorInfo* tensor : from.base->tensors()) {
    if (!model::TextPartOf(plan.model).IsBeside(tensor->name)) continue;
    ASSIGN_OR_RETURN(const DType dtype, ExportDType(job.export_dtype, from, tensor));
    tensors->push_back({.name = tensor->name,
                        .weights = PiecedTensor(*tensor),
                        .dtype = dtype,
                        .shape = tensor->shape,
                        .from_base = true});
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

// The tensors of the files that make the stack `parameter`.
absl::Status AddStack(const config::JobSpec& job, const plan::Plan& plan, const Source& from,
                      const CheckpointTensors& checkpoint, const model::Parameter& parameter,
                      const std::vector<model::StackedFile>& stack,
                      std::vector<ModelTensor>* tensors) {
  const PiecedTensor* trained = parameter.trainable() ? checkpoint.Find(parameter.name) : nullptr;
  for (const model::StackedFile& file : stack) {
    for (int64_t matrix = 0; matrix < (file.one_each() ? parameter.batch : 1); ++matrix) {
      const std::string name = file.NameOf(matrix);
      const TensorInfo* source = from.Find(name);
      if (trained == nullptr && (parameter.trainable() || source == nullptr)) {
        return absl::NotFoundError(
            absl::StrCat("no values for ", name, " in ",
                         parameter.trainable() ? checkpoint.directory() : plan.model_path));
      }
      ASSIGN_OR_RETURN(const DType dtype, ExportDType(job.export_dtype, from, source));
      ModelTensor tensor{.name = source != nullptr ? source->name : name,
                         .parameter = trained == nullptr ? nullptr : &parameter,
                         .weights = trained != nullptr ? *trained : PiecedTensor(*source),
                         .dtype = dtype,
                         .shape = file.shape(),
                         .from_base = trained == nullptr};
      if (trained != nullptr) tensor.stacked = file;
      tensor.matrix = matrix;
      tensors->push_back(std::move(tensor));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ModelTensor>> ListTensors(const config::JobSpec& job,
                                                     const plan::Plan& plan, const Source& from,
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
    const std::vector<model::StackedFile> stack =
        model::StackedFilesOf(plan.architecture, parameter);
    if (!stack.empty()) {
      RETURN_IF_ERROR(AddStack(job, plan, from, checkpoint, parameter, stack, &tensors));
      continue;
    }
    const TensorInfo* source = from.Find(parameter.name);
    const PiecedTensor* trained = parameter.trainable() ? checkpoint.Find(parameter.name) : nullptr;
    if (trained == nullptr && (parameter.trainable() || source == nullptr)) {
      return absl::NotFoundError(
          absl::StrCat("no values for ", parameter.name, " in ",
                       parameter.trainable() ? checkpoint.directory() : plan.model_path));
    }
    std::optional<PackedMatrix> packed;
    if (trained == nullptr) {
      ASSIGN_OR_RETURN(packed, FindPackedMatrix(*from.base, parameter.name));
      RETURN_IF_ERROR(
          CheckShape(plan, parameter, packed.has_value() ? packed->shape : source->shape));
    }
    ASSIGN_OR_RETURN(const DType dtype,
                     ExportDType(job.export_dtype, from, packed.has_value() ? nullptr : source));
    const PiecedTensor weights = trained != nullptr ? *trained : PiecedTensor(*source);
    tensors.push_back({source != nullptr ? source->name : parameter.name, &parameter, weights,
                       adapter(parameter, model::Part::kLoraA),
                       adapter(parameter, model::Part::kLoraB),
                       adapter(parameter, model::Part::kMagnitude), dtype,
                       packed.has_value() ? packed->shape : ShapeOf(parameter, source, weights),
                       model::FileRows(plan.architecture, parameter), trained == nullptr,
                       std::move(packed)});
  }
  RETURN_IF_ERROR(AddTensorsBeside(job, plan, from, &tensors));
  return tensors;
}

int64_t BytesOf(const ModelTensor& tensor) {
  return tensor.elements() * DTypeBits(tensor.dtype) / 8;
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
  if (plan.model.tie_embeddings) return false;
  const absl::StatusOr<model::ModelConfig> source = model::ReadModelConfig(plan.model_path);
  return source.ok() && source->tie_embeddings;
}

void Untie(const std::string& part, nlohmann::ordered_json* config) {
  constexpr char kTied[] = "tie_word_embeddings";
  (*config)[kTied] = false;
  if (!part.empty() && (*config)[part].contains(kTied)) (*config)[part][kTied] = false;
}

// The source's config.json; only a changed dtype, added tokens, a path in it, a head that it ties
// against its files or quantised linears, which are exported dequantised, change it.
std::string ConfigText(const config::JobSpec& job, const plan::Plan& plan, const Source& source) {
  const bool path = NamesAPath(source.config);
  const bool grown = plan.model.added_tokens.count > 0;
  const bool quantized = !plan.model.quantization.empty();
  const bool says_tied = SaysTied(plan);
  const bool dtype = job.export_dtype != "source";
  if (!dtype && !path && !grown && !quantized && !says_tied) return source.config_text;
  nlohmann::ordered_json config = source.config;
  config.erase("quantization_config");
  if (dtype) config[source.DTypeKey()] = job.export_dtype;
  if (path) config["_name_or_path"] = BaseModelName(job, plan);
  const std::string part(model::TextPartOf(plan.model).config);
  if (grown) (part.empty() ? config : config[part])["vocab_size"] = plan.model.vocab_size;
  if (says_tied) Untie(part, &config);
  return config.dump(2) + "\n";
}

}  // namespace

absl::Status WriteModel(const config::JobSpec& job, const plan::Plan& plan,
                        const CheckpointTensors& checkpoint, const std::string& directory) {
  ASSIGN_OR_RETURN(const Source source, OpenSource(plan));
  RETURN_IF_ERROR(
      WriteFileDurably(absl::StrCat(directory, "/config.json"), ConfigText(job, plan, source)));
  ASSIGN_OR_RETURN(const std::vector<ModelTensor> tensors,
                   ListTensors(job, plan, source, checkpoint));
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
