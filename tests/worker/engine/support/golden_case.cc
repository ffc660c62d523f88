#include "tests/worker/engine/support/golden_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <utility>

#include "common/files/safetensors/safetensors.h"
#include "common/model/files/file_rows.h"
#include "common/model/files/stacked_files.h"
#include "nlohmann/json.hpp"
#include "tests/support/golden_folder.h"
#include "tests/worker/engine/support/test_plan.h"

namespace coxswain::engine {
namespace {

// A token whose k-th and next expert are nearer may go elsewhere in float32.
constexpr double kLeastRouterGap = 1e-4;

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  return nlohmann::json::parse(in);
}

std::unique_ptr<SafetensorsFile> Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> file = SafetensorsFile::Open(path);
  if (!file.ok()) throw std::runtime_error(file.status().ToString());
  return std::move(*file);
}

template <typename T>
std::vector<T> ReadIntegers(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* tensor = file.Find(name);
  if (tensor == nullptr) throw std::runtime_error(file.path() + " lacks " + name);
  std::vector<T> values(static_cast<size_t>(tensor->elements()));
  if (tensor->bytes != static_cast<int64_t>(values.size() * sizeof(T))) {
    throw std::runtime_error(file.path() + ": " + name + " has another dtype");
  }
  std::memcpy(values.data(), tensor->data, static_cast<size_t>(tensor->bytes));
  return values;
}

void ReadBatch(const std::string& path, GoldenCase* golden) {
  const std::unique_ptr<SafetensorsFile> file = Open(path);
  const std::vector<int64_t> ids = ReadIntegers<int64_t>(*file, "input_ids");
  // Goldens of scores have none.
  const std::vector<int64_t> labels = file->Find("labels") == nullptr
                                          ? std::vector<int64_t>(ids.size(), -100)
                                          : ReadIntegers<int64_t>(*file, "labels");
  const std::vector<int32_t> cu_seqlens = ReadIntegers<int32_t>(*file, "cu_seqlens");
  BinBatch& bins = golden->bins;
  bins.bin_ids = {0};
  bins.documents_per_bin = {static_cast<int32_t>(cu_seqlens.size()) - 1};
  for (size_t i = 1; i < cu_seqlens.size(); ++i) {
    bins.document_lengths.push_back(cu_seqlens[i] - cu_seqlens[i - 1]);
  }
  for (size_t t = 0; t < ids.size(); ++t) {
    bins.token_ids.push_back(static_cast<int32_t>(ids[t]));
    bins.targets.push_back(labels[t] == -100 ? 0 : 1);
  }
}

// Names of the parameter table. Peft's parameter of a magnitude ends in ".weight", and in peft what
// is trained in full beside an adapter lies below a prefix. A of an embedding is [rank, vocab]
// there. NOLINTNEXTLINE(performance-unnecessary-value-param): its values move
Tensors WithTableNames(Tensors tensors, int64_t rank) {
  const std::string key = ".lora_magnitude_vector", suffix = ".weight";
  const std::string prefix = "base_model.model.";
  Tensors renamed;
  for (auto& [name, values] : tensors) {
    const bool magnitude = name.ends_with(key + suffix);
    const bool saved = name.starts_with(prefix) && name.find(".lora_") == std::string::npos;
    const bool transposed = name.ends_with(".lora_embedding_A");
    if (transposed) model::Transpose(rank, static_cast<int64_t>(values.size()) / rank, &values);
    std::string own = magnitude ? name.substr(0, name.size() - suffix.size()) : name;
    renamed[saved ? own.substr(prefix.size()) : own] = std::move(values);
  }
  return renamed;
}

PlanOptions ReadOptions(const std::string& directory, const nlohmann::json& optimizer) {
  PlanOptions options;
  options.model_path = directory;
  options.weight_decay = optimizer.at("weight_decay").get<double>();
  if (!std::filesystem::exists(directory + "/adapter")) return options;
  options.init_from = directory + "/adapter";
  const nlohmann::json adapter = ReadJson(options.init_from + "/adapter_config.json");
  const double alpha = adapter.at("lora_alpha").get<double>();
  options.lora_rank = adapter.at("r").get<int64_t>();
  const double rank = static_cast<double>(options.lora_rank);
  options.lora_scale = alpha / (adapter.at("use_rslora").get<bool>() ? std::sqrt(rank) : rank);
  options.dora = adapter.at("use_dora").get<bool>();
  const nlohmann::json& saved = adapter.at("modules_to_save");
  if (!saved.is_null()) options.modules_to_save = saved.get<std::vector<std::string>>();
  const nlohmann::json& targets = adapter.at("target_modules");
  if (targets.is_array()) options.lora_targets = targets.get<std::vector<std::string>>();
  if (adapter.contains("target_parameters") && !adapter.at("target_parameters").is_null()) {
    options.lora_parameters = adapter.at("target_parameters").get<std::vector<std::string>>();
  }
  const nlohmann::json ranks = adapter.value("rank_pattern", nlohmann::json::object());
  if (!ranks.empty()) options.gate_up_rank = ranks.at(R"(.*\.gate_up_proj)").get<int64_t>();
  options.lora_plus_ratio = optimizer.value("lora_plus_ratio", 1.0);
  return options;
}

