#include "controller/driver/output/proof_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::driver {
namespace {

bool CanBeCompared(const StagedFolder& folder) { return folder.verification.reason.empty(); }

v1::Load LoadOfCheckpoint(const std::string& directory, double shake) {
  v1::Load load;
  load.set_checkpoint_dir(directory);
  load.set_shake(shake);
  return load;
}

v1::Load LoadOf(const StagedFolder& folder) {
  v1::Load load;
  folder.adapter ? load.set_adapter_dir(folder.directory) : load.set_model_dir(folder.directory);
  return load;
}

// Weights that a model is held against, beside the trained ones.
int64_t Others(const StagedFolder& folder) {
  return folder.rounded + (folder.rounding > 0) + (folder.lost > 0);
}

}  // namespace

ProofPlan::ProofPlan(ProofInput input)
    : input_(std::move(input)), weights_of_(input_.staged.folders.size()) {
  const bool models = MostRecords(true) > 0;
  if (MostRecords(models) > 0) Ask(models);
  SkipOthers(absl::StrCat("loading it takes about ", input_.cost.load_seconds,
                          " s each time, and the comparison may take ", input_.cost.seconds,
                          " s in all"));
}

int64_t ProofPlan::MostRecords(bool models) const {
  int64_t loads = input_.holds_checkpoint ? 0 : 1, weights = 1;
  for (const StagedFolder& folder : input_.staged.folders) {
    if (!CanBeCompared(folder) || (!folder.adapter && !models)) continue;
    weights += 1 + Others(folder);
    if (!folder.adapter) loads += 1 + Others(folder);
  }
  if (weights == 1) return 0;
  const ProofCost& cost = input_.cost;
  const double left = cost.seconds - static_cast<double>(loads) * cost.load_seconds;
  if (left < 0) return 0;
  const auto all = static_cast<int64_t>(input_.records.size());
  const double each = static_cast<double>(weights) * cost.record_seconds;
  return each * static_cast<double>(all) <= left ? all : static_cast<int64_t>(left / each);
}

size_t ProofPlan::Add(v1::Load load) {
  questions_.weights.emplace_back(std::move(load));
  return questions_.weights.size() - 1;
}

void ProofPlan::AskOfModel(const StagedFolder& folder) {
  if (folder.rounded) {
    v1::Load rounded = LoadOfCheckpoint(input_.checkpoint_dir, 0);
    rounded.set_model_dir(folder.directory);
    rounded_ = Add(std::move(rounded));
  }
  if (folder.lost > 0) {
    v1::Load base;
    base.set_model_dir(folder.base_dir);
    base_ = Add(std::move(base));
  }
  if (folder.rounding > 0) shaken_ = Add(LoadOfCheckpoint(input_.checkpoint_dir, folder.rounding));
}

// The adapter before what replaces the base that it is for.
void ProofPlan::Ask(bool models) {
  questions_.records = MostRecords(models);
  questions_.weights.emplace_back();
  if (!input_.holds_checkpoint) {
    questions_.weights.back() = LoadOfCheckpoint(input_.checkpoint_dir, 0);
  }
  const std::vector<StagedFolder>& folders = input_.staged.folders;
  for (size_t i = 0; i < folders.size(); ++i) {
    if (!CanBeCompared(folders[i]) || (!folders[i].adapter && !models)) continue;
    weights_of_[i] = Add(LoadOf(folders[i]));
    if (!folders[i].adapter) AskOfModel(folders[i]);
  }
}

void ProofPlan::SkipOthers(const std::string& reason) {
  for (size_t i = 0; i < weights_of_.size(); ++i) {
    std::string& said = input_.staged.folders[i].verification.reason;
    if (!weights_of_[i] && said.empty()) said = reason;
  }
}

// Or nothing was to be asked.
bool ProofPlan::Answered(const ProofAnswers& answers, std::optional<size_t> weights) const {
  if (!weights) return true;
  return *weights < answers.losses.size() &&
         static_cast<int64_t>(answers.losses[*weights].size()) == questions_.records;
}

double ProofPlan::PerTarget(double loss, size_t record) const {
  const BinSize& bin = input_.records[record];
  return bin.units > 0 && bin.targets == 0
             ? loss
             : loss / static_cast<double>(std::max<int64_t>(bin.targets, 1));
}

