#include "common/config/rules/rules.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/rules/method_rules.h"
#include "common/config/rules/preference_rules.h"
#include "common/config/rules/score_rules.h"
#include "common/config/rules/source_rules.h"
#include "common/config/schema/schema.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

bool IsSet(const Json& value) { return !value.is_null() && !(value.is_array() && value.empty()); }

// Wrong values were reported already and stand as null; a rule about them stays silent.
void CheckExclusive(Validated* job) {
  for (const auto& [first, second] : ExclusiveKeys()) {
    if (!IsSet(At(job->effective, first)) || !IsSet(At(job->effective, second))) continue;
    std::pair<std::string, std::string> keys(first, second);
    if (LineOf(*job, keys.first) > LineOf(*job, keys.second)) std::swap(keys.first, keys.second);
    job->errors.push_back({keys.second, LineOf(*job, keys.second),
                           absl::StrCat("excludes ", keys.first, " (line ",
                                        LineOf(*job, keys.first), "); set one of the two")});
  }
}

void CheckEvaluation(Validated* job) {
  const Json& size = At(job->effective, "spec.val_set_size");
  if (size.is_number() && size.get<double>() >= 1 &&
      size.get<double>() != std::floor(size.get<double>())) {
    job->errors.push_back(
        {"spec.val_set_size", LineOf(*job, "spec.val_set_size"),
         absl::StrCat(size.dump(), " is neither a fraction below 1 nor a whole count")});
  }
  const bool evaluates = IsSet(At(job->effective, "spec.test_datasets")) ||
                         (size.is_number() && size.get<double>() > 0);
  const std::string patience = "spec.eval.early_stopping_patience";
  if (IsSet(At(job->effective, patience)) && !evaluates) {
    job->errors.push_back(
        {patience, LineOf(*job, patience),
         "early stopping needs an evaluation set; add test_datasets or val_set_size"});
  }
}

// Of pairs there are margins and accuracies, of verdicts margins, of labels an accuracy.
bool HasMetric(const std::string& method, const std::string& metric, const Json& problem) {
  if (metric == "eval_loss") return true;
  if (metric == "eval_accuracy") return method == "classification" && problem != "regression";
  const bool pairs = method == "reward" || (IsPreferenceMethod(method) && method != "kto");
  return pairs || (method == "kto" && metric == "eval_rewards/margins");
}

void CheckMetric(Validated* job) {
  const Json &method = At(job->effective, "spec.method"),
             &metric = At(job->effective, "spec.eval.metric");
  if (!method.is_string() || !metric.is_string()) return;
  if (HasMetric(method, metric, At(job->effective, "spec.classification.problem"))) return;
  AddError("spec.eval.metric",
           absl::StrCat(metric.get<std::string>(), " is nothing that an evaluation of method ",
                        method.get<std::string>(), " measures; give eval_loss"),
           job);
}

constexpr size_t kMostPrompts = 64;

// What is asked, of whom and how much at once.
void CheckGeneration(Validated* job) {
  const auto error = [job](const std::string& path, std::string message) {
    job->errors.push_back({path, LineOf(*job, path), std::move(message)});
  };
  const std::string prompts = "spec.generate.prompts", messages = "spec.generate.messages";
  const bool generates = At(job->effective, "spec.method") == "generate";
  const bool asks = IsSet(At(job->effective, prompts)), talks = IsSet(At(job->effective, messages));
  if (!generates) {
    const Json& method = At(job->effective, "spec.method");
    const bool scores = method.is_string() && IsScoreMethod(method.get<std::string>());
    const char* const elsewhere =
        scores ? "goes with method: generate"
               : "goes with method: generate; while training: eval.sample_prompts";
    if (asks) error(prompts, elsewhere);
    if (talks) error(messages, elsewhere);
  } else if (asks == talks) {
    error(prompts, "method: generate answers either prompts or messages; give one of the two");
  }
  for (const std::string& path : {prompts, std::string("spec.eval.sample_prompts")}) {
    const Json& list = At(job->effective, path);
    if (!list.is_array()) continue;
    if (list.size() > kMostPrompts) {
      error(path, absl::StrCat("holds ", list.size(), " texts; at most ", kMostPrompts));
    }
    if (std::count(list.begin(), list.end(), Json("")) > 0) error(path, "holds an empty text");
  }
}

