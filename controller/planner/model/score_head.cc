#include "controller/planner/model/score_head.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/rules/score_rules.h"
#include "common/files/safetensors/safetensors.h"
#include "common/model/family.h"
#include "common/model/read/score_config.h"
#include "common/status_macros.h"

namespace coxswain::planner {
namespace {

std::string Scores(int64_t count) { return absl::StrCat(count, count == 1 ? " score" : " scores"); }

absl::Status CheckLabels(const config::JobSpec& job, int64_t there, int64_t wanted) {
  if (there == 0 || there == wanted) return absl::OkStatus();
  if (wanted == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        job.model_path, " is a model with a head of ", Scores(there), " and none of tokens, which ",
        "method: ", job.method, " needs; give the model that it was trained from, or method: ",
        "classification or reward"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      job.model_path, " has a head of ", Scores(there), " (id2label of config.json), and method: ",
      job.method, " takes ", wanted, "; give the model that it was trained from",
      job.method == "reward" || there == 1
          ? ""
          : absl::StrCat(", or classification.num_labels: ", there)));
}

// The rows of a head mean what the base's config.json says, whatever their order in the job.
absl::Status CheckNames(const config::JobSpec& job, const std::vector<std::string>& there) {
  const std::vector<std::string>& ours = job.classification.label_names;
  if (there.empty() || ours.empty() || ours == there) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      job.model_path, " has a head whose labels are others, or in another order, than [",
      absl::StrJoin(ours, ", "), "] of the job; give classification.label_names: [",
      absl::StrJoin(there, ", "), "]"));
}

// Whether the adapter that the job begins from has a head. Its size is checked.
absl::StatusOr<bool> AdapterHasHead(const config::JobSpec& job, const model::ModelConfig& model) {
  if (job.adapter == config::Adapter::kNone || !job.lora.init_from) return false;
  const std::string path = absl::StrCat(*job.lora.init_from, "/adapter_model.safetensors");
  const auto file = SafetensorsFile::Open(path);
  if (!file.ok()) return false;  // its reader says what is wrong
  const TensorInfo* head = (*file)->Find(absl::StrCat("base_model.model.", model::kScoreWeight));
  if (head == nullptr) return false;
  const std::vector<int64_t> wanted = {model.labels, model.hidden_size};
  if (head->shape == wanted) return true;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has a head of shape ", ShapeText(head->shape), ", and method: ", job.method,
      " takes ", ShapeText(wanted), "; give another lora.init_from, or as many labels"));
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
  RETURN_IF_ERROR(CheckNames(job, there.names));
  model->labels = wanted;
  model->new_head = there.labels == 0;
  model->tie_embeddings = false;
  model->pad_token = there.pad_token;
  ASSIGN_OR_RETURN(const bool of_adapter, AdapterHasHead(job, *model));
  if (!model->new_head || of_adapter || warnings == nullptr) return absl::OkStatus();
  warnings->push_back(absl::StrCat(job.model_path, " has no head of scores: ", model::kScoreWeight,
                                   " of ", wanted, " x ", model->hidden_size,
                                   " is new, drawn from normal(0, 0.02) by train.seed"));
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
