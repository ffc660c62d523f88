#include "common/plan/checks/plan_checks.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "common/model/family.h"
#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/checks/architecture_checks.h"
#include "common/plan/expert_ranges.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/fusions/fused_ops.h"
#include "common/plan/routers.h"
#include "common/plan/storage.h"
#include "common/status_macros.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::plan {
namespace {

constexpr int64_t kMaxExtent = std::numeric_limits<int32_t>::max();
constexpr int64_t kMaxBytes = int64_t{1} << 50;

template <typename T>
absl::Status OutOfRange(const std::string& field, const T& value, const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("plan: ", field, " is ", value, ", expected ", expected));
}

absl::Status Within(const std::string& field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return OutOfRange(field, value, absl::StrCat(low, " to ", high));
}

// low <= value < high, and finite.
absl::Status Real(const std::string& field, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value < high) return absl::OkStatus();
  return OutOfRange(field, value, absl::StrCat("at least ", low, " and below ", high));
}

absl::Status Above0(const std::string& field, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return OutOfRange(field, value, "finite and above 0");
}

absl::Status AtLeast0(const std::string& field, double value) {
  return Real(field, value, 0, std::numeric_limits<double>::infinity());
}

absl::Status OneOf(const std::string& field, const std::string& value,
                   const std::set<std::string>& allowed) {
  if (allowed.count(value) > 0) return absl::OkStatus();
  std::string list;
  for (const std::string& a : allowed) absl::StrAppend(&list, list.empty() ? "" : ", ", a);
  return OutOfRange(field, absl::StrCat("\"", value, "\""), absl::StrCat("one of ", list));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

absl::Status CheckLongRope(const std::string& field, const model::Rope& rope, int64_t rotated) {
  for (const auto& [name, factors] : {std::pair{".short_factors", &rope.short_factors},
                                      std::pair{".long_factors", &rope.long_factors}}) {
    RETURN_IF_ERROR(Within(absl::StrCat(field, name, " count"),
                           static_cast<int64_t>(factors->size()), rotated / 2, rotated / 2));
    for (const double factor : *factors) {
      RETURN_IF_ERROR(Above0(absl::StrCat(field, name), factor));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRope(const std::string& field, const model::Rope& rope,
                       const model::ModelConfig& m) {
  RETURN_IF_ERROR(OneOf(field + ".type", rope.type,
                        {"default", "linear", "dynamic", "llama3", "yarn", "longrope"}));
  RETURN_IF_ERROR(Above0(field + ".theta", rope.theta));
  RETURN_IF_ERROR(Above0(field + ".factor", rope.factor));
  RETURN_IF_ERROR(Above0(field + ".low_freq_factor", rope.low_freq_factor));
  RETURN_IF_ERROR(Above0(field + ".high_freq_factor", rope.high_freq_factor));
  RETURN_IF_ERROR(
      Within(field + ".original_max_position", rope.original_max_position, 1, kMaxExtent));
  RETURN_IF_ERROR(Within(field + ".rotated", rope.rotated, 0, m.head_dim));
  if (rope.rotated % 2 != 0) {
    return OutOfRange(field + ".rotated", rope.rotated, "an even number");
  }
  // One table serves all rotations of a model.
  RETURN_IF_ERROR(Within(field + ".rotated", rope.rotated, m.rope.rotated, m.rope.rotated));
  RETURN_IF_ERROR(
      Within(field + ".interleaved", rope.interleaved, m.rope.interleaved, m.rope.interleaved));
  RETURN_IF_ERROR(AtLeast0(field + ".query_scale_beta", rope.query_scale_beta));
  if (rope.type == "yarn") {
    RETURN_IF_ERROR(Above0(field + ".beta_fast", rope.beta_fast));
    RETURN_IF_ERROR(Above0(field + ".beta_slow", rope.beta_slow));
  }
  if (rope.type == "yarn" || rope.type == "longrope") {
    RETURN_IF_ERROR(Above0(field + ".attention_factor", rope.attention_factor));
  }
  if (rope.type != "longrope") return absl::OkStatus();
  return CheckLongRope(field, rope, m.rotated_dim());
}

absl::Status CheckAddedTokens(const model::ModelConfig& m) {
  const model::AddedTokens& added = m.added_tokens;
  if (added == model::AddedTokens{}) return absl::OkStatus();
  RETURN_IF_ERROR(Within("model.added_tokens.count", added.count, 1, m.vocab_size));
  RETURN_IF_ERROR(Within("model.added_tokens.base_rows", added.base_rows, 1, m.vocab_size));
  RETURN_IF_ERROR(Within("model.added_tokens.known", added.known, 1, added.base_rows));
  const int64_t rows = std::max(added.base_rows, added.known + added.count);
  return Within("model.vocab_size with added tokens", m.vocab_size, rows, rows);
}

absl::Status CheckMixture(const model::ModelConfig& m) {
  const model::Mixture& mixture = m.mixture;
  if (mixture == model::Mixture{}) return absl::OkStatus();
  RETURN_IF_ERROR(Within("model.mixture.experts", mixture.experts, 1, 1 << 10));
  RETURN_IF_ERROR(Within("model.mixture.chosen", mixture.chosen, 1, mixture.experts));
  RETURN_IF_ERROR(Within("model.mixture.width", mixture.width, 1, kMaxExtent));
  RETURN_IF_ERROR(Within("model.mixture.shared_width", mixture.shared_width, 0, kMaxExtent));
  RETURN_IF_ERROR(OneOf("model.mixture.score", mixture.score, {"softmax", "sigmoid"}));
  RETURN_IF_ERROR(Within("model.mixture.groups", mixture.groups, 1, mixture.experts));
  RETURN_IF_ERROR(Within("model.mixture.top_groups", mixture.top_groups, 1, mixture.groups));
  RETURN_IF_ERROR(Above0("model.mixture.scale", mixture.scale));
  RETURN_IF_ERROR(AtLeast0("model.mixture.aux_loss", mixture.aux_loss));
  int64_t least = 0;
  for (const int64_t layer : mixture.dense_layers) {
    RETURN_IF_ERROR(Within("model.mixture.dense_layers", layer, least, m.num_layers - 1));
    least = layer + 1;
  }
  return absl::OkStatus();
}

absl::Status CheckLatent(const model::ModelConfig& m) {
  if (!m.latent) return absl::OkStatus();
  const model::LatentAttention& latent = *m.latent;
  RETURN_IF_ERROR(Within("model.latent.q_rank", latent.q_rank, 0, kMaxExtent));
  RETURN_IF_ERROR(Within("model.latent.kv_rank", latent.kv_rank, 1, kMaxExtent));
  RETURN_IF_ERROR(Within("model.latent.value", latent.value, 1, 1 << 14));
  RETURN_IF_ERROR(Within("model.latent.nope", latent.nope, 1, m.head_dim));
  RETURN_IF_ERROR(
      Within("model.latent.rope", latent.rope, m.head_dim - latent.nope, m.head_dim - latent.nope));
  RETURN_IF_ERROR(Within("model.rope.rotated", m.rope.rotated, latent.rope, latent.rope));
  return Within("model.num_kv_heads", m.num_kv_heads, m.num_heads, m.num_heads);
}

absl::Status CheckModel(const model::ModelConfig& m) {
  if (model::FindFamily(m.architecture) == nullptr) {
    return OutOfRange("model.architecture", absl::StrCat("\"", m.architecture, "\""),
                      "a family of this build");
  }
  RETURN_IF_ERROR(Within("model.vocab_size", m.vocab_size, 1, kMaxExtent));
  RETURN_IF_ERROR(CheckAddedTokens(m));
  RETURN_IF_ERROR(Within("model.hidden_size", m.hidden_size, 1, kMaxExtent));
  RETURN_IF_ERROR(Within("model.intermediate_size", m.intermediate_size, 1, kMaxExtent));
  RETURN_IF_ERROR(Within("model.num_layers", m.num_layers, 1, 10000));
  RETURN_IF_ERROR(Within("model.num_heads", m.num_heads, 1, 1 << 16));
  RETURN_IF_ERROR(Within("model.num_kv_heads", m.num_kv_heads, 1, m.num_heads));
  if (m.num_heads % m.num_kv_heads != 0) {
    return OutOfRange("model.num_kv_heads", m.num_kv_heads,
                      absl::StrCat("a divisor of num_heads ", m.num_heads));
  }
  RETURN_IF_ERROR(Within("model.head_dim", m.head_dim, 2, 1 << 14));
  if (m.head_dim % 2 != 0) return OutOfRange("model.head_dim", m.head_dim, "an even number");
  RETURN_IF_ERROR(Above0("model.rms_norm_eps", m.rms_norm_eps));
  RETURN_IF_ERROR(OneOf("model.activation", m.activation, {"silu", "gelu_tanh", "gelu"}));
  RETURN_IF_ERROR(Above0("model.embedding_scale", m.embedding_scale));
  RETURN_IF_ERROR(Above0("model.attention_scale", m.score_scale()));
  RETURN_IF_ERROR(Above0("model.logit_scale", m.logit_scale));
  RETURN_IF_ERROR(AtLeast0("model.attention_softcap", m.attention_softcap));
  RETURN_IF_ERROR(AtLeast0("model.logit_softcap", m.logit_softcap));
  RETURN_IF_ERROR(CheckRope("model.rope", m.rope, m));
  RETURN_IF_ERROR(CheckMixture(m));
  RETURN_IF_ERROR(CheckLatent(m));
  if (m.window_rope) RETURN_IF_ERROR(CheckRope("model.window_rope", *m.window_rope, m));
  RETURN_IF_ERROR(Within("model.layer_windows count", static_cast<int64_t>(m.layer_windows.size()),
                         m.num_layers, m.num_layers));
  for (const int64_t window : m.layer_windows) {
    RETURN_IF_ERROR(Within("model.layer_windows", window, 0, kMaxExtent));
  }
  int64_t least = 0;
  for (const int64_t layer : m.unrotated_layers) {
    RETURN_IF_ERROR(Within("model.unrotated_layers", layer, least, m.num_layers - 1));
    least = layer + 1;
  }
  return absl::OkStatus();
}

absl::Status CheckParameter(const Plan& plan, const model::Parameter& p) {
  const std::string field = absl::StrCat("parameter \"", p.name, "\" ");
  if (p.name.empty()) return OutOfRange("parameter name", "empty", "a name");
  RETURN_IF_ERROR(Within(field + "kind", static_cast<int64_t>(p.kind),
                         static_cast<int64_t>(model::Kind::kEmbedding),
                         static_cast<int64_t>(model::Kind::kLast)));
  RETURN_IF_ERROR(Within(field + "part", static_cast<int64_t>(p.part), 0,
                         static_cast<int64_t>(model::Part::kLast)));
  RETURN_IF_ERROR(Within(field + "reach", static_cast<int64_t>(p.reach), 0,
                         static_cast<int64_t>(model::Reach::kLast)));
  RETURN_IF_ERROR(Within(field + "layer", p.layer, -1, plan.model.num_layers - 1));
  const auto tensors = p.layer < 0
                           ? static_cast<size_t>(model::kFinalNormBiasTensor) + 1
                           : plan.architecture.blocks[static_cast<size_t>(p.layer)].tensors.size();
  RETURN_IF_ERROR(Within(field + "tensor", p.tensor, 0, static_cast<int64_t>(tensors) - 1));
  RETURN_IF_ERROR(Within(field + "rows", p.rows, 1, kMaxExtent));
  RETURN_IF_ERROR(Within(field + "cols", p.cols, 1, kMaxExtent));
  RETURN_IF_ERROR(Within(field + "batch", p.batch, 1, p.rows));
  RETURN_IF_ERROR(Within(field + "unit", p.unit, 0, plan.model.num_layers + 1));
  if (model::IsBuffer(p)) return Within(field + "group", p.group, model::kFrozen, model::kFrozen);
  return Within(field + "group", p.group, model::kFrozen,
                static_cast<int64_t>(plan.groups.size()) - 1);
}

// MXFP4 has a scale for a block of a row.
absl::Status CheckBlocksOfScales(const Plan& plan, const model::Parameter& p) {
  if (plan.quantization != Quantization::kMxfp4 || !IsQuantizedIn(plan.quantization, p) ||
      p.cols % kernels::kMxfp4Block == 0) {
    return absl::OkStatus();
  }
  return OutOfRange(absl::StrCat("parameter \"", p.name, "\" cols"), p.cols,
                    absl::StrCat("a multiple of ", kernels::kMxfp4Block, " under quantization ",
                                 ToString(plan.quantization)));
}

absl::Status CheckParameters(const Plan& plan) {
  if (plan.parameters.empty()) return OutOfRange("parameters", "empty", "at least one");
  std::unordered_set<std::string> names;
  for (const model::Parameter& parameter : plan.parameters) {
    RETURN_IF_ERROR(CheckParameter(plan, parameter));
    RETURN_IF_ERROR(CheckBlocksOfScales(plan, parameter));
    if (!names.insert(parameter.name).second) {
      return OutOfRange("parameter name", parameter.name, "unique names");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const Plan& plan) {
  if (plan.groups.empty() && !plan.generates()) {
    return OutOfRange("groups", "empty", "at least one, or a generation");
  }
  std::unordered_set<std::string> names;
  for (const ParameterGroup& group : plan.groups) {
    const std::string field = absl::StrCat("group \"", group.name, "\" ");
    if (group.name.empty() || !names.insert(group.name).second) {
      return OutOfRange("group name", absl::StrCat("\"", group.name, "\""), "a unique name");
    }
    RETURN_IF_ERROR(Above0(field + "lr_scale", group.lr_scale));
    RETURN_IF_ERROR(Real(field + "weight_decay", group.weight_decay, 0, kInfinity));
    RETURN_IF_ERROR(Within(field + "expected_elements", group.expected_elements, 1, kMaxBytes / 4));
  }
  return absl::OkStatus();
}

absl::Status CheckLora(const Lora& lora) {
  RETURN_IF_ERROR(Within("lora.rank", lora.rank, 0, kMaxExtent));
  if (lora.rank > 0) RETURN_IF_ERROR(Above0("lora.scale", lora.scale));
  RETURN_IF_ERROR(Real("lora.dropout", lora.dropout, 0, 1));
  if (lora.dora && lora.dropout > 0) {
    return OutOfRange("lora.dropout", lora.dropout, "0 with lora.dora");
  }
  return absl::OkStatus();
}

// An alias points at an earlier buffer that owns memory and has none of its own.
absl::Status CheckBuffers(const Plan& plan) {
  if (plan.buffers.empty()) return OutOfRange("buffers", "empty", "at least one");
  std::unordered_map<std::string, bool> owns;
  for (const Buffer& buffer : plan.buffers) {
    const std::string field = absl::StrCat("buffer \"", buffer.name, "\" ");
    if (buffer.name.empty() || !owns.emplace(buffer.name, buffer.alias_of.empty()).second) {
      return OutOfRange("buffer name", absl::StrCat("\"", buffer.name, "\""), "a unique name");
    }
    RETURN_IF_ERROR(Within(field + "memory_class", static_cast<int64_t>(buffer.memory_class),
                           static_cast<int64_t>(MemoryClass::kWeights),
                           static_cast<int64_t>(MemoryClass::kHost)));
    if (buffer.alias_of.empty()) {
      RETURN_IF_ERROR(Within(field + "bytes", buffer.bytes, 1, kMaxBytes));
      continue;
    }
    RETURN_IF_ERROR(Within(field + "bytes of an alias", buffer.bytes, 0, 0));
    const auto target = owns.find(buffer.alias_of);
    if (target == owns.end() || !target->second) {
      return OutOfRange(field + "alias_of", absl::StrCat("\"", buffer.alias_of, "\""),
                        "an earlier buffer that owns its memory");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPrediction(const Plan& plan) {
  int64_t before = 0;
  for (const LinkSpeed& link : plan.links) {
    RETURN_IF_ERROR(Within("links bytes", link.bytes, before + 1, kMaxBytes));
    RETURN_IF_ERROR(Above0("links bytes_per_second", link.bytes_per_second));
    before = link.bytes;
  }
  RETURN_IF_ERROR(Real("predicted.step_seconds", plan.predicted.step_seconds, 0, kInfinity));
  RETURN_IF_ERROR(Real("predicted.comm_seconds", plan.predicted.comm_seconds, 0, kInfinity));
  return Real("predicted.exposed_seconds", plan.predicted.exposed_seconds, 0, kInfinity);
}

// A cut head has no product for an adapter of its own.
absl::Status CheckCutHead(const Plan& plan) {
  RETURN_IF_ERROR(Within("lm_head_panel_bytes", plan.lm_head_panel_bytes, 0, kMaxBytes));
  if (plan.lm_head_panel_bytes == 0) return absl::OkStatus();
  if (!plan.trains() || plan.model.labels > 0 || HasAdapterOf(plan, model::Kind::kHead)) {
    return OutOfRange("lm_head_panel_bytes", plan.lm_head_panel_bytes,
                      "0 where nothing is trained, the head is of scores or has an adapter");
  }
  return Within("lm_head_panel_bytes", plan.lm_head_panel_bytes,
                plan.generation.sequences * LogitsRowBytes(plan), kMaxBytes);
}

absl::Status CheckGeneration(const Plan& plan) {
  if (plan.generation == Generation{}) return absl::OkStatus();
  const int64_t rows =
      std::min(plan.micro_batch_bins * plan.sequence_len, plan.lm_head_chunk_tokens);
  RETURN_IF_ERROR(Within("generation.sequences", plan.generation.sequences, 1, rows));
  return Within("generation.length", plan.generation.length, 1, plan.sequence_len);
}

// A head of scores has a loss of them, and nothing is generated by it.
absl::Status CheckScoreHead(const Plan& plan) {
  const int64_t labels = plan.model.labels;
  RETURN_IF_ERROR(Within("model.labels", labels, 0, 65535));
  if (plan.document_loss.labels != labels) {
    return OutOfRange("document_loss.labels", plan.document_loss.labels,
                      absl::StrCat(labels, ", the rows of the model's head"));
  }
  if (labels > 0 && (plan.generates() || plan.model.tie_embeddings)) {
    return OutOfRange("generation and tie_embeddings beside a head of scores",
                      absl::StrCat(plan.generation.sequences, " and ", plan.model.tie_embeddings),
                      "0");
  }
  return plan.model.new_head && labels == 0
             ? OutOfRange("model.new_head", "true", "false without labels")
             : absl::OkStatus();
}

absl::Status CheckDocumentLosses(const Plan& plan) {
  const DocumentLoss& loss = plan.document_loss;
  RETURN_IF_ERROR(CheckDocumentLoss(loss));
  RETURN_IF_ERROR(CheckScoreHead(plan));
  if (!loss.any()) return absl::OkStatus();
  if (plan.label_smoothing != 0 || plan.z_loss != 0) {
    return OutOfRange("label_smoothing and z_loss beside document_loss",
                      absl::StrCat(plan.label_smoothing, " and ", plan.z_loss), "0");
  }
  if (loss.reference == "base" && plan.lora.rank == 0) {
    return OutOfRange("document_loss.reference", "\"base\"", "\"kept\" without an adapter");
  }
  return plan.max_documents_per_bin % loss.documents_per_unit() == 0
             ? absl::OkStatus()
             : OutOfRange("max_documents_per_bin", plan.max_documents_per_bin, "whole pairs");
}

absl::Status CheckPolicyLosses(const Plan& plan) {
  RETURN_IF_ERROR(CheckPolicyLoss(plan.policy_loss));
  if (!plan.policy_loss.any()) return absl::OkStatus();
  if (plan.document_loss.any()) {
    return OutOfRange("policy_loss beside document_loss", plan.policy_loss.objective, "one alone");
  }
  if (plan.label_smoothing == 0 && plan.z_loss == 0) return absl::OkStatus();
  return OutOfRange("label_smoothing and z_loss beside policy_loss",
                    absl::StrCat(plan.label_smoothing, " and ", plan.z_loss), "0");
}

absl::Status CheckFp8Attention(const Plan& plan) {
  if (!plan.fp8.attention) return absl::OkStatus();
  if (plan.fp8.recipe == Fp8Recipe::kNone) {
    return OutOfRange("fp8.attention beside fp8.recipe", "none", "a recipe");
  }
  if (plan.model.attention_softcap > 0) {
    return OutOfRange("attention_softcap beside fp8.attention",
                      absl::StrCat(plan.model.attention_softcap), "0");
  }
  return absl::OkStatus();
}

absl::Status CheckFp8(const Plan& plan) {
  const Fp8& fp8 = plan.fp8;
  RETURN_IF_ERROR(Within("fp8.recipe", static_cast<int64_t>(fp8.recipe), 0,
                         static_cast<int64_t>(Fp8Recipe::kLast)));
  if (fp8.recipe != Fp8Recipe::kNone && plan.quantization != Quantization::kNone) {
    return OutOfRange("quantization beside fp8",
                      absl::StrCat("\"", ToString(plan.quantization), "\""), "none");
  }
  if (fp8.gathers_codes && !ScalesWholeWeights(fp8.recipe)) {
    return OutOfRange("fp8.gathers_codes beside fp8.recipe", NameOf(fp8.recipe),
                      "tensorwise or delayed");
  }
  if (fp8.experts && !ScalesWholeWeights(fp8.recipe)) {
    return OutOfRange("fp8.experts beside fp8.recipe", NameOf(fp8.recipe), "tensorwise or delayed");
  }
  RETURN_IF_ERROR(CheckFp8Attention(plan));
  if (fp8.gathers_codes && plan.lora.dora) {
    return OutOfRange("fp8.gathers_codes beside lora.dora", "true", "false");
  }
  if (fp8.gathers_codes && fp8.keeps_weights && plan.zero == 3) {
    return OutOfRange("fp8.keeps_weights beside fp8.gathers_codes", "true", "false");
  }
  if (!std::is_sorted(fp8.excluded.begin(), fp8.excluded.end())) {
    return OutOfRange("fp8.excluded", "unsorted", "ascending");
  }
  for (const LinearPlace& place : fp8.excluded) {
    RETURN_IF_ERROR(Within("fp8.excluded layer", place.layer, 0, plan.model.num_layers - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckScalars(const Plan& plan) {
  if (plan.job.empty()) return OutOfRange("job", "empty", "a job id");
  RETURN_IF_ERROR(
      Within("recipe_hash bytes", static_cast<int64_t>(plan.recipe_hash.size()), 32, 32));
  if (plan.model_path.empty() || plan.model_path.front() != '/') {
    return OutOfRange("model_path", absl::StrCat("\"", plan.model_path, "\""), "an absolute path");
  }
  RETURN_IF_ERROR(Within("recompute_every", plan.recompute_every, 1, plan.model.num_layers));
  std::set<std::string> rules;
  for (const Fusion& fusion : Fusions()) rules.emplace(fusion.name);
  for (const std::string& name : plan.fusions) RETURN_IF_ERROR(OneOf("fusions", name, rules));
  if (plan.snapshot_in_slices && plan.device != DeviceKind::kCuda) {
    return absl::InvalidArgumentError(absl::StrCat("plan: snapshot_in_slices on device \"",
                                                   ToString(plan.device), "\", wanted \"cuda\""));
  }
  const bool rounded = plan.gradient_dtype == Precision::kBfloat16;
  RETURN_IF_ERROR(
      Within("gradient_sum", static_cast<int64_t>(plan.gradient_sum), 0,
             static_cast<int64_t>(rounded ? GradientSum::kCompensated : GradientSum::kNearest)));
  RETURN_IF_ERROR(
      Within("attention_workspace_bytes", plan.attention_workspace_bytes, 1, kMaxBytes));
  RETURN_IF_ERROR(Within("replicate", plan.replicate, 1, 1 << 16));
  RETURN_IF_ERROR(Within("shard", plan.shard, 1, 1 << 12));
  RETURN_IF_ERROR(Within("zero", plan.zero, plan.shard > 1 ? 1 : 0, plan.shard > 1 ? 3 : 0));
  const bool stay = plan.zero == 3 && plan.quantization == Quantization::kNone;
  const int64_t most_slots = stay ? std::max<int64_t>(2, plan.model.num_layers) : 2;
  RETURN_IF_ERROR(Within("weight_slots", plan.weight_slots, 2, most_slots));
  RETURN_IF_ERROR(Within("sequence_len", plan.sequence_len, 1, 1 << 24));
  RETURN_IF_ERROR(Within("micro_batch_bins", plan.micro_batch_bins, 1, 1 << 16));
  RETURN_IF_ERROR(Within("max_documents_per_bin", plan.max_documents_per_bin, 1, 1 << 24));
  RETURN_IF_ERROR(Within("lm_head_chunk_tokens", plan.lm_head_chunk_tokens, 1, kMaxExtent));
  RETURN_IF_ERROR(Real("beta1", plan.beta1, 0, 1));
  RETURN_IF_ERROR(Real("beta2", plan.beta2, 0, 1));
  RETURN_IF_ERROR(Above0("eps", plan.eps));
  RETURN_IF_ERROR(Real("max_grad_norm", plan.max_grad_norm, 0, kInfinity));
  RETURN_IF_ERROR(Real("label_smoothing", plan.label_smoothing, 0, 1));
  RETURN_IF_ERROR(CheckDocumentLosses(plan));
  RETURN_IF_ERROR(CheckPolicyLosses(plan));
  RETURN_IF_ERROR(AtLeast0("router_losses.balance", plan.router_losses.balance));
  RETURN_IF_ERROR(AtLeast0("router_losses.z", plan.router_losses.z));
  RETURN_IF_ERROR(AtLeast0("router_bias_rate", plan.router_bias_rate));
  return Real("z_loss", plan.z_loss, 0, kInfinity);
}

}  // namespace

absl::Status CheckPlan(const Plan& plan) {
  RETURN_IF_ERROR(CheckModel(plan.model));
  RETURN_IF_ERROR(CheckArchitecture(plan));
  RETURN_IF_ERROR(CheckScalars(plan));
  RETURN_IF_ERROR(CheckFp8(plan));
  RETURN_IF_ERROR(CheckRouters(plan));
  RETURN_IF_ERROR(CheckGeneration(plan));
  RETURN_IF_ERROR(CheckCutHead(plan));
  RETURN_IF_ERROR(CheckGroups(plan));
  RETURN_IF_ERROR(CheckLora(plan.lora));
  RETURN_IF_ERROR(CheckParameters(plan));
  RETURN_IF_ERROR(CheckExpertRanges(plan));
  RETURN_IF_ERROR(CheckPrediction(plan));
  return CheckBuffers(plan);
}

}  // namespace coxswain::plan
