#include "controller/trackers/point.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace coxswain::trackers {
namespace {

// The names of one kind of point.
struct Names {
  std::string_view loss, rewards_chosen, rewards_rejected, rewards_margins, rewards_accuracies,
      logps_chosen, logps_rejected, accuracy;
};
constexpr Names kTrain = {"train/loss",
                          "train/rewards/chosen",
                          "train/rewards/rejected",
                          "train/rewards/margins",
                          "train/rewards/accuracies",
                          "train/logps/chosen",
                          "train/logps/rejected",
                          "train/accuracy"};
constexpr Names kEval = {"eval/loss",
                         "eval/rewards/chosen",
                         "eval/rewards/rejected",
                         "eval/rewards/margins",
                         "eval/rewards/accuracies",
                         "eval/logps/chosen",
                         "eval/logps/rejected",
                         "eval/accuracy"};

void AddExperts(const v1::ExpertUse& use, Point* point) {
  auto& values = point->values;
  values.emplace_back("train/experts/load_ratio", use.load_ratio());
  values.emplace_back("train/experts/unused", static_cast<double>(use.unused_experts()));
  values.emplace_back("train/experts/router_entropy", use.router_entropy());
  if (use.has_balance_loss()) {
    values.emplace_back("train/experts/balance_loss", use.balance_loss());
  }
  if (use.has_z_loss()) values.emplace_back("train/experts/z_loss", use.z_loss());
}

// Numbers have a loss alone: their "rewards" are means of what the model and the records say.
void AddPreference(const v1::Preference& means, const Names& names, Point* point) {
  auto& values = point->values;
  if (means.of() == v1::Preference::LABELS) values.emplace_back(names.accuracy, means.accuracies());
  if (means.of() != v1::Preference::LOG_PROBS && means.of() != v1::Preference::PAIR_SCORES) return;
  values.emplace_back(names.rewards_chosen, means.rewards_chosen());
  values.emplace_back(names.rewards_rejected, means.rewards_rejected());
  values.emplace_back(names.rewards_margins, means.rewards_chosen() - means.rewards_rejected());
  if (means.pairs()) values.emplace_back(names.rewards_accuracies, means.accuracies());
  if (means.of() != v1::Preference::LOG_PROBS) return;
  values.emplace_back(names.logps_chosen, means.logps_chosen());
  values.emplace_back(names.logps_rejected, means.logps_rejected());
}

Point OfStep(const v1::StepDone& done) {
  Point point{.place = {.step = done.step() + 1}};
  point.values = {{kTrain.loss, done.loss()},
                  {"train/grad_norm", done.grad_norm()},
                  {"train/learning_rate", done.learning_rate()},
                  {"train/tokens", static_cast<double>(done.tokens())},
                  {"train/tokens_per_second", done.tokens_per_second()},
                  {"train/step_seconds", done.seconds()},
                  {"train/pass", static_cast<double>(done.pass())}};
  if (done.has_experts()) AddExperts(done.experts(), &point);
  if (done.has_preference()) AddPreference(done.preference(), kTrain, &point);
  return point;
}

Point OfEvaluation(const v1::EvalDone& done) {
  Point point{.place = {.step = done.step(), .of_evaluation = true}};
  point.values.emplace_back(kEval.loss, done.eval_loss());
  if (done.eval_perplexity() > 0) {
    point.values.emplace_back("eval/perplexity", done.eval_perplexity());
  }
  if (done.has_eval_token_accuracy()) {
    point.values.emplace_back("eval/token_accuracy", done.eval_token_accuracy());
  }
  if (done.has_preference()) AddPreference(done.preference(), kEval, &point);
  return point;
}

}  // namespace

std::optional<Point> PointOf(const v1::JobEvent& event) {
  std::optional<Point> point;
  if (event.has_step_done()) point = OfStep(event.step_done());
  if (event.has_eval_done()) point = OfEvaluation(event.eval_done());
  if (point) point->unix_ms = event.time_unix_ms();
  return point;
}

const std::vector<std::string_view>& PointNames() {
  static const auto* names = [] {
    auto* all = new std::vector<std::string_view>{"train/grad_norm",
                                                  "train/learning_rate",
                                                  "train/tokens",
                                                  "train/tokens_per_second",
                                                  "train/step_seconds",
                                                  "train/pass",
                                                  "train/experts/load_ratio",
                                                  "train/experts/unused",
                                                  "train/experts/router_entropy",
                                                  "train/experts/balance_loss",
                                                  "train/experts/z_loss",
                                                  "eval/perplexity",
                                                  "eval/token_accuracy"};
    for (const Names& kind : {kTrain, kEval}) {
      for (const std::string_view name :
           {kind.loss, kind.rewards_chosen, kind.rewards_rejected, kind.rewards_margins,
            kind.rewards_accuracies, kind.logps_chosen, kind.logps_rejected, kind.accuracy}) {
        all->push_back(name);
      }
    }
    return all;
  }();
  return *names;
}

std::string JsonNumber(double value) {
  if (std::isfinite(value)) return nlohmann::json(value).dump();
  if (std::isnan(value)) return "\"NaN\"";
  return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

}  // namespace coxswain::trackers
