#include "controller/planner/advice.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/format.h"
#include "common/plan/storage.h"
#include "controller/planner/memory/attention_kernels.h"
#include "controller/planner/memory/attention_workspace.h"

namespace coxswain::planner {
namespace {

struct Recommended {
  int64_t parameters_up_to;
  const char* size;
  int64_t micro_batch;
  bool recompute;
  int64_t lora_r;
  double lora_learning_rate;
};

// Source: the Chronicals paper, recommendations by model size. Below 100 million parameters none is
// given.
constexpr int64_t kSmallestAdvised = 100'000'000;
constexpr Recommended kTable[] = {
    {750'000'000, "0.5B", 16, false, 32, 1e-4}, {4'000'000'000, "1-3B", 8, false, 32, 5e-5},
    {10'000'000'000, "7B", 4, true, 64, 2e-5},  {30'000'000'000, "13B", 2, true, 64, 1e-5},
    {INT64_MAX, "70B", 1, true, 128, 5e-6},
};
constexpr double kFullLearningRate = 2e-5;
constexpr double kFar = 4.0;

bool Far(double value, double recommended) {
  return value > recommended * kFar || value * kFar < recommended;
}

class Advice {
 public:
  void Number(const char* key, double value, double recommended, const std::string& of) {
    if (!Far(value, recommended)) return;
    lines_.push_back(
        absl::StrFormat("%s is %g, recommended for %s: %g", key, value, of, recommended));
  }
  void Say(std::string line) { lines_.push_back(std::move(line)); }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

void AdviseBySize(const config::JobSpec& job, const plan::Plan& plan, Advice& advice) {
  int64_t parameters = 0;
  for (const model::Parameter& parameter : plan.parameters) parameters += parameter.elements();
  if (parameters < kSmallestAdvised) return;
  const Recommended* row = kTable;
  while (parameters > row->parameters_up_to) ++row;
  const std::string of = absl::StrCat("a model of ", row->size);
  if (job.adapter == config::Adapter::kLora) {
    advice.Number("lora.r", static_cast<double>(job.lora.r), static_cast<double>(row->lora_r), of);
    advice.Number("train.learning_rate", job.train.learning_rate, row->lora_learning_rate,
                  "LoRA on " + of);
  } else {
    advice.Number("train.learning_rate", job.train.learning_rate, kFullLearningRate,
                  "full fine-tuning");
  }
  if (job.train.micro_batch_size.has_value() && *job.train.micro_batch_size > row->micro_batch) {
    advice.Number("train.micro_batch_size", static_cast<double>(*job.train.micro_batch_size),
                  static_cast<double>(row->micro_batch), of);
  }
  if (row->recompute && job.recompute == RecomputeLevel::kNone) {
    advice.Say(absl::StrCat("recompute is none, recommended for ", of, ": block"));
  }
}

// What `auto` came to, and settings that cost without a gain.
void AdvisePrecision(const config::JobSpec& job, const plan::Plan& plan, Advice& advice) {
  if (plan.device != DeviceKind::kCuda) return;
  if (plan.compute_dtype == Precision::kFloat32) {
    advice.Say(
        "precision.compute is float32: plain attention and float32 products, many times slower "
        "than bfloat16");
    return;
  }
  if (!job.master_dtype.has_value() && plan.master_dtype == Precision::kBfloat16) {
    advice.Say(
        "precision.master_weights is bfloat16, rounded stochastically: float32 masters do not fit");
  }
  if (!job.gradient_dtype.has_value() && plan.gradient_dtype == Precision::kBfloat16) {
    advice.Say("precision.gradients is bfloat16: float32 gradients do not fit");
  }
  if (!plan::TrainsBase(plan) &&
      (job.master_dtype == Precision::kBfloat16 || job.gradient_dtype == Precision::kBfloat16)) {
    advice.Say(
        "precision.master_weights and gradients concern the base model: adapters keep float32");
  }
}

void AdviseQuantized(const config::JobSpec& job, const plan::Plan& plan, Advice& advice) {
  if (plan.quantization == Quantization::kNone || !job.export_merge) return;
  advice.Say(
      plan.model.quantization != plan.quantization
          ? absl::StrCat("export.merge adds the adapter to the base's own weights; it trains "
                         "beside their copy in ",
                         ToString(plan.quantization),
                         ", so that a merged model answers a little differently from the "
                         "one that was evaluated")
          : absl::StrCat("export.merge writes what the base's ", ToString(plan.quantization),
                         " weights stand for, rounded once more to export.dtype"));
}

void AdviseServing(const config::JobSpec& job, const plan::Plan& plan, Advice& advice) {
  if (plan.lora.rank == 0 || job.export_merge) return;
  const char* key = plan.lora.dora                      ? "use_dora"
                    : !job.lora.modules_to_save.empty() ? "modules_to_save"
                                                        : nullptr;
  if (key == nullptr) return;
  advice.Say(absl::StrCat("lora.", key,
                          ": vLLM serves no such adapter; export.merge writes a merged model too"));
}

// Whether cuDNN's graph has the memory it needs, where micro-steps would run it.
void AdviseAttention(const config::JobSpec& job, const plan::Plan& plan, const Recipe& recipe,
                     int32_t compute_capability, Advice& advice) {
  if (plan.device != DeviceKind::kCuda || !RunsSingleDocuments(plan, recipe.single_document_bins()))
    return;
  const int64_t fastest = FastestAttentionBytes(plan, compute_capability);
  const std::string need =
      absl::StrCat(FormatBytes(static_cast<uint64_t>(fastest)), " of workspace for cuDNN's ",
                   plan.attention_deterministic ? "deterministic " : "",
                   "attention of documents of ", plan.sequence_len, " tokens");
  if (fastest > plan.attention_workspace_bytes) {
    advice.Say(absl::StrCat(
        "attention.workspace_gib is ",
        job.attention_workspace_gib.has_value() ? absl::StrCat(*job.attention_workspace_gib)
                                                : "auto",
        ": ", need, job.attention_workspace_gib.has_value() ? " is above it" : " is not left",
        ", slower kernels run"));
  } else if (!job.attention_workspace_gib.has_value() && fastest > kOrdinaryAttentionBytes) {
    advice.Say(absl::StrCat("attention.workspace_gib auto takes ", need,
                            ", from memory that the rest of the plan leaves free"));
  }
}

// All kernels of our own repeat their bits.
void AdviseDeterminism(const plan::Plan& plan, int32_t compute_capability, Advice& advice) {
  if (plan.device != DeviceKind::kCuda || plan.attention_deterministic) return;
  const AttentionKernels kernels = AttentionKernelsOf(plan, compute_capability);
  if (std::string_view(kernels.single) == "cuDNN") return;
  advice.Say(absl::StrCat("attention.deterministic: false has no effect on heads of ",
                          plan.model.head_dim, " elements and documents of ", plan.sequence_len,
                          " tokens: their kernels (", kernels.single, ") repeat their bits"));
}

// Below some thousand tokens a step, a GPU waits for its own launches and for the weights.
constexpr int64_t kFewTokensOfAStep = 8192;

void AdviseStepSize(const plan::Plan& plan, const Recipe& recipe, Advice& advice) {
  const int64_t tokens = recipe.global_batch_bins() * plan.sequence_len;
  if (plan.device != DeviceKind::kCuda || tokens >= kFewTokensOfAStep) return;
  advice.Say(absl::StrCat("a step has ", tokens, " tokens: a GPU runs well from ",
                          kFewTokensOfAStep, "; raise train.global_batch_size"));
}

void AdviseSchedule(const config::JobSpec& job, const Recipe& recipe, Advice& advice) {
  const LearningRate& schedule = recipe.schedule();
  if (schedule.warmup_steps >= schedule.total_steps) {
    advice.Say(absl::StrCat("warm-up takes ", schedule.warmup_steps, " steps, the job has ",
                            schedule.total_steps, ": the peak learning rate is hardly reached"));
  }
  if (recipe.global_batch_bins() % job.workers != 0) {
    advice.Say(absl::StrCat("the global batch of ", recipe.global_batch_bins(),
                            " bins does not divide by ", job.workers,
                            " workers: some wait for others in every step"));
  }
  if (recipe.bins_per_pass(0) < recipe.global_batch_bins()) {
    advice.Say(absl::StrCat("a pass has ", recipe.bins_per_pass(0), " bins, the global batch asks ",
                            "for ", recipe.global_batch_bins(), ": a step is a whole pass"));
  }
  if (recipe.slots_lost_to_most_documents() >= 0.02) {
    advice.Say(absl::StrFormat(
        "bins are filled to %.0f %%: %.0f %% stays empty in bins that have %d documents, the most "
        "that packing.max_documents_per_bin allows; a larger one fills them",
        100 * recipe.packing_efficiency(), 100 * recipe.slots_lost_to_most_documents(),
        job.packing.max_documents_per_bin));
  } else if (recipe.packing_efficiency() < 0.5) {
    advice.Say(
        absl::StrFormat("bins are filled to %.0f %%: sequence_len %d or packing wastes the "
                        "rest",
                        100 * recipe.packing_efficiency(), job.sequence_len));
  }
}

}  // namespace

std::vector<std::string> Advise(const config::JobSpec& job, const plan::Plan& plan,
                                const Recipe& recipe, int32_t compute_capability) {
  Advice advice;
  AdviseBySize(job, plan, advice);
  AdvisePrecision(job, plan, advice);
  AdviseQuantized(job, plan, advice);
  AdviseServing(job, plan, advice);
  AdviseAttention(job, plan, recipe, compute_capability, advice);
  AdviseDeterminism(plan, compute_capability, advice);
  AdviseStepSize(plan, recipe, advice);
  AdviseSchedule(job, recipe, advice);
  return advice.Take();
}

}  // namespace coxswain::planner
