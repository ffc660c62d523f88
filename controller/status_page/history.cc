#include "controller/status_page/history.h"

#include <limits>

#include <nlohmann/json.hpp>

namespace coxswain::status_page {
namespace {

using nlohmann::json;

// JSON has null for what is not finite.
double NumberOr(const json& data, const char* key) {
  const auto it = data.find(key);
  return it != data.end() && it->is_number() ? it->get<double>()
                                             : std::numeric_limits<double>::quiet_NaN();
}

int64_t CountOf(const json& data, const char* key) {
  const auto it = data.find(key);
  return it != data.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

}  // namespace

void History::Add(const v1::JobEvent& event) {
  cursor_ = event.id();
  if (event.type() == "StepDone") {
    AddStep(event.data_json());
    return;
  }
  if (event.type() == "EvalDone") AddEval(event.data_json());
  newest_events_.push_back(event);
  if (newest_events_.size() > kNewestEvents) newest_events_.pop_front();
}

void History::AddStep(const std::string& data_json) {
  const json data = json::parse(data_json, nullptr, /*allow_exceptions=*/false);
  if (!data.is_object()) return;
  const StepPoint point{.step = CountOf(data, "step") + 1,
                        .loss = NumberOr(data, "loss"),
                        .grad_norm = NumberOr(data, "grad_norm"),
                        .learning_rate = NumberOr(data, "learning_rate"),
                        .tokens_per_second = NumberOr(data, "tokens_per_second"),
                        .seconds = NumberOr(data, "seconds"),
                        .tokens = CountOf(data, "tokens")};
  steps_.Add(point);
  evals_.TakeBackFrom(
      point.step);  // an evaluation follows its step: those are of before a rollback
  while (!newest_steps_.empty() && newest_steps_.back().step >= point.step) {
    newest_steps_.pop_back();
  }
  newest_steps_.push_back(point);
  if (newest_steps_.size() > kNewestSteps) newest_steps_.pop_front();
}

void History::AddEval(const std::string& data_json) {
  const json data = json::parse(data_json, nullptr, /*allow_exceptions=*/false);
  if (!data.is_object()) return;
  evals_.Add({.step = CountOf(data, "step"), .loss = NumberOr(data, "eval_loss")});
}

}  // namespace coxswain::status_page
