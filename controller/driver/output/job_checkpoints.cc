#include "controller/driver/output/job_checkpoints.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/faults/fault_point.h"
#include "common/files/hash.h"
#include "common/status_macros.h"
#include "controller/driver/records/make_events.h"
#include "controller/driver/records/store_rows.h"
#include "controller/driver/training/recipe_name.h"
#include "controller/driver/training/trainer_state.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {
namespace {

// A checkpoint that comes later by less is no news.
constexpr std::chrono::milliseconds kNoticed(1000);

checkpoint::Manifest ManifestOf(const JobCheckpoints::Content& content, const v1::Job& job) {
  checkpoint::Manifest manifest;
  manifest.job = job.id();
  manifest.term = content.gang->term;
  manifest.epoch = content.gang->epoch;
  const checkpoint::RecipeName recipe = NameOf(*content.curriculum, job.effective_json());
  manifest.recipe_hash = recipe.hash;
  manifest.recipe_stem = recipe.stem;
  manifest.total_steps = recipe.total_steps;
  manifest.effective_json = job.effective_json();
  manifest.recipe_facts = content.curriculum->recipe_facts();
  manifest.plan_hash = ToHex(content.gang->plan_hash);
  manifest.fingerprint = content.gang->fingerprint;
  manifest.world_size = content.gang->world_size();
  manifest.pass = content.curriculum->passes_after(content.run.step);
  manifest.run = content.run;
  manifest.origin = content.origin;
  return manifest;
}

}  // namespace

int64_t RankThreads(const gang::Gang& gang, const scheduler::Registry& registry) {
  int64_t threads = 0;
  for (const gang::Rank& rank : gang.ranks) {
    const scheduler::Worker* worker = registry.Find(rank.target.incarnation);
    if (worker == nullptr || worker->hello.build().device() != "cpu") return 0;
    if (threads != 0 && worker->hello.threads() != threads) return 0;
    threads = worker->hello.threads();
  }
  return threads;
}

void JobCheckpoints::Save(Content content, const Events& events) {
  checkpoint::CommitRequest request;
  request.output_dir = job_.spec.output_dir;
  request.manifest = ManifestOf(content, job_.record.job());
  request.manifest.threads = RankThreads(*content.gang, *job_.deps.registry);
  // The trainer state is made of committed steps; what the store does not take is kept.
  job_.deps.journal->FlushOrKeep();
  auto trainer_state = [history = job_.deps.journal->store()->history(), id = job_.record.id(),
                        spec = job_.spec, content] {
    const absl::StatusOr<std::vector<store::StepRow>> steps = history->Steps(id, 0);
    return TrainerStateJson({.spec = spec,
                             .curriculum = *content.curriculum,
                             .run = content.run,
                             .flops_per_token = content.flops_per_token,
                             .micro_batch_bins = content.micro_batch_bins,
                             .steps = steps.ok() ? *steps : std::vector<store::StepRow>()});
  };
  CheckpointSaver::Done done;
  done.saved = lifetime_.Wrap([this, content, events](const checkpoint::Committed& saved) {
    ++ended_saves_;
    OnSaved(saved, content, events);
  });
  done.failed = lifetime_.Wrap([this, step = content.run.step, events](const v1::Error& error) {
    ++ended_saves_;
    OnFailed(error, step, events);
  });
  saver_ = std::make_unique<CheckpointSaver>(job_.deps, content.gang, content.output, content.bytes,
                                             std::move(request), std::move(trainer_state),
                                             std::move(done));
  saver_->Start();
}

// Commands are sent ahead: the one before may be about to end.
void JobCheckpoints::Delayed(int64_t step) {
  job_.deps.loop->After(kNoticed, lifetime_.Wrap([this, step, before = ended_saves_] {
    if (ended_saves_ == before) TellDelayed(step);
  }));
}

void JobCheckpoints::TellDelayed(int64_t step) {
  const std::string before =
      saver_ ? absl::StrFormat("that of step %d is still being written after %.1f s",
                               saver_->step(), saver_->seconds())
             : std::string("the ranks have not finished the one before");
  job_.record.AddEvent(
      WarningEvent(),
      absl::StrFormat("the checkpoint of step %d is delayed: %s. It is taken when that is done; "
                      "raise checkpoint.save_steps (%d), or give checkpoint.output_dir faster "
                      "storage",
                      step, before, job_.spec.save_steps));
}

