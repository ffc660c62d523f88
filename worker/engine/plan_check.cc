#include "worker/engine/plan_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/plan/plan_checks.h"
#include "common/plan/quantize_pieces.h"
#include "common/status_macros.h"
#include "kernels/adamw.h"
#include "kernels/argmax.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/dora.h"
#include "kernels/embedding.h"
#include "kernels/gemm.h"
#include "kernels/rotated_linear.h"
#include "kernels/row_gather.h"
#include "kernels/swiglu.h"
#include "kernels/target_hits.h"
#include "worker/engine/buffers.h"
#include "worker/engine/linear.h"
#include "worker/engine/lm_head.h"
#include "worker/engine/micro_step.h"
#include "worker/engine/op_specs.h"

namespace coxswain::engine {
namespace {

// A field of the plan and whether its value can be run.
struct Rule {
  bool holds = false;
  std::string field;
  std::string wanted;
};

absl::Status CheckRules(const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    if (rule.holds) continue;
    return absl::InvalidArgumentError(absl::StrCat("plan: ", rule.field, "; wanted ", rule.wanted));
  }
  return absl::OkStatus();
}

// Tokens of a micro-step: positions are int32, and byte counts of buffers stay inside int64.
constexpr int64_t kMaxTokens = int64_t{1} << 27;

absl::Status CheckSupported(const plan::Plan& plan, int rank) {
  const int64_t tokens = plan.micro_batch_bins * plan.sequence_len;
  return CheckRules({
      {plan.model.rope.type != "dynamic" ||
           plan.sequence_len <= plan.model.rope.original_max_position,
       absl::StrCat("sequence_len ", plan.sequence_len, " under dynamic rotation"),
       absl::StrCat("at most ", plan.model.rope.original_max_position)},
      {plan.master_dtype == "float32" || plan.compute_dtype == "bfloat16",
       absl::StrCat("master_dtype \"", plan.master_dtype, "\" with compute float32"),
       "\"float32\""},
      {rank >= 0 && rank < plan.world_size(),
       absl::StrCat("rank ", rank, " of replicate ", plan.replicate, " x shard ", plan.shard),
       "a rank of the mesh"},
      {tokens <= kMaxTokens,
       absl::StrCat("micro_batch_bins ", plan.micro_batch_bins, " x sequence_len ",
                    plan.sequence_len),
       absl::StrCat("at most ", kMaxTokens, " tokens")},
      {plan.lora.rank > 0 || plan.lora.init_from.empty(),
       absl::StrCat("lora init_from \"", plan.lora.init_from, "\" without an adapter"),
       "lora rank > 0"},
  });
}

absl::Status CheckTrainableCounts(const plan::Plan& plan) {
  std::vector<int64_t> elements(plan.groups.size(), 0);
  for (const model::Parameter& parameter : plan.parameters) {
    if (parameter.trainable()) {
      elements[static_cast<size_t>(parameter.group)] += parameter.elements();
    }
  }
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    if (elements[i] == plan.groups[i].expected_elements) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("self-verification: group \"", plan.groups[i].name, "\" has ", elements[i],
                     " trainable elements, expected ", plan.groups[i].expected_elements));
  }
  return absl::OkStatus();
}

}  // namespace

kernels::CrossEntropySpec LossSpec(const plan::Plan& plan) {
  kernels::CrossEntropySpec spec;
  spec.dtype = ComputeDType(plan);
  spec.vocab = plan.model.vocab_size;
  spec.label_smoothing = static_cast<float>(plan.label_smoothing);
  spec.z_loss = static_cast<float>(plan.z_loss);
  spec.softcap = static_cast<float>(plan.model.logit_softcap);
  return spec;
}

absl::Status CheckPlan(const plan::Plan& plan, int rank) {
  RETURN_IF_ERROR(plan::CheckPlan(plan));
  RETURN_IF_ERROR(CheckSupported(plan, rank));
  return CheckTrainableCounts(plan);
}

