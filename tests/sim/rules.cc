#include "tests/sim/rules.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/folders/replace_directory.h"
#include "controller/scheduler/placement.h"

namespace coxswain::sim {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// A job that could have workers has them after that time at the latest.
constexpr int64_t kMostIdleNs = 10 * kSecondNs;
// One of gang::Settings::verdict_window, two of a dump.
constexpr int64_t kMostStrayedNs = 4 * kSecondNs;

// Written again, the old one lies aside until the new one has its name; a crash between brings it
// back, but for a damaged one.
bool BeingReplaced(Files* files, const std::string& directory) {
  if (files->Exists(directory)) return false;
  if (files->Exists(directory + ".damaged")) return true;
  const size_t slash = directory.rfind('/');
  const std::string step = directory.substr(directory.rfind('-') + 1);
  const auto staged = files->List(directory.substr(0, slash) + "/.staging");
  return staged.ok() && std::any_of(staged->begin(), staged->end(), [&](const FileEntry& entry) {
           return entry.name.find("step-" + step + ".") != std::string::npos &&
                  entry.name.find(kReplacedEnding) != std::string::npos;
         });
}

}  // namespace

void Rules::Report(const std::string& rule, const std::string& text) {
  violations_.push_back(absl::StrCat(rule, ": ", text));
}

void Rules::BeforeCommit(const store::Batch& batch) {
  for (const store::StepRow& row : batch.steps) CheckStep(row);
}

void Rules::AfterCommit(const store::Batch& batch) {
  for (const store::EpochRow& row : batch.epochs) CheckEpoch(row);
  for (const store::CheckpointRow& row : batch.checkpoints) {
    if (row.deleted) {
      committed_.erase({row.job, row.step});
    } else {
      committed_[{row.job, row.step}] = row.directory;
      ++committed_checkpoints_;
      CheckCheckpoint(row.job, row.directory);
    }
  }
}

// One current epoch: they rise, and so do the terms that draw them.
void Rules::CheckEpoch(const store::EpochRow& row) {
  uint64_t& current = current_epoch_[row.job];
  if (row.epoch < current || row.term < highest_term_) {
    Report("sim-1", absl::StrCat(row.job, ": epoch ", row.epoch, " of term ", row.term,
                                 " is written after epoch ", current, " and term ", highest_term_));
  }
  current = std::max(current, row.epoch);
  highest_term_ = std::max(highest_term_, row.term);
  epochs_[{row.job, row.epoch}] = {row.fingerprint, row.gemm_table, row.world_size};
}

void Rules::CheckStep(const store::StepRow& row) {
  if (row.epoch != current_epoch_[row.job]) {
    Report("sim-1", absl::StrCat(row.job, ": step ", row.step, " of epoch ", row.epoch,
                                 " is committed in epoch ", current_epoch_[row.job]));
  }
  if (!world_.workers->AllRanksDid(row.job, row.epoch, row.step)) {
    Report("sim-2", absl::StrCat(row.job, ": step ", row.step, " of epoch ", row.epoch,
                                 " is committed but not all ranks did it"));
  }
  Trained& before = steps_[{row.job, row.step}];
  const Trained now{row.epoch, row.loss_bits, row.gnorm_bits};
  const bool replayed = before.epoch != 0 && before.epoch != now.epoch;
  const bool same_sums = epochs_[{row.job, before.epoch}] == epochs_[{row.job, now.epoch}];
  if (before.epoch == now.epoch) {
    Report("sim-3", absl::StrCat(row.job, ": step ", row.step, " of epoch ", row.epoch,
                                 " is committed twice"));
  }
  if (replayed &&
      (before.loss_bits != now.loss_bits || (same_sums && before.gnorm_bits != now.gnorm_bits))) {
    Report("sim-6", absl::StrCat(row.job, ": step ", row.step, " of epoch ", before.epoch,
                                 " was replayed in epoch ", now.epoch, " with other bits"));
  }
  before = now;
}