// Every job but one that generates is trained on something.
void CheckDatasets(Validated* job) {
  const std::string path = "spec.datasets";
  const int line = LineOf(*job, path);
  const bool generates = At(job->effective, "spec.method") == "generate";
  const Json& datasets = At(job->effective, path);
  if (!datasets.is_array()) return;
  const bool told = std::any_of(job->errors.begin(), job->errors.end(),
                                [&](const ConfigError& error) { return error.path == path; });
  if (datasets.empty() != generates && !told) {
    job->errors.push_back({path, line,
                           generates   ? "method: generate reads no datasets; leave them out"
                           : line == 0 ? "missing; Training sources, at least one"
                                       : "expected at least one entry, got an empty list"});
  }
}

bool IsNames(const Json& value) {
  if (value.is_string()) return true;
  if (!value.is_array()) return false;
  return std::all_of(value.begin(), value.end(), [](const Json& name) { return name.is_string(); });
}

void CheckRoles(Validated* job) {
  for (const char* list : {"datasets", "test_datasets"}) {
    const std::string path = absl::StrCat("spec.", list);
    const Json& sources = At(job->effective, path);
    for (size_t i = 0; sources.is_array() && i < sources.size(); ++i) {
      const Json& roles = At(sources[i], "roles");
      const std::string key = absl::StrCat(path, "[", i, "].roles");
      for (const auto& [role, names] : roles.items()) {
        if (IsNames(names)) continue;
        job->errors.push_back(
            {key, LineOf(*job, key),
             absl::StrCat(role, ": expected a name or a list of names, got ", names.dump())});
      }
    }
  }
}

// An adapter has modules, or stacks of experts and routers, or both.
void CheckTargets(Validated* job) {
  const std::string path = "spec.lora.target_modules";
  const Json& modules = At(job->effective, path);
  const Json& stacks = At(job->effective, "spec.lora.target_parameters");
  if (!modules.is_array() || !modules.empty() || !stacks.is_array() || !stacks.empty()) return;
  job->errors.push_back({path, LineOf(*job, path),
                         "expected at least one name here or in lora.target_parameters, got an "
                         "empty list"});
}

// Source: peft 0.21 lora/dora.py: with dropout it drops the input of W as well.
void CheckDora(Validated* job) {
  const std::string path = "spec.lora.use_dora";
  const Json& dropout = At(job->effective, "spec.lora.dropout");
  if (At(job->effective, "spec.adapter") == "none" || At(job->effective, path) != true) return;
  if (!dropout.is_number() || dropout.get<double>() == 0) return;
  job->errors.push_back(
      {path, LineOf(*job, path), absl::StrCat("needs lora.dropout: 0, got ", dropout.dump())});
}

// Source: peft 0.21 lora/layer.py, ParamWrapper, which refuses to load such an adapter.
void CheckDropoutOfExperts(Validated* job) {
  const std::string path = "spec.lora.dropout";
  const Json& dropout = At(job->effective, path);
  const Json& stacks = At(job->effective, "spec.lora.target_parameters");
  if (At(job->effective, "spec.adapter") == "none" || !stacks.is_array() || stacks.empty()) return;
  if (!dropout.is_number() || dropout.get<double>() == 0) return;
  job->errors.push_back(
      {path, LineOf(*job, path),
       absl::StrCat("adapters of experts and routers (lora.target_parameters) have "
                    "no dropout; give 0, got ",
                    dropout.dump())});
}

void CheckExtend(Validated* job) {
  const std::string path = "spec.checkpoint.extend";
  if (At(job->effective, path) != true) return;
  if (At(job->effective, "spec.checkpoint.resume") != "never") return;
  job->errors.push_back({path, LineOf(*job, path),
                         "goes on from a checkpoint, and checkpoint.resume is never; give auto, a "
                         "job or a path"});
}