void JobCheckpoints::Stop() {
  lifetime_.Reset();
  DropSaver();
}

// This may be one of its callbacks.
void JobCheckpoints::DropSaver() {
  job_.deps.loop->Post([saver = std::shared_ptr<CheckpointSaver>(std::move(saver_))] {});
}

v1::CheckpointInfo JobCheckpoints::InfoOf(const checkpoint::Manifest& manifest,
                                          const std::string& directory) const {
  v1::CheckpointInfo info;
  info.set_step(manifest.run.step);
  info.set_directory(directory);
  info.set_bytes(manifest.total_bytes());
  info.set_digest(manifest.digest);
  info.set_committed_unix_ms(job_.deps.loop->clock().UnixMs());
  const auto& evals = manifest.run.evals;
  if (!evals.empty() && evals.back().step == manifest.run.step) {
    info.set_eval_loss(evals.back().loss);
    info.set_has_eval(true);
  }
  return info;
}

void JobCheckpoints::Adopt(const checkpoint::Manifest& manifest, const std::string& directory) {
  auto& known = *job_.record.edit().mutable_checkpoints();
  const auto is_there = [&](const auto& info) { return info.directory() == directory; };
  const auto found = std::find_if(known.begin(), known.end(), is_there);
  if (found != known.end() && found->digest() == manifest.digest) return;
  const v1::CheckpointInfo info = InfoOf(manifest, directory);
  if (found != known.end()) {  // written again, and the row of it is lost
    *found = info;
    job_.record.Changed();
    return;
  }
  job_.deps.journal->Add(CheckpointRowOf(job_.record.id(), manifest.epoch, info));
  *job_.record.edit().add_checkpoints() = info;
  job_.record.Changed();
}

void JobCheckpoints::OnSaved(const checkpoint::Committed& committed, const Content& content,
                             const Events& events) {
  DropSaver();
  const checkpoint::Manifest& manifest = committed.manifest;
  if (!committed.set_aside.empty()) job_.record.AddEvent(WarningEvent(), committed.set_aside);
  const v1::CheckpointInfo info =
      InfoOf(manifest, checkpoint::CheckpointDirectory(job_.spec.output_dir, manifest.run.step));
  job_.deps.journal->Add(CheckpointRowOf(job_.record.id(), manifest.epoch, info));
  auto& known = *job_.record.edit().mutable_checkpoints();
  const bool advanced = std::all_of(known.begin(), known.end(),
                                    [&](const auto& old) { return old.step() < info.step(); });
  known.erase(std::remove_if(known.begin(), known.end(),
                             [&](const auto& old) { return old.step() == info.step(); }),
              known.end());
  *job_.record.edit().add_checkpoints() = info;
  if (advanced) job_.record.CheckpointAdvanced();
  const double seconds =
      static_cast<double>(job_.deps.loop->clock().NowNs() - content.sent_ns) * 1e-9;
  job_.deps.metrics->Checkpoint(job_.record.id(), seconds, info.bytes(), info.committed_unix_ms());
  job_.deps.metrics->CheckpointStep(job_.record.id(), info.step(), job_.spec.save_steps);
  ObserveOutput();
  job_.record.AddEvent(
      CheckpointCommittedEvent(info, seconds),
      absl::StrCat("checkpoint of step ", info.step(),
                   committed.replaced_job.empty() ? "" : ", in the place of job ",
                   committed.replaced_job, committed.replaced_job.empty() ? "" : "'s"));
  events.finished();
  job_.deps.journal->FlushOrKeep();
  fault::Pass(fault::Point::kCheckpointStored, {.step = info.step()});
  Retain(content);
  events.committed();
}

