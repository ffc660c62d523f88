// What the overview and the page of a job have in common.
#include <algorithm>

#include <fmt/format.h>

#include "common/format.h"
#include "controller/state/job_state.h"
#include "controller/status_page/curve.h"
#include "controller/status_page/views.h"

namespace coxswain::status_page {
namespace {

using nlohmann::json;

constexpr size_t kErrorBytes = 300;
constexpr size_t kMessageBytes = 300;

void AddProgress(const v1::Job& job, json* fields) {
  const v1::Progress& p = job.progress();
  json& out = *fields;
  if (p.total_steps() > 0) {
    out["STEP"] = Count(p.step());
    out["TOTAL_STEPS"] = Count(p.total_steps());
  }
  if (p.step() > 0) {
    out["LOSS"] = Real(p.loss(), 4);
    out["GRAD_NORM"] = Real(p.grad_norm(), 4);
    out["LEARNING_RATE"] = Scientific(p.learning_rate());
    out["TOKENS_PER_SECOND"] = Whole(p.tokens_per_second());
    out["TOKENS"] = Count(p.tokens());
  }
  if (p.has_preference() && p.preference().of() == v1::Preference::LABELS) {
    out["LABEL_ACCURACY"] = Real(p.preference().accuracies(), 3);
  } else if (p.has_preference()) {
    out["REWARD_CHOSEN"] = Real(p.preference().rewards_chosen(), 4);
    out["REWARD_REJECTED"] = Real(p.preference().rewards_rejected(), 4);
    if (p.preference().pairs()) out["REWARD_ACCURACY"] = Real(p.preference().accuracies(), 3);
  }
  if (p.has_experts()) {
    out["EXPERT_LOAD"] = Real(p.experts().load_ratio(), 2);
    out["UNUSED_EXPERTS"] = Count(p.experts().unused_experts());
    out["ROUTER_ENTROPY"] = Real(p.experts().router_entropy(), 3);
  }
  if (p.has_eval()) {
    out["EVAL_LOSS"] = Real(p.eval_loss(), 4);
    out["BEST_EVAL_LOSS"] = Real(p.best_eval_loss(), 4);
  }
  if (p.has_eval_token_accuracy() &&
      !p.has_eval_preference()) {  // a release without it told no perplexity either
    out["PERPLEXITY"] = Real(p.eval_perplexity(), 4);
    out["TOKEN_ACCURACY"] = Real(p.eval_token_accuracy(), 4);
  }
  const bool running = job.state() == v1::JOB_STATE_RUNNING;
  out["ETA"] = running && p.eta_seconds() > 0 ? FormatDuration(p.eta_seconds()) : "";
  const double fraction = job.state() == v1::JOB_STATE_PREPARING ? p.prepare_fraction()
                          : p.total_steps() > 0
                              ? static_cast<double>(p.step()) / static_cast<double>(p.total_steps())
                              : 0;
  out["FRACTION"] = fmt::format("{:.4f}", fraction);
  out["PERCENT"] = fmt::format("{:.0f}", 100 * fraction);
}

Series LossOf(const History& history) {
  Series line;
  for (const StepPoint& point : history.steps()) line.emplace_back(point.step, point.loss);
  return line;
}

}  // namespace

json JobSummaryFields(const JobRow& row, int64_t now_unix_ms) {
  const v1::Job& job = row.job;
  json fields = {{"ID", job.id()},
                 {"STATE", std::string(state::PhaseName(job.state()))},
                 {"METHOD", job.method()},
                 {"WORKERS", job.workers() > 0 ? Count(job.workers()) : Number("0", "auto")},
                 {"RESTARTS", Count(job.restarts())},
                 {"CREATED", Moment(job.created_unix_ms(), now_unix_ms)},
                 {"GANG", ""}};
  if (!row.gang.phase.empty()) {
    const bool waits = row.gang.arrived > 0 && row.gang.arrived < row.gang.world_size;
    fields["GANG"] =
        fmt::format("{} {}{}", job.epoch(), row.gang.phase,
                    waits ? fmt::format(" {}/{}", row.gang.arrived, row.gang.world_size) : "");
  }
  AddProgress(job, &fields);
  if (job.has_error()) {
    fields["ERROR"] = {{"ID", job.id()}, {"TEXT", Shortened(job.error().message(), kErrorBytes)}};
  }
  return fields;
}

json EventFields(const v1::JobEvent& event, int64_t now_unix_ms) {
  return {{"ID", std::to_string(event.id())},
          {"JOB", event.job()},
          {"TIME", Moment(event.time_unix_ms(), now_unix_ms)},
          {"TYPE", event.type()},
          {"STATE", std::string(state::PhaseName(event.state()))},
          {"MESSAGE", Shortened(event.message(), kMessageBytes)}};
}

json WorkerFields(const v1::WorkerInfo& worker) {
  json fields = {{"ID", worker.id()},
                 {"STATE", worker.state()},
                 {"RANK", worker.job().empty() ? "" : std::to_string(worker.rank())},
                 {"KIND", worker.build().device()},
                 {"DEVICE", Shortened(worker.device_name(), 60)},
                 {"THREADS", std::to_string(worker.threads())},
                 {"HEARTBEAT", fmt::format("{:.1f} s", worker.heartbeat_age_seconds())},
                 {"MEMORY", Bytes(worker.memory_bytes())}};
  if (!worker.job().empty()) fields["JOB"] = {{"ID", worker.job()}};
  if (!worker.cordoned().empty()) {
    fields["CORDON"] = {{"TEXT", Shortened(worker.cordoned(), kMessageBytes)}};
  }
  if (!worker.metrics_address().empty()) {
    fields["METRICS"] = {{"URL", "http://" + worker.metrics_address() + "/metrics"},
                         {"WORKER", worker.id()},
                         {"TEXT", worker.metrics_address()}};
  }
  return fields;
}

json LossCurveFields(const std::string& job, const History& history, size_t max_points) {
  Series evals;
  for (const EvalPoint& point : history.evals()) evals.emplace_back(point.step, point.loss);
  return CurveFields({.name = "loss",
                      .title = "Loss",
                      .line = LossOf(history),
                      .dots = std::move(evals),
                      .line_name = "training",
                      .dots_name = "evaluation"},
                     job, max_points);
}

json RateCurveFields(const std::string& job, const History& history, size_t max_points) {
  Series line;
  for (const StepPoint& point : history.steps()) {
    line.emplace_back(point.step, point.tokens_per_second);
  }
  return CurveFields({.name = "tokens_per_second",
                      .title = "Throughput",
                      .line = std::move(line),
                      .line_name = "tokens/s, all ranks",
                      .from_zero = true},
                     job, max_points);
}

}  // namespace coxswain::status_page
