#include "controller/planner/recipe/recipe_hash.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/config/rules/bin_capacity.h"
#include "common/files/hash.h"
#include "controller/planner/adapters/target_modules.h"
#include "controller/planner/model/quantization.h"
#include "controller/planner/recipe/learning_rate.h"

namespace coxswain::planner {
namespace {

class Lines {
 public:
  void Text(const std::string& key, const std::string& value) {
    absl::StrAppend(&text_, key, "=", value.size(), ":", value, "\n");
  }
  void Int(const std::string& key, int64_t value) {
    absl::StrAppend(&text_, key, "=", value, "\n");
  }
  void Unsigned(const char* key, uint64_t value) { absl::StrAppend(&text_, key, "=", value, "\n"); }
  void Real(const std::string& key, double value) {
    absl::StrAppendFormat(&text_, "%s=%a\n", key, value);
  }
  void Hash(const char* key, const std::vector<int64_t>& values) {
    Text(key, ToHex(Sha256({reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(values[0])})));
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddRope(const std::string& prefix, const model::Rope& rope, Lines& lines) {
  const auto key = [&prefix](const char* name) { return prefix + name; };
  lines.Text(key("type"), rope.type);
  lines.Real(key("theta"), rope.theta);
  lines.Real(key("factor"), rope.factor);
  lines.Real(key("low_freq_factor"), rope.low_freq_factor);
  lines.Real(key("high_freq_factor"), rope.high_freq_factor);
  lines.Int(key("original_max_position"), rope.original_max_position);
  if (rope.type == "yarn") {
    lines.Real(key("beta_fast"), rope.beta_fast);
    lines.Real(key("beta_slow"), rope.beta_slow);
    lines.Int(key("truncate"), rope.truncate);
  }
  if (rope.type == "yarn" || rope.type == "longrope") {
    lines.Real(key("attention_factor"), rope.attention_factor);
  }
  for (const double factor : rope.short_factors) lines.Real(key("short_factor"), factor);
  for (const double factor : rope.long_factors) lines.Real(key("long_factor"), factor);
  if (rope.rotated > 0) lines.Int(key("rotated"), rope.rotated);
  if (rope.interleaved) lines.Int(key("interleaved"), 1);
  if (rope.query_scale_beta > 0) lines.Real(key("query_scale_beta"), rope.query_scale_beta);
}

void AddMixture(const model::Mixture& mixture, Lines& lines) {
  lines.Int("model.experts", mixture.experts);
  lines.Int("model.experts_of_a_token", mixture.chosen);
  lines.Int("model.expert_size", mixture.width);
  lines.Int("model.shared_expert_size", mixture.shared_width);
  lines.Int("model.shared_expert_gate", mixture.shared_gate);
  lines.Text("model.router_score", mixture.score);
  lines.Int("model.expert_groups", mixture.groups);
  lines.Int("model.top_expert_groups", mixture.top_groups);
  lines.Int("model.router_renormalise", mixture.renormalise);
  lines.Real("model.router_scale", mixture.scale);
  lines.Int("model.router_bias", mixture.router_bias);
  lines.Hash("model.dense_layers", mixture.dense_layers);
}

// What moe of the job makes of the model's routers.
void AddMoe(const config::JobSpec& job, const model::ModelConfig& model, Lines& lines) {
  if (model.mixture.experts == 0) return;
  lines.Real("aux_loss", job.moe.aux_loss_coef.value_or(model.mixture.aux_loss));
  lines.Int("aux_loss_by_micro_batch", job.moe.aux_loss_by_micro_batch);
  lines.Real("router_z_loss", job.moe.router_z_loss);
  lines.Int("trains_router", job.moe.trains_router.value_or(job.adapter == config::Adapter::kNone));
  if (job.moe.bias_rate) lines.Real("router_bias_rate", *job.moe.bias_rate);
}

void AddLatent(const model::LatentAttention& latent, Lines& lines) {
  lines.Int("model.latent.q_rank", latent.q_rank);
  lines.Int("model.latent.kv_rank", latent.kv_rank);
  lines.Int("model.latent.nope", latent.nope);
  lines.Int("model.latent.rope", latent.rope);
  lines.Int("model.latent.value", latent.value);
}

void AddModel(const model::ModelConfig& m, Lines& lines) {
  lines.Text("model.architecture", m.architecture);
  lines.Int("model.vocab_size", m.vocab_size);
  if (m.added_tokens.count > 0) {
    lines.Int("model.added_tokens", m.added_tokens.count);
    lines.Int("model.known_tokens", m.added_tokens.known);
    lines.Int("model.base_rows", m.added_tokens.base_rows);
  }
  lines.Int("model.hidden_size", m.hidden_size);
  lines.Int("model.intermediate_size", m.intermediate_size);
  lines.Int("model.num_layers", m.num_layers);
  lines.Int("model.num_heads", m.num_heads);
  lines.Int("model.num_kv_heads", m.num_kv_heads);
  lines.Int("model.head_dim", m.head_dim);
  lines.Real("model.rms_norm_eps", m.rms_norm_eps);
  lines.Int("model.tie_embeddings", m.tie_embeddings);
  lines.Int("model.qkv_bias", m.qkv_bias);
  lines.Int("model.output_bias", m.output_bias);
  lines.Int("model.mlp_bias", m.mlp_bias);
  lines.Int("model.qk_norm", m.qk_norm);
  if (m.embedding_scale != 1.0) lines.Real("model.embedding_scale", m.embedding_scale);
  if (m.embedding_scale_rounded) lines.Int("model.embedding_scale_rounded", 1);
  if (m.norm_weights_from_one) lines.Int("model.norm_weights_from_one", 1);
  if (m.activation != "silu") lines.Text("model.activation", m.activation);
  if (m.attention_scale != 0) lines.Real("model.attention_scale", m.attention_scale);
  if (m.logit_scale != 1.0) lines.Real("model.logit_scale", m.logit_scale);
  if (m.attention_softcap != 0) lines.Real("model.attention_softcap", m.attention_softcap);
  if (m.logit_softcap != 0) lines.Real("model.logit_softcap", m.logit_softcap);
  AddRope("model.rope.", m.rope, lines);
  if (m.window_rope) AddRope("model.window_rope.", *m.window_rope, lines);
  lines.Hash("model.layer_windows", m.layer_windows);
  if (!m.unrotated_layers.empty()) lines.Hash("model.unrotated_layers", m.unrotated_layers);
  if (m.mixture.experts > 0) AddMixture(m.mixture, lines);
  if (m.latent) AddLatent(*m.latent, lines);
  if (m.labels == 0) return;
  lines.Int("model.labels", m.labels);
  lines.Int("model.new_head", m.new_head);
  lines.Int("model.pad_token", m.pad_token.value_or(-1));
}

bool IsOfEmbedding(const std::string& module) {
  const std::string last = module.substr(module.rfind('.') + 1);
  return last == "embed_tokens" || last == "tok_embeddings";
}

void AddAdapter(const config::JobSpec& job, const model::ModelConfig& model,
                const std::string& identity, Lines& lines) {
  lines.Int("adapter", static_cast<int64_t>(job.adapter));
  if (job.adapter == config::Adapter::kNone) return;
  lines.Int("lora.r", job.lora.r);
  const int64_t gate_up_r = job.lora.gate_up_r.value_or(job.lora.r);
  if (gate_up_r != job.lora.r) lines.Int("lora.gate_up_r", gate_up_r);
  lines.Real("lora.alpha", job.lora.alpha);
  lines.Real("lora.dropout", job.lora.dropout);
  for (const std::string& module : job.lora.target_modules) lines.Text("lora.target", module);
  for (const std::string& stack : job.lora.target_parameters) lines.Text("lora.stack", stack);
  lines.Real("lora.loraplus_lr_ratio", job.lora.loraplus_lr_ratio);
  // What cannot be found is refused with the plan.
  const AdapterTargets targets =
      TargetsOf(job.lora, model).value_or(AdapterTargets{job.lora.target_modules, {}});
  if (std::any_of(targets.modules.begin(), targets.modules.end(), IsOfEmbedding)) {
    lines.Real("lora.loraplus_lr_embedding", job.lora.loraplus_lr_embedding);
  }
  lines.Int("lora.use_rslora", job.lora.use_rslora);
  if (job.lora.use_dora) lines.Int("lora.use_dora", 1);
  lines.Text("lora.init_from", identity);
  for (const std::string& module : job.lora.modules_to_save) lines.Text("lora.saved", module);
}

void AddScheduler(const config::TrainSpec& train, int64_t total_steps, Lines& lines) {
  const LearningRate rate = MakeLearningRate(train, total_steps);
  lines.Int("lr_scheduler", static_cast<int64_t>(rate.scheduler));
  lines.Int("warmup_steps", rate.warmup_steps);
  lines.Real("min_lr_ratio", rate.min_ratio);
  switch (rate.scheduler) {
    case config::LrScheduler::kCosineWithRestarts:
      return lines.Int("lr_num_cycles", rate.num_cycles);
    case config::LrScheduler::kPolynomial:
      return lines.Real("lr_power", rate.power);
    case config::LrScheduler::kInverseSqrt:
      return lines.Int("lr_timescale", rate.timescale);
    case config::LrScheduler::kWarmupStableDecay:
      lines.Int("lr_decay_steps", rate.decay_steps);
      return lines.Int("lr_decay_type", static_cast<int64_t>(rate.decay_type));
    default:
      return;
  }
}

// As the job gives it, whatever the number of steps.
void AddSchedulerOfAnyLength(const config::TrainSpec& train, Lines& lines) {
  lines.Int("lr_scheduler", static_cast<int64_t>(train.lr_scheduler));
  lines.Real("min_lr_ratio", train.min_lr_ratio);
  if (train.warmup_steps) lines.Int("warmup_steps", *train.warmup_steps);
  if (train.warmup_ratio) lines.Real("warmup_ratio", *train.warmup_ratio);
  const config::LrSchedulerKwargs& kwargs = train.lr_scheduler_kwargs;
  lines.Int("lr_num_cycles", kwargs.num_cycles);
  lines.Real("lr_power", kwargs.power);
  if (kwargs.timescale) lines.Int("lr_timescale", *kwargs.timescale);
  if (kwargs.num_decay_steps) lines.Int("lr_decay_steps", *kwargs.num_decay_steps);
  lines.Real("lr_decay_ratio", kwargs.decay_ratio);
  lines.Int("lr_decay_type", static_cast<int64_t>(kwargs.decay_type));
}

void AddOptimizer(const config::TrainSpec& train, Lines& lines) {
  if (train.optimizer != OptimizerKind::kAdamW) {
    lines.Text("optimizer", ToString(train.optimizer));
  }
  lines.Real("beta1", train.beta1);
  lines.Real("beta2", train.beta2);
  lines.Real("eps", train.eps);
  lines.Real("weight_decay", train.weight_decay);
  lines.Int("decay_norm_and_bias", train.decay_norm_and_bias);
  lines.Real("max_grad_norm", train.max_grad_norm);
  lines.Real("label_smoothing", train.label_smoothing);
  lines.Real("z_loss", train.z_loss);
  lines.Unsigned("seed", train.seed);
}

void AddTrain(const RecipeFacts& facts, Lines& lines) {
  const config::TrainSpec& train = facts.job.train;
  lines.Int("global_batch_bins", facts.global_batch_bins);
  lines.Int("total_steps", facts.total_steps);
  lines.Real("learning_rate", train.learning_rate);
  AddScheduler(train, facts.total_steps, lines);
  AddOptimizer(train, lines);
}

// Nothing under the methods that were there before it.
void AddPreference(const config::JobSpec& job, Lines& lines) {
  if (!config::TrainsPreferences(job)) return;
  const config::PreferenceSpec& preference = job.preference;
  for (size_t i = 0; i < preference.loss.size(); ++i) {
    lines.Text("preference.loss", preference.loss[i]);
    lines.Real("preference.loss_weight", preference.loss_weights[i]);
  }
  lines.Real("preference.beta", preference.beta);
  lines.Real("preference.label_smoothing", preference.label_smoothing);
  lines.Real("preference.gamma", preference.gamma);
  lines.Real("preference.nll_weight", preference.nll_weight);
  lines.Text("preference.reference", preference.reference);
  lines.Real("preference.desirable_weight", preference.desirable_weight);
  lines.Real("preference.undesirable_weight", preference.undesirable_weight);
}

void AddScoreLoss(const config::JobSpec& job, Lines& lines) {
  if (job.method == "reward") {
    lines.Real("reward.center_coefficient", job.reward.center_coefficient);
  }
  if (job.method == "classification") {
    lines.Text("classification.problem", job.classification.problem);
  }
}

// Model, adapter and data.
void AddWhatIsTrained(const RecipeFacts& facts, Lines& lines) {
  AddModel(facts.model, lines);
  AddMoe(facts.job, facts.model, lines);
  lines.Text("weights", facts.weights_identity);
  lines.Text("init", ToString(facts.job.init));
  if (facts.job.init == BaseInit::kRandom) {
    lines.Unsigned("init_seed", facts.job.init_seed);
    // A checkpoint of an adapter holds no base. Another way to draw it gives another model.
    if (facts.job.adapter != config::Adapter::kNone) lines.Text("init_draws", "by tensor");
  }
  lines.Text("method", facts.job.method);
  // As resolved: what the job leaves to the files, or says, is one recipe. What cannot be is
  // refused with the plan.
  const Quantization format = QuantizationOf(facts.job, facts.model).value_or(Quantization::kNone);
  if (format != Quantization::kNone) lines.Text("quantization", ToString(format));
  AddAdapter(facts.job, facts.model, facts.adapter_identity, lines);
  lines.Text("data", facts.data_hash);
  lines.Int("sequence_len", facts.job.sequence_len);
  AddPreference(facts.job, lines);
  AddScoreLoss(facts.job, lines);
}

void AddBins(const data::Bins& bins, Lines& lines) {
  lines.Hash("bins.offsets", bins.offsets);
  lines.Hash("bins.documents", bins.documents);
}

void AddPrecision(const RecipeFacts& facts, Lines& lines) {
  lines.Text("compute_dtype", config::PrecisionName(facts.job.compute_dtype));
  if (facts.job.compute_dtype != Precision::kFloat32) {
    lines.Text("master_dtype", config::PrecisionName(facts.job.master_dtype));
    lines.Text("gradient_dtype", config::PrecisionName(facts.job.gradient_dtype));
    // Without a line, as jobs had none before there was a choice, whose sums were to nearest:
    // `auto` differs from these by what number of terms and memory come to.
    const std::string& sum = facts.job.gradient_sum;
    if (sum != "auto" && sum != "nearest") lines.Text("gradient_sum", sum);
  }
  if (!facts.job.fp8.has_value()) return;
  // What is kept for backward changes no bit.
  const config::Fp8Spec& fp8 = *facts.job.fp8;
  lines.Int("fp8.recipe", static_cast<int64_t>(fp8.recipe));
  lines.Text("fp8.gradients", fp8.e4m3_gradients ? "e4m3" : "e5m2");
  // Jobs had no such line before experts were in FP8.
  if (fp8.experts && facts.model.mixture.experts > 0) lines.Text("fp8.experts", "fp8");
  if (fp8.attention) lines.Text("fp8.attention", "fp8");  // likewise
  for (const std::string& name : fp8.exclude) lines.Text("fp8.exclude", name);
}

}  // namespace

std::string CanonicalRecipe(const RecipeFacts& facts) {
  Lines lines;
  lines.Text("format", "coxswain recipe 1");
  AddWhatIsTrained(facts, lines);
  for (const data::Bins& bins : facts.passes) AddBins(bins, lines);
  AddTrain(facts, lines);
  AddPrecision(facts, lines);
  return lines.Take();
}

std::string CanonicalStem(const RecipeFacts& facts) {
  Lines lines;
  lines.Text("format", "coxswain recipe stem 1");
  AddWhatIsTrained(facts, lines);
  AddBins(facts.passes.front(), lines);
  const config::PackingSpec& packing = facts.job.packing;
  lines.Int("packing.strategy", static_cast<int64_t>(packing.strategy));
  lines.Int("packing.window", packing.window);
  lines.Int("packing.max_documents_per_bin", packing.max_documents_per_bin);
  lines.Int("global_batch_bins", facts.global_batch_bins);
  lines.Real("learning_rate", facts.job.train.learning_rate);
  AddSchedulerOfAnyLength(facts.job.train, lines);
  AddOptimizer(facts.job.train, lines);
  AddPrecision(facts, lines);
  return lines.Take();
}

std::string RecipeHash(const RecipeFacts& facts) { return Sha256(CanonicalRecipe(facts)); }

std::string RecipeStem(const RecipeFacts& facts) { return Sha256(CanonicalStem(facts)); }

}  // namespace coxswain::planner
