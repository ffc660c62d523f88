#include "worker/engine/plan_check.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/adamw.h"
#include "kernels/bias.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/gemm.h"
#include "kernels/global_norm.h"
#include "kernels/row_gather.h"
#include "kernels/swiglu.h"
#include "worker/engine/block.h"
#include "worker/engine/buffers.h"
#include "worker/engine/linear.h"

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

// Whose forward pass block.h is.
constexpr std::array<std::string_view, 4> kArchitectures = {
    "Qwen2ForCausalLM", "Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM"};

absl::Status CheckExtents(const plan::Plan& plan) {
  const model::ModelConfig& c = plan.model;
  const int64_t smallest =
      std::min({c.vocab_size, c.hidden_size, c.intermediate_size, c.num_layers, c.num_heads,
                c.num_kv_heads, c.head_dim, plan.sequence_len, plan.micro_batch_bins,
                plan.max_documents_per_bin, plan.lm_head_chunk_tokens});
  RETURN_IF_ERROR(CheckRules({
      {smallest > 0, absl::StrCat("the smallest extent is ", smallest), "every extent > 0"},
      {std::find(kArchitectures.begin(), kArchitectures.end(), c.architecture) !=
           kArchitectures.end(),
       absl::StrCat("architecture \"", c.architecture, "\""),
       "Qwen2, Qwen3, Llama or MistralForCausalLM"},
      {c.num_layers < 16384, absl::StrCat("num_layers ", c.num_layers), "< 16384"},
  }));
  return CheckRules({
      {c.num_heads % c.num_kv_heads == 0,
       absl::StrCat("num_heads ", c.num_heads, ", num_kv_heads ", c.num_kv_heads),
       "kv heads that divide the heads"},
      {c.head_dim % 2 == 0, absl::StrCat("head_dim ", c.head_dim), "an even one"},
      {static_cast<int64_t>(c.layer_windows.size()) == c.num_layers,
       absl::StrCat(c.layer_windows.size(), " layer_windows"),
       absl::StrCat("one for each of ", c.num_layers, " layers")},
      {std::all_of(c.layer_windows.begin(), c.layer_windows.end(),
                   [](int64_t window) { return window >= 0; }),
       "a negative layer window", "0 (full) or a number of positions"},
      {c.rope.type == "default" || c.rope.type == "llama3",
       absl::StrCat("rope type \"", c.rope.type, "\""), "\"default\" or \"llama3\""},
  });
}

absl::Status CheckSettings(const plan::Plan& plan, int rank) {
  return CheckRules({
      {plan.recipe_hash.size() == 32,
       absl::StrCat("recipe_hash of ", plan.recipe_hash.size(), " bytes"), "32 bytes"},
      {plan.compute_dtype == "float32", absl::StrCat("compute_dtype \"", plan.compute_dtype, "\""),
       "\"float32\""},
      {plan.init == "pretrained" || plan.init == "random", absl::StrCat("init \"", plan.init, "\""),
       "\"pretrained\" or \"random\""},
      {plan.recompute == "none" || plan.recompute == "block",
       absl::StrCat("recompute \"", plan.recompute, "\""), "\"none\" or \"block\""},
      {plan.shard == 1, absl::StrCat("shard ", plan.shard), "1: this engine replicates"},
      {plan.replicate >= 1 && rank >= 0 && rank < plan.world_size(),
       absl::StrCat("rank ", rank, " of replicate ", plan.replicate), "a rank of the mesh"},
      {plan.lora.rank >= 0 && plan.lora.dropout >= 0 && plan.lora.dropout < 1,
       absl::StrCat("lora rank ", plan.lora.rank, ", dropout ", plan.lora.dropout),
       "rank >= 0, dropout in [0, 1)"},
      {plan.lora.rank == 0 || plan.lora.scale > 0, absl::StrCat("lora scale ", plan.lora.scale),
       "> 0"},
      {plan.lora.rank > 0 || plan.lora.init_from.empty(),
       absl::StrCat("lora init_from \"", plan.lora.init_from, "\" without an adapter"),
       "lora rank > 0"},
      {plan.beta1 >= 0 && plan.beta1 < 1 && plan.beta2 >= 0 && plan.beta2 < 1 && plan.eps > 0,
       absl::StrCat("betas ", plan.beta1, ", ", plan.beta2, ", eps ", plan.eps),
       "betas in [0, 1), eps > 0"},
      {plan.max_grad_norm >= 0, absl::StrCat("max_grad_norm ", plan.max_grad_norm), ">= 0"},
      {plan.label_smoothing >= 0 && plan.label_smoothing < 1 && plan.z_loss >= 0,
       absl::StrCat("label_smoothing ", plan.label_smoothing, ", z_loss ", plan.z_loss),
       "[0, 1) and >= 0"},
  });
}

