#include "common/plan/checks/plan_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/plan/checks/architecture_bytes.h"
#include "common/plan/checks/earlier_plan.h"
#include "common/plan/checks/plan_checks.h"
#include "common/status_macros.h"
#include "coxswain/v1/plan.pb.h"

namespace coxswain::plan {
namespace {

// Goes without its name, so that plans made before the field was there are read.
constexpr OptimizerKind kUnnamedOptimizer = OptimizerKind::kAdamW;

void ToProto(const model::Rope& rope, v1::Rope* out) {
  out->set_type(rope.type);
  out->set_theta(rope.theta);
  out->set_factor(rope.factor);
  out->set_low_freq_factor(rope.low_freq_factor);
  out->set_high_freq_factor(rope.high_freq_factor);
  out->set_original_max_position(rope.original_max_position);
  out->set_beta_fast(rope.beta_fast);
  out->set_beta_slow(rope.beta_slow);
  out->set_truncate(rope.truncate);
  out->set_attention_factor(rope.attention_factor);
  out->mutable_short_factors()->Assign(rope.short_factors.begin(), rope.short_factors.end());
  out->mutable_long_factors()->Assign(rope.long_factors.begin(), rope.long_factors.end());
  out->set_rotated(rope.rotated);
  out->set_interleaved(rope.interleaved);
  out->set_query_scale_beta(rope.query_scale_beta);
}

model::Rope FromProto(const v1::Rope& in) {
  model::Rope rope;
  rope.type = in.type();
  rope.theta = in.theta();
  rope.factor = in.factor();
  rope.low_freq_factor = in.low_freq_factor();
  rope.high_freq_factor = in.high_freq_factor();
  rope.original_max_position = in.original_max_position();
  rope.beta_fast = in.beta_fast();
  rope.beta_slow = in.beta_slow();
  rope.truncate = in.truncate();
  rope.attention_factor = in.attention_factor();
  rope.short_factors.assign(in.short_factors().begin(), in.short_factors().end());
  rope.long_factors.assign(in.long_factors().begin(), in.long_factors().end());
  rope.rotated = in.rotated();
  rope.interleaved = in.interleaved();
  rope.query_scale_beta = in.query_scale_beta();
  return rope;
}

void ToProto(const model::LatentAttention& latent, v1::LatentAttention* out) {
  out->set_q_rank(latent.q_rank);
  out->set_kv_rank(latent.kv_rank);
  out->set_nope(latent.nope);
  out->set_rope(latent.rope);
  out->set_value(latent.value);
}

model::LatentAttention FromProto(const v1::LatentAttention& in) {
  return {.q_rank = in.q_rank(),
          .kv_rank = in.kv_rank(),
          .nope = in.nope(),
          .rope = in.rope(),
          .value = in.value()};
}

void ToProto(const model::Mixture& mixture, v1::Mixture* out) {
  out->set_experts(mixture.experts);
  out->set_chosen(mixture.chosen);
  out->set_width(mixture.width);
  out->set_shared_width(mixture.shared_width);
  out->set_shared_gate(mixture.shared_gate);
  out->set_score(mixture.score);
  out->set_groups(mixture.groups);
  out->set_top_groups(mixture.top_groups);
  out->set_renormalise(mixture.renormalise);
  out->set_scale(mixture.scale);
  out->set_router_bias(mixture.router_bias);
  out->set_aux_loss(mixture.aux_loss);
  out->mutable_dense_layers()->Assign(mixture.dense_layers.begin(), mixture.dense_layers.end());
}

model::Mixture FromProto(const v1::Mixture& in) {
  model::Mixture mixture;
  mixture.experts = in.experts();
  mixture.chosen = in.chosen();
  mixture.width = in.width();
  mixture.shared_width = in.shared_width();
  mixture.shared_gate = in.shared_gate();
  mixture.score = in.score();
  mixture.groups = in.groups();
  mixture.top_groups = in.top_groups();
  mixture.renormalise = in.renormalise();
  mixture.scale = in.scale();
  mixture.router_bias = in.router_bias();
  mixture.aux_loss = in.aux_loss();
  mixture.dense_layers.assign(in.dense_layers().begin(), in.dense_layers().end());
  return mixture;
}

void ToProto(const model::ModelConfig& config, v1::ModelConfig* out) {
  out->set_architecture(config.architecture);
  out->set_vocab_size(config.vocab_size);
  if (config.added_tokens.count > 0) {
    v1::AddedTokens* added = out->mutable_added_tokens();
    added->set_count(config.added_tokens.count);
    added->set_known(config.added_tokens.known);
    added->set_base_rows(config.added_tokens.base_rows);
  }
  out->set_hidden_size(config.hidden_size);
  out->set_intermediate_size(config.intermediate_size);
  out->set_num_layers(config.num_layers);
  out->set_num_heads(config.num_heads);
  out->set_num_kv_heads(config.num_kv_heads);
  out->set_head_dim(config.head_dim);
  out->set_rms_norm_eps(config.rms_norm_eps);
  out->set_tie_embeddings(config.tie_embeddings);
  out->set_qkv_bias(config.qkv_bias);
  out->set_output_bias(config.output_bias);
  out->set_mlp_bias(config.mlp_bias);
  out->set_qk_norm(config.qk_norm);
  if (config.embedding_scale != 1.0) out->set_embedding_scale(config.embedding_scale);
  out->set_attention_scale(config.attention_scale);
  if (config.activation != "silu") out->set_activation(config.activation);
  out->set_norm_weights_from_one(config.norm_weights_from_one);
  out->set_embedding_scale_rounded(config.embedding_scale_rounded);
  if (config.logit_scale != 1.0) out->set_logit_scale(config.logit_scale);
  out->set_attention_softcap(config.attention_softcap);
  out->set_logit_softcap(config.logit_softcap);
  ToProto(config.rope, out->mutable_rope());
  if (config.window_rope) ToProto(*config.window_rope, out->mutable_window_rope());
  for (const int64_t window : config.layer_windows) out->add_layer_windows(window);
  for (const int64_t layer : config.unrotated_layers) out->add_unrotated_layers(layer);
  out->set_quantization(ToString(config.quantization));
  if (config.mixture.experts > 0) ToProto(config.mixture, out->mutable_mixture());
  if (config.latent) ToProto(*config.latent, out->mutable_latent());
  out->set_labels(config.labels);
  out->set_new_head(config.new_head);
  if (config.pad_token) out->set_pad_token(*config.pad_token);
}

model::ModelConfig FromProto(const v1::ModelConfig& in) {
  model::ModelConfig config;
  config.architecture = in.architecture();
  config.vocab_size = in.vocab_size();
  config.added_tokens = {in.added_tokens().count(), in.added_tokens().known(),
                         in.added_tokens().base_rows()};
  config.hidden_size = in.hidden_size();
  config.intermediate_size = in.intermediate_size();
  config.num_layers = in.num_layers();
  config.num_heads = in.num_heads();
  config.num_kv_heads = in.num_kv_heads();
  config.head_dim = in.head_dim();
  config.rms_norm_eps = in.rms_norm_eps();
  config.tie_embeddings = in.tie_embeddings();
  config.qkv_bias = in.qkv_bias();
  config.output_bias = in.output_bias();
  config.mlp_bias = in.mlp_bias();
  config.qk_norm = in.qk_norm();
  if (in.embedding_scale() != 0) config.embedding_scale = in.embedding_scale();
  config.attention_scale = in.attention_scale();
  if (!in.activation().empty()) config.activation = in.activation();
  config.norm_weights_from_one = in.norm_weights_from_one();
  config.embedding_scale_rounded = in.embedding_scale_rounded();
  if (in.logit_scale() != 0) config.logit_scale = in.logit_scale();
  config.attention_softcap = in.attention_softcap();
  config.logit_softcap = in.logit_softcap();
  config.rope = FromProto(in.rope());
  if (in.has_window_rope()) config.window_rope = FromProto(in.window_rope());
  config.layer_windows.assign(in.layer_windows().begin(), in.layer_windows().end());
  config.unrotated_layers.assign(in.unrotated_layers().begin(), in.unrotated_layers().end());
  if (in.has_mixture()) config.mixture = FromProto(in.mixture());
  if (in.has_latent()) config.latent = FromProto(in.latent());
  config.labels = in.labels();
  config.new_head = in.new_head();
  if (in.has_pad_token()) config.pad_token = in.pad_token();
  return config;
}

void TablesToProto(const Plan& plan, v1::Plan* out) {
  for (const model::Parameter& parameter : plan.parameters) {
    v1::Parameter* p = out->add_parameters();
    p->set_name(parameter.name);
    p->set_kind(static_cast<uint32_t>(parameter.kind));
    p->set_part(static_cast<uint32_t>(parameter.part));
    p->set_reach(static_cast<uint32_t>(parameter.reach));
    p->set_tensor(parameter.tensor);
    p->set_packed(parameter.packed);
    p->set_batch(parameter.batch);
    p->set_layer(parameter.layer);
    p->set_rows(parameter.rows);
    p->set_cols(parameter.cols);
    p->set_unit(parameter.unit);
    p->set_group(parameter.group);
  }
  for (const ParameterGroup& group : plan.groups) {
    v1::ParameterGroup* g = out->add_groups();
    g->set_name(group.name);
    g->set_lr_scale(group.lr_scale);
    g->set_weight_decay(group.weight_decay);
    g->set_expected_elements(group.expected_elements);
  }
  for (const Buffer& buffer : plan.buffers) {
    v1::Buffer* b = out->add_buffers();
    b->set_name(buffer.name);
    b->set_memory_class(static_cast<uint32_t>(buffer.memory_class));
    b->set_bytes(buffer.bytes);
    b->set_alias_of(buffer.alias_of);
  }
}

void PredictionToProto(const Plan& plan, v1::Plan* out) {
  for (const LinkSpeed& link : plan.links) {
    v1::LinkSpeed* l = out->add_links();
    l->set_bytes(link.bytes);
    l->set_bytes_per_second(link.bytes_per_second);
  }
  out->set_links_measured(plan.links_measured);
  v1::Prediction* predicted = out->mutable_predicted();
  predicted->set_step_seconds(plan.predicted.step_seconds);
  predicted->set_comm_seconds(plan.predicted.comm_seconds);
  predicted->set_exposed_seconds(plan.predicted.exposed_seconds);
}

void PredictionFromProto(const v1::Plan& in, Plan* plan) {
  for (const v1::LinkSpeed& l : in.links()) {
    plan->links.push_back({.bytes = l.bytes(), .bytes_per_second = l.bytes_per_second()});
  }
  plan->links_measured = in.links_measured();
  plan->predicted = {.step_seconds = in.predicted().step_seconds(),
                     .comm_seconds = in.predicted().comm_seconds(),
                     .exposed_seconds = in.predicted().exposed_seconds()};
}

void TablesFromProto(const v1::Plan& in, Plan* plan) {
  for (const v1::Parameter& p : in.parameters()) {
    plan->parameters.push_back({.name = p.name(),
                                .kind = static_cast<model::Kind>(p.kind()),
                                .part = static_cast<model::Part>(p.part()),
                                .reach = static_cast<model::Reach>(p.reach()),
                                .layer = p.layer(),
                                .tensor = p.tensor(),
                                .packed = p.packed(),
                                .batch = p.batch(),
                                .rows = p.rows(),
                                .cols = p.cols(),
                                .unit = p.unit(),
                                .group = p.group()});
  }
  for (const v1::ParameterGroup& g : in.groups()) {
    plan->groups.push_back({.name = g.name(),
                            .lr_scale = g.lr_scale(),
                            .weight_decay = g.weight_decay(),
                            .expected_elements = g.expected_elements()});
  }
  for (const v1::Buffer& b : in.buffers()) {
    plan->buffers.push_back({.name = b.name(),
                             .memory_class = static_cast<MemoryClass>(b.memory_class()),
                             .bytes = b.bytes(),
                             .alias_of = b.alias_of()});
  }
}

void ToProto(const DocumentLoss& loss, v1::DocumentLoss* out) {
  for (const DocumentLossTerm& term : loss.terms) {
    v1::DocumentLossTerm* const added = out->add_terms();
    added->set_type(term.type);
    added->set_weight(term.weight);
  }
  out->set_beta(loss.beta);
  out->set_label_smoothing(loss.label_smoothing);
  out->set_margin(loss.margin);
  out->set_reference(loss.reference);
  out->set_desirable_weight(loss.desirable_weight);
  out->set_undesirable_weight(loss.undesirable_weight);
  out->set_labels(loss.labels);
  out->set_centre(loss.centre);
}

DocumentLoss FromProto(const v1::DocumentLoss& in) {
  DocumentLoss loss;
  for (const v1::DocumentLossTerm& term : in.terms()) {
    loss.terms.push_back({.type = term.type(), .weight = term.weight()});
  }
  loss.beta = in.beta();
  loss.label_smoothing = in.label_smoothing();
  loss.margin = in.margin();
  loss.reference = in.reference();
  loss.desirable_weight = in.desirable_weight();
  loss.undesirable_weight = in.undesirable_weight();
  loss.labels = in.labels();
  loss.centre = in.centre();
  return loss;
}

void ToProto(const PolicyLoss& loss, v1::PolicyLoss* out) {
  out->set_objective(loss.objective);
  out->set_ratio(loss.ratio);
  out->set_normaliser(loss.normaliser);
  out->set_epsilon_low(loss.epsilon_low);
  out->set_epsilon_high(loss.epsilon_high);
  out->set_delta(loss.delta);
  out->set_kl_weight(loss.kl_weight);
}

PolicyLoss FromProto(const v1::PolicyLoss& in) {
  return {.objective = in.objective(),
          .ratio = in.ratio(),
          .normaliser = in.normaliser(),
          .epsilon_low = in.epsilon_low(),
          .epsilon_high = in.epsilon_high(),
          .delta = in.delta(),
          .kl_weight = in.kl_weight()};
}

void ToProto(const Fp8& fp8, v1::Fp8* out) {
  out->set_recipe(static_cast<v1::Fp8Recipe>(fp8.recipe));
  out->set_e4m3_gradients(fp8.e4m3_gradients);
  out->set_keeps_activations(fp8.keeps_activations);
  out->set_keeps_weights(fp8.keeps_weights);
  out->set_gathers_codes(fp8.gathers_codes);
  out->set_experts(fp8.experts);
  out->set_attention(fp8.attention);
  for (const LinearPlace& place : fp8.excluded) {
    v1::LinearPlace* excluded = out->add_excluded();
    excluded->set_layer(place.layer);
    excluded->set_op(place.op);
  }
}

Fp8 FromProto(const v1::Fp8& in) {
  Fp8 fp8;
  fp8.recipe = static_cast<Fp8Recipe>(in.recipe());
  fp8.e4m3_gradients = in.e4m3_gradients();
  fp8.keeps_activations = in.keeps_activations();
  fp8.keeps_weights = in.keeps_weights();
  fp8.gathers_codes = in.gathers_codes();
  fp8.experts = in.experts();
  fp8.attention = in.attention();
  for (const v1::LinearPlace& place : in.excluded()) {
    fp8.excluded.push_back({place.layer(), place.op()});
  }
  return fp8;
}

void ScalarsToProto(const Plan& plan, v1::Plan* out) {
  out->set_job(plan.job);
  out->set_recipe_hash(plan.recipe_hash);
  out->set_model_path(plan.model_path);
  out->set_init(ToString(plan.init));
  out->set_init_seed(plan.init_seed);
  out->set_seed(plan.seed);
  out->mutable_lora()->set_rank(plan.lora.rank);
  out->mutable_lora()->set_scale(plan.lora.scale);
  out->mutable_lora()->set_dropout(plan.lora.dropout);
  out->mutable_lora()->set_init_from(plan.lora.init_from);
  out->mutable_lora()->set_dora(plan.lora.dora);
  out->set_replicate(plan.replicate);
  out->set_shard(plan.shard);
  out->set_zero(plan.zero);
  out->set_weight_slots(plan.weight_slots);
  for (const std::string& fusion : plan.fusions) out->add_fusions(fusion);
  out->set_overlap(plan.overlap);
  out->set_sequence_len(plan.sequence_len);
  out->set_micro_batch_bins(plan.micro_batch_bins);
  out->set_max_documents_per_bin(plan.max_documents_per_bin);
  out->set_recompute(ToString(plan.recompute));
  out->set_lm_head_chunk_tokens(plan.lm_head_chunk_tokens);
  out->set_lm_head_panel_bytes(plan.lm_head_panel_bytes);
  if (plan.optimizer != kUnnamedOptimizer) out->set_optimizer(ToString(plan.optimizer));
  out->set_beta1(plan.beta1);
  out->set_beta2(plan.beta2);
  out->set_eps(plan.eps);
  out->set_max_grad_norm(plan.max_grad_norm);
  out->set_label_smoothing(plan.label_smoothing);
  out->set_z_loss(plan.z_loss);
  out->set_recompute_every(plan.recompute_every);
  out->set_device(ToString(plan.device));
  out->set_compute_dtype(ToString(plan.compute_dtype));
  if (plan.fp8 != Fp8{}) ToProto(plan.fp8, out->mutable_fp8());
  out->set_quantization(ToString(plan.quantization));
  out->set_experts_at_once(plan.experts_at_once);
  out->set_snapshot_in_slices(plan.snapshot_in_slices);
  out->set_master_dtype(ToString(plan.master_dtype));
  out->set_gradient_dtype(ToString(plan.gradient_dtype));
  out->set_gradient_sum(static_cast<uint32_t>(plan.gradient_sum));
  out->set_attention_deterministic(plan.attention_deterministic);
  out->set_attention_workspace_bytes(plan.attention_workspace_bytes);
  if (plan.router_losses != RouterLosses{}) {
    out->mutable_router_losses()->set_balance(plan.router_losses.balance);
    out->mutable_router_losses()->set_z(plan.router_losses.z);
    out->mutable_router_losses()->set_by_micro_batch(plan.router_losses.by_micro_batch);
  }
  out->set_router_bias_rate(plan.router_bias_rate);
  if (plan.document_loss.any()) ToProto(plan.document_loss, out->mutable_document_loss());
  if (plan.policy_loss.any()) ToProto(plan.policy_loss, out->mutable_policy_loss());
  if (plan.generation == Generation{}) return;
  out->mutable_generation()->set_sequences(plan.generation.sequences);
  out->mutable_generation()->set_length(plan.generation.length);
}

Plan FromProto(const v1::Plan& in) {
  Plan plan;
  plan.job = in.job();
  plan.recipe_hash = in.recipe_hash();
  plan.model_path = in.model_path();
  plan.init_seed = in.init_seed();
  plan.seed = in.seed();
  plan.model = FromProto(in.model());
  plan.lora = {.rank = in.lora().rank(),
               .scale = in.lora().scale(),
               .dropout = in.lora().dropout(),
               .init_from = in.lora().init_from(),
               .dora = in.lora().dora()};
  plan.replicate = in.replicate();
  plan.shard = in.shard();
  plan.zero = in.zero();
  plan.weight_slots = in.weight_slots();
  plan.fusions.assign(in.fusions().begin(), in.fusions().end());
  plan.overlap = in.overlap();
  plan.sequence_len = in.sequence_len();
  plan.micro_batch_bins = in.micro_batch_bins();
  plan.max_documents_per_bin = in.max_documents_per_bin();
  plan.lm_head_chunk_tokens = in.lm_head_chunk_tokens();
  plan.lm_head_panel_bytes = in.lm_head_panel_bytes();
  plan.beta1 = in.beta1();
  plan.beta2 = in.beta2();
  plan.eps = in.eps();
  plan.max_grad_norm = in.max_grad_norm();
  plan.label_smoothing = in.label_smoothing();
  plan.z_loss = in.z_loss();
  plan.recompute_every = in.recompute_every();
  if (in.has_fp8()) plan.fp8 = FromProto(in.fp8());
  plan.experts_at_once = in.experts_at_once();
  plan.snapshot_in_slices = in.snapshot_in_slices();
  plan.gradient_sum = static_cast<GradientSum>(in.gradient_sum());
  plan.attention_deterministic = in.attention_deterministic();
  plan.attention_workspace_bytes = in.attention_workspace_bytes();
  plan.router_losses = {.balance = in.router_losses().balance(),
                        .z = in.router_losses().z(),
                        .by_micro_batch = in.router_losses().by_micro_batch()};
  plan.router_bias_rate = in.router_bias_rate();
  if (in.has_document_loss()) plan.document_loss = FromProto(in.document_loss());
  if (in.has_policy_loss()) plan.policy_loss = FromProto(in.policy_loss());
  plan.generation = {.sequences = in.generation().sequences(), .length = in.generation().length()};
  TablesFromProto(in, &plan);
  PredictionFromProto(in, &plan);
  return plan;
}

template <Spelled T>
absl::Status ReadWord(const std::string& field, const std::string& text, T* word) {
  const std::optional<T> read = FromString<T>(text);
  if (!read.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: ", field, " is \"", text, "\", expected one of ", SpellingsOf<T>()));
  }
  *word = *read;
  return absl::OkStatus();
}