void Rules::OnTrained(const v1::Fence& fence, int rank, const FakeModel& model) {
  const auto [known, first] = trained_in_.try_emplace({fence.job(), model.steps}, fence.epoch());
  if (!first && known->second != fence.epoch()) {
    known->second = fence.epoch();
    ++trained_again_[fence.job()];
  }
  if (model.parameters == lineage_.ParametersAfter(model.steps)) return;
  Report("sim-3", absl::StrCat(fence.job(), ": rank ", rank, " of epoch ", fence.epoch(),
                               " has other batches behind it after ", model.steps, " steps"));
}

void Rules::CheckCheckpoint(const std::string& job, const std::string& directory) {
  if (!world_.files->mounted()) return;
  const auto manifest = checkpoint::VerifyCheckpoint(world_.files, directory);
  if (manifest.ok() || BeingReplaced(world_.files, directory)) return;
  Report("sim-4", absl::StrCat(job, ": ", std::string(manifest.status().message())));
}

void Rules::OnChanged(const std::string& path) {
  for (const auto& [key, directory] : committed_) {
    if (Below(path, directory) || Below(directory, path)) CheckCheckpoint(key.first, directory);
  }
}

void Rules::AfterTask(driver::JobTable& jobs, scheduler::Registry& registry, int64_t now_ns) {
  attended_ns_ += std::clamp<int64_t>(now_ns - last_look_ns_, 0, kSecondNs);
  last_look_ns_ = now_ns;
  now_ns = attended_ns_;
  CheckGangs(jobs.NewestFirst(), registry, now_ns);
  if (now_ns >= next_idle_check_ns_) {
    next_idle_check_ns_ = now_ns + kSecondNs;
    CheckIdle(jobs, registry, now_ns);
  }
}

// A gang has the job's current epoch or none yet, and the registry has its workers for that job,
// but for one that was lost and came back while the gang waits for what its other ranks say.
void Rules::CheckGangs(const std::vector<driver::JobDriver*>& jobs, scheduler::Registry& registry,
                       int64_t now_ns) {
  std::map<std::string, int64_t> strayed;
  for (const driver::JobDriver* job : jobs) {
    const gang::Gang* gang = job->gang();
    if (gang == nullptr) continue;
    const std::string& id = job->job().id();
    if (gang->epoch != 0 && gang->epoch != current_epoch_[id]) {
      Report("sim-1", absl::StrCat(id, ": has a gang of epoch ", gang->epoch, ", the store's is ",
                                   current_epoch_[id]));
    }
    for (const gang::Rank& rank : gang->ranks) {
      const scheduler::Worker* worker = registry.Find(rank.target.incarnation);
      if (worker == nullptr || worker->job == id) continue;
      if (worker->status.phase == state::WorkerPhase::kLost) continue;
      const auto since = strayed_since_ns_.find(rank.target.incarnation);
      const int64_t since_ns = since == strayed_since_ns_.end() ? now_ns : since->second;
      strayed[rank.target.incarnation] = since_ns;
      if (now_ns - since_ns < kMostStrayedNs) continue;
      Report("sim-8", absl::StrCat(rank.target.incarnation, " is in the gang of ", id,
                                   ", and the registry gave it to '", worker->job, "'"));
    }
  }
  strayed_since_ns_ = std::move(strayed);
}

// The first of the queue does not wait for workers that are free and that nobody keeps, but of a
// controller that stops.
void Rules::CheckIdle(driver::JobTable& jobs, scheduler::Registry& registry, int64_t now_ns) {
  std::map<std::string, int64_t> idle;
  std::vector<scheduler::QueueEntry> queue = jobs.Queue();
  if (jobs.stopping()) queue.clear();
  const bool kept =
      std::any_of(queue.begin(), queue.end(), [&](const scheduler::QueueEntry& entry) {
        return entry.keeps && entry.job != queue.front().job;
      });
  if (!queue.empty() && queue.front().ready && !kept) {
    const scheduler::QueueEntry& first = queue.front();
    if (static_cast<int64_t>(registry.Free(first.device).size()) >= first.workers) {
      const auto since = idle_since_ns_.find(first.job);
      idle[first.job] = since == idle_since_ns_.end() ? now_ns : since->second;
      if (now_ns - idle[first.job] > kMostIdleNs) {
        Report("sim-5", absl::StrCat(first.job, ": waits for workers that are free"));
      }
    }
  }
  idle_since_ns_ = std::move(idle);
}