// Drawn weights that do not train are in no file that a merge could read.
void CheckMergeOfRandomWeights(Validated* job) {
  const std::string path = "spec.export.merge";
  if (At(job->effective, "spec.base_model.init") != "random") return;
  if (At(job->effective, "spec.adapter") != "lora" || At(job->effective, path) != true) return;
  job->errors.push_back({path, LineOf(*job, path),
                         "base_model.init: random keeps no base weights to merge an adapter into; "
                         "give adapter: none or leave merge out"});
}

// A GGUF of an adapter goes with one; that of a merged model needs the base.
void CheckGguf(Validated* job) {
  const std::string path = "spec.export.gguf.";
  const auto error = [&](const char* key, const char* message) {
    job->errors.push_back({path + key, LineOf(*job, path + key), message});
  };
  const Json& adapter = At(job->effective, "spec.adapter");
  if (!adapter.is_string()) return;
  const Json& of_model = At(job->effective, path + "model");
  const Json& of_adapter = At(job->effective, path + "adapter");
  const bool model = of_model.is_string() && of_model != "none";
  const bool pair = of_adapter.is_string() && of_adapter != "none";
  if (At(job->effective, "spec.method") == "generate") {
    if (model) error("model", "goes with a job that trains; method: generate exports nothing");
    if (pair) error("adapter", "goes with a job that trains; method: generate exports nothing");
    return;
  }
  if (pair && adapter == "none") {
    error("adapter", "goes with adapter: lora or qlora, which is none; give export.gguf.model");
  }
  if (pair && At(job->effective, "spec.lora.use_dora") == true) {
    error("adapter", "llama.cpp knows no DoRA; give export.gguf.model, the merged model");
  }
  if (model && adapter != "none" && At(job->effective, "spec.base_model.init") == "random") {
    error("model",
          "base_model.init: random keeps no base weights to merge an adapter into; give "
          "adapter: none");
  }
}

// Of a model that is written; an adapter stays float32.
void CheckFp8Export(Validated* job) {
  const std::string path = "spec.export.dtype";
  if (At(job->effective, path) != "fp8") return;
  const auto error = [&](const char* message) {
    job->errors.push_back({path, LineOf(*job, path), message});
  };
  const Json& adapter = At(job->effective, "spec.adapter");
  if (At(job->effective, "spec.method") == "generate") {
    return error("fp8 goes with a job that trains; method: generate exports nothing");
  }
  if (!adapter.is_string() || adapter == "none") return;
  if (At(job->effective, "spec.export.merge") == true) return;
  error(
      "fp8 is of a model, an adapter is float32; set export.merge: true to export the merged "
      "model too, or leave dtype out");
}

void CheckQuantization(Validated* job) {
  const auto error = [job](const std::string& path, std::string message) {
    job->errors.push_back({path, LineOf(*job, path), std::move(message)});
  };
  const Json& adapter = At(job->effective, "spec.adapter");
  if (!adapter.is_string()) return;
  const char* const format = "spec.quantization.format";
  const bool none = At(job->effective, format) == "none";
  if (adapter == "qlora" && none) {
    error(format, "a base that is not quantised goes with adapter: lora, which is qlora");
  }
  for (const auto& [path, usual] :
       {std::pair<const char*, Json>(format, none ? "none" : "auto"),
        std::pair<const char*, Json>("spec.quantization.double", true)}) {
    if (adapter == "qlora" || At(job->effective, path) == usual) continue;
    error(path, absl::StrCat("goes with adapter: qlora, which is ", adapter.get<std::string>()));
  }
  const std::string resident = "spec.parallelism.resident_blocks";
  if (adapter == "qlora" && At(job->effective, resident).is_number()) {
    error(resident,
          "with adapter: qlora at most two blocks are dequantised at a time and none stays; leave "
          "it out");
  }
}

