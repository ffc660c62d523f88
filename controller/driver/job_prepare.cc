// PREPARING: tokens, bins and steps of the job, in a lane of its own.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {

void JobDriver::Prepare() {
  const absl::Status status = record_.Apply(state::JobEvent::kPrepareStarted, "preparing data");
  if (!status.ok()) return;
  if (curriculum_ != nullptr) {  // paused and resumed under one controller
    OnPrepared(curriculum_);
    return;
  }
  StartPreparation();
}

// Without resources all that does not depend on them: then what is wrong with model or data is told
// at once, and the tokens are cached.
void JobDriver::StartPreparation() {
  const bool chosen = HasResources();
  if (phase() != v1::JOB_STATE_PREPARING) return;  // the choice broke a rule of the job
  data_prepared_ = false;
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  prepare_cancelled_ = cancelled;
  Loop* loop = deps_.loop;
  auto show = lifetime_.Wrap([this](double fraction) {
    record_.edit().mutable_progress()->set_prepare_fraction(fraction);
    record_.Changed();
  });
  PrepareHooks hooks{.progress =
                         [loop, show](double fraction) {
                           loop->Post([show, fraction]() mutable { show(fraction); });
                         },
                     .cancelled = [cancelled] { return cancelled->load(); }};
  auto result = std::make_shared<absl::StatusOr<std::shared_ptr<const Curriculum>>>();
  auto identity = std::make_shared<std::string>();
  loop->Offload(
      Lane::kPreparation,
      [work = deps_.lane_work, files = deps_.files, spec = chosen ? spec_ : SpecOfData(), hooks,
       result, identity] {
        *result = hooks.cancelled() ? absl::CancelledError("cancelled before its preparation began")
                                    : work->prepare(spec, hooks);
        *identity = files->Identity(spec.output_dir).value_or("");
      },
      lifetime_.Wrap([this, chosen, result, identity] {
        output_.set_identity(*identity);
        data_prepared_ = !chosen && result->ok();
        data_prepared_ ? LookForWorkers() : OnPrepared(*result);
      }));
}

void JobDriver::OnPrepared(const absl::StatusOr<std::shared_ptr<const Curriculum>>& result) {
  if (phase() != v1::JOB_STATE_PREPARING) return;
  if (!result.ok()) {
    PreparationFailed(result.status());
    return;
  }
  const bool known = curriculum_ != nullptr;
  curriculum_ = *result;
  v1::Job& job = record_.edit();
  *job.mutable_data() = curriculum_->summary();
  job.set_recipe_hash(curriculum_->recipe_hash());
  job.mutable_progress()->set_total_steps(curriculum_->total_steps());
  job.mutable_progress()->set_prepare_fraction(1.0);
  deps_.metrics->Packing(job.id(), job.data().packing_efficiency());
  deps_.metrics->Progress(job.id(), job.progress().step(), job.progress().total_steps());
  if (!known) SayPrepared();
  if (!Advance(state::JobEvent::kPrepared, "waiting for workers")) return;
  deps_.journal->FlushOrKeep();
  hooks_.reschedule();
}

void JobDriver::PreparationFailed(const absl::Status& status) {
  const v1::Error error = failure::MakeError(status, {.phase = "prepare_data"});
  const failure::Verdict verdict = failure::JudgePreparation(error, Facts());
  if (verdict.course == failure::Course::kWaits) {
    AttemptFailed(error);
  } else {
    Fail(verdict.error);
  }
}

void JobDriver::SayPrepared() {
  const v1::DatasetSummary& data = job().data();
  record_.AddEvent(DataPreparedEvent(data, curriculum_->total_steps()),
                   absl::StrCat(data.documents(), " documents, ", data.tokens(), " tokens, ",
                                curriculum_->total_steps(), " steps"));
  for (const std::string& warning : curriculum_->warnings()) {
    record_.AddEvent(WarningEvent(), warning);
  }
}

}  // namespace coxswain::driver
