#include "controller/planner/model/fp8_linears.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/name_pattern.h"
#include "common/plan/fp8_linears.h"
#include "common/status_macros.h"
#include "kernels/attention/fp8_attention.h"

namespace coxswain::planner {
namespace {

plan::Fp8Recipe RecipeOf(config::Fp8Recipe recipe) {
  switch (recipe) {
    case config::Fp8Recipe::kRowwise:
      return plan::Fp8Recipe::kRowwise;
    case config::Fp8Recipe::kBlockwise:
      return plan::Fp8Recipe::kBlockwise;
    case config::Fp8Recipe::kDelayed:
      return plan::Fp8Recipe::kDelayed;
    default:
      return plan::Fp8Recipe::kTensorwise;
  }
}

constexpr int32_t kLeastOfTensorwise = 89;
constexpr const char* kWeight = ".weight";
constexpr int64_t kTileTokens = 4;  // kernels/products/fp8_gemm.h, kFp8TileRows

// Source: cuBLAS 13 documentation, cublasLtMatmul: E4M3 and E5M2 from 8.9 on, scales of rows and of
// blocks of 128 on 9.0.
absl::Status CheckCapability(plan::Fp8Recipe recipe, int32_t capability) {
  if (capability == 0) return absl::OkStatus();
  const bool tensorwise =
      recipe == plan::Fp8Recipe::kTensorwise || recipe == plan::Fp8Recipe::kDelayed;
  if (tensorwise ? capability >= kLeastOfTensorwise : capability == 90) return absl::OkStatus();
  const char* instead = capability >= kLeastOfTensorwise
                            ? "set recipe: tensorwise, or precision.compute: auto"
                            : "set precision.compute: auto";
  return absl::FailedPreconditionError(absl::StrCat(
      "precision.fp8.recipe is ", plan::NameOf(recipe), ", the GPU has compute capability ",
      capability / 10, ".", capability % 10, ", which has no such products; ",
      tensorwise ? "8.9 or newer is needed (Ada, Hopper)" : "9.0 is needed (Hopper)", ": ",
      instead));
}

// One entry of precision.fp8.exclude: a pattern of a whole name, or parts of it between dots.
class Excluded {
 public:
  static absl::StatusOr<Excluded> Read(const std::string& text) {
    Excluded excluded;
    excluded.text_ = absl::StrCat(".", text, ".");
    if (!NamePattern::Is(text)) return excluded;
    absl::StatusOr<NamePattern> pattern = NamePattern::Compile(text);
    if (!pattern.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("precision.fp8.exclude: \"", text, "\" ",
                                                     std::string(pattern.status().message())));
    }
    excluded.pattern_ = *std::move(pattern);
    return excluded;
  }

  bool Means(const std::string& module) const {
    if (pattern_.has_value()) return pattern_->Matches(module);
    return absl::StrContains(absl::StrCat(".", module, "."), text_);
  }

