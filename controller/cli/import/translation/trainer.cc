#include "controller/cli/import/translation/trainer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/foreign_keys/foreign_value.h"
#include "controller/cli/import/translation/hub_name.h"

namespace coxswain::job_import {
namespace {

using config::Node;
using Json = nlohmann::ordered_json;

// The rules that have a name of ours already; transformers' names are words of foreign_value.cc.
constexpr std::string_view kOwnRules[] = {"adamw", "muon"};

constexpr std::string_view kUnknownSteps =
    "how many steps there are is known once the data is, from cox plan";

void TranslateBetas(Translation* t) {
  const std::optional<double> first = NumberOf(t->Take("adam_beta1"));
  const std::optional<double> second = NumberOf(t->Take("adam_beta2"));
  if (!first.has_value() && !second.has_value()) return;
  const Json betas = Json::array({first.value_or(0.9), second.value_or(0.999)});
  if (first.has_value()) t->Set("adam_beta1", "spec.train.betas", betas);
  if (second.has_value()) t->Set("adam_beta2", "spec.train.betas", betas);
}

// A number of steps, or a part of all of them.
std::optional<int64_t> WholeSteps(const Translation& t, double steps) {
  if (steps > 1e15) return std::nullopt;
  if (steps >= 1) return static_cast<int64_t>(steps);
  const Json* all = t.Find("spec.train.max_steps");
  if (all == nullptr || steps <= 0) return std::nullopt;
  return static_cast<int64_t>(std::ceil(steps * all->get<double>()));
}

void TranslateSteps(Translation* t, std::string_view key, const std::string& path) {
  const Node* value = t->Take(key);
  if (value == nullptr) return;
  const std::optional<int64_t> steps = WholeSteps(*t, NumberOf(value).value_or(0));
  if (steps.has_value()) {
    t->Set(key, path, *steps, *NumberOf(value) < 1 ? "of max_steps" : "");
  } else {
    t->LeaveOut(key, absl::StrCat(path.substr(5), " stays 100: ", std::string(kUnknownSteps)));
  }
}

// Many files name one output_dir, and their tools write over what lies there. A folder of the
// file's own keeps what another file's job wrote.
void TranslateOutputDir(Translation* t) {
  const std::string path = "spec.checkpoint.output_dir";
  constexpr std::string_view kOwnFolder =
      "each file's own folder, so that none writes over another's";
  std::string place = LocalForm(TextOf(t->Take("output_dir")));
  while (place.ends_with('/')) place.pop_back();
  if (place.empty()) {
    t->Preset(path, absl::StrCat("./out/", t->job_name()), kOwnFolder);
  } else {
    t->Set("output_dir", path, absl::StrCat(place, "/", t->job_name()), kOwnFolder);
  }
}

}  // namespace

void TranslateLength(Translation* t, std::string_view epochs_key, double default_epochs) {
  const Node* steps = t->Take("max_steps");
  if (steps != nullptr && NumberOf(steps).value_or(0) > 0) {
    t->Set("max_steps", "spec.train.max_steps", ToJson(*steps));
    if (t->Take(epochs_key) != nullptr) t->LeaveOut(epochs_key, "max_steps wins");
    return;
  }
  if (steps != nullptr) t->LeaveOut("max_steps", "not set");
  if (t->Move(epochs_key, "spec.train.num_epochs")) return;
  t->Preset("spec.train.num_epochs", default_epochs,
            absl::StrCat("the default of ", std::string(epochs_key)));
}

void TranslateOptimizer(Translation* t, std::string_view key) {
  const std::string theirs = TextOf(t->Take(key));
  const std::string path = "spec.train.optimizer";
  const auto* value = foreign_keys::FindForeignValue(path, theirs);
  if (value != nullptr) {
    t->Set(key, path, std::string(value->ours), value->reason);
  } else if (std::find(std::begin(kOwnRules), std::end(kOwnRules), theirs) != std::end(kOwnRules)) {
    t->Set(key, path, theirs);
  } else if (!theirs.empty()) {
    t->Refuse(key, "this update rule has no counterpart");
  }
  t->Preset("spec.train.optimizer", "adamw");
  TranslateBetas(t);
  t->Preset("spec.train.decay_norm_and_bias", false, "transformers spares norms and biases");
  const Node* norm = t->Take("max_grad_norm");
  if (norm != nullptr && NumberOf(norm).value_or(0) > 0) {
    t->Set("max_grad_norm", "spec.train.max_grad_norm", ToJson(*norm));
  } else if (norm != nullptr) {
    t->Set("max_grad_norm", "spec.train.max_grad_norm", 1e9, "no gradient reaches it: no clipping");
  }
}

void TranslatePrecision(Translation* t, bool default_bf16) {
  bool decided = false;
  for (const char* key : {"bf16", "bfloat16"}) {
    const Node* value = t->Take(key);
    if (value == nullptr) continue;
    const std::string text = TextOf(value);
    if (text == "auto") {
      t->Set(key, "spec.precision.compute", "auto");
    } else if (IsOn(value) || text == "full") {
      t->Set(key, "spec.precision.compute", "auto", "bfloat16 on a GPU, float32 on a CPU");
    } else {
      t->LeaveOut(key, "off");
      default_bf16 = false;
      continue;
    }
    decided = true;
  }
  for (const char* key : {"fp16", "float16"}) {
    const Node* value = t->Take(key);
    if (value == nullptr) continue;
    if (decided || !IsOn(value)) {
      t->LeaveOut(key, decided && IsOn(value) ? "bf16 wins" : "off");
    } else {
      t->Set(key, "spec.precision.compute", "float16");
      decided = true;
    }
  }
  const Node* fp8 = t->Take("fp8");
  if (fp8 != nullptr && IsOn(fp8)) {
    t->Set("fp8", "spec.precision.compute", "fp8");
  } else if (!decided) {
    t->Preset("spec.precision.compute", default_bf16 ? "auto" : "float32");
  }
}

void TranslateEvaluation(Translation* t, std::string_view patience_key) {
  const bool evaluates = t->Find("spec.val_set_size") || t->Find("spec.test_datasets");
  std::string strategy;
  for (const char* key : {"eval_strategy", "evaluation_strategy"}) {
    const Node* value = t->Take(key);
    if (value == nullptr) continue;
    strategy = TextOf(value);
    t->LeaveOut(key, evaluates && strategy == "epoch"
                         ? absl::StrCat("eval.eval_steps stays 100: ", std::string(kUnknownSteps))
                         : "eval.eval_steps says it");
  }
  const char* step_keys[] = {"eval_steps", "evals_per_epoch"};
  const bool has_steps = t->Has("eval_steps") || t->Has("evals_per_epoch");
  if (t->Take("do_eval") != nullptr) t->LeaveOut("do_eval", "eval.eval_steps says it");
  if (!evaluates) {
    for (const std::string_view key :
         {std::string_view(step_keys[0]), std::string_view(step_keys[1]), patience_key}) {
      if (t->Take(key) != nullptr) t->LeaveOut(key, "nothing is held back to evaluate on");
    }
    return;
  }
  const bool off = strategy == "no" || strategy == "false" || (strategy.empty() && !has_steps);
  if (const Node* passes = t->Take("evals_per_epoch")) {
    if (IsOff(*passes)) {
      t->Set("evals_per_epoch", "spec.eval.eval_steps", 0);
    } else {
      t->LeaveOut("evals_per_epoch",
                  absl::StrCat("eval.eval_steps stays 100: ", std::string(kUnknownSteps)));
    }
  } else if (strategy == "epoch" || off) {
    if (t->Take("eval_steps") != nullptr) t->LeaveOut("eval_steps", "the strategy is another");
    if (off) t->Preset("spec.eval.eval_steps", 0, "only before the first step and after the last");
  } else if (has_steps) {
    TranslateSteps(t, "eval_steps", "spec.eval.eval_steps");
  }
  if (const Node* patience = t->Take(patience_key)) {
    if (IsOff(*patience)) {
      t->LeaveOut(patience_key, "off");
    } else {
      t->Set(patience_key, "spec.eval.early_stopping_patience", ToJson(*patience));
    }
  }
  const std::string metric = TextOf(t->Take("metric_for_best_model"));
  t->Take("greater_is_better");
  if (!metric.empty() && metric != "loss" && metric != "eval_loss") {
    t->Differ("metric_for_best_model", "the best checkpoint is the one of the lowest eval_loss");
  } else if (!metric.empty()) {
    t->Set("metric_for_best_model", "spec.eval.metric", "eval_loss");
  }
}

void TranslateSaving(Translation* t) {
  TranslateOutputDir(t);
  if (const Node* overwrite = t->Take("overwrite_output_dir")) {
    t->Set("overwrite_output_dir", "spec.checkpoint.resume", IsOn(overwrite) ? "never" : "auto");
  }
  const Node* resume = t->Take("resume_from_checkpoint");
  if (resume != nullptr && !IsOff(*resume) && !IsOn(resume)) {
    t->Refuse("resume_from_checkpoint", "checkpoints of other tools are not read");
  } else if (resume != nullptr) {
    t->LeaveOut("resume_from_checkpoint", "checkpoint.resume takes up a job's own");
  }
  TranslateSteps(t, "save_steps", "spec.checkpoint.save_steps");
  for (const char* key : {"saves_per_epoch", "save_strategy"}) {
    const Node* value = t->Take(key);
    if (value == nullptr) continue;
    const std::string text = TextOf(value);
    if (text == "steps") {
      t->LeaveOut(key, "checkpoint.save_steps says it");
    } else if (IsOff(*value)) {
      t->LeaveOut(key, "checkpoints are what a killed job goes on from; the end is saved anyway");
    } else {
      t->LeaveOut(key,
                  absl::StrCat("checkpoint.save_steps stays 100: ", std::string(kUnknownSteps)));
    }
  }
  const Node* limit = t->Take("save_total_limit");
  if (limit == nullptr) return;
  const double most = NumberOf(limit).value_or(0);
  if (most >= 2 || most <= 0) {
    if (most >= 2) t->Set("save_total_limit", "spec.checkpoint.save_total_limit", ToJson(*limit));
    if (most <= 0) t->LeaveOut("save_total_limit", "checkpoint.save_total_limit stays 3");
    return;
  }
  t->Set("save_total_limit", "spec.checkpoint.save_total_limit", 2,
         "the last and the one before it are kept at least");
}

void TranslateRun(Translation* t) {
  if (NumberOf(t->Take("logging_steps")).value_or(0) >= 1) {
    t->Move("logging_steps", "spec.logging.logging_steps");
  }
  const Node* cpu = t->Take("use_cpu");
  if (cpu != nullptr && IsOn(cpu)) t->Set("use_cpu", "spec.resources.device", "cpu");
  t->TranslateRest(&t->top());
  t->Preset("spec.resources.workers", 1,
            "give as many as it ran on: each adds its micro-batches to a step");
}

}  // namespace coxswain::job_import
