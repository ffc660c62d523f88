// One checkpoint by two phases: every rank writes its shard, then the controller commits them all.
#ifndef COXSWAIN_CONTROLLER_DRIVER_OUTPUT_CHECKPOINT_SAVER_H_
#define COXSWAIN_CONTROLLER_DRIVER_OUTPUT_CHECKPOINT_SAVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/checkpoint/checkpoint_files.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/records/deps.h"
#include "controller/failure/errors.h"
#include "controller/gang/gang.h"
#include "controller/gang/stall_watch.h"

namespace coxswain::driver {

// Lives while the checkpoint is written; destroying it leaves at most a staging directory, which
// the next save, the next attempt or the end of the job sweeps.
class CheckpointSaver {
 public:
  struct Done {
    std::function<void(const checkpoint::Committed&)> saved;  // durable under its final name
    // After every rank has answered, where it was storage: none writes any more.
    std::function<void(const v1::Error&)> failed;
  };

  // Any thread: trainer_state.json, made where the files are written.
  using TrainerState = std::function<std::string()>;

  // `request.manifest.files` and `request.trainer_state` are filled in here.
  // `output` is held. `bytes`: of the checkpoint, by the plan; 0: not known.
  CheckpointSaver(const Deps& deps, const gang::Gang* gang, std::shared_ptr<OutputClaim> output,
                  int64_t bytes, checkpoint::CommitRequest request, TrainerState trainer_state,
                  Done done);
  void Start();

  int64_t step() const { return request_.manifest.run.step; }
  double seconds() const;  // since Start

 private:
  void SendSaveShard();
  void CheckStalls();
  void OnShard(int rank, const absl::StatusOr<v1::SaveShardResponse>& response);
  void Commit();
  void Fail(const v1::Error& error);

  const Deps deps_;
  const gang::Gang* const gang_;
  const std::shared_ptr<OutputClaim> output_;
  const int64_t bytes_;
  checkpoint::CommitRequest request_;
  const TrainerState trainer_state_;
  const Done done_;
  const std::string staging_;
  std::vector<std::optional<v1::SaveShardResponse>> shards_;  // per rank
  std::optional<gang::StallWatch> watch_;                     // while ranks write
  std::vector<bool> writing_;
  int64_t start_ns_ = 0;
  int answered_ = 0;
  std::optional<v1::Error> kept_error_;  // until all ranks answered; storage goes first
  bool finished_ = false;
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_OUTPUT_CHECKPOINT_SAVER_H_