 private:
  std::string text_;
  std::optional<NamePattern> pattern_;
};

// The op that reads a tensor of a block as its weight; none: a norm reads it, or a router.
std::optional<int32_t> LinearOf(const plan::Plan& plan, int64_t layer, int32_t tensor) {
  for (const model::PlainOp& op : plan.architecture.blocks[static_cast<size_t>(layer)].ops) {
    const auto* experts = std::get_if<model::GroupedLinearOp>(&op);
    if (experts != nullptr && experts->weight == tensor) return experts->id;
    const auto* linear = std::get_if<model::LinearOp>(&op);
    if (linear == nullptr) continue;
    for (const model::LinearMember& member : linear->members) {
      if (member.weight == tensor) return linear->id;
    }
  }
  return std::nullopt;
}

// Whether precision.fp8.exclude may name it.
bool IsWeightOfLinear(const plan::Plan& plan, const model::Parameter& parameter) {
  if (plan.fp8.experts && model::IsBase(parameter, model::Kind::kExperts)) return true;
  return model::IsBase(parameter, model::Kind::kLinear) && absl::EndsWith(parameter.name, kWeight);
}

// "model.layers.0.mlp.down_proj"; of experts "model.layers.0.mlp.experts.down_proj".
std::string ModuleOf(const model::Parameter& parameter) {
  return std::string(absl::StripSuffix(parameter.name, kWeight));
}

bool HasExperts(const plan::Plan& plan) { return plan.model.mixture.experts > 0; }

absl::Status Exclude(const std::string& text, const plan::Plan& plan,
                     std::set<plan::LinearPlace>* places) {
  ASSIGN_OR_RETURN(const Excluded excluded, Excluded::Read(text));
  std::string example;
  bool found = false;
  for (const model::Parameter& p : plan.parameters) {
    if (!IsWeightOfLinear(plan, p)) continue;
    const std::string module = ModuleOf(p);
    if (example.empty()) example = module;
    const std::optional<int32_t> linear = LinearOf(plan, p.layer, p.tensor);
    if (!linear.has_value() || !excluded.Means(module)) continue;
    places->insert({p.layer, *linear});
    found = true;
  }
  if (found) return absl::OkStatus();
  const bool without_experts = HasExperts(plan) && !plan.fp8.experts;
  return absl::InvalidArgumentError(absl::StrCat(
      "precision.fp8.exclude: \"", text,
      "\" means no linear of a block; parts of a name between dots mean it, as of \"", example,
      "\"", without_experts ? "; precision.fp8.experts is bfloat16, so experts stay out" : ""));
}

constexpr int32_t kOfExperts = 90;

absl::Status ChooseExperts(const config::JobSpec& job, int32_t capability, plan::Plan* plan) {
  if (!job.fp8->experts || !HasExperts(*plan)) return absl::OkStatus();
  if (!plan::ScalesWholeWeights(plan->fp8.recipe)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "precision.fp8.experts is fp8, precision.fp8.recipe is ", plan::NameOf(plan->fp8.recipe),
        ", of which experts have no products; set experts: bfloat16, or recipe: tensorwise"));
  }
  if (plan->device == DeviceKind::kCuda && capability != 0 && capability != kOfExperts) {
    return absl::FailedPreconditionError(
        absl::StrCat("precision.fp8.experts is fp8, the GPU has compute capability ",
                     capability / 10, ".", capability % 10,
                     ", which has no products of experts in FP8; 9.0 is needed (Hopper): "
                     "set experts: bfloat16"));
  }
  plan->fp8.experts = true;
  return absl::OkStatus();
}

constexpr int32_t kOfAttention = 90;

absl::Status RefuseAttention(const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("precision.fp8.attention is fp8, ", why, "; set attention: bfloat16"));
}

absl::Status CheckAttentionOnGpu(const model::ModelConfig& model, int32_t capability) {
  const int64_t group = model.num_heads / model.num_kv_heads;
  if (group > kernels::kFp8QueryHeads) {
    return RefuseAttention(absl::StrCat(group, " query heads of the model share a kv head; on a ",
                                        "GPU attention in FP8 takes up to ",
                                        kernels::kFp8QueryHeads));
  }
  if (capability == 0 || capability == kOfAttention) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("precision.fp8.attention is fp8, the GPU has compute capability ",
                   capability / 10, ".", capability % 10,
                   ", which has no attention in FP8; 9.0 is needed (Hopper): "
                   "set attention: bfloat16"));
}

absl::Status ChooseAttention(const config::JobSpec& job, int32_t capability, plan::Plan* plan) {
  if (!job.fp8->attention) return absl::OkStatus();
  const model::ModelConfig& model = plan->model;
  if (model.latent.has_value()) {
    return RefuseAttention("the model has latent attention, which has no products in FP8");
  }
  if (model.attention_softcap > 0) {
    return RefuseAttention(absl::StrCat("the model has a softcap of scores, ",
                                        model.attention_softcap, ", which goes without FP8"));
  }
  for (const int64_t width : {model.head_dim, model.value_dim()}) {
    if (kernels::IsFp8AttentionHead(width)) continue;
    return RefuseAttention(absl::StrCat("heads of the model are ", width,
                                        " wide; attention in FP8 takes multiples of 16 up to 128"));
  }
  if (plan->device == DeviceKind::kCuda) RETURN_IF_ERROR(CheckAttentionOnGpu(model, capability));
  plan->fp8.attention = true;
  return absl::OkStatus();
}

