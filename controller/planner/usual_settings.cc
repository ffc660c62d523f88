#include "controller/planner/usual_settings.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/substitute.h"

namespace coxswain::planner {
namespace {

using config::JobSpec;

struct Usual {
  const char* key;
  const char* usual;
  const char* tools;
  const char* meaning;                   // $0: the job's value
  std::string (*value)(const JobSpec&);  // in the form of `usual`; empty: nothing to compare
};

std::string Number(double value) { return absl::StrFormat("%g", value); }
std::string Flag(bool value) { return value ? "true" : "false"; }
bool IsLora(const JobSpec& job) { return job.adapter == config::Adapter::kLora; }
std::string OfLora(const JobSpec& job, double value) { return IsLora(job) ? Number(value) : ""; }
std::string OfLora(const JobSpec& job, bool value) { return IsLora(job) ? Flag(value) : ""; }

// Both r and 2 r are usual.
std::string AlphaOverRank(const JobSpec& job) {
  const double scale = job.lora.alpha / static_cast<double>(job.lora.r);
  return scale < 1 || scale > 2 ? OfLora(job, scale) : "";
}

// Of adapters there are none, and what does not decay needs no exception.
std::string DecaysNorms(const JobSpec& job) {
  return IsLora(job) || job.train.weight_decay == 0 ? "" : Flag(job.train.decay_norm_and_bias);
}

// In pretraining every tool packs.
std::string Packing(const JobSpec& job) {
  if (job.method != "sft") return "";
  switch (job.packing.strategy) {
    case config::PackingStrategy::kBestFit:
      return "best_fit";
    case config::PackingStrategy::kBestFitDecreasing:
      return "best_fit_decreasing";
    case config::PackingStrategy::kFirstFit:
      return "first_fit";
    case config::PackingStrategy::kNone:
      return "none";
  }
  return "";
}

constexpr char kTrainers[] = "transformers, Axolotl, LLaMA-Factory";
constexpr char kAdapters[] = "peft, Axolotl, LLaMA-Factory";

// Source: defaults of peft LoraConfig, transformers TrainingArguments and
// get_decay_parameter_names, Axolotl HyperparametersConfig and LLaMA-Factory LoraArguments, read in
// 2026. Hayou et al., "LoRA+", 2024, recommends the ratio of 16.
constexpr Usual kTable[] = {
    {"lora.r", "8", "peft, LLaMA-Factory", "adapters of rank $0",
     [](const JobSpec& job) { return OfLora(job, static_cast<double>(job.lora.r)); }},
    {"lora.alpha / lora.r", "1 to 2", "peft, LLaMA-Factory", "adapters are added $0 times",
     AlphaOverRank},
    {"lora.dropout", "0", "peft, LLaMA-Factory", "dropout of $0 before A",
     [](const JobSpec& job) { return OfLora(job, job.lora.dropout); }},
    {"lora.loraplus_lr_ratio", "1", kAdapters, "learning rate of B x $0 (LoRA+)",
     [](const JobSpec& job) { return OfLora(job, job.lora.loraplus_lr_ratio); }},
    {"lora.use_rslora", "false", kAdapters, "adapters are scaled by alpha / sqrt(r) (rsLoRA)",
     [](const JobSpec& job) { return OfLora(job, job.lora.use_rslora); }},
    {"lora.use_dora", "false", kAdapters, "lengths of rows are trained too (DoRA)",
     [](const JobSpec& job) { return OfLora(job, job.lora.use_dora); }},
    {"train.weight_decay", "0", kTrainers, "every update shrinks weights by learning rate x $0",
     [](const JobSpec& job) { return Number(job.train.weight_decay); }},
    {"train.decay_norm_and_bias", "false", kTrainers, "norms and biases decay too", DecaysNorms},
    {"train.min_lr_ratio", "0", kTrainers, "the decay ends at $0 of the peak learning rate",
     [](const JobSpec& job) { return Number(job.train.min_lr_ratio); }},
    {"train.betas", "0.9, 0.999", kTrainers, "Adam's decay rates $0",
     [](const JobSpec& job) {
       return absl::StrCat(Number(job.train.beta1), ", ", Number(job.train.beta2));
     }},
    {"train.eps", "1e-08", kTrainers, "Adam's epsilon $0",
     [](const JobSpec& job) { return Number(job.train.eps); }},
    {"train.max_grad_norm", "1", kTrainers, "gradients are clipped to a norm of $0",
     [](const JobSpec& job) { return Number(job.train.max_grad_norm); }},
    {"train.label_smoothing", "0", kTrainers, "label smoothing $0",
     [](const JobSpec& job) { return Number(job.train.label_smoothing); }},
    {"train.z_loss", "0", kTrainers, "a penalty of $0 on the log-partition",
     [](const JobSpec& job) { return Number(job.train.z_loss); }},
    {"packing.strategy", "none", kTrainers, "documents share bins, and a batch is counted in bins",
     Packing},
};

}  // namespace

std::string UnusualSetting::Text() const {
  return absl::StrCat(key, " is ", value, ": ", meaning, "; usual ", usual, " (", tools, ")");
}

std::vector<UnusualSetting> UnusualSettings(const JobSpec& job) {
  std::vector<UnusualSetting> unusual;
  for (const Usual& row : kTable) {
    std::string value = row.value(job);
    if (value.empty() || value == row.usual) continue;
    std::string meaning = absl::Substitute(row.meaning, value);
    unusual.push_back({row.key, std::move(value), row.usual, row.tools, std::move(meaning)});
  }
  return unusual;
}

}  // namespace coxswain::planner
