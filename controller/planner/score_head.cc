#include "controller/planner/score_head.h"

#include "absl/strings/str_cat.h"
#include "common/config/score_rules.h"
#include "common/model/family.h"
#include "common/model/score_config.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

absl::Status CheckLabels(const config::JobSpec& job, int64_t there, int64_t wanted) {
  if (there == 0 || there == wanted) return absl::OkStatus();
  if (wanted == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        job.model_path, " is a model with a head of ", there, " scores and none of tokens, which ",
        "method: ", job.method, " needs; give the model that it was trained from, or method: ",
        "classification or reward"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      job.model_path, " has a head of ", there,
      " scores (id2label of config.json), and method: ", job.method, " takes ", wanted,
      job.method == "reward" ? "; give a base without a head, or one with one label"
                             : "; give classification.num_labels: ",
      job.method == "reward" ? "" : absl::StrCat(there, ", or a base without a head")));
}

}  // namespace

absl::Status PutScoreHead(const config::JobSpec& job, model::ModelConfig* model,
                          std::vector<std::string>* warnings) {
  ASSIGN_OR_RETURN(const model::ScoreConfig there, model::ReadScoreConfig(job.model_path));
  const int64_t wanted = config::ScoreLabels(job);
  RETURN_IF_ERROR(CheckLabels(job, there.labels, wanted));
  if (wanted == 0) return absl::OkStatus();
  if (model::FindFamily(model->architecture)->score_class.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "method: ", job.method, " needs a model with a head of scores, and transformers has none ",
        "for ", model->architecture, ": nothing could load what is trained; give another base"));
  }
  model->labels = wanted;
  model->new_head = there.labels == 0;
  model->tie_embeddings = false;
  model->pad_token = there.pad_token;
  if (warnings == nullptr) return absl::OkStatus();
  if (model->new_head) {
    warnings->push_back(absl::StrCat(
        job.model_path, " has no head of scores: ", model::kScoreWeight, " of ", wanted, " x ",
        model->hidden_size, " is new, drawn from normal(0, 0.02) by train.seed"));
  }
  if (!model->pad_token) {
    warnings->push_back(absl::StrCat(
        job.model_path, ": config.json has neither pad_token_id nor eos_token_id: transformers ",
        "scores no batch of several texts without the first; set it when you load the model"));
  }
  return absl::OkStatus();
}

plan::DocumentLoss ScoreLoss(const config::JobSpec& job) {
  plan::DocumentLoss loss;
  loss.labels = config::ScoreLabels(job);
  if (loss.labels == 0) return loss;
  const bool reward = job.method == "reward";
  loss.terms = {{.type = reward ? "bradley_terry" : job.classification.problem}};
  if (reward) loss.centre = job.reward.center_coefficient;
  return loss;
}

}  // namespace coxswain::planner