void CheckFp8(Validated* job) {
  const auto error = [job](const std::string& path, std::string message) {
    job->errors.push_back({path, LineOf(*job, path), std::move(message)});
  };
  const std::string compute = "spec.precision.compute";
  const bool fp8 = At(job->effective, compute) == "fp8";
  if (fp8 && At(job->effective, "spec.adapter") == "qlora") {
    error(compute, "fp8 goes with adapter: lora or none; qlora keeps its base in fewer bits");
  }
  for (const auto& [name, usual] : {std::pair<const char*, Json>("recipe", "auto"),
                                    std::pair<const char*, Json>("gradients", "auto"),
                                    std::pair<const char*, Json>("activations", "kept"),
                                    std::pair<const char*, Json>("weights", "kept"),
                                    std::pair<const char*, Json>("gather", "auto"),
                                    std::pair<const char*, Json>("experts", "bfloat16"),
                                    std::pair<const char*, Json>("attention", "bfloat16"),
                                    std::pair<const char*, Json>("exclude", Json::array())}) {
    const std::string path = absl::StrCat("spec.precision.fp8.", name);
    const Json& value = At(job->effective, path);
    if (fp8 || value.is_null() || value == usual) continue;
    error(path, "goes with precision.compute: fp8");
  }
}

// replicate x shard = workers, and a ZeRO stage above 0 needs ranks to share with.
void CheckMesh(Validated* job) {
  const auto number = [job](const std::string& path) -> std::optional<int64_t> {
    const Json& value = At(job->effective, path);
    if (!value.is_number_integer()) return std::nullopt;
    return value.get<int64_t>();
  };
  const auto error = [job](const std::string& path, std::string message) {
    job->errors.push_back({path, LineOf(*job, path), std::move(message)});
  };
  const std::string mesh = "spec.parallelism.";
  const auto workers = number("spec.resources.workers");
  const auto replicate = number(mesh + "replicate"), shard = number(mesh + "shard");
  const auto zero = number(mesh + "zero");
  if (number(mesh + "resident_blocks").has_value() && zero.value_or(3) != 3) {
    error(mesh + "resident_blocks",
          absl::StrCat("goes with zero 3, which alone shares the weights of blocks; zero is ",
                       *zero));
  }
  if (!workers.has_value() || *workers < 1) return;
  for (const char* name : {"replicate", "shard"}) {
    const auto value = number(mesh + name);
    if (!value.has_value() || *value < 1 || *workers % *value == 0) continue;
    error(mesh + name,
          absl::StrCat("is ", *value, ", which does not divide resources.workers ", *workers));
    return;
  }
  if (replicate.has_value() && shard.has_value() && *replicate * *shard != *workers) {
    error(mesh + "shard", absl::StrCat("replicate ", *replicate, " x shard ", *shard, " is ",
                                       *replicate * *shard, ", resources.workers is ", *workers));
    return;
  }
  if (!zero.has_value()) return;
  int64_t ranks = *zero == 0 ? 1 : *workers;  // of a replica
  if (replicate.has_value()) ranks = *workers / std::max<int64_t>(1, *replicate);
  if (shard.has_value()) ranks = *shard;
  if ((*zero > 0) == (ranks > 1)) return;
  error(mesh + "zero", absl::StrCat("is ", *zero, " with ", ranks, " rank", ranks == 1 ? "" : "s",
                                    " in a replica; 0 goes with shard 1, 1 to 3 with more"));
}

constexpr const char* kSchedulerKwargs = "spec.train.lr_scheduler_kwargs.";

// Keys of lr_scheduler_kwargs and who reads them.
constexpr std::pair<const char*, const char*> kReaders[] = {
    {"num_cycles", "cosine_with_restarts"}, {"power", "polynomial"},
    {"timescale", "inverse_sqrt"},          {"num_decay_steps", "warmup_stable_decay"},
    {"decay_ratio", "warmup_stable_decay"}, {"decay_type", "warmup_stable_decay"},
};

void CheckScheduler(Validated* job) {
  const Json& scheduler = At(job->effective, "spec.train.lr_scheduler");
  if (!scheduler.is_string()) return;
  for (const auto& [name, reader] : kReaders) {
    const std::string path = absl::StrCat(kSchedulerKwargs, name);
    if (!IsSet(At(job->effective, path)) || scheduler == reader) continue;
    job->errors.push_back({path, LineOf(*job, path),
                           absl::StrCat("goes with lr_scheduler ", reader, ", which is ",
                                        scheduler.get<std::string>())});
  }
}

