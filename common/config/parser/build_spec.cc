#include "common/config/parser/build_spec.h"

#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "common/config/rules/preference_rules.h"

namespace coxswain::config {
namespace {

using Json = nlohmann::ordered_json;

// The enumerator of a word. The schema admits no other word than those listed at each call.
template <typename E, size_t N>
E Word(const Json& value, const std::array<std::pair<std::string_view, E>, N>& words) {
  const auto& text = value.get_ref<const std::string&>();
  for (const auto& [word, enumerator] : words) {
    if (text == word) return enumerator;
  }
  throw std::logic_error("the schema admits the word " + text + " that job_spec.h does not have");
}

template <Spelled E>
E Word(const Json& value) {
  const auto& text = value.get_ref<const std::string&>();
  if (const std::optional<E> word = FromString<E>(text)) return *word;
  throw std::logic_error("the schema admits the word " + text + " that words.h does not have");
}

// None: auto.
template <Spelled E>
std::optional<E> WordOrAuto(const Json& value) {
  if (value == "auto") return std::nullopt;
  return Word<E>(value);
}

template <typename T>
std::optional<T> Optional(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<T>();
}

// Of a key that may be `auto`.
template <typename T = int64_t>
std::optional<T> Number(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  return value.get<T>();
}

// Empty where it is null.
std::string Text(const Json& value) { return value.is_null() ? "" : value.get<std::string>(); }

HubSource Hub(const Json& source) {
  return {.id = Text(source["hub"]), .revision = Text(source["revision"])};
}

DatasetFormat Format(const Json& word) {
  return Word<DatasetFormat, 11>(word,
                                 {{{"auto", DatasetFormat::kAuto},
                                   {"alpaca", DatasetFormat::kAlpaca},
                                   {"chat", DatasetFormat::kChat},
                                   {"sharegpt", DatasetFormat::kSharegpt},
                                   {"prompt_completion", DatasetFormat::kPromptCompletion},
                                   {"completion", DatasetFormat::kCompletion},
                                   {"input_output", DatasetFormat::kInputOutput},
                                   {"tokenized", DatasetFormat::kTokenized},
                                   {"preference", DatasetFormat::kPreference},
                                   {"unpaired_preference", DatasetFormat::kUnpairedPreference},
                                   {"classification", DatasetFormat::kClassification}}});
}

// What `auto` means under a method that reads one format alone; other methods look at the records.
DatasetFormat FormatOfMethod(const std::string& method, DatasetFormat format) {
  if (method == "pretrain") return DatasetFormat::kCompletion;
  if (method == "reward") return DatasetFormat::kPreference;
  if (method == "classification") return DatasetFormat::kClassification;
  if (!IsPreferenceMethod(method)) return format;
  return method == "kto" ? DatasetFormat::kUnpairedPreference : DatasetFormat::kPreference;
}

RecordFields Fields(const Json& item) {
  const auto text = [&](const char* key) { return Text(item[key]); };
  RecordFields fields{.messages = text("field_messages"),
                      .tools = text("field_tools"),
                      .system = text("field_system"),
                      .instruction = text("field_instruction"),
                      .input = text("field_input"),
                      .output = text("field_output"),
                      .history = text("field_history"),
                      .prompt = text("field_prompt"),
                      .completion = text("field_completion"),
                      .chosen = text("field_chosen"),
                      .rejected = text("field_rejected"),
                      .margin = "",
                      .label = text("field_label"),
                      .text = text("field_text"),
                      .role = text("message_role_key"),
                      .content = text("message_content_key"),
                      .roles = {}};
  for (const auto& [role, names] : item["roles"].items()) {
    if (names.is_string()) fields.roles[names] = role;
    for (const Json& name : names.is_array() ? names : Json::array()) fields.roles[name] = role;
  }
  return fields;
}

std::vector<DatasetSpec> Datasets(const Json& list, bool held_out) {
  std::vector<DatasetSpec> out;
  for (const Json& item : list) {
    DatasetSpec dataset;
    dataset.path = Text(item["path"]);
    dataset.hub = Hub(item);
    dataset.url = Text(item["url"]);
    dataset.name = Text(item["name"]);
    dataset.data_dir = Text(item["data_dir"]);
    dataset.converted = item["converted"];
    dataset.data_files = item["data_files"].get<std::vector<std::string>>();
    dataset.split = Optional<std::string>(item["split"]);
    dataset.max_samples = Optional<int64_t>(item["max_samples"]);
    dataset.held_out = held_out;
    dataset.format = Format(item["format"]);
    dataset.prompt_style = Word<PromptStyle, 2>(
        item["prompt_style"], {{{"alpaca", PromptStyle::kAlpaca}, {"chat", PromptStyle::kChat}}});
    dataset.special_tokens =
        Word<SpecialTokens, 3>(item["special_tokens"], {{{"auto", SpecialTokens::kAuto},
                                                         {"plain", SpecialTokens::kPlain},
                                                         {"content", SpecialTokens::kContent}}});
    dataset.weight = item["weight"];
    dataset.fields = Fields(item);
    out.push_back(std::move(dataset));
  }
  return out;
}

LoraSpec Lora(const Json& json) {
  LoraSpec lora;
  lora.r = json["r"];
  lora.gate_up_r = Optional<int64_t>(json["gate_up_r"]);
  lora.alpha = json["alpha"];
  lora.dropout = json["dropout"];
  lora.target_modules = json["target_modules"].get<std::vector<std::string>>();
  lora.target_parameters = json["target_parameters"].get<std::vector<std::string>>();
  lora.loraplus_lr_ratio = json["loraplus_lr_ratio"];
  lora.loraplus_lr_embedding = json["loraplus_lr_embedding"];
  lora.use_rslora = json["use_rslora"];
  lora.use_dora = json["use_dora"];
  lora.init_from = Optional<std::string>(json["init_from"]);
  lora.modules_to_save = json["modules_to_save"].get<std::vector<std::string>>();
  return lora;
}

MoeSpec Moe(const Json& json) {
  MoeSpec moe;
  moe.aux_loss_coef = Optional<double>(json["aux_loss"]["coef"]);
  moe.aux_loss_by_micro_batch = json["aux_loss"]["over"] == "micro_batch";
  moe.router_z_loss = json["router_z_loss"];
  if (json["router"] != "auto") moe.trains_router = json["router"] == "trained";
  if (json["balance"] == "bias") moe.bias_rate = json["balance_rate"].get<double>();
  return moe;
}

// What the scheduler does not read is null.
LrSchedulerKwargs SchedulerKwargs(const Json& json) {
  LrSchedulerKwargs kwargs;
  kwargs.num_cycles = Optional<int64_t>(json["num_cycles"]).value_or(0);
  kwargs.power = Optional<double>(json["power"]).value_or(0);
  kwargs.timescale = Optional<int64_t>(json["timescale"]);
  kwargs.num_decay_steps = Optional<int64_t>(json["num_decay_steps"]);
  kwargs.decay_ratio = Optional<double>(json["decay_ratio"]).value_or(0);
  if (json["decay_type"].is_null()) return kwargs;
  kwargs.decay_type =
      Word<DecayType, 3>(json["decay_type"], {{{"linear", DecayType::kLinear},
                                               {"cosine", DecayType::kCosine},
                                               {"1-sqrt", DecayType::kOneMinusSqrt}}});
  return kwargs;
}

TrainSpec Train(const Json& json) {
  TrainSpec train;
  train.global_batch_size = Optional<int64_t>(json["global_batch_size"]);
  train.micro_batch_size = Number(json["micro_batch_size"]);
  train.gradient_accumulation_steps = json["gradient_accumulation_steps"];
  train.num_epochs = Optional<double>(json["num_epochs"]);
  train.max_steps = Optional<int64_t>(json["max_steps"]);
  train.learning_rate = json["learning_rate"];
  train.lr_scheduler = Word<LrScheduler, 7>(
      json["lr_scheduler"], {{{"cosine", LrScheduler::kCosine},
                              {"linear", LrScheduler::kLinear},
                              {"constant", LrScheduler::kConstant},
                              {"cosine_with_restarts", LrScheduler::kCosineWithRestarts},
                              {"polynomial", LrScheduler::kPolynomial},
                              {"inverse_sqrt", LrScheduler::kInverseSqrt},
                              {"warmup_stable_decay", LrScheduler::kWarmupStableDecay}}});
  train.lr_scheduler_kwargs = SchedulerKwargs(json["lr_scheduler_kwargs"]);
  train.warmup_ratio = Optional<double>(json["warmup_ratio"]);
  train.warmup_steps = Optional<int64_t>(json["warmup_steps"]);
  train.min_lr_ratio = json["min_lr_ratio"];
  train.optimizer = Word<OptimizerKind>(json["optimizer"]);
  train.beta1 = json["betas"][0];
  train.beta2 = json["betas"][1];
  train.eps = json["eps"];
  train.weight_decay = json["weight_decay"];
  train.decay_norm_and_bias = json["decay_norm_and_bias"];
  train.max_grad_norm = json["max_grad_norm"];
  train.label_smoothing = json["label_smoothing"];
  train.z_loss = json["z_loss"];
  train.seed = json["seed"];
  return train;
}

// What the method does not read is null.
PreferenceSpec Preference(const Json& json) {
  const auto number = [&json](const char* key) { return Optional<double>(json[key]).value_or(0); };
  PreferenceSpec preference;
  if (json["loss"].is_null()) return preference;
  preference.loss = json["loss"].get<std::vector<std::string>>();
  preference.loss_weights.assign(preference.loss.size(), 1.0);
  if (json["loss_weights"].is_array()) {
    preference.loss_weights = json["loss_weights"].get<std::vector<double>>();
  }
  preference.beta = number("beta");
  preference.label_smoothing = number("label_smoothing");
  preference.gamma = number("gamma");
  preference.nll_weight = number("nll_weight");
  preference.reference = json["reference"];
  preference.desirable_weight = number("desirable_weight");
  preference.undesirable_weight = number("undesirable_weight");
  return preference;
}

RewardSpec Reward(const Json& json) {
  return {.center_coefficient = Optional<double>(json["center_coefficient"]).value_or(0)};
}

ClassificationSpec Classification(const Json& json) {
  ClassificationSpec classification;
  if (json["num_labels"].is_null()) return classification;
  classification.num_labels = json["num_labels"];
  const Json& names = json["label_names"];
  if (names.is_array()) classification.label_names = names.get<std::vector<std::string>>();
  classification.problem = json["problem"];
  return classification;
}

PackingSpec Packing(const Json& json) {
  PackingSpec packing;
  packing.strategy = Word<PackingStrategy, 4>(
      json["strategy"], {{{"best_fit", PackingStrategy::kBestFit},
                          {"best_fit_decreasing", PackingStrategy::kBestFitDecreasing},
                          {"first_fit", PackingStrategy::kFirstFit},
                          {"none", PackingStrategy::kNone}}});
  packing.window = json["window"];
  packing.max_documents_per_bin = json["max_documents_per_bin"];
  return packing;
}

void ReadData(const Json& spec, JobSpec* job) {
  job->datasets = Datasets(spec["datasets"], /*held_out=*/false);
  job->test_datasets = Datasets(spec["test_datasets"], /*held_out=*/true);
  for (auto* datasets : {&job->datasets, &job->test_datasets}) {
    for (DatasetSpec& dataset : *datasets) {
      dataset.format = FormatOfMethod(job->method, dataset.format);
      if (job->method == "reward") dataset.fields.margin = "margin";
    }
  }
  job->val_set_size = Optional<double>(spec["val_set_size"]);
  if (job->val_set_size == 0.0) job->val_set_size.reset();
  job->data_rules = spec["data_rules"];
  job->chat_template = spec["chat_template"];
  job->chat_template_kwargs = spec["chat_template_kwargs"].dump();
  job->roles_to_train = spec["roles_to_train"].get<std::vector<std::string>>();
  job->train_on = Word<TrainOn, 3>(
      spec["train_on"],
      {{{"all", TrainOn::kAll}, {"last", TrainOn::kLast}, {"split", TrainOn::kSplit}}});
  job->train_on_eos = Word<TrainOnEos, 4>(spec["train_on_eos"], {{{"turn", TrainOnEos::kTurn},
                                                                  {"last", TrainOnEos::kLast},
                                                                  {"all", TrainOnEos::kAll},
                                                                  {"none", TrainOnEos::kNone}}});
  job->train_on_inputs = spec["train_on_inputs"];
  job->on_bad_record = Word<OnBadRecord, 2>(
      spec["on_bad_record"], {{{"error", OnBadRecord::kError}, {"skip", OnBadRecord::kSkip}}});
  job->sequence_len = spec["sequence_len"];
  job->excess_length =
      Word<ExcessLength, 4>(spec["excess_length"], {{{"truncate", ExcessLength::kTruncate},
                                                     {"drop", ExcessLength::kDrop},
                                                     {"error", ExcessLength::kError},
                                                     {"split", ExcessLength::kSplit}}});
  job->packing = Packing(spec["packing"]);
}

// Values that are not in FP8 have the dtype that `auto` is.
void ReadFp8(const Json& spec, JobSpec* job) {
  const Json& device = spec["resources"]["device"];
  if (device == ToString(DeviceKind::kCuda)) job->compute_dtype = Precision::kBfloat16;
  if (device == ToString(DeviceKind::kCpu)) job->compute_dtype = Precision::kFloat32;
  const Json& fp8 = spec["precision"]["fp8"];
  Fp8Spec& out = job->fp8.emplace();
  out.recipe = Word<Fp8Recipe, 4>(fp8["recipe"], {{{"tensorwise", Fp8Recipe::kTensorwise},
                                                   {"rowwise", Fp8Recipe::kRowwise},
                                                   {"blockwise", Fp8Recipe::kBlockwise},
                                                   {"delayed", Fp8Recipe::kDelayed}}});
  out.e4m3_gradients = fp8["gradients"] == "e4m3";
  out.keeps_activations = fp8["activations"] == "kept";
  out.keeps_weights = fp8["weights"] == "kept";
  out.gathers_codes = fp8["gather"] == "fp8";
  out.experts = fp8["experts"] == "fp8";
  out.attention = fp8["attention"] == "fp8";
  out.exclude = fp8["exclude"].get<std::vector<std::string>>();
}

void ReadPrecision(const Json& spec, JobSpec* job) {
  const Json& precision = spec["precision"];
  if (precision["compute"] == "fp8") {
    ReadFp8(spec, job);
  } else {
    job->compute_dtype = WordOrAuto<Precision>(precision["compute"]);
  }
  job->master_dtype = WordOrAuto<Precision>(precision["master_weights"]);
  job->gradient_dtype = WordOrAuto<Precision>(precision["gradients"]);
  job->gradient_sum = precision["gradient_sum"];
  const Json& recompute = spec["recompute"];
  job->recompute_every = 1;
  if (recompute.is_object()) {
    job->recompute = RecomputeLevel::kBlock;
    job->recompute_every = recompute["every"];
  } else {
    job->recompute = WordOrAuto<RecomputeLevel>(recompute);
  }
  job->attention_deterministic = spec["attention"]["deterministic"];
  job->attention_workspace_gib = Number<double>(spec["attention"]["workspace_gib"]);
  const Json& loss = spec["loss"];
  job->loss_head = Word<LossHead, 3>(
      loss["head"],
      {{{"auto", LossHead::kAuto}, {"chunked", LossHead::kChunked}, {"cut", LossHead::kCut}}});
  job->head_memory_mib = Number<int64_t>(loss["head_memory_mib"]);
}

GenerateSpec Generate(const Json& spec) {
  GenerateSpec generate;
  if (spec["method"] != "generate") {
    generate.prompts = spec["eval"]["sample_prompts"].get<std::vector<std::string>>();
    generate.max_new_tokens = spec["eval"]["sample_tokens"];
    return generate;
  }
  const Json& json = spec["generate"];
  generate.prompts = json["prompts"].get<std::vector<std::string>>();
  generate.messages = Optional<std::string>(json["messages"]).value_or("");
  generate.style = Word<AskingStyle, 4>(json["style"], {{{"auto", AskingStyle::kAuto},
                                                         {"chat", AskingStyle::kChat},
                                                         {"alpaca", AskingStyle::kAlpaca},
                                                         {"text", AskingStyle::kText}}});
  generate.max_new_tokens = json["max_new_tokens"];
  generate.temperature = json["temperature"];
  generate.top_k = json["top_k"];
  generate.top_p = json["top_p"];
  generate.seed = json["seed"];
  return generate;
}

void ReadLogging(const Json& logging, JobSpec* job) {
  job->logging_steps = logging["logging_steps"];
  const Json& named = logging["report_to"];
  for (const Json& name : named.is_string() ? Json::array({named}) : named) {
    job->report_to.push_back(Word<Tracker, 3>(name, {{{"tensorboard", Tracker::kTensorBoard},
                                                      {"wandb", Tracker::kWandb},
                                                      {"jsonl", Tracker::kJsonLines}}}));
  }
  job->logging_dir = Optional<std::string>(logging["dir"]).value_or(job->output_dir + "/trackers");
}

void ReadExecution(const Json& spec, JobSpec* job) {
  ReadPrecision(spec, job);
  job->eval_steps = spec["eval"]["eval_steps"];
  job->early_stopping_patience = Optional<int64_t>(spec["eval"]["early_stopping_patience"]);
  job->eval_metric = spec["eval"]["metric"];
  job->generate = Generate(spec);
  const Json& checkpoint = spec["checkpoint"];
  job->output_dir = checkpoint["output_dir"];
  job->save_steps = checkpoint["save_steps"];
  job->save_total_limit = checkpoint["save_total_limit"];
  job->test_save = checkpoint["test_save"];
  job->resume = checkpoint["resume"];
  job->extend = checkpoint["extend"];
  job->export_merge = spec["export"]["merge"];
  job->export_verify = spec["export"]["verify"];
  job->export_base_path = spec["export"]["base_path"];
  job->export_by_expert = spec["export"]["adapter_layout"] == "per_expert";
  job->export_dtype = spec["export"]["dtype"];
  job->export_max_shard_bytes = spec["export"]["max_shard_size"];
  const Json& gguf = spec["export"]["gguf"];
  job->export_gguf = {.model = gguf["model"], .adapter = gguf["adapter"]};
  const Json& push = spec["export"]["push_to_hub"];
  job->push_to_hub = {.repo = Optional<std::string>(push["repo"]).value_or(""),
                      .is_private = push["private"],
                      .revision = push["revision"]};
  const Json& resources = spec["resources"];
  job->device =
      Word<Device, 3>(resources["device"],
                      {{{"auto", Device::kAuto}, {"cpu", Device::kCpu}, {"cuda", Device::kCuda}}});
  job->workers = Number(resources["workers"]).value_or(0);
  const Json& parallelism = spec["parallelism"];
  job->replicate = Number(parallelism["replicate"]);
  job->shard = Number(parallelism["shard"]);
  job->zero = Number(parallelism["zero"]);
  job->resident_blocks = Number(parallelism["resident_blocks"]);
  job->overlap = parallelism["overlap"];
  job->priority = resources["priority"];
  job->max_restarts = resources["max_restarts"];
  job->max_restarts_total = resources["max_restarts_total"];
  ReadLogging(spec["logging"], job);
}

std::string Quantization(const Json& spec) {
  const bool twice = spec["quantization"]["double"];
  const std::string format = spec["quantization"]["format"];
  if (spec["adapter"] != "qlora") return format == "none" ? format : "";
  if (format == "auto") return twice ? "auto" : "auto_single";
  return format == "nf4" && twice ? "nf4_double" : format;
}

}  // namespace

JobSpec BuildSpec(const Json& effective) {
  JobSpec job;
  job.name = effective["metadata"]["name"];
  job.labels = effective["metadata"]["labels"].get<std::map<std::string, std::string>>();
  const Json& spec = effective["spec"];
  job.model_path = Text(spec["base_model"]["path"]);
  job.model_hub = Hub(spec["base_model"]);
  job.model_url = Text(spec["base_model"]["url"]);
  job.model_name = Text(spec["base_model"]["name"]);
  job.added_tokens = spec["base_model"]["added_tokens"].get<std::vector<std::string>>();
  job.init = Word<BaseInit>(spec["base_model"]["init"]);
  job.init_seed = spec["base_model"]["seed"];
  job.method = spec["method"];
  job.adapter = Word<Adapter, 3>(
      spec["adapter"],
      {{{"none", Adapter::kNone}, {"lora", Adapter::kLora}, {"qlora", Adapter::kLora}}});
  job.quantization = Quantization(spec);
  job.lora = Lora(spec["lora"]);
  job.moe = Moe(spec["moe"]);
  ReadData(spec, &job);
  job.train = Train(spec["train"]);
  job.preference = Preference(spec["preference"]);
  job.reward = Reward(spec["reward"]);
  job.classification = Classification(spec["classification"]);
  ReadExecution(spec, &job);
  return job;
}

}  // namespace coxswain::config