namespace {

bool SupportsActivation(const Model& model) {
  if (!kernels::GatedLinearSupports(GatedSpec(model))) return false;
  return UsesSwiglu(model) ||
         (kernels::GegluSupports(GateSpec(model)) && kernels::GeluSupports(ActivationSpec(model)));
}

// All norms of a model are of one kind.
bool SupportsNorm(const Model& model, const Norm& norm) {
  return norm.layer_norm ? kernels::LayerNormSupports(LayerNormSpecOf(model, norm))
                         : kernels::RmsNormSupports(NormSpec(model));
}

bool SupportsQkNorm(const Model& model) {
  const Block& block = model.blocks.front();
  return block.q_norm.value == nullptr ||
         kernels::QkNormSupports(QkSpec(model, block.whole_qk_norm));
}

bool SupportsRotation(const Model& model) {
  const kernels::RopeSpec spec = RotarySpec(model);
  return kernels::RopeSupports(spec) &&
         kernels::RotatedLinearSupports({spec, model.config.hidden_size});
}

absl::Status CheckGeneration(const plan::Plan& plan, const Model& model) {
  if (!plan.generates()) return absl::OkStatus();
  const kernels::CachedAttentionSpec spec = CachedSpec(model, 0, plan.generation.length);
  return CheckRules({
      {kernels::CachedAttentionSupports(spec),
       absl::StrCat("attention over ", spec.length, " cached positions with head_dim ",
                    plan.model.head_dim),
       "head_dim of at most 256; without eval.sample_prompts the model can be trained"},
      {kernels::ArgmaxSupports({.dtype = model.compute_dtype, .columns = plan.model.vocab_size}),
       absl::StrCat("the first maximum of ", plan.model.vocab_size, " logits"), "fewer"},
  });
}

}  // namespace

absl::Status CheckOps(const plan::Plan& plan, const Model& model) {
  const model::ModelConfig& c = plan.model;
  RETURN_IF_ERROR(CheckGeneration(plan, model));
  const bool adapted_head = !model.adapted_head.adapters.members.empty();
  if (adapted_head && !kernels::LoraLinearSupports(HeadLoraSpec(model, true))) {
    return absl::InvalidArgumentError(absl::StrCat("this build has no LoRA head of ", c.hidden_size,
                                                   " inputs, rank ", model.lora_rank, ", ",
                                                   c.vocab_size, " outputs"));
  }
  for (const Linear* linear : Linears(model)) {
    if (linear->adapters.members.empty()) continue;
    const kernels::LoraLinearSpec spec = LoraSpec(model, *linear, true);
    if (!kernels::LoraLinearSupports(spec) || (model.dora && !kernels::DoraSupports(spec))) {
      return absl::InvalidArgumentError(
          absl::StrCat("this build has no LoRA linear of ", spec.in_features, " inputs, rank ",
                       spec.rank, ", dropout ", spec.dropout_rate, model.dora ? ", DoRA" : ""));
    }
  }
  for (const Block& block : model.blocks) {
    if (kernels::AttentionSupports(BlockAttentionSpec(model, block.window))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("this build has no attention with ", c.num_heads, " heads, ", c.num_kv_heads,
                     " kv heads, head_dim ", c.head_dim, ", window ", block.window, ", softcap ",
                     c.attention_softcap));
  }
  const kernels::DType dtype = model.compute_dtype;
  const std::string name = absl::StrCat(" of ", plan.compute_dtype);
  return CheckRules({
      {kernels::GemmSupports({dtype, dtype}), absl::StrCat("the GEMM", name), "another build"},
      {SupportsActivation(model),
       absl::StrCat("the activation", name, " over ", c.intermediate_size), "another"},
      {SupportsNorm(model, model.final_norm), absl::StrCat("norm", name, " over ", c.hidden_size),
       "another"},
      {SupportsQkNorm(model), absl::StrCat("QK-norm", name, " over ", c.head_dim), "another"},
      {SupportsRotation(model), absl::StrCat("RoPE", name, " over ", c.head_dim), "another"},
      {kernels::CrossEntropySupports(LossSpec(plan)),
       absl::StrCat("cross-entropy", name, " over ", c.vocab_size, " classes"), "another"},
      {kernels::TargetHitsSupports({.dtype = LossSpec(plan).dtype, .vocab = c.vocab_size}),
       absl::StrCat("token accuracy", name, " over ", c.vocab_size, " classes"), "another"},
  });
}