// The value of a resource that is auto; null where it is not.
Json* AutoResource(const char* name, Validated* job) {
  if (At(job->effective, absl::StrCat("spec.resources.", name)) != "auto") return nullptr;
  return &job->effective["spec"]["resources"][name];
}

// bfloat16 is a choice of the device too: CPU workers have none.
void ChooseResources(const ChosenResources& chosen, Validated* job) {
  if (Json* device = AutoResource("device", job)) {
    bool bfloat16 = false;
    for (const char* name : {"compute", "master_weights", "gradients"}) {
      bfloat16 |= At(job->effective, absl::StrCat("spec.precision.", name)) == "bfloat16";
    }
    if (bfloat16) {
      *device = DeviceName(Device::kCuda);
    } else if (chosen.device.has_value()) {
      *device = DeviceName(*chosen.device);
    }
  }
  Json* workers = AutoResource("workers", job);
  if (workers != nullptr && At(job->effective, "spec.method") == "generate") *workers = 1;
  if (workers != nullptr && *workers == "auto" && chosen.workers.has_value()) {
    *workers = *chosen.workers;
  }
}

void CheckDevice(Validated* job) {
  if (At(job->effective, "spec.resources.device") == "auto") return;  // nothing asks for a GPU
  const bool cuda = At(job->effective, "spec.resources.device") == "cuda";
  const auto error = [job](const std::string& path, std::string message) {
    job->errors.push_back({path, LineOf(*job, path), std::move(message)});
  };
  const Json& compute = At(job->effective, "spec.precision.compute");
  if (compute.is_null()) return;
  if (!cuda && compute == "bfloat16") {
    error("spec.precision.compute", "cpu workers compute in float32; give auto");
    return;
  }
  if (compute == "bfloat16" || (cuda && (compute == "auto" || compute == "fp8"))) return;
  for (const char* name : {"master_weights", "gradients"}) {
    const std::string path = absl::StrCat("spec.precision.", name);
    if (At(job->effective, path) != "bfloat16") continue;
    error(path, "bfloat16 needs precision.compute: bfloat16; give auto");
  }
}

// A sum that nothing is added by.
void CheckGradientSum(Validated* job) {
  const std::string path = "spec.precision.gradient_sum";
  const Json& sum = At(job->effective, path);
  if (sum != "stochastic" && sum != "compensated") return;
  const Json& compute = At(job->effective, "spec.precision.compute");
  const bool cpu = At(job->effective, "spec.resources.device") == "cpu";
  std::string why;
  if (cpu || compute == "float32") {
    why = "which need precision.compute: bfloat16";
  } else if (At(job->effective, "spec.precision.gradients") == "float32") {
    why = "precision.gradients is float32";
  }
  if (why.empty()) return;
  job->errors.push_back(
      {path, LineOf(*job, path),
       absl::StrCat(sum.get<std::string>(), " is of gradients in bfloat16, ", why, "; give auto")});
}

void ResolveScheduler(Json* train) {
  const Json& scheduler = (*train)["lr_scheduler"];
  Json& kwargs = (*train)["lr_scheduler_kwargs"];
  const auto fill = [&kwargs](const char* name, Json value) {
    if (kwargs[name].is_null()) kwargs[name] = std::move(value);
  };
  if (scheduler == "cosine_with_restarts") fill("num_cycles", 1);
  if (scheduler == "polynomial") fill("power", 1.0);
  if (scheduler != "warmup_stable_decay") return;
  if (kwargs["num_decay_steps"].is_null()) fill("decay_ratio", 0.1);
  fill("decay_type", "cosine");
}

