#include "controller/driver/job/job_preparation.h"

#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/config/parser/stored_job.h"
#include "common/guarded.h"
#include "common/status_macros.h"
#include "controller/data/early_end.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/preparation/choose_resources.h"
#include "controller/driver/records/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {

namespace {

using Result = absl::StatusOr<std::shared_ptr<const Curriculum>>;

// Starts of a preparation that did not end, after which there is no other: the next is the third.
constexpr int64_t kMostUnended = 2;

absl::Status EndedTheController(int64_t unended) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the controller ended ", unended,
      " times in a row while it prepared this job's data, the last time without that of "
      "another job: it is not prepared again. Look at the controller's log and memory "
      "limit, and at the sizes of tokenizer, template and records. If something else "
      "ended the controller, submit the job again"));
}

// What a preparation is in the store while it runs. Should the controller end meanwhile, the next
// one knows. In the lane.
struct Counted {
  store::Store* store;
  std::string job;
  int64_t unended;  // before this one

  Result Run(const PrepareHooks& hooks, absl::FunctionRef<Result()> prepare) const {
    if (hooks.cancelled()) return absl::CancelledError("cancelled before its preparation began");
    RETURN_IF_ERROR(data::OfTokenCache(store->SetUnendedPreparations(job, unended + 1)));
    Result result = absl::CancelledError();
    const absl::Status thrown = Guarded([&] {
      result = prepare();
      return absl::OkStatus();
    });
    store->SetUnendedPreparations(job, 0).IgnoreError();  // a store that fails is told by commits
    return thrown.ok() ? result : thrown;
  }
};

}  // namespace

void JobPreparation::Start() {
  if (curriculum_ != nullptr) {
    OnPrepared(curriculum_);
  } else {
    fetch_.Start([this](const std::optional<v1::Error>& failed) { OnFetched(failed); });
  }
}

void JobPreparation::OnFetched(const std::optional<v1::Error>& failed) {
  failed ? job_.listener.OnPrepared(failed) : Prepare();
}

void JobPreparation::Stop() {
  lifetime_.Reset();
  fetch_.Stop();
  waits_for_choice_ = false;
  if (cancelled_) cancelled_->store(true);
}

void JobPreparation::LookForWorkers() {
  if (waits_for_choice_ && HasResources()) Prepare();
}

void JobPreparation::ForgetIfDamaged() {
  if (curriculum_ != nullptr && !curriculum_->Intact().ok()) Forget();
}

// Tokens are the same with any resources.
config::JobSpec JobPreparation::SpecOfData() const {
  const ResourceChoice assumed = AssumedResources(job_.spec);
  config::JobSpec spec = job_.spec;
  spec.device = assumed.device;
  spec.workers = assumed.workers;
  return spec;
}

bool JobPreparation::HasResources() {
  if (config::HasChosenResources(job_.spec)) return true;
  const std::optional<ResourceChoice> choice =
      ChooseResources(job_.spec, job_.deps.registry->All());
  if (!choice) return false;
  const int64_t settled_ns = job_.deps.registry->last_registered_ns() +
                             std::chrono::nanoseconds(job_.deps.settings.settle).count();
  const int64_t left_ns = settled_ns - job_.deps.loop->clock().NowNs();
  if (!choice->final && left_ns > 0) {
    job_.deps.loop->CancelTimer(choice_timer_);
    choice_timer_ = job_.deps.loop->After(std::chrono::milliseconds(left_ns / 1000000 + 1),
                                          lifetime_.Wrap([this] { LookForWorkers(); }));
    return false;
  }
  return TakeResources(*choice);
}

// The job again, whose rules may refuse the choice.
bool JobPreparation::TakeResources(const ResourceChoice& choice) {
  const store::JobRow& row = job_.record.row();
  config::ParsedJob parsed = config::ReadStoredJob(row.job.effective_json(), row.job.yaml(),
                                                   row.base_dir, choice.chosen());
  if (!parsed.errors.empty()) {
    job_.listener.OnHopeless(failure::MakeError(
        absl::InvalidArgumentError(
            absl::StrCat(choice.Text(), ": ", config::FormatErrors(parsed.errors, "job.yaml"))),
        {.phase = "resources"}));
    return false;
  }
  job_.spec = std::move(parsed.spec);
  v1::Job& job = job_.record.edit();
  job.set_device(config::DeviceName(job_.spec.device));
  job.set_workers(static_cast<int32_t>(job_.spec.workers));
  job.set_resources_reason(choice.reason);
  job.set_effective_json(parsed.effective_json);
  job_.record.AddEvent(ResourcesChosenEvent(job.device(), job.workers()), choice.Text());
  return true;
}