void Rules::StoreReplaced() {
  current_epoch_.clear();
  epochs_.clear();
  steps_.clear();
  committed_.clear();
  accepted_.clear();
  cancelled_.clear();
  const std::vector<store::JobRow> jobs = *world_.store->Jobs();
  for (const store::JobRow& job : jobs) {
    const std::vector<store::EpochRow> epochs = *world_.store->Epochs(job.job.id());
    const auto checkpoints = *world_.store->Checkpoints(job.job.id());
    for (const store::EpochRow& row : epochs) {
      current_epoch_[row.job] = row.epoch;
      epochs_[{row.job, row.epoch}] = {row.fingerprint, row.gemm_table, row.world_size};
    }
    for (const store::CheckpointRow& row : checkpoints) {
      if (!row.deleted) committed_[{row.job, row.step}] = row.directory;
    }
  }
}

void Rules::Accepted(const std::string& name, const std::string& id) {
  const auto [known, first] = accepted_.emplace(name, id);
  if (known->second != id) {
    Report("sim-9", absl::StrCat("job ", name, " was accepted as ", known->second, " and as ", id));
  }
}

void Rules::AtEnd() {
  for (const std::string& text : world_.workers->violations()) Report("sim-1", text);
  std::map<std::string, v1::JobState> states;
  std::set<std::string> names;
  const auto rows = *world_.store->Jobs();
  for (const store::JobRow& row : rows) {
    if (!names.insert(row.job.name()).second) {
      Report("sim-9", absl::StrCat("job ", row.job.name(), " was submitted once and made twice"));
    }
    states[row.job.id()] = row.job.state();
    CheckEvents(row.job);
    const auto checkpoints = *world_.store->Checkpoints(row.job.id());
    for (const store::CheckpointRow& checkpoint : checkpoints) {
      if (!checkpoint.deleted) CheckCheckpoint(row.job.id(), checkpoint.directory);
    }
    const bool trains = row.job.progress().total_steps() > 0;
    if (row.job.state() == v1::JOB_STATE_SUCCEEDED && trains) CheckArtifact(row.job);
  }
  for (const auto& [name, id] : accepted_) {
    if (!states.contains(id)) Report("sim-9", id + " was accepted and is gone");
  }
  for (const auto& [id, cancelled] : cancelled_) {
    if (states[id] != v1::JOB_STATE_CANCELLED) {
      Report("sim-9", absl::StrCat(id, " was cancelled and is ", v1::JobState_Name(states[id])));
    }
  }
}

void Rules::CheckEvents(const v1::Job& job) {
  int64_t last_id = 0;
  const auto events = *world_.store->Events(job.id(), 0, std::numeric_limits<int64_t>::max());
  for (const v1::JobEvent& event : events) {
    if (event.id() <= last_id) Report("sim-7", job.id() + ": event ids do not rise");
    last_id = event.id();
    if (event.type() == "ReplayDivergence") Report("sim-6", job.id() + ": " + event.message());
  }
}

// What is exported saw every batch once and in order.
void Rules::CheckArtifact(const v1::Job& job) {
  const auto text = world_.files->Read(job.artifact_dir() + "/model");
  if (!text.ok()) {
    Report("sim-3", std::string(text.status().message()));
    return;
  }
  const FakeModel model = FakeModel::Parse(*text);
  if (model.parameters != lineage_.ParametersAfter(model.steps)) {
    Report("sim-3", job.id() + ": the exported model has other batches behind it");
  }
}

}  // namespace coxswain::sim
