#include <nlohmann/json.hpp>

#include "common/files/hash.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/gradient_sum.h"
#include "common/plan/optimizer_states.h"
#include "controller/planner/layout/gradient_sum.h"
#include "controller/planner/memory/attention_kernels.h"
#include "controller/planner/memory/attention_workspace.h"
#include "controller/planner/model/fp8_linears.h"
#include "controller/planner/planner.h"
#include "controller/planner/usual_settings.h"

namespace coxswain::planner {
namespace {

using Json = nlohmann::ordered_json;

Json SourcesJson(const std::vector<config::DatasetSpec>& datasets) {
  Json list = Json::array();
  for (const config::DatasetSpec& dataset : datasets) {
    list.push_back({{"path", dataset.path},
                    {"hub", dataset.hub.id},
                    {"revision", dataset.hub.revision},
                    {"name", dataset.name},
                    {"split", dataset.split ? Json(*dataset.split) : Json(nullptr)}});
  }
  return list;
}

Json DataJson(const config::JobSpec& job, const Recipe& recipe, const data::PreparedData& data) {
  const data::DatasetStats& s = data.train_stats;
  return {{"sources", SourcesJson(job.datasets)},
          {"test_sources", SourcesJson(job.test_datasets)},
          {"records_read", s.records_read},
          {"documents", s.documents},
          {"dropped_too_long", s.dropped_too_long},
          {"truncated", s.truncated},
          {"split", s.split},
          {"bad_records", s.bad_records},
          {"no_target", s.no_target},
          {"turns",
           {{"rewritten", s.turns.rewritten},
            {"as_said", s.turns.as_said},
            {"unended", s.turns.unended},
            {"without_calls", s.turns.without_calls},
            {"without_thought", s.turns.without_thought}}},
          {"tokens", s.tokens},
          {"targets", s.targets},
          {"longest_document", s.longest_document},
          {"bins_first_pass", recipe.bins_per_pass(0)},
          {"packing_efficiency", recipe.packing_efficiency()},
          {"slots_lost_to_most_documents", recipe.slots_lost_to_most_documents()},
          {"eval_documents", data.eval_stats.documents},
          {"eval_tokens", recipe.eval_tokens()},
          {"eval_targets", data.eval_stats.targets},
          {"eval_bins", recipe.eval_bins().size()}};
}

Json GroupsJson(const config::JobSpec& job, const plan::Plan& plan) {
  Json groups = Json::array();
  for (const plan::ParameterGroup& group : plan.groups) {
    groups.push_back({{"name", group.name},
                      {"elements", group.expected_elements},
                      {"learning_rate", job.train.learning_rate * group.lr_scale},
                      {"weight_decay", group.weight_decay}});
  }
  return groups;
}

Json UnusualJson(const config::JobSpec& job) {
  Json settings = Json::array();
  for (const UnusualSetting& setting : UnusualSettings(job)) {
    settings.push_back({{"key", setting.key},
                        {"value", setting.value},
                        {"usual", setting.usual},
                        {"tools", setting.tools},
                        {"meaning", setting.meaning}});
  }
  return settings;
}

Json ScheduleJson(const Recipe& recipe) {
  return {{"total_steps", recipe.total_steps()},
          {"passes", recipe.passes()},
          {"warmup_steps", recipe.schedule().warmup_steps},
          {"global_batch_bins", recipe.global_batch_bins()},
          {"train_tokens", recipe.train_tokens()}};
}

// Of cuda: what the fastest algorithm needs, taken or not.
Json AttentionJson(const config::JobSpec& job, const PlannedJob& planned) {
  const plan::Plan& plan = planned.plan;
  return {{"auto", !job.attention_workspace_gib.has_value()},
          {"fastest_bytes", plan.device == DeviceKind::kCuda
                                ? FastestAttentionBytes(plan, planned.compute_capability)
                                : 0}};
}

Json AttentionKernelsJson(const PlannedJob& planned) {
  if (planned.plan.device != DeviceKind::kCuda) return nullptr;
  const AttentionKernels kernels = AttentionKernelsOf(planned.plan, planned.compute_capability);
  return {{"single_document_bins", kernels.single}, {"packed_bins", kernels.packed}};
}

// States by name, each with its storage.
Json OptimizerJson(const plan::Plan& plan) {
  const plan::Optimizer& optimizer = plan::OptimizerOf(plan);
  Json states = Json::object();
  for (const plan::OptimizerState& state : optimizer.states) {
    states[state.row] = plan::StorageName(state.storage);
  }
  return {{"name", ToString(optimizer.kind)}, {"states", states}};
}

Json Fp8Json(const plan::Plan& plan) {
  if (plan.fp8.recipe == plan::Fp8Recipe::kNone) return nullptr;
  const Fp8Count count = CountFp8(plan);
  return {{"recipe", plan::NameOf(plan.fp8.recipe)},
          {"gradients", plan.fp8.e4m3_gradients ? "e4m3" : "e5m2"},
          {"keeps_activations", plan.fp8.keeps_activations},
          {"keeps_weights", plan.fp8.keeps_weights},
          {"gathers_codes", plan::GathersCodes(plan)},
          {"linears", count.in_fp8},
          {"of_linears", count.all},
          {"experts", count.experts_in_fp8},
          {"of_experts", count.all_experts},
          {"attention", plan.fp8.attention},
          {"attention_bytes", plan.device == DeviceKind::kCuda ? Fp8AttentionBytes(plan) : 0}};
}

Json LayoutJson(const config::JobSpec& job, const Recipe& recipe, const PlannedJob& planned) {
  const plan::Plan& plan = planned.plan;
  return {{"replicate", plan.replicate},
          {"shard", plan.shard},
          {"zero", plan.zero},
          {"weight_slots", plan.weight_slots},
          {"experts_at_once", plan.experts_at_once},
          {"overlap", plan.overlap},
          {"sequence_len", plan.sequence_len},
          {"micro_batch_bins", plan.micro_batch_bins},
          {"recompute", ToString(plan.recompute)},
          {"recompute_every", plan.recompute_every},
          {"lm_head_chunk_tokens", plan.lm_head_chunk_tokens},
          {"lm_head", plan.lm_head_panel_bytes > 0 ? "cut" : "chunked"},
          {"lm_head_bytes", plan.model.labels > 0 ? 0 : plan::LogitsBytes(plan)},
          {"device", ToString(plan.device)},
          {"compute_dtype", ToString(plan.compute_dtype)},
          {"fp8", Fp8Json(plan)},
          {"quantization", plan.quantization == Quantization::kNone
                               ? Json(nullptr)
                               : Json(ToString(plan.quantization))},
          {"master_dtype", ToString(plan.master_dtype)},
          {"gradient_dtype", ToString(plan.gradient_dtype)},
          {"gradient_sum", plan::GradientSumName(plan.gradient_sum)},
          {"gradient_terms", GradientTermsOfStep(recipe.global_batch_bins(), plan)},
          {"optimizer", OptimizerJson(plan)},
          {"fusions", plan.fusions},
          {"attention_kernels", AttentionKernelsJson(planned)},
          {"attention_deterministic", plan.attention_deterministic},
          {"attention_workspace_bytes", plan.attention_workspace_bytes},
          {"attention_workspace", AttentionJson(job, planned)}};
}

// Null where the rates of the GPU are not known.
Json RateJson(const std::optional<GpuRates>& rates, double GpuRates::*rate) {
  return rates ? Json((*rates).*rate) : Json(nullptr);
}

Json PredictedJson(const PlannedJob& planned) {
  const Estimate& e = planned.estimate;
  const plan::Plan& plan = planned.plan;
  const Gpu& gpu = planned.gpu;
  const bool cuda = plan.device == DeviceKind::kCuda;
  const auto known = [&](double seconds) {
    return cuda && !gpu.rates ? Json(nullptr) : Json(seconds);
  };
  Json json = {{"tokens_per_second", known(e.tokens_per_second)},
               {"seconds", known(e.seconds)},
               {"step_seconds", known(plan.predicted.step_seconds)},
               {"comm_seconds_per_step", plan.predicted.comm_seconds},
               {"exposed_seconds_per_step", known(plan.predicted.exposed_seconds)}};
  json["links_measured"] = plan.links_measured;
  for (const plan::LinkSpeed& link : plan.links) {
    json["links"].push_back({{"bytes", link.bytes}, {"bytes_per_second", link.bytes_per_second}});
  }
  if (cuda) {
    json["gpu"] = gpu.name.empty() ? Json(nullptr) : Json(gpu.name);
    json["mfu"] = e.mfu > 0 ? Json(e.mfu) : Json(nullptr);
    json["rates"] = !gpu.rates ? Json(nullptr) : Json(gpu.probed ? "probe" : "table");
    json["assumed_flops_per_second"] = RateJson(gpu.rates, &GpuRates::product_flops_per_second);
    json["assumed_bytes_per_second"] = RateJson(gpu.rates, &GpuRates::copy_bytes_per_second);
  } else {
    json["assumed_flops_per_second_per_thread"] = kFlopsPerSecondPerThread;
    json["assumed_threads_per_worker"] = e.threads;
  }
  return json;
}

}  // namespace

std::string PlanJson(const config::JobSpec& job, const Recipe& recipe, const PlannedJob& planned,
                     const data::PreparedData& data) {
  const Estimate& e = planned.estimate;
  const Json json = {{"job", planned.plan.job},
                     {"name", job.name},
                     {"recipe_hash", ToHex(recipe.hash())},
                     {"plan_hash", ToHex(planned.hash)},
                     {"model",
                      {{"path", planned.plan.model_path},
                       {"hub", job.model_hub.id},
                       {"revision", job.model_hub.revision},
                       {"weights", recipe.weights()},
                       {"architecture", planned.plan.model.architecture},
                       {"total_parameters", e.total_parameters},
                       {"trainable_parameters", e.trainable_parameters},
                       {"active_parameters", e.active_parameters}}},
                     {"groups", GroupsJson(job, planned.plan)},
                     {"data", DataJson(job, recipe, data)},
                     {"schedule", ScheduleJson(recipe)},
                     {"layout", LayoutJson(job, recipe, planned)},
                     {"memory_bytes_per_rank",
                      {{"weights", e.weights},
                       {"gradients", e.gradients},
                       {"optimizer", e.optimizer},
                       {"activations", e.activations},
                       {"workspace", e.workspace},
                       {"runtime", e.runtime},
                       {"communication", e.communication},
                       {"total", e.total_bytes},
                       {"host", e.host}}},
                     {"checkpoint_bytes", e.checkpoint},
                     {"flops_per_token", e.flops_per_token},
                     {"predicted", PredictedJson(planned)},
                     {"unusual", UnusualJson(job)},
                     {"advice", planned.advice},
                     {"warnings", data.warnings}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace coxswain::planner