// Documents of 64 tokens fill a bin; a data set of shorter ones is rare. `none` does not read it,
// and the stems of recipes have 32 there. A bin of pairs is twice as long.
void ResolvePacking(Json* spec) {
  Json& packing = (*spec)["packing"];
  Json& most = packing["max_documents_per_bin"];
  if (most != "auto") return;
  const auto method = (*spec)["method"].get<std::string>();
  const bool pairs = IsPreferenceMethod(method) || method == "reward";
  const int64_t length = (*spec)["sequence_len"].get<int64_t>() * (pairs ? 2 : 1);
  most = packing["strategy"] == "none" ? 32 : std::max<int64_t>(32, (length + 63) / 64);
}

// Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3.1; torchao 0.14,
// Float8LinearConfig, recipe "rowwise": both take E4M3 for gradients too. Scales that are too small
// for a gradient of a later step are what E5M2's range is for: Transformer Engine, recipe
// DelayedScaling, format HYBRID.
// Codes are gathered where a rank's part of a weight has the scale of the whole.
void ResolveFp8(Json* spec) {
  Json& fp8 = (*spec)["precision"]["fp8"];
  if (fp8["recipe"] == "auto") fp8["recipe"] = "tensorwise";
  const bool whole = fp8["recipe"] == "tensorwise" || fp8["recipe"] == "delayed";
  if (fp8["gradients"] == "auto") fp8["gradients"] = whole ? "e5m2" : "e4m3";
  if (fp8["gather"] != "auto") return;
  const bool dora = (*spec)["adapter"] != "none" && (*spec)["lora"]["use_dora"] == true;
  fp8["gather"] = whole && !dora ? "fp8" : "bfloat16";
}

// Source of the rates on preferences: TRL 1.10 dpo_config.py, and its page on DPO, "Train
// adapters".
double DefaultLearningRate(const Json& spec) {
  const bool full = spec["adapter"] == "none";
  if (IsPreferenceMethod(spec["method"].get<std::string>())) return full ? 1e-6 : 1e-5;
  return full ? 2e-5 : 1e-4;
}

}  // namespace

void ResolveDefaults(Json* effective) {
  Json& spec = (*effective)["spec"];
  ResolvePacking(&spec);
  Json& train = spec["train"];
  ResolvePreference(&spec);
  ResolveScores(&spec);
  if (train["learning_rate"].is_null()) train["learning_rate"] = DefaultLearningRate(spec);
  if (train["num_epochs"].is_null() && train["max_steps"].is_null()) train["num_epochs"] = 1.0;
  if (train["warmup_ratio"].is_null() && train["warmup_steps"].is_null())
    train["warmup_ratio"] = 0.03;
  ResolveScheduler(&train);
  Json& precision = spec["precision"];
  const Json& device = spec["resources"]["device"];
  if (precision["compute"] == "auto" && device == "auto") return;
  if (precision["compute"] == "auto") {
    precision["compute"] = device == "cuda" ? "bfloat16" : "float32";
  }
  if (precision["compute"] == "fp8") ResolveFp8(&spec);
  // The planner decides the rest by memory.
  if (precision["compute"] == "bfloat16" || (precision["compute"] == "fp8" && device != "cpu")) {
    return;
  }
  for (auto& [name, value] : precision.items()) {
    if (value == "auto") value = name == "gradient_sum" ? "nearest" : "float32";
  }
}

void ApplyRules(const ChosenResources& chosen, Validated* job) {
  ChooseResources(chosen, job);
  CheckExclusive(job);
  CheckSources(job);
  CheckScheduler(job);
  CheckEvaluation(job);
  CheckMetric(job);
  CheckDatasets(job);
  CheckGeneration(job);
  CheckMethod(job);
  CheckPreference(job);
  CheckScores(job);
  CheckRoles(job);
  CheckTargets(job);
  CheckDora(job);
  CheckDropoutOfExperts(job);
  CheckExtend(job);
  CheckMergeOfRandomWeights(job);
  CheckGguf(job);
  CheckFp8Export(job);
  CheckPush(job);
  CheckQuantization(job);
  CheckFp8(job);
  CheckMesh(job);
  CheckDevice(job);
  CheckGradientSum(job);
  if (job->errors.empty()) ResolveDefaults(&job->effective);
}

}  // namespace coxswain::config
