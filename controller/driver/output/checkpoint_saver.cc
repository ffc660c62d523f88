#include "controller/driver/output/checkpoint_saver.h"

#include <memory>
#include <utility>

#include "common/faults/fault_point.h"
#include "common/guarded.h"
#include "controller/checkpoint/room.h"

namespace coxswain::driver {

CheckpointSaver::CheckpointSaver(const Deps& deps, const gang::Gang* gang,
                                 std::shared_ptr<OutputClaim> output, int64_t bytes,
                                 checkpoint::CommitRequest request, TrainerState trainer_state,
                                 Done done)
    : deps_(deps),
      gang_(gang),
      output_(std::move(output)),
      bytes_(bytes),
      request_(std::move(request)),
      trainer_state_(std::move(trainer_state)),
      done_(std::move(done)),
      staging_(checkpoint::StagingDirectory(
          request_.output_dir, {gang->job, gang->term, gang->epoch}, request_.manifest.run.step)),
      shards_(gang->ranks.size()),
      writing_(gang->ranks.size(), true) {}

// A gang writes one checkpoint at a time: what is in staging is of saves that failed.
void CheckpointSaver::Start() {
  start_ns_ = deps_.loop->clock().NowNs();
  auto status = std::make_shared<absl::Status>();
  Files* files = deps_.files;
  deps_.loop->Offload(
      Lane::kFiles,
      GuardedInto(status,
                  [files, status, output = output_, output_dir = request_.output_dir,
                   staging = staging_, bytes = bytes_, step = request_.manifest.run.step] {
                    *status = output->WhileHeld(
                        [&] { return checkpoint::SweepStaging(files, output_dir); });
                    if (status->ok()) *status = checkpoint::CheckRoom(files, output_dir, bytes);
                    if (status->ok()) *status = files->MakeDirs(staging);
                    if (status->ok())
                      *status = fault::Reach(fault::Point::kStagingMade, {.step = step});
                  }),
      lifetime_.Wrap([this, status] {
        if (status->ok()) {
          SendSaveShard();
        } else {
          Fail(failure::MakeError(*status, {.phase = "save_shard"}));
        }
      }));
}

double CheckpointSaver::seconds() const {
  return static_cast<double>(deps_.loop->clock().NowNs() - start_ns_) * 1e-9;
}

void CheckpointSaver::SendSaveShard() {
  for (int rank = 0; rank < gang_->world_size(); ++rank) {
    v1::SaveShardRequest request;
    *request.mutable_fence() = gang_->FenceOf(rank);
    request.set_step(request_.manifest.run.step);
    request.set_directory(staging_);
    deps_.transport->SaveShard(
        gang_->ranks[rank].target, request, WorkerTransport::kAsLongAsItTakes,
        lifetime_.Wrap([this, rank](const absl::StatusOr<v1::SaveShardResponse>& response) {
          OnShard(rank, response);
        }));
    fault::Pass(fault::Point::kSaveSent, {.step = request.step(), .rank = rank});
  }
  watch_.emplace(deps_.OfGang(), gang_, gang::StallWatch::Of::kSave);
  CheckStalls();
}

// A shard may take hours to slow storage: what counts is that it grows.
void CheckpointSaver::CheckStalls() {
  if (finished_ || answered_ == gang_->world_size()) return;
  watch_->Look();
  if (const auto stalled =
          watch_->Find(writing_, deps_.settings.save_timeout, "writes its shard of a checkpoint")) {
    const std::string& host = gang_->ranks[stalled->rank].host;
    Fail(failure::MakeError(stalled->status, {stalled->rank, host, "save_shard"}));
    return;
  }
  deps_.loop->After(gang::StallWatch::kPeriod, lifetime_.Wrap([this] { CheckStalls(); }));
}

void CheckpointSaver::OnShard(int rank, const absl::StatusOr<v1::SaveShardResponse>& response) {
  if (finished_) return;
  writing_[rank] = false;
  if (response.ok()) {
    shards_[rank] = *response;
  } else {
    const v1::Error error =
        failure::MakeError(response.status(), {rank, gang_->ranks[rank].host, "save_shard"});
    // Aborted: another rank ended the epoch, whose own answer tells why.
    if (error.kind() != v1::ERROR_KIND_STORAGE && !absl::IsAborted(response.status())) {
      Fail(error);
      return;
    }
    if (!kept_error_ || error.kind() == v1::ERROR_KIND_STORAGE) kept_error_ = error;
  }
  if (++answered_ < gang_->world_size()) return;
  if (kept_error_) {
    Fail(*kept_error_);
  } else {
    Commit();
  }
}

void CheckpointSaver::Commit() {
  for (const auto& shard : shards_) {
    for (const v1::ShardFile& file : shard->files()) {
      request_.manifest.files.push_back(
          FileInBlocks(file.name(), {.bytes = file.bytes(), .digests = file.block_digests()}));
    }
  }
  auto result = std::make_shared<absl::StatusOr<checkpoint::Committed>>();
  Files* files = deps_.files;
  deps_.loop->Offload(Lane::kFiles,
                      GuardedInto(result,
                                  [files, result, output = output_, request = request_,
                                   trainer_state = trainer_state_]() mutable {
                                    request.trainer_state = trainer_state();
                                    *result = checkpoint::CommitCheckpoint(
                                        files, std::move(request), [&](const auto& renames) {
                                          return output->WhileHeld(renames);
                                        });
                                  }),
                      lifetime_.Wrap([this, result] {
                        if (!result->ok()) {
                          Fail(failure::MakeError(result->status(), {.phase = "checkpoint"}));
                          return;
                        }
                        finished_ = true;
                        done_.saved(**result);
                      }));
}

void CheckpointSaver::Fail(const v1::Error& error) {
  if (finished_) return;
  finished_ = true;
  done_.failed(error);
}

}  // namespace coxswain::driver
