#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "absl/strings/str_cat.h"
#include "common/faults/failure_kind.h"
#include "common/files/hash.h"
#include "common/format.h"
#include "controller/folders/verification.h"
#include "controller/state/job_state.h"
#include "controller/status_page/curve.h"
#include "controller/status_page/views.h"

namespace coxswain::status_page {
namespace {

using nlohmann::json;

constexpr size_t kMaxRanks = 40;
constexpr size_t kMaxCheckpoints = 10;
constexpr size_t kTextBytes = 4000;
constexpr size_t kMaxSamples = 8, kSampleBytes = 700;
constexpr size_t kHashBytes = 6;  // of a hash, as cox describe shows it

void AddFact(const std::string& name, const std::string& text, json* fields) {
  if (!text.empty()) {
    (*fields)["FACTS"].push_back({{"NAME", name}, {"TEXT", Shortened(text, kTextBytes)}});
  }
}

std::string MomentText(int64_t unix_ms, int64_t now) {
  if (unix_ms == 0) return "";
  const std::string iso = FormatTime(unix_ms);
  return fmt::format("{} {} UTC ({} ago)", iso.substr(0, 10), iso.substr(11, 8),
                     FormatDuration(static_cast<double>(now - unix_ms) * 1e-3));
}

std::string LabelsText(const v1::Job& job) {
  std::vector<std::string> labels;
  for (const auto& [key, value] : job.labels()) labels.push_back(absl::StrCat(key, "=", value));
  std::sort(labels.begin(), labels.end());
  return fmt::format("{}", fmt::join(labels, ", "));
}

void AddPlan(const v1::Plan& plan, json* fields) {
  AddFact("Mesh", fmt::format("{} replicate x {} shard", plan.replicate(), plan.shard()), fields);
  AddFact("Micro-batch",
          fmt::format("{} x {} tokens", plan.micro_batch_bins(), FormatCount(plan.sequence_len())),
          fields);
  AddFact("Recompute", plan.recompute(), fields);
  AddFact("Precision",
          fmt::format("{} compute, {} master weights", plan.compute_dtype(), plan.master_dtype()),
          fields);
  if (plan.lora().rank() > 0) {
    AddFact("Adapter",
            fmt::format("rank {}, scale {:.3g}{}", plan.lora().rank(), plan.lora().scale(),
                        plan.lora().dora() ? ", DoRA" : ""),
            fields);
  }
  for (const v1::ParameterGroup& group : plan.groups()) {
    AddFact("Trains " + group.name(),
            fmt::format("{} elements, rate x {:.3g}", FormatCount(group.expected_elements()),
                        group.lr_scale()),
            fields);
  }
  const v1::ModelConfig& model = plan.model();
  AddFact("Architecture",
          fmt::format("{}, {} layers, hidden {}", model.architecture(), model.num_layers(),
                      FormatCount(model.hidden_size())),
          fields);
}

void AddFacts(const JobPage& page, json* fields) {
  const v1::Job& job = page.detail.row.job;
  const int64_t now = page.detail.unix_ms;
  AddFact("Name", job.name(), fields);
  AddFact("Labels", LabelsText(job), fields);
  AddFact("Method", job.method(), fields);
  AddFact("Base model", job.base_model(), fields);
  AddFact("Device",
          job.resources_reason().empty()
              ? job.device()
              : fmt::format("{} ({})", job.device(), job.resources_reason()),
          fields);
  AddFact("Workers",
          fmt::format("{}, priority {}, gang {}, {} restarts",
                      job.workers() > 0 ? std::to_string(job.workers()) : "auto", job.priority(),
                      job.epoch(), job.restarts()),
          fields);
  if (job.has_setback()) {
    AddFact("Waits, after",
            fmt::format("{}: {}", FailureSubject(job.setback().kind()), job.setback().message()),
            fields);
  }
  if (page.plan != nullptr) AddPlan(*page.plan, fields);
  if (job.has_data() && job.data().documents() > 0) {
    AddFact("Data",
            fmt::format("{} documents, {} tokens, {} targets; {} bins, {:.1f} % filled",
                        FormatCount(job.data().documents()), FormatCount(job.data().tokens()),
                        FormatCount(job.data().targets()), FormatCount(job.data().bins()),
                        100 * job.data().packing_efficiency()),
            fields);
  }
  AddFact("Recipe", ToHex(job.recipe_hash().substr(0, kHashBytes)), fields);
  AddFact("Plan", ToHex(job.plan_hash().substr(0, kHashBytes)), fields);
  AddFact("Created", MomentText(job.created_unix_ms(), now), fields);
  AddFact("Started", MomentText(job.started_unix_ms(), now), fields);
  AddFact("Finished", MomentText(job.finished_unix_ms(), now), fields);
  AddFact("Artifact", job.artifact_dir(), fields);
  AddFact("Merged model", job.merged_dir(), fields);
  for (const v1::Verification& verification : job.verifications()) {
    AddFact("Read back", VerificationText(verification), fields);
  }
}

uint64_t Sum(const v1::MemoryBytes& m) {
  return m.weights() + m.gradients() + m.optimizer() + m.activations() + m.workspace();
}

void AddMemory(const v1::Job& job, json* fields) {
  if (!job.has_planned_memory() && !job.has_measured_memory()) {
    (*fields)["NO_MEMORY"] = true;
    return;
  }
  const v1::MemoryBytes& planned = job.planned_memory();
  const v1::MemoryBytes& measured = job.measured_memory();
  json& memory = (*fields)["MEMORY"];
  const auto add = [&](const char* name, uint64_t plan, uint64_t seen) {
    json row = {{"NAME", name}, {"FIELD", name}};
    if (job.has_planned_memory()) row["PLANNED"] = Bytes(plan);
    if (job.has_measured_memory()) row["MEASURED"] = Bytes(seen);
    if (Sum(planned) > 0) {
      const double percent = 100 * static_cast<double>(plan) / static_cast<double>(Sum(planned));
      row["SHARE"] = {{"TEXT", fmt::format("{:.1f}", percent)}, {"NAME", name}};
    }
    memory["CLASSES"].push_back(std::move(row));
  };
  add("weights", planned.weights(), measured.weights());
  add("gradients", planned.gradients(), measured.gradients());
  add("optimizer", planned.optimizer(), measured.optimizer());
  add("activations", planned.activations(), measured.activations());
  add("workspace", planned.workspace(), measured.workspace());
  if (job.has_planned_memory()) memory["PLANNED_TOTAL"] = Bytes(Sum(planned));
  if (job.has_measured_memory()) {
    memory["MEASURED_TOTAL"] = Bytes(Sum(measured));
    memory["PEAK"] = Bytes(measured.peak());
  }
}

void AddRanks(const JobDetail& detail, json* fields) {
  if (detail.ranks.empty()) {
    (*fields)["NO_RANKS"] = true;
    return;
  }
  json& table = (*fields)["RANKS_TABLE"];
  table["EPOCH"] = std::to_string(detail.row.job.epoch());
  table["PHASE"] = detail.row.gang.phase;
  for (size_t rank = 0; rank < std::min(detail.ranks.size(), kMaxRanks); ++rank) {
    json row = {{"ID", detail.ranks[rank].target.id}, {"STATE", "LOST"}};
    for (const v1::WorkerInfo& worker : detail.workers) {
      if (worker.incarnation() == detail.ranks[rank].target.incarnation) row = WorkerFields(worker);
    }
    row["RANK"] = std::to_string(rank);
    if (Sum(detail.ranks[rank].memory) > 0)
      row["ALLOCATED"] = Bytes(Sum(detail.ranks[rank].memory));
    table["RANKS"].push_back(std::move(row));
  }
  if (detail.ranks.size() > kMaxRanks) {
    table["RANKS_LEFT_OUT"] = Count(static_cast<int64_t>(detail.ranks.size() - kMaxRanks));
  }
}

void AddCheckpoints(const v1::Job& job, int64_t now, json* fields) {
  if (job.checkpoints().empty()) {
    (*fields)["NO_CHECKPOINTS"] = true;
    return;
  }
  json& table = (*fields)["CHECKPOINTS_TABLE"];
  const int first = std::max(0, job.checkpoints_size() - static_cast<int>(kMaxCheckpoints));
  for (int i = job.checkpoints_size() - 1; i >= first; --i) {
    const v1::CheckpointInfo& info = job.checkpoints(i);
    json row = {{"STEP", FormatCount(info.step())},
                {"SIZE", Bytes(static_cast<uint64_t>(info.bytes()))},
                {"TIME", Moment(info.committed_unix_ms(), now)},
                {"DIRECTORY", info.directory()}};
    if (info.has_eval()) row["CHECKPOINT_EVAL"] = Real(info.eval_loss(), 4);
    table["CHECKPOINTS"].push_back(std::move(row));
  }
  if (first > 0) table["CHECKPOINTS_LEFT_OUT"] = Count(first);
}

// Side by side: before training and now.
void AddSamples(const v1::Job& job, json* fields) {
  const int shown = std::min(job.samples_size(), static_cast<int>(kMaxSamples));
  if (shown == 0) return;
  json& table = (*fields)["SAMPLES_TABLE"];
  table["FIRST_STEP"] = FormatCount(job.samples(0).first_step());
  table["NEWEST_STEP"] = FormatCount(job.samples(0).step());
  for (int i = 0; i < shown; ++i) {
    const v1::SampleAnswers& sample = job.samples(i);
    table["SAMPLES"].push_back({{"PROMPT_NUMBER", std::to_string(i + 1)},
                                {"PROMPT", Shortened(sample.prompt(), kSampleBytes)},
                                {"BEFORE", Shortened(sample.first_answer(), kSampleBytes)},
                                {"AFTER", Shortened(sample.answer(), kSampleBytes)}});
  }
  if (job.samples_size() > shown) {
    table["SAMPLES_LEFT_OUT"] = Count(job.samples_size() - shown);
  }
}

void AddSteps(const History& history, json* fields) {
  const auto& steps = history.newest_steps();
  for (auto point = steps.rbegin(); point != steps.rend(); ++point) {
    (*fields)["STEPS"].push_back({{"STEP", FormatCount(point->step)},
                                  {"LOSS", Real(point->loss, 4)},
                                  {"GRAD_NORM", Real(point->grad_norm, 4)},
                                  {"LEARNING_RATE", Scientific(point->learning_rate)},
                                  {"TOKENS", FormatCount(point->tokens)},
                                  {"RATE", Whole(point->tokens_per_second)["TEXT"]},
                                  {"SECONDS", fmt::format("{:.3f}", point->seconds)}});
  }
  if (steps.empty()) (*fields)["NO_STEPS"] = true;
}

json MoreCurve(const std::string& job, const History& history, Curve curve,
               double StepPoint::*member) {
  for (const StepPoint& point : history.steps()) curve.line.emplace_back(point.step, point.*member);
  curve.from_zero = true;
  return CurveFields(curve, job, History::kCurvePoints + 1);
}

}  // namespace

json JobFields(const JobPage& page) {
  const v1::Job& job = page.detail.row.job;
  const int64_t now = page.detail.unix_ms;
  json fields = JobSummaryFields(page.detail.row, now);
  fields[">head"] = {{"TITLE", job.id() + " - Coxswain"}};
  fields["NOW"] = Moment(now, now);
  fields["WHY"] = page.detail.why;
  if (job.has_error()) {
    const v1::Error& error = job.error();
    const std::string where =
        error.rank() >= 0 && !error.host().empty()
            ? fmt::format("rank {} on {}, in {}", error.rank(), error.host(), error.phase())
            : error.phase();
    fields["ERROR"] = {
        {"CODE", error.code()}, {"WHERE", where}, {"TEXT", Shortened(error.message(), kTextBytes)}};
    fields["WHY"] = "";
  }
  const size_t all = History::kCurvePoints + 1;
  fields[">curve"] = {
      LossCurveFields(job.id(), page.history, all), RateCurveFields(job.id(), page.history, all),
      MoreCurve(job.id(), page.history,
                {.name = "grad_norm",
                 .title = "Gradient norm",
                 .line = {},
                 .line_name = "of all ranks, before clipping"},
                &StepPoint::grad_norm),
      MoreCurve(
          job.id(), page.history,
          {.name = "learning_rate", .title = "Learning rate", .line = {}, .line_name = "base rate"},
          &StepPoint::learning_rate)};
  if (page.history.stride() > 1) fields["STRIDE"] = Count(page.history.stride());
  if (page.catching_up) fields["CATCHING_UP"] = true;
  AddFacts(page, &fields);
  AddMemory(job, &fields);
  AddRanks(page.detail, &fields);
  AddCheckpoints(job, now, &fields);
  AddSamples(job, &fields);
  AddSteps(page.history, &fields);
  const auto& events = page.history.newest_events();
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    fields["EVENTS"].push_back(EventFields(*event, now));
  }
  if (events.empty()) fields["NO_EVENTS"] = true;
  return fields;
}

json PointsJson(const std::string& job, const History& history) {
  json points = {{"job", job}};
  for (const char* name :
       {"step", "loss", "grad_norm", "learning_rate", "tokens_per_second", "evals"}) {
    points[name] = json::array();
  }
  for (const StepPoint& point : history.steps()) {
    points["step"].push_back(point.step);
    points["loss"].push_back(point.loss);
    points["grad_norm"].push_back(point.grad_norm);
    points["learning_rate"].push_back(point.learning_rate);
    points["tokens_per_second"].push_back(point.tokens_per_second);
  }
  for (const EvalPoint& point : history.evals()) {
    points["evals"].push_back({{"step", point.step}, {"loss", point.loss}});
  }
  return points;
}

}  // namespace coxswain::status_page