absl::Status WordsFromProto(const v1::Plan& in, Plan* plan) {
  RETURN_IF_ERROR(ReadWord("init", in.init(), &plan->init));
  RETURN_IF_ERROR(
      ReadWord("model.quantization", in.model().quantization(), &plan->model.quantization));
  RETURN_IF_ERROR(ReadWord("recompute", in.recompute(), &plan->recompute));
  plan->optimizer = kUnnamedOptimizer;
  if (!in.optimizer().empty()) {
    RETURN_IF_ERROR(ReadWord("optimizer", in.optimizer(), &plan->optimizer));
  }
  RETURN_IF_ERROR(ReadWord("device", in.device(), &plan->device));
  RETURN_IF_ERROR(ReadWord("compute_dtype", in.compute_dtype(), &plan->compute_dtype));
  RETURN_IF_ERROR(ReadWord("quantization", in.quantization(), &plan->quantization));
  RETURN_IF_ERROR(ReadWord("master_dtype", in.master_dtype(), &plan->master_dtype));
  return ReadWord("gradient_dtype", in.gradient_dtype(), &plan->gradient_dtype);
}

std::string SerializeDeterministic(const v1::Plan& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();  // gives the unused tail of the string back
  return bytes;
}

}  // namespace

std::string SerializePlan(const Plan& plan) {
  v1::Plan message;
  ScalarsToProto(plan, &message);
  ToProto(plan.model, message.mutable_model());
  ArchitectureToProto(plan.architecture, message.mutable_architecture());
  TablesToProto(plan, &message);
  PredictionToProto(plan, &message);
  return SerializeDeterministic(message);
}

absl::StatusOr<Plan> ParsePlan(const std::string& bytes) {
  v1::Plan message;
  if (!message.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: ", bytes.size(), " bytes are not a plan message"));
  }
  Plan plan = FromProto(message);
  RETURN_IF_ERROR(WordsFromProto(message, &plan));
  if (!message.has_architecture()) {
    RETURN_IF_ERROR(CompleteEarlierPlan(&plan));
    RETURN_IF_ERROR(CheckPlan(plan));
    return plan;
  }
  ASSIGN_OR_RETURN(plan.architecture, ArchitectureFromProto(message.architecture()));
  // What no field of ours holds cannot come back: unknown fields and foreign encodings show here.
  if (SerializePlan(plan) != bytes) {
    return absl::InvalidArgumentError(
        "plan: carries a field this build does not know, or is not in canonical form; use one "
        "version of controller and worker");
  }
  RETURN_IF_ERROR(CheckPlan(plan));
  return plan;
}

std::string PlanHash(const std::string& plan_bytes) { return Sha256(plan_bytes); }

}  // namespace coxswain::plan