// A job that an earlier release accepted keeps its data_rules only for the sake of what came of
// them: a recipe.
void JobPreparation::TakeDataRules() {
  if (job_.spec.data_rules == config::kDataRules || !job_.record.job().recipe_hash().empty()) {
    return;
  }
  job_.record.AddEvent(
      WarningEvent(),
      absl::StrCat("the job was accepted under data_rules ", job_.spec.data_rules,
                   ", and its data was never prepared: this release prepares it, under data_rules ",
                   config::kDataRules));
  job_.spec.data_rules = config::kDataRules;
  v1::Job& job = job_.record.edit();
  job.set_effective_json(config::WithTodaysDataRules(job.effective_json()));
}

// Without resources all that does not depend on them: then what is wrong with model or data is told
// at once, and the tokens are cached.
void JobPreparation::Prepare() {
  TakeDataRules();
  const bool chosen = HasResources();
  if (state::IsTerminal(job_.record.phase())) return;  // the choice broke a rule of the job
  waits_for_choice_ = false;
  cancelled_ = std::make_shared<std::atomic<bool>>(false);
  const absl::StatusOr<int64_t> unended =
      job_.deps.journal->store()->UnendedPreparations(job_.record.id());
  if (!unended.ok() || *unended >= kMostUnended) {
    OnPrepared(unended.ok() ? EndedTheController(*unended) : unended.status());
    return;
  }
  if (*unended > 0) {
    job_.record.AddEvent(WarningEvent(),
                         "the controller ended while this job's data was prepared: "
                         "it is prepared again, with no other job's at the same time");
  }
  Offload(chosen, *unended);
}

void JobPreparation::Offload(bool chosen, int64_t unended) {
  Loop* loop = job_.deps.loop;
  auto show = lifetime_.Wrap([this](double fraction) {
    job_.record.edit().mutable_progress()->set_prepare_fraction(fraction);
    job_.record.Changed();
  });
  PrepareHooks hooks{.progress =
                         [loop, show](double fraction) {
                           loop->Post([show, fraction]() mutable { show(fraction); });
                         },
                     .cancelled = [cancelled = cancelled_] { return cancelled->load(); }};
  auto result = std::make_shared<Result>();
  auto identity = std::make_shared<std::string>();
  auto prepared = lifetime_.Wrap([this, chosen, result, identity] {
    job_.output.set_identity(*identity);
    waits_for_choice_ = !chosen && result->ok();
    waits_for_choice_ ? LookForWorkers() : OnPrepared(*result);
  });
  job_.deps.preparations->Enter(
      /*alone=*/unended > 0,
      [loop, gate = job_.deps.preparations, result, prepared,
       work = GuardedInto(
           result, [work = job_.deps.lane_work, files = job_.deps.files,
                    counted = Counted{job_.deps.journal->store(), job_.record.id(), unended},
                    spec = chosen ? job_.spec : SpecOfData(), hooks, result, identity] {
             *result = counted.Run(hooks, [&] { return work->prepare(spec, hooks); });
             *identity = files->Identity(spec.output_dir).value_or("");
           })] {
        loop->Offload(Lane::kPreparation, work, [gate, prepared]() mutable {
          gate->Leave();
          prepared();
        });
      });
}

void JobPreparation::OnPrepared(const absl::StatusOr<std::shared_ptr<const Curriculum>>& result) {
  if (!result.ok()) {
    const bool of_cache = data::IsOfTokenCache(result.status());
    job_.listener.OnPrepared(
        failure::MakeError(result.status(), {.phase = of_cache ? "tokens" : "prepare_data"}));
    return;
  }
  const bool known = curriculum_ != nullptr;
  curriculum_ = *result;
  v1::Job& job = job_.record.edit();
  *job.mutable_data() = curriculum_->summary();
  job.set_recipe_hash(curriculum_->recipe_hash());
  job.mutable_progress()->set_total_steps(curriculum_->total_steps());
  job.mutable_progress()->set_prepare_fraction(1.0);
  job_.deps.metrics->Packing(job.id(), job.data().packing_efficiency());
  job_.deps.metrics->Progress(job.id(), job.progress().step(), job.progress().total_steps());
  if (!known) SayPrepared();
  job_.listener.OnPrepared(std::nullopt);
}

void JobPreparation::SayPrepared() {
  const v1::DatasetSummary& data = job_.record.job().data();
  const int64_t steps = curriculum_->total_steps();
  job_.record.AddEvent(DataPreparedEvent(data, steps),
                       absl::StrCat(data.documents(), " documents, ", data.tokens(), " tokens, ",
                                    steps, steps == 1 ? " step" : " steps"));
  for (const std::string& warning : curriculum_->warnings()) {
    job_.record.AddEvent(WarningEvent(), warning);
  }
}

}  // namespace coxswain::driver