// The stacks of experts, whose matrices the files of a base hold apart.
void AddStacks(const plan::Plan& plan, Tensors* tensors) {
  for (const model::Parameter& parameter : plan.parameters) {
    const auto stack = model::StackedFilesOf(plan.architecture, parameter);
    if (stack.empty() || tensors->count(stack.front().NameOf(0)) == 0) continue;
    std::vector<float> values(static_cast<size_t>(parameter.elements()));
    const int64_t elements = parameter.elements() / parameter.batch;
    for (int64_t matrix = 0; matrix < parameter.batch; ++matrix) {
      for (const model::StackedFile& file : stack) {
        const std::vector<float>& read = tensors->at(file.NameOf(matrix));
        const int64_t begin = file.one_each() ? 0 : matrix * file.rows * file.cols;
        model::ToMemoryMatrix(file, read.data() + begin, values.data() + matrix * elements);
      }
    }
    (*tensors)[parameter.name] = std::move(values);
  }
}

// transformers 5 calls them otherwise than the files of Mixtral.
void RenameRouters(const plan::Plan& plan, Tensors* tensors) {
  for (const model::Parameter& parameter : plan.parameters) {
    const size_t at = parameter.name.find("block_sparse_moe.gate");
    if (at == std::string::npos || tensors->count(parameter.name) > 0) continue;
    std::string other = parameter.name;
    other.replace(at, std::strlen("block_sparse_moe.gate"), "mlp.gate");
    const auto found = tensors->find(other);
    if (found == tensors->end()) continue;
    (*tensors)[parameter.name] = std::move(found->second);
    tensors->erase(other);
  }
}

}  // namespace

Tensors ReadTensors(const std::string& path) {
  const std::unique_ptr<SafetensorsFile> file = Open(path);
  Tensors tensors;
  for (const TensorInfo& tensor : file->tensors()) {
    std::vector<float>& values = tensors[tensor.name];
    values.resize(static_cast<size_t>(tensor.elements()));
    if (absl::Status status = CopyAsFloat(tensor, values.data()); !status.ok()) {
      throw std::runtime_error(path + ": " + status.ToString());
    }
  }
  return tensors;
}

NamedCase CaseOf(const std::string& parameter) {
  const std::string cut = "cut_";
  if (parameter.rfind(cut, 0) != 0) return {parameter};
  return {parameter.substr(cut.size()), /*cut_head=*/true};
}

GoldenCase LoadGoldenCase(const std::string& name) {
  const std::string directory = support::GoldenFolder(name);
  GoldenCase golden;
  golden.name = name;
  const nlohmann::json expected = ReadJson(directory + "/expected.json");
  const nlohmann::json& optimizer = expected.at("optimizer");
  ReadBatch(directory + "/batch.safetensors", &golden);
  PlanOptions options = ReadOptions(directory, optimizer);
  options.sequence_len =
      std::max(options.sequence_len, static_cast<int64_t>(golden.bins.token_ids.size()));
  golden.plan = MakePlan(options);
  golden.plan.beta1 = optimizer.at("betas").at(0).get<double>();
  golden.plan.beta2 = optimizer.at("betas").at(1).get<double>();
  golden.plan.eps = optimizer.at("eps").get<double>();
  golden.plan.max_grad_norm = optimizer.at("clip_global_norm").get<double>();
  golden.targets = std::count(golden.bins.targets.begin(), golden.bins.targets.end(), 1);
  golden.loss = expected.at("loss").get<double>();
  golden.grad_norm = expected.at("grad_norm").get<double>();
  for (const nlohmann::json& step : expected.at("trajectory")) {
    if (step.value("router_gap", 1.0) < kLeastRouterGap) golden.flips = true;
    golden.steps_before_flip += golden.flips ? 0 : 1;
    golden.trajectory.push_back({step.at("loss").get<double>(), step.at("grad_norm").get<double>(),
                                 step.at("lr").get<double>()});
  }
  golden.gradients =
      WithTableNames(ReadTensors(directory + "/grads.safetensors"), options.lora_rank);
  // Cases that are not stored whole lack them.
  if (std::filesystem::exists(directory + "/logits.safetensors")) {
    golden.logits = ReadTensors(directory + "/logits.safetensors").at("logits");
  }
  if (std::filesystem::exists(directory + "/final.safetensors")) {
    golden.final = WithTableNames(ReadTensors(directory + "/final.safetensors"), options.lora_rank);
  }
  // What a base in blocks stands for lies beside it.
  const std::string twin = directory + "/dequantised";
  const std::string base = std::filesystem::exists(twin) ? twin : directory;
  golden.initial = WithTableNames(
      ReadTensors(options.lora_rank > 0 ? options.init_from + "/adapter_model.safetensors"
                                        : base + "/model.safetensors"),
      options.lora_rank);
  for (Tensors* tensors : {&golden.gradients, &golden.final, &golden.initial}) {
    AddStacks(golden.plan, tensors);
  }
  for (Tensors* tensors : {&golden.gradients, &golden.final, &golden.initial}) {
    RenameRouters(golden.plan, tensors);
    for (const model::Parameter& parameter : golden.plan.parameters) {
      const auto found = tensors->find(parameter.name);
      if (found == tensors->end() || !model::IsRankMajorInFiles(parameter)) continue;
      model::FromRankMajor(golden.plan.architecture, parameter, &found->second);
    }
  }
  return golden;
}

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += static_cast<double>(a[i]) * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += static_cast<double>(b[i]) * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) throw std::runtime_error("tensors of different size");
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / norm);
}

double ErrorOfTheWay(const std::vector<float>& end, const std::vector<float>& want,
                     const std::vector<float>& start) {
  double difference = 0, travelled = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double there = want[i];
    difference += std::pow(end[i] - there, 2);
    travelled += std::pow(there - static_cast<double>(start[i]), 2);
  }
  return std::sqrt(difference / travelled);
}

}  // namespace coxswain::engine
