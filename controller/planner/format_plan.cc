#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/files/hash.h"
#include "common/format.h"
#include "common/plan/buffers/buffer_rows.h"
#include "common/plan/buffers/fp8_rows.h"
#include "common/plan/fp8_gather.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/storage.h"
#include "controller/planner/layout/gradient_sum.h"
#include "controller/planner/memory/attention_kernels.h"
#include "controller/planner/memory/attention_workspace.h"
#include "controller/planner/memory/buffer_table.h"
#include "controller/planner/memory/memory.h"
#include "controller/planner/model/fp8_linears.h"
#include "controller/planner/planner.h"
#include "controller/planner/usual_settings.h"

namespace coxswain::planner {
namespace {

// "3 h 20 min", "45 s".
std::string FormatSeconds(double seconds) {
  if (seconds < 60) return absl::StrFormat("%.*f s", seconds < 10 ? 1 : 0, seconds);
  const auto minutes = static_cast<int64_t>(std::llround(seconds / 60));
  if (minutes < 60) return absl::StrCat(minutes, " min");
  if (minutes < 48 * 60) return absl::StrCat(minutes / 60, " h ", minutes % 60, " min");
  return absl::StrFormat("%.1f days", static_cast<double>(minutes) / (24 * 60));
}

std::string FormatFlops(double flops) {
  const char* const units[] = {"", "k", "M", "G", "T", "P"};
  size_t unit = 0;
  while (flops >= 1000 && unit < 5) {
    flops /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.3g %sFLOP", flops, units[unit]);
}

// "1 bin", "2,000 bins".
std::string Count(int64_t count, const std::string& noun) {
  const bool pass = noun == "pass";
  return absl::StrCat(FormatCount(count), " ", noun, count == 1 ? "" : pass ? "es" : "s");
}

class Page {
 public:
  void Row(const char* label, const std::string& text) {
    absl::StrAppendFormat(&text_, "%-14s %s\n", label, text);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// "org/name at COMMIT, /cache/..." of a model of the Hub, else the folder.
std::string PlaceOf(const config::JobSpec& job, const std::string& folder) {
  if (job.model_hub.id.empty()) return folder;
  return absl::StrCat(job.model_hub.id, " at ", job.model_hub.revision, ", ", folder);
}

// Of a mixture of experts: what a token meets, and what trains the routers.
void AddExperts(const plan::Plan& plan, const Estimate& estimate, Page& page) {
  const model::Mixture& mixture = plan.model.mixture;
  if (mixture.experts == 0) return;
  page.Row("  experts",
           absl::StrFormat("%d, %d of a token, which meets %s parameters", mixture.experts,
                           mixture.chosen, FormatCount(estimate.active_parameters)));
  const bool trained =
      std::any_of(plan.parameters.begin(), plan.parameters.end(),
                  [](const auto& p) { return model::IsRouter(p) && p.trainable(); });
  const bool adapted = plan::HasAdapterOf(plan, model::Kind::kRouter);
  const plan::RouterLosses& losses = plan.router_losses;
  std::string text =
      absl::StrFormat("%s; balancing loss x %g over a %s, z-loss x %g",
                      trained   ? "trained"
                      : adapted ? "adapted"
                                : "frozen",
                      losses.balance, losses.by_micro_batch ? "micro-batch" : "bin", losses.z);
  if (plan.router_bias_rate > 0) {
    absl::StrAppendFormat(&text, "; their bias moves by %g", plan.router_bias_rate);
  }
  page.Row("  routers", text);
}

// Of a head of scores: what it is trained by, and whether it is there.
void AddScores(const plan::DocumentLoss& loss, bool is_new, Page& page) {
  std::string text =
      absl::StrCat(loss.terms.front().type, " of ", Count(loss.labels, "score"), " a document");
  if (loss.centre > 0) absl::StrAppendFormat(&text, ", %g x squared sum of a pair", loss.centre);
  absl::StrAppend(&text, is_new ? "; a head that the base lacks" : "; the head of the base");
  page.Row("Loss", text);
}

// Of a preference method: its terms and what they compare with.
void AddLoss(const plan::Plan& plan, Page& page) {
  const plan::DocumentLoss& loss = plan.document_loss;
  if (!loss.any()) return;
  if (loss.of_scores()) return AddScores(loss, plan.model.new_head, page);
  std::string text;
  for (const plan::DocumentLossTerm& term : loss.terms) {
    absl::StrAppend(&text, text.empty() ? "" : " + ");
    if (term.weight != 1) absl::StrAppendFormat(&text, "%g x ", term.weight);
    absl::StrAppend(&text, term.type);
  }
  absl::StrAppendFormat(&text, ", beta %g; reference: %s", loss.beta,
                        loss.reference == "base"   ? "the base, computed beside each step"
                        : loss.reference == "kept" ? "the start, computed once and kept"
                                                   : "none");
  page.Row("Loss", text);
}

void AddModel(const config::JobSpec& job, const Recipe& recipe, const PlannedJob& planned,
              Page& page) {
  const Estimate& e = planned.estimate;
  const plan::Plan& plan = planned.plan;
  page.Row("Model", absl::StrCat(plan.model.architecture, ", ", PlaceOf(job, plan.model_path)));
  page.Row("  weights", recipe.weights().empty() ? "drawn at random" : recipe.weights());
  page.Row("Parameters",
           absl::StrFormat("%s total, %s trainable (%.2f %%)", FormatCount(e.total_parameters),
                           FormatCount(e.trainable_parameters),
                           100.0 * static_cast<double>(e.trainable_parameters) /
                               static_cast<double>(e.total_parameters)));
  AddExperts(plan, e, page);
  for (const plan::ParameterGroup& group : plan.groups) {
    page.Row("  group",
             absl::StrFormat("%s: %s, learning rate %g, weight decay %g", group.name,
                             Count(group.expected_elements, "element"),
                             job.train.learning_rate * group.lr_scale, group.weight_decay));
  }
  AddLoss(plan, page);
}

// "org/name at COMMIT, config main, split train[:10]".
std::string SourceText(const config::DatasetSpec& dataset) {
  std::string text = absl::StrCat(dataset.hub.id, " at ", dataset.hub.revision);
  if (dataset.converted) absl::StrAppend(&text, ", converted by the Hub");
  if (!dataset.name.empty()) absl::StrAppend(&text, ", config ", dataset.name);
  if (dataset.split) absl::StrAppend(&text, ", split ", *dataset.split);
  return text;
}

// Which of the Hub's datasets was taken, where a name might have been a path.
void AddSources(const config::JobSpec& job, Page& page) {
  for (const auto* datasets : {&job.datasets, &job.test_datasets}) {
    for (const config::DatasetSpec& dataset : *datasets) {
      if (!dataset.hub.id.empty()) page.Row("  source", SourceText(dataset));
    }
  }
}

void AddData(const config::JobSpec& job, const Recipe& recipe, const data::PreparedData& data,
             Page& page) {
  const data::DatasetStats& s = data.train_stats;
  page.Row("Data", absl::StrFormat("%s of %s, %s, %s", Count(s.documents, "document"),
                                   Count(s.records_read, "record"), Count(s.tokens, "token"),
                                   Count(s.targets, "target")));
  AddSources(job, page);
  page.Row("  left out", absl::StrFormat("%s too long, %s without target, %s bad; %s truncated",
                                         FormatCount(s.dropped_too_long), FormatCount(s.no_target),
                                         FormatCount(s.bad_records), FormatCount(s.truncated)));
  if (s.split > 0) {
    page.Row("  split", absl::StrFormat("%s into pieces of %s", Count(s.split, "record"),
                                        Count(job.sequence_len, "token")));
  }
  page.Row("  packing", absl::StrFormat("%s in the first pass, %.1f %% of slots filled",
                                        Count(recipe.bins_per_pass(0), "bin"),
                                        100 * recipe.packing_efficiency()));
  if (recipe.eval_bins().size() > 0) {
    page.Row("  evaluation",
             absl::StrFormat("%s, %s, %s", Count(data.eval_stats.documents, "document"),
                             Count(recipe.eval_tokens(), "token"),
                             Count(data.eval_stats.targets, "target")));
  }
}

// "ffn", "block", "blocks in segments of 4".
std::string RecomputeText(const plan::Plan& plan) {
  if (plan.recompute != RecomputeLevel::kBlock || plan.recompute_every == 1) {
    return ToString(plan.recompute);
  }
  return absl::StrCat("blocks in segments of ", plan.recompute_every);
}

std::string ZeroText(const plan::Plan& plan) {
  if (plan.shard == 1) return "";
  const std::string stage = absl::StrCat(", ZeRO ", plan.zero);
  if (plan.zero < 3) return stage;
  return absl::StrCat(stage, " with ", std::min<int64_t>(plan.weight_slots, plan.model.num_layers),
                      " of ", Count(plan.model.num_layers, "block"), " resident");
}

// ", LM head in chunks of 4096 tokens (1.16 GiB of logits)".
std::string HeadText(const plan::Plan& plan) {
  if (plan.model.labels > 0) return "";
  const std::string bytes = FormatBytes(static_cast<uint64_t>(plan::LogitsBytes(plan)));
  if (plan.lm_head_panel_bytes > 0) {
    return absl::StrCat(", LM head cut (", bytes, ", no logits in memory)");
  }
  return absl::StrCat(", LM head in chunks of ", plan.lm_head_chunk_tokens, " tokens (", bytes,
                      " of logits)");
}

void AddSteps(const Recipe& recipe, const plan::Plan& plan, Page& page) {
  page.Row("Steps", absl::StrFormat("%s (%s, %s of warm-up), %s", FormatCount(recipe.total_steps()),
                                    Count(recipe.passes(), "pass"),
                                    FormatCount(recipe.schedule().warmup_steps),
                                    Count(recipe.train_tokens(), "token")));
  page.Row("Global batch", absl::StrFormat("%s of %s", Count(recipe.global_batch_bins(), "bin"),
                                           Count(plan.sequence_len, "token")));
  page.Row("Mesh", absl::StrCat("replicate ", plan.replicate, " x shard ", plan.shard,
                                ZeroText(plan), plan.overlap ? "" : ", no overlap"));
  page.Row("Micro-batch", absl::StrCat(Count(plan.micro_batch_bins, "bin"), " of ",
                                       Count(plan.sequence_len, "token"), ", recompute ",
                                       RecomputeText(plan), HeadText(plan)));
}

// "cuDNN for bins of one document, tiles for packed ones".
std::string KernelsText(const PlannedJob& planned) {
  const AttentionKernels kernels = AttentionKernelsOf(planned.plan, planned.compute_capability);
  const auto name = [](std::string_view kernel) {
    return absl::StrCat(std::string(kernel), kernel == "plain" ? " kernels (slow)" : "");
  };
  const std::string single = name(kernels.single), packed = name(kernels.packed);
  if (single == packed) return packed;
  return absl::StrCat(single, " for bins of one document, ", packed, " for packed ones");
}

// "adamw, adam.m float32, adam.v float32". What several elements share says how many.
std::string OptimizerText(const plan::Plan& plan) {
  const plan::Optimizer& optimizer = plan::OptimizerOf(plan);
  std::string text = ToString(optimizer.kind);
  for (const plan::OptimizerState& state : optimizer.states) {
    absl::StrAppend(&text, ", ", state.row, " ", plan::StorageName(state.storage));
    if (state.block > 1) absl::StrAppend(&text, " of ", state.block);
  }
  return text;
}

// Where a quantised base becomes values.
std::string DequantizedText(const plan::Plan& plan) {
  const int64_t experts = plan.experts_at_once;
  if (experts == 0) return "dequantised into slots of two blocks";
  const std::string few = absl::StrCat("experts dequantised ", experts, " at a time");
  if (plan.quantization == Quantization::kMxfp4) return few;
  return absl::StrCat(few, ", the others into slots of two blocks");
}

// Of the rows that keep codes beside weights.
uint64_t KeptCodeBytes(const plan::Plan& plan) {
  std::set<std::string> rows;
  const auto visit = [&rows](const auto& linear, int64_t layer) {
    rows.insert(plan::KeptWeightRow(linear, layer));
    rows.insert(plan::KeptTurnedWeightRow(linear, layer));
  };
  plan::VisitFp8Linears(plan, visit);
  plan::VisitFp8Experts(plan, visit);
  uint64_t bytes = 0;
  for (const plan::Buffer& row : plan.buffers) {
    if (rows.count(row.name) > 0) bytes += static_cast<uint64_t>(row.bytes);
  }
  return bytes;
}

// When weights are quantised. Experts are gathered as values.
std::string WeightCodesText(const plan::Plan& plan, const Fp8Count& count) {
  if (plan.fp8.keeps_weights) {
    return absl::StrCat("codes of weights kept (", FormatBytes(KeptCodeBytes(plan)), ")");
  }
  if (!plan::GathersCodes(plan) || plan::CountCodedWeights(plan) == 0) {
    return "weights quantised as they are read";
  }
  return absl::StrCat("weights quantised as they are gathered",
                      count.experts_in_fp8 > 0 ? ", those of experts as they are read" : "");
}

// " and 96 of 96 stacks of experts (gradients of their weights in bfloat16)". Empty without
// experts.
std::string Fp8ExpertsText(const plan::Plan& plan, const Fp8Count& count) {
  if (count.all_experts == 0) return "";
  std::string text =
      absl::StrCat(" and ", count.experts_in_fp8, " of ", count.all_experts, " stacks of experts");
  bool trained = false;
  plan::VisitFp8Experts(plan, [&](const auto& experts, int64_t layer) {
    trained = trained || plan::TrainsWeight(plan, experts, layer);
  });
  if (!trained) return text;
  return absl::StrCat(text, " (gradients of their weights in ", ToString(plan.compute_dtype), ")");
}

std::string Fp8Text(const plan::Plan& plan) {
  const Fp8Count count = CountFp8(plan);
  return absl::StrCat(count.in_fp8, " of ", count.all, " linears", Fp8ExpertsText(plan, count),
                      " in FP8, ", plan::NameOf(plan.fp8.recipe), ", gradients ",
                      plan.fp8.e4m3_gradients ? "E4M3" : "E5M2", ", ",
                      WeightCodesText(plan, count));
}

// "forward in FP8, heads 128 wide, 301 MiB of workspace for codes".
std::string Fp8AttentionText(const plan::Plan& plan) {
  const int64_t keys = plan.model.head_dim, values = plan.model.value_dim();
  std::string text = absl::StrCat("forward in FP8, heads ", keys, " wide");
  if (values != keys) absl::StrAppend(&text, ", of values ", values);
  if (plan.device != DeviceKind::kCuda) return text;
  return absl::StrCat(text, ", ", FormatBytes(static_cast<uint64_t>(Fp8AttentionBytes(plan))),
                      " of workspace for codes");
}

// "FP8, 111 MiB of the linears of a block instead of 222 MiB; it saves 300 MiB a rank". Empty:
// values are gathered.
std::string GatherText(const plan::Plan& plan) {
  if (!plan::GathersCodes(plan) || plan::CountCodedWeights(plan) == 0) return "";
  const plan::GatheredBytes bytes = plan::GatheredBytesOf(plan);
  std::string text = absl::StrCat("FP8, ", FormatBytes(static_cast<uint64_t>(bytes.codes)),
                                  " of the linears of a block instead of ",
                                  FormatBytes(static_cast<uint64_t>(bytes.values)));
  if (plan.generates()) return text + "; answers to prompts gather values into the same slots";
  plan::Plan values = plan;
  values.fp8.gathers_codes = false;
  values.buffers = BufferTable(values);
  const int64_t saved = static_cast<int64_t>(PlannedMemory(values).total()) -
                        static_cast<int64_t>(PlannedMemory(plan).total());
  if (saved <= 0) return text;
  return absl::StrCat(text, "; it saves ", FormatBytes(static_cast<uint64_t>(saved)), " a rank");
}

// Source: bench/results/papers_fp8.json: the farthest seed from bfloat16's held-back loss.
const char* Fp8Quality(plan::Fp8Recipe recipe) {
  switch (recipe) {
    case plan::Fp8Recipe::kNone:
      break;
    case plan::Fp8Recipe::kTensorwise:
      return "held-back loss within 0.2 % of bfloat16's (0.5B, 1,000 steps, three seeds)";
    case plan::Fp8Recipe::kRowwise:
      return "held-back loss within 0.2 % of bfloat16's (0.5B, 1,000 steps, one seed)";
    case plan::Fp8Recipe::kBlockwise:
      return "held-back loss within 0.1 % of bfloat16's (0.5B, 1,000 steps, three seeds)";
    case plan::Fp8Recipe::kDelayed:
      return "held-back loss within 0.1 % of bfloat16's (0.5B, 1,000 steps, one seed)";
  }
  return "";
}

// What was measured of attention in FP8 beside the linears. Source: bench/results/papers_fp8.json.
const char* Fp8AttentionQuality(const plan::Fp8& fp8) {
  if (!fp8.attention) return "";
  const bool measured =
      fp8.recipe == plan::Fp8Recipe::kTensorwise || fp8.recipe == plan::Fp8Recipe::kBlockwise;
  return measured ? "; with attention in FP8 within 0.3 %" : "; of attention not measured";
}

// What computes, in which number formats.
void AddDevice(const config::JobSpec& job, const Recipe& recipe, const PlannedJob& planned,
               Page& page) {
  const plan::Plan& plan = planned.plan;
  std::string text =
      absl::StrCat(ToString(plan.device), ", compute ", ToString(plan.compute_dtype));
  if (plan.compute_dtype == Precision::kBfloat16) {
    const bool rounded = plan.master_dtype == Precision::kBfloat16 && plan::TrainsBase(plan);
    absl::StrAppend(&text, ", masters ", rounded ? "bfloat16 (stochastic rounding)" : "float32",
                    ", gradients ",
                    plan::TrainsBase(plan) ? ToString(plan.gradient_dtype) : "float32");
  }
  page.Row("Device", text);
  if (plan.fp8.recipe != plan::Fp8Recipe::kNone) {
    page.Row("  products", Fp8Text(plan));
    if (plan.fp8.attention) page.Row("  attention", Fp8AttentionText(plan));
    const bool experts = CountFp8(plan).experts_in_fp8 > 0;
    page.Row("  quality",
             absl::StrCat(Fp8Quality(plan.fp8.recipe), experts ? "; of experts not measured" : "",
                          Fp8AttentionQuality(plan.fp8)));
    const std::string gather = GatherText(plan);
    if (!gather.empty()) page.Row("  gather", gather);
  }
  const std::string sum = GradientSumText(job, recipe.global_batch_bins(), plan);
  if (!sum.empty()) page.Row("  sums", absl::StrCat("of gradients in bfloat16: ", sum));
  if (plan.quantization != Quantization::kNone) {
    const bool experts = plan.quantization == Quantization::kMxfp4;
    page.Row(
        "  base",
        absl::StrCat(experts ? "experts in " : "linears of blocks in ", ToString(plan.quantization),
                     experts ? ", 4.25 bits an element" : "", ", ", DequantizedText(plan)));
  }
  page.Row("  optimizer", OptimizerText(plan));
  page.Row("  fused", plan.fusions.empty() ? "no ops" : absl::StrJoin(plan.fusions, ", "));
  if (plan.device != DeviceKind::kCuda) return;
  page.Row("Attention",
           absl::StrFormat("%s, %s, workspace at most %s%s", KernelsText(planned),
                           plan.attention_deterministic ? "deterministic" : "not deterministic",
                           FormatBytes(static_cast<uint64_t>(plan.attention_workspace_bytes)),
                           job.attention_workspace_gib.has_value() ? "" : " (auto)"));
}

// What the prediction rests on.
std::string Assumption(const PlannedJob& planned) {
  const Estimate& e = planned.estimate;
  if (planned.plan.device != DeviceKind::kCuda) {
    return absl::StrFormat("assuming %s/s per worker thread, %s each",
                           FormatFlops(kFlopsPerSecondPerThread), Count(e.threads, "thread"));
  }
  const Gpu& gpu = planned.gpu;
  const std::string mfu = e.mfu > 0 ? absl::StrFormat("MFU %.0f %%, ", 100 * e.mfu) : "";
  return absl::StrFormat("%sat %s %s: %s/s in bfloat16 products, %.2f TB/s", mfu,
                         gpu.probed ? "rates that its worker measured on one" : "the rates of one",
                         gpu.name, FormatFlops(gpu.rates->product_flops_per_second),
                         gpu.rates->copy_bytes_per_second / 1e12);
}

std::string PredictedText(const PlannedJob& planned) {
  if (planned.plan.device == DeviceKind::kCuda && !planned.gpu.rates) {
    return planned.gpu.name.empty()
               ? "no time: no GPU is known here; cox plan --gpu H200 plans for one by name"
               : absl::StrCat("not measured on this GPU (", planned.gpu.name, ")");
  }
  return absl::StrFormat("%s tokens/s, %s in all, %s",
                         FormatCount(std::llround(planned.estimate.tokens_per_second)),
                         FormatSeconds(planned.estimate.seconds), Assumption(planned));
}

// Milliseconds of a step.
void AddCommunication(const plan::Plan& plan, Page& page) {
  if (plan.world_size() == 1) return;
  const plan::Prediction& p = plan.predicted;
  const plan::LinkSpeed& fastest = plan.links.back();
  const std::string exposed =
      p.step_seconds > 0
          ? absl::StrFormat("%.3g ms of them (%.1f %% of the step) not hidden",
                            1e3 * p.exposed_seconds, 100 * p.exposed_seconds / p.step_seconds)
          : "how much of it is hidden is not known";
  page.Row(
      "Communication",
      absl::StrFormat("%.3g ms a step, %s, %s %.3g GB/s at %s", 1e3 * p.comm_seconds, exposed,
                      plan.links_measured ? "measured" : "assuming", fastest.bytes_per_second / 1e9,
                      FormatBytes(static_cast<uint64_t>(fastest.bytes))));
}

void AddEstimate(const PlannedJob& planned, Page& page) {
  const Estimate& e = planned.estimate;
  page.Row("Memory/rank", FormatBytes(e.total_bytes));
  const std::pair<const char*, uint64_t> classes[] = {{"  weights", e.weights},
                                                      {"  gradients", e.gradients},
                                                      {"  optimizer", e.optimizer},
                                                      {"  activations", e.activations},
                                                      {"  workspace", e.workspace}};
  for (const auto& [label, bytes] : classes) page.Row(label, FormatBytes(bytes));
  if (e.runtime > 0) page.Row("  runtime", FormatBytes(e.runtime) + ", CUDA's");
  if (e.communication > 0) page.Row("  NCCL", FormatBytes(e.communication));
  if (e.host > 0) {
    page.Row("Host memory",
             absl::StrCat(FormatBytes(e.host), " per rank, snapshots, ",
                          e.snapshot_in_slices ? "copied in slices" : "page-locked"));
  }
  page.Row("Checkpoint", FormatBytes(e.checkpoint) + " of storage each");
  page.Row("Compute", FormatFlops(e.flops_per_token) + " per token");
  page.Row("Predicted", PredictedText(planned));
}

}  // namespace

std::string FormatPlan(const config::JobSpec& job, const Recipe& recipe, const PlannedJob& planned,
                       const data::PreparedData& data) {
  Page page;
  page.Row("Job", job.name);
  AddModel(job, recipe, planned, page);
  AddData(job, recipe, data, page);
  AddSteps(recipe, planned.plan, page);
  AddDevice(job, recipe, planned, page);
  AddEstimate(planned, page);
  AddCommunication(planned.plan, page);
  page.Row("Recipe", ToHex(recipe.hash()).substr(0, 16));
  page.Row("Plan", ToHex(planned.hash).substr(0, 16));
  for (const UnusualSetting& setting : UnusualSettings(job)) page.Row("Unusual", setting.Text());
  for (const std::string& line : planned.advice) page.Row("Advice", line);
  for (const std::string& line : data.warnings) page.Row("Warning", line);
  return page.Take();
}

}  // namespace coxswain::planner