absl::Status ChooseGather(const config::JobSpec& job, plan::Plan* plan) {
  if (!job.fp8->gathers_codes) return absl::OkStatus();
  if (!plan::ScalesWholeWeights(plan->fp8.recipe)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "precision.fp8.gather is fp8, precision.fp8.recipe is ", plan::NameOf(plan->fp8.recipe),
        ", which has a scale for each row or block of a weight, and ranks hold parts of weights "
        "that cut rows and blocks; set gather: bfloat16, or recipe: tensorwise"));
  }
  if (plan->lora.dora) {
    return absl::InvalidArgumentError(
        "precision.fp8.gather is fp8, lora.use_dora is true, whose norms are of weights in the "
        "compute dtype; set gather: bfloat16, or lora.use_dora: false");
  }
  plan->fp8.gathers_codes = true;
  return absl::OkStatus();
}

}  // namespace

absl::Status ChooseFp8(const config::JobSpec& job, int32_t compute_capability, plan::Plan* plan) {
  if (!job.fp8.has_value()) return absl::OkStatus();
  plan::Fp8& fp8 = plan->fp8;
  fp8.recipe = RecipeOf(job.fp8->recipe);
  fp8.e4m3_gradients = job.fp8->e4m3_gradients;
  fp8.keeps_activations = job.fp8->keeps_activations;
  if (plan->device == DeviceKind::kCuda)
    RETURN_IF_ERROR(CheckCapability(fp8.recipe, compute_capability));
  if (plan->device == DeviceKind::kCuda && fp8.recipe == plan::Fp8Recipe::kBlockwise &&
      plan->sequence_len % kTileTokens != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("precision.fp8.recipe is blockwise, sequence_len is ", plan->sequence_len,
                     "; on a GPU it takes a multiple of ", kTileTokens));
  }
  if (plan->quantization != Quantization::kNone) {
    return absl::InvalidArgumentError(absl::StrCat("precision.compute is fp8, the base is kept in ",
                                                   ToString(plan->quantization),
                                                   "; set precision.compute: auto"));
  }
  RETURN_IF_ERROR(ChooseExperts(job, compute_capability, plan));
  RETURN_IF_ERROR(ChooseAttention(job, compute_capability, plan));
  std::set<plan::LinearPlace> excluded;
  for (const std::string& text : job.fp8->exclude) {
    RETURN_IF_ERROR(Exclude(text, *plan, &excluded));
  }
  fp8.excluded.assign(excluded.begin(), excluded.end());
  RETURN_IF_ERROR(ChooseGather(job, plan));
  if (const Fp8Count count = CountFp8(*plan); count.in_fp8 + count.experts_in_fp8 > 0)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "precision.compute is fp8, no linear of a block is left for it: widths must be multiples of ",
      plan::kFp8Width, ", precision.fp8.exclude names ", excluded.size(), " linears"));
}

Fp8Count CountFp8(const plan::Plan& plan) {
  Fp8Count count;
  plan::VisitFp8Linears(plan, [&count](const auto&, int64_t) { ++count.in_fp8; });
  plan::VisitFp8Experts(plan, [&count](const auto&, int64_t) { ++count.experts_in_fp8; });
  for (const model::Block& block : plan.architecture.blocks) {
    for (const model::PlainOp& op : block.ops) {
      if (std::holds_alternative<model::LinearOp>(op)) ++count.all;
      if (std::holds_alternative<model::GroupedLinearOp>(op)) ++count.all_experts;
    }
  }
  return count;
}

}  // namespace coxswain::planner
