#include "controller/checkpoint/run_json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace coxswain::checkpoint {
namespace {

using nlohmann::json;

// JSON has no NaN: it is written as null.
double NumberOrNan(const json& in) {
  return in.is_null() ? std::numeric_limits<double>::quiet_NaN() : in.get<double>();
}

json MeanJson(const LossMean& mean) { return {{"step", mean.step}, {"loss", mean.loss}}; }

LossMean MeanFromJson(const json& in) { return {.step = in.at("step"), .loss = in.at("loss")}; }

json TrendJson(const LossTrend& trend) {
  json out = {{"recent", trend.recent}};
  if (trend.lowest) out["lowest"] = MeanJson(*trend.lowest);
  if (trend.rise) {
    out["rise"] = {{"lowest", MeanJson(trend.rise->lowest)}, {"now", MeanJson(trend.rise->now)}};
  }
  return out;
}

LossTrend TrendFromJson(const json& in) {
  LossTrend trend;
  trend.recent = in.at("recent").get<std::deque<double>>();
  if (in.contains("lowest")) trend.lowest = MeanFromJson(in.at("lowest"));
  if (!in.contains("rise")) return trend;
  trend.rise = {.lowest = MeanFromJson(in.at("rise").at("lowest")),
                .now = MeanFromJson(in.at("rise").at("now"))};
  return trend;
}

}  // namespace

json EvalJson(const EvalPoint& point) {
  json out = {{"step", point.step}, {"loss", point.loss}, {"seconds", point.seconds}};
  if (point.token_accuracy) out["token_accuracy"] = *point.token_accuracy;
  if (point.margin) out["margin"] = *point.margin;
  if (point.accuracy) out["accuracy"] = *point.accuracy;
  return out;
}

EvalPoint EvalFromJson(const json& in) {
  EvalPoint point{
      .step = in.at("step"), .loss = NumberOrNan(in.at("loss")), .seconds = in.at("seconds")};
  if (in.contains("token_accuracy")) point.token_accuracy = in.at("token_accuracy").get<double>();
  if (in.contains("margin")) point.margin = NumberOrNan(in.at("margin"));
  if (in.contains("accuracy")) point.accuracy = NumberOrNan(in.at("accuracy"));
  return point;
}

json RunJson(const RunState& run) {
  json evals = json::array();
  for (const EvalPoint& point : run.evals) evals.push_back(EvalJson(point));
  json out = RunJsonWithoutEvals(run);
  out["evals"] = std::move(evals);
  return out;
}

json RunJsonWithoutEvals(const RunState& run) {
  json out = {{"step", run.step},
              {"applied_updates", run.applied_updates},
              {"tokens", run.tokens},
              {"loss", run.loss},
              {"grad_norm", run.grad_norm},
              {"seconds", run.seconds},
              {"early_stop", {{"without_improvement", run.early_stop.without_improvement}}},
              {"loss_trend", TrendJson(run.loss_trend)},
              {"skipped",
               {{"total", run.skipped.total},
                {"in_a_row", run.skipped.in_a_row},
                {"recent", run.skipped.recent}}}};
  if (run.early_stop.best) out["best"] = EvalJson(*run.early_stop.best);
  return out;
}

RunState RunFromJson(const json& in) {
  RunState run;
  run.step = in.at("step");
  run.applied_updates = in.at("applied_updates");
  run.tokens = in.at("tokens");
  run.loss = NumberOrNan(in.at("loss"));
  run.grad_norm = NumberOrNan(in.at("grad_norm"));
  run.seconds = in.at("seconds");
  for (const json& point : in.value("evals", json::array()))
    run.evals.push_back(EvalFromJson(point));
  run.early_stop.without_improvement = in.at("early_stop").at("without_improvement");
  if (in.contains("best")) run.early_stop.best = EvalFromJson(in.at("best"));
  if (in.contains("loss_trend")) run.loss_trend = TrendFromJson(in.at("loss_trend"));
  const json& skipped = in.at("skipped");
  run.skipped.total = skipped.at("total");
  run.skipped.in_a_row = skipped.at("in_a_row");
  run.skipped.recent = skipped.at("recent").get<std::deque<int64_t>>();
  return run;
}

}  // namespace coxswain::checkpoint
