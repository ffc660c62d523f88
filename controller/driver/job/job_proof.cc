#include "controller/driver/job/job_proof.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/failure/errors.h"
#include "controller/gang/gang_session.h"

namespace coxswain::driver {
namespace {

constexpr double kMostSeconds = 60;
constexpr double kMostOfJob = 0.03;

}  // namespace

void JobProof::Want(const Wanted& wanted) {
  wanted_ = wanted;
  if (wanted.curriculum->proof_bins().empty()) {
    exported_->set_unverified("no record has a target in its first 512 tokens");
    return wanted.training->proof().End();
  }
  if (job_.session->sends_again()) {
    return job_.deps.loop->Post(lifetime_.Wrap([this] { job_.listener.OnGangLost(kOutdated); }));
  }
  exported_->Stage(lifetime_.Wrap([this](const StagedAttempt& staged) { OnStaged(staged); }));
}

ProofCost JobProof::Cost() const {
  const checkpoint::RunState& run = wanted_.training->state();
  ProofCost cost{.seconds = std::max(kMostSeconds, kMostOfJob * run.seconds),
                 .load_seconds = wanted_.load_seconds};
  if (run.tokens == 0) return cost;
  // A record is one rank's.
  const double token_seconds =
      run.seconds / static_cast<double>(run.tokens) * job_.session->gang().world_size();
  int64_t most = 0;
  for (const BinSize& record : wanted_.curriculum->proof_bins()) {
    most = std::max(most, record.tokens);
  }
  cost.record_seconds = token_seconds * static_cast<double>(most);
  return cost;
}

void JobProof::OnStaged(const StagedAttempt& staged) {
  if (!staged.result.ok()) {
    exported_->set_unverified(absl::StrCat("it could not be written while the gang was there: ",
                                           std::string(staged.result.status().message())));
    return End();
  }
  plan_.emplace(ProofInput{.staged = *staged.result,
                           .checkpoint_dir = staged.checkpoint_dir,
                           .holds_checkpoint = staged.step == wanted_.training->state().step,
                           .records = wanted_.curriculum->proof_bins(),
                           .cost = Cost()});
  if (const absl::Status read = plan_->CheckSettings(); !read.ok()) {
    return job_.listener.OnHopeless(failure::MakeError(read, {.phase = "verify"}));
  }
  if (!plan_->asks()) {
    exported_->Keep(plan_->staged());
    return End();
  }
  began_ns_ = job_.deps.loop->clock().NowNs();
  const auto most = std::chrono::milliseconds(static_cast<int64_t>(Cost().seconds * 1000));
  job_.deps.loop->After(most, lifetime_.Wrap([this] { OnTime(); }));
  wanted_.training->proof().Begin(plan_->questions());
  job_.session->GoOn();
}

void JobProof::OnTime() {
  cut_ = absl::StrCat("the comparison took longer than ", Cost().seconds, " s");
  wanted_.training->proof().Cut();
  job_.session->GoOn();
}

// It is asked for a command right behind this one.
void JobProof::Answered(const ProofAnswers& answers) {
  const double seconds = static_cast<double>(job_.deps.loop->clock().NowNs() - began_ns_) * 1e-9;
  const absl::Status judged = plan_->Judge(answers, cut_, seconds);
  if (judged.ok()) {
    exported_->Keep(plan_->staged());
    return wanted_.training->proof().End();
  }
  TellFailure(judged);
}

// Storage ends no job that has trained: what is gone is written again, without a gang.
void JobProof::TellFailure(const absl::Status& judged) {
  auto gone = std::make_shared<bool>(true);
  std::vector<std::string> directories;
  for (const StagedFolder& folder : plan_->staged().folders) {
    directories.push_back(folder.directory);
  }
  job_.deps.loop->Offload(
      Lane::kFiles,
      [files = job_.deps.files, directories, gone] {
        *gone = !std::all_of(directories.begin(), directories.end(),
                             [files](const auto& directory) { return files->Exists(directory); });
      },
      lifetime_.Wrap([this, judged, gone] {
        if (!*gone) {
          return job_.listener.OnHopeless(failure::MakeError(judged, {.phase = "verify"}));
        }
        exported_->set_unverified("its files were gone when it was read back");
        End();
      }));
}

void JobProof::End() {
  wanted_.training->proof().End();
  job_.session->GoOn();
}

void JobProof::Stop() {
  lifetime_.Reset();
  wanted_ = {};
  plan_.reset();
  cut_.clear();
}

}  // namespace coxswain::driver