void JobCheckpoints::OnFailed(const v1::Error& error, int64_t step, const Events& events) {
  DropSaver();
  if (error.kind() != v1::ERROR_KIND_STORAGE) {
    events.failed(error);
    return;
  }
  if (job_.spec.test_save && step == 1) {
    v1::Error last = error;
    last.set_kind(v1::ERROR_KIND_USER);
    last.set_message(absl::StrCat("checkpoint.test_save: the checkpoint of step 1 could not be ",
                                  "saved and read back: ", error.message()));
    events.failed(last);
    return;
  }
  const failure::SaveFacts facts = events.facts();
  const bool goes_on = failure::CostsOnlyTheCheckpoint(error, facts);
  job_.deps.metrics->CheckpointFailed(job_.record.id());
  job_.record.AddEvent(
      CheckpointFailedEvent(step, error),
      absl::StrCat("checkpoint of step ", step, " failed: ", failure::Describe(error),
                   facts.cancelled ? ". The job is cancelled all the same"
                   : goes_on ? ". Training goes on, the next checkpoint is tried when it is due"
                             : ""));
  ObserveOutput();
  if (!goes_on) {
    events.failed(error);
    return;
  }
  events.finished();
  job_.deps.journal->FlushOrKeep();
  events.given_up();
}

void JobCheckpoints::ObserveOutput() {
  auto free_bytes = std::make_shared<absl::StatusOr<int64_t>>(0);
  job_.deps.loop->Offload(
      Lane::kFiles,
      [files = job_.deps.files, output_dir = job_.spec.output_dir, free_bytes] {
        *free_bytes = files->FreeBytes(output_dir);
      },
      looks_.Wrap([this, free_bytes] {
        if (state::IsTerminal(job_.record.phase()) || !free_bytes->ok()) return;
        job_.deps.metrics->OutputFree(job_.record.id(), **free_bytes);
      }));
}

// The new checkpoint was read back when it was committed, so older ones may go.
void JobCheckpoints::Retain(const Content& content) {
  std::vector<int64_t> steps;
  for (const v1::CheckpointInfo& info : job_.record.job().checkpoints()) {
    if (info.directory() == checkpoint::CheckpointDirectory(job_.spec.output_dir, info.step())) {
      steps.push_back(info.step());
    }
  }
  const auto& best = content.run.early_stop.best;
  const std::vector<int64_t> old =
      checkpoint::Superseded(steps, job_.spec.save_total_limit, best ? best->step : -1);
  if (old.empty() || !PersistDeletion(old)) return;  // else with the next checkpoint
  auto& known = *job_.record.edit().mutable_checkpoints();
  for (const int64_t step : old) {
    const auto it = std::find_if(known.begin(), known.end(),
                                 [&](const auto& info) { return info.step() == step; });
    const std::string directory = it->directory();
    known.erase(it);
    job_.record.AddEvent(CheckpointDeletedEvent(step, directory),
                         absl::StrCat("checkpoint of step ", step, " is superseded"));
    Drop(content, directory);
  }
}

// What is not as a job wrote it stays, and that is told; what storage fails stays too.
void JobCheckpoints::Drop(const Content& content, const std::string& directory) {
  auto status = std::make_shared<absl::Status>();
  const checkpoint::StagingOwner owner{job_.record.id(), content.gang->term, content.gang->epoch};
  job_.deps.loop->Offload(
      Lane::kFiles,
      [files = job_.deps.files, output = content.output, output_dir = job_.spec.output_dir, owner,
       directory, status] {
        *status = output->WhileHeld([&] {
          RETURN_IF_ERROR(fault::Reach(fault::Point::kCheckpointDrop));
          return checkpoint::DropCheckpoint(files, output_dir, owner, directory);
        });
      },
      looks_.Wrap([this, status] {
        if (absl::IsFailedPrecondition(*status)) {
          job_.record.AddEvent(WarningEvent(), std::string(status->message()));
        }
      }));
}

// Before the files go: what the store calls committed is there.
bool JobCheckpoints::PersistDeletion(const std::vector<int64_t>& steps) {
  return job_.deps.journal
      ->Transact([&] {
        for (const v1::CheckpointInfo& info : job_.record.job().checkpoints()) {
          if (std::find(steps.begin(), steps.end(), info.step()) == steps.end()) continue;
          store::CheckpointRow row = CheckpointRowOf(job_.record.id(), 0, info);
          row.deleted = true;
          job_.deps.journal->Add(std::move(row));
        }
        return absl::OkStatus();
      })
      .ok();
}

}  // namespace coxswain::driver