absl::Status CheckGroups(const plan::Plan& plan) {
  std::vector<int64_t> elements(plan.groups.size(), 0);
  for (const plan::Parameter& p : plan.parameters) {
    RETURN_IF_ERROR(CheckRules({
        {p.rows > 0 && p.cols > 0, absl::StrCat("\"", p.name, "\" is [", p.rows, ", ", p.cols, "]"),
         "extents > 0"},
        {p.group >= plan::kFrozen && p.group < static_cast<int32_t>(plan.groups.size()),
         absl::StrCat("\"", p.name, "\" is in group ", p.group),
         absl::StrCat("-1 or one of ", plan.groups.size(), " groups")},
        {!p.trainable() || (p.save_rank >= 0 && p.save_rank < plan.world_size()),
         absl::StrCat("\"", p.name, "\" is saved by rank ", p.save_rank),
         absl::StrCat("one of ", plan.world_size(), " ranks")},
    }));
    if (p.trainable()) elements[static_cast<size_t>(p.group)] += p.elements();
  }
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    const plan::ParameterGroup& group = plan.groups[i];
    RETURN_IF_ERROR(
        CheckRules({{group.lr_scale > 0 && group.weight_decay >= 0,
                     absl::StrCat("group \"", group.name, "\" has lr_scale ", group.lr_scale,
                                  ", weight_decay ", group.weight_decay),
                     "> 0 and >= 0"}}));
    if (elements[i] == group.expected_elements && elements[i] > 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("self-verification: group \"", group.name, "\" has ", elements[i],
                     " trainable elements, expected ", group.expected_elements, " (> 0)"));
  }
  if (!plan.groups.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError("self-verification: the plan trains no parameter group");
}

std::vector<const Linear*> Linears(const Model& model) {
  std::vector<const Linear*> linears;
  for (const Block& block : model.blocks) {
    linears.insert(linears.end(), {&block.qkv, &block.o, &block.gate_up, &block.down});
  }
  return linears;
}

}  // namespace

kernels::CrossEntropySpec LossSpec(const plan::Plan& plan) {
  kernels::CrossEntropySpec spec;
  spec.vocab = plan.model.vocab_size;
  spec.label_smoothing = static_cast<float>(plan.label_smoothing);
  spec.z_loss = static_cast<float>(plan.z_loss);
  return spec;
}

absl::Status CheckPlan(const plan::Plan& plan, int rank) {
  RETURN_IF_ERROR(CheckExtents(plan));
  RETURN_IF_ERROR(CheckSettings(plan, rank));
  return CheckGroups(plan);
}

absl::Status CheckOps(const plan::Plan& plan, const Model& model) {
  const model::ModelConfig& c = plan.model;
  for (const Linear* linear : Linears(model)) {
    if (linear->adapters.members == 0) continue;
    const kernels::LoraLinearSpec spec = LoraSpec(model, *linear, true);
    if (!kernels::LoraLinearSupports(spec)) {
      return absl::InvalidArgumentError(absl::StrCat("this build has no LoRA linear of ",
                                                     spec.in_features, " inputs, rank ", spec.rank,
                                                     ", dropout ", spec.dropout_rate));
    }
  }
  for (const Block& block : model.blocks) {
    if (kernels::AttentionSupports(BlockAttentionSpec(c, block.window))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("this build has no attention with ", c.num_heads, " heads, ", c.num_kv_heads,
                     " kv heads, head_dim ", c.head_dim, ", window ", block.window));
  }
  return CheckRules({
      {kernels::GemmSupports({}), "the GEMM of float32 is not in this build", "it"},
      {kernels::RmsNormSupports(NormSpec(c)), absl::StrCat("RMSNorm over ", c.hidden_size),
       "another"},
      {!c.qk_norm || kernels::QkNormSupports(QkSpec(c)), absl::StrCat("QK-norm over ", c.head_dim),
       "another"},
      {kernels::RopeSupports(RotarySpec(c)), absl::StrCat("RoPE over ", c.head_dim), "another"},
      {kernels::CrossEntropySupports(LossSpec(plan)),
       absl::StrCat("cross-entropy over ", c.vocab_size, " classes"), "another"},
  });
}

int64_t ScratchBytes(const plan::Plan& plan, const Model& model) {
  const model::ModelConfig& c = plan.model;
  const Extents n(plan);
  int64_t bytes = 64;
  const auto need = [&bytes](int64_t more) { bytes = std::max(bytes, more); };
  for (const Block& block : model.blocks) {
    const kernels::AttentionSpec spec = BlockAttentionSpec(c, block.window);
    need(kernels::AttentionForwardWorkspaceBytes(spec, n.tokens, plan.sequence_len));
    need(kernels::AttentionBackwardWorkspaceBytes(spec, n.tokens, plan.sequence_len));
  }
  for (const Linear* linear : Linears(model)) {
    if (linear->bias.gradient != nullptr) {
      need(kernels::BiasBackwardWorkspaceBytes({}, n.tokens, linear->out));
    }
    if (linear->adapters.members == 0) continue;
    const kernels::LoraLinearSpec spec = LoraSpec(model, *linear, true);
    need(kernels::LoraLinearForwardWorkspaceBytes(spec, n.tokens));
    need(kernels::LoraLinearBackwardWorkspaceBytes(spec, n.tokens));
  }
  need(kernels::RmsNormBackwardWorkspaceBytes(NormSpec(c), n.tokens));
  if (c.qk_norm) need(kernels::QkNormBackwardWorkspaceBytes(QkSpec(c), n.tokens));
  need(kernels::GlobalNormWorkspaceBytes({}, n.trainable_tensors, n.trainable));
  kernels::EmbeddingSpec embedding;
  embedding.vocab = c.vocab_size;
  embedding.hidden = c.hidden_size;
  if (model.embedding.gradient != nullptr) {
    need(kernels::EmbeddingBackwardWorkspaceBytes(embedding, n.tokens));
  }
  return bytes;
}

}  // namespace coxswain::engine