namespace {

// An algorithm may take what the plan allows, and no more than the scratch that it has set aside.
int64_t AttentionBudget(const plan::Plan& plan) {
  for (const plan::Buffer& buffer : plan.buffers) {
    if (buffer.name == "scratch") return std::min(plan.attention_workspace_bytes, buffer.bytes);
  }
  return plan.attention_workspace_bytes;
}

}  // namespace

std::vector<kernels::AttentionExtents> AttentionShapes(const plan::Plan& plan) {
  const plan::BatchExtents n(plan);
  kernels::AttentionExtents packed{.tokens = n.tokens,
                                   .documents = n.documents,
                                   .max_length = plan.sequence_len,
                                   .dense = false,
                                   .workspace_budget = AttentionBudget(plan)};
  std::vector<kernels::AttentionExtents> shapes = {packed};
  if (plan.device != "cuda") return shapes;
  packed.documents = plan.micro_batch_bins;
  packed.dense = true;
  shapes.push_back(packed);
  return shapes;
}

int64_t ScratchBytes(const plan::Plan& plan, const Model& model) {
  const plan::BatchExtents n(plan);
  int64_t bytes = std::max<int64_t>(64, kernels::GemmWorkspaceBytes());
  const auto need = [&bytes](int64_t more) { bytes = std::max(bytes, more); };
  if (plan.generates()) {
    need(kernels::CachedAttentionWorkspaceBytes(CachedSpec(model, 0, plan.generation.length),
                                                plan.generation.sequences));
  }
  for (const Block& block : model.blocks) {
    const kernels::AttentionSpec spec = BlockAttentionSpec(model, block.window);
    for (const kernels::AttentionExtents& extents : AttentionShapes(plan)) {
      need(kernels::AttentionForwardWorkspaceBytes(spec, extents));
      need(kernels::AttentionBackwardWorkspaceBytes(spec, extents));
    }
  }
  for (const Linear* linear : Linears(model)) {
    if (linear->bias.gradient != nullptr) {
      need(kernels::BiasBackwardWorkspaceBytes({model.compute_dtype, linear->bias.gradient_dtype},
                                               n.tokens, linear->out));
    }
    if (linear->adapters.members.empty()) continue;
    const kernels::LoraLinearSpec spec = LoraSpec(model, *linear, true);
    need(kernels::LoraLinearForwardWorkspaceBytes(spec, n.tokens));
    need(kernels::LoraLinearBackwardWorkspaceBytes(spec, n.tokens));
    if (!model.dora) continue;
    need(kernels::DoraFactorsWorkspaceBytes(spec));
    need(kernels::DoraBackwardWorkspaceBytes(spec, n.tokens));
  }
  if (model.final_norm.layer_norm) {
    need(kernels::LayerNormBackwardWorkspaceBytes(LayerNormSpecOf(model, model.final_norm),
                                                  n.tokens));
  } else {
    need(kernels::RmsNormBackwardWorkspaceBytes(NormSpec(model), n.tokens));
  }
  const Block& block = model.blocks.front();
  if (block.q_norm.value != nullptr) {
    need(kernels::QkNormBackwardWorkspaceBytes(QkSpec(model, block.whole_qk_norm), n.tokens));
  }
  if (!model.adapted_head.adapters.members.empty()) {
    const kernels::LoraLinearSpec spec = HeadLoraSpec(model, true);
    need(kernels::LoraLinearForwardWorkspaceBytes(spec, plan.lm_head_chunk_tokens));
    need(kernels::LoraLinearBackwardWorkspaceBytes(spec, plan.lm_head_chunk_tokens));
  }
  if (model.embedding_adapter.a.value != nullptr) {
    need(kernels::EmbeddingBackwardWorkspaceBytes(AdapterEmbeddingSpec(model), n.tokens));
  }
  need(plan::QuantizeScratchBytes(plan));
  if (model.embedding.gradient != nullptr) {
    need(kernels::EmbeddingBackwardWorkspaceBytes(TokenEmbeddingSpec(model),
                                                  std::max(n.tokens, n.embedding_rows)));
  }
  return bytes;
}

}  // namespace coxswain::engine