double ProofPlan::BoundOfMerge(const ProofAnswers& answers, const StagedFolder& folder,
                               size_t record) const {
  const std::vector<double>& trained = answers.losses[0];
  const std::vector<double>& shaken = answers.losses[*shaken_];
  const auto n = static_cast<double>(trained.size());
  double squares = 0;
  for (size_t i = 0; i < trained.size(); ++i) {
    const double moved = PerTarget(shaken[i] - trained[i], i);
    squares += moved * moved;
  }
  double lost = 0;
  if (base_) {
    lost = 2 * folder.lost * PerTarget(answers.losses[*base_][record] - trained[record], record);
  }
  return 8 * std::sqrt(8 / n) * std::sqrt(squares / n) + std::abs(lost) +
         std::ldexp(std::abs(PerTarget(trained[record], record)), -21);
}

absl::Status ProofPlan::Beyond(const StagedFolder& folder, size_t record, double is, double was,
                               double bound) const {
  return absl::DataLossError(absl::StrCat(
      "the exported ", folder.verification.artifact, ", read back from ", folder.directory,
      ", is not what was trained: record ", record, " (", input_.records[record].targets,
      " targets) has a loss of ", is, " nats per target, ",
      folder.rounded ? "in the trained state so rounded " : "in the trained state ", was,
      "; the difference ", std::abs(is - was), " is beyond the bound ", bound, ", ",
      folder.verification.bound_from, ". Nothing was published, the checkpoint is kept in ",
      input_.checkpoint_dir,
      ": look at disk and memory of the controller's host, then export it "
      "with cox export"));
}

absl::Status ProofPlan::JudgeFolder(const ProofAnswers& answers, StagedFolder* folder,
                                    size_t weights) {
  Verification& verification = folder->verification;
  for (size_t i = 0; i < answers.losses[0].size(); ++i) {
    const double trained = PerTarget(answers.losses[0][i], i);
    const double is = PerTarget(answers.losses[weights][i], i);
    if (!std::isfinite(trained)) {
      verification.reason =
          absl::StrCat("the loss of record ", i, " in the trained state is ", trained);
      return absl::OkStatus();
    }
    double bound = folder->rounding > 0 ? BoundOfMerge(answers, *folder, i) : 0;
    const double was = folder->rounded ? PerTarget(answers.losses[*rounded_][i], i) : trained;
    if (!(std::abs(is - was) <= bound)) return Beyond(*folder, i, is, was, bound);
    if (folder->rounded) bound = std::abs(was - trained);
    verification.targets += input_.records[i].targets;
    const double difference = std::abs(is - trained);
    if (i > 0 && difference <= verification.difference) continue;
    verification.difference = difference;
    verification.bound = bound;
  }
  verification.records = questions_.records;
  verification.verified = true;
  return absl::OkStatus();
}

absl::Status ProofPlan::RefusedError(const StagedFolder& folder, const std::string& why) const {
  return absl::DataLossError(
      absl::StrCat("the exported ", folder.verification.artifact, " in ", folder.directory,
                   " cannot be read back: ", why,
                   ". Nothing was published, the checkpoint is kept in ", input_.checkpoint_dir,
                   ": look at disk and memory of the controller's host, then export it "
                   "with cox export"));
}

absl::Status ProofPlan::CheckSettings() const {
  for (const StagedFolder& folder : input_.staged.folders) {
    if (!folder.refused.empty()) return RefusedError(folder, folder.refused);
  }
  return absl::OkStatus();
}

absl::Status ProofPlan::Judge(const ProofAnswers& answers, const std::string& cut, double seconds) {
  const size_t refused = answers.losses.size();
  for (size_t i = 0; i < weights_of_.size(); ++i) {
    StagedFolder& folder = input_.staged.folders[i];
    Verification& verification = folder.verification;
    if (!weights_of_[i]) continue;
    if (!answers.refused.empty() && *weights_of_[i] == refused) {
      return RefusedError(folder, answers.refused);
    }
    const bool other = !folder.adapter && !(Answered(answers, rounded_) &&
                                            Answered(answers, base_) && Answered(answers, shaken_));
    if (!Answered(answers, size_t{0}) || !Answered(answers, weights_of_[i]) || other) {
      verification.reason =
          answers.refused.empty()
              ? cut
              : absl::StrCat("the checkpoint could not be read again: ", answers.refused);
      continue;
    }
    if (absl::Status status = JudgeFolder(answers, &folder, *weights_of_[i]); !status.ok()) {
      return status;
    }
    verification.seconds = seconds;
  }
  return absl::OkStatus();
}

}  // namespace coxswain::driver
