// The checkpoints of a job: makes one, keeps or deletes others, and reports them.
#ifndef COXSWAIN_CONTROLLER_DRIVER_OUTPUT_JOB_CHECKPOINTS_H_
#define COXSWAIN_CONTROLLER_DRIVER_OUTPUT_JOB_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/run_state.h"
#include "controller/driver/output/checkpoint_saver.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/records/job_context.h"
#include "controller/driver/training/curriculum.h"
#include "controller/failure/policy.h"
#include "controller/gang/gang.h"

namespace coxswain::driver {

// CPU threads of every rank of a gang on CPUs; 0: on GPUs, or they differ, or cannot be asked.
int64_t RankThreads(const gang::Gang& gang, const scheduler::Registry& registry);

// Loop thread only.
class JobCheckpoints {
 public:
  // The content of a checkpoint beside the shards of its ranks.
  struct Content {
    const gang::Gang* gang = nullptr;  // until Stop
    std::shared_ptr<OutputClaim> output;
    std::shared_ptr<const Curriculum> curriculum;
    checkpoint::RunState run;
    Origin origin;                 // what the job went on from, of another job
    double flops_per_token = 0;    // of the plan
    int64_t micro_batch_bins = 1;  // of the plan
    int64_t bytes = 0;             // of the plan; 0: not known
    int64_t sent_ns = 0;           // of the SNAPSHOT command
  };
  struct Events {
    // The checkpoint is written, or storage failed it. Called before that is durable; then one of
    // the next two is called.
    std::function<void()> finished;
    std::function<void()> committed;
    std::function<void()> given_up;                // training continues
    std::function<void(const v1::Error&)> failed;  // and its attempt with it
    std::function<failure::SaveFacts()> facts;     // of this checkpoint, when it has failed
  };

  explicit JobCheckpoints(const JobContext& job) : job_(job) {}

  // Call it when every rank holds the snapshot. One save at a time.
  void Save(Content content, const Events& events);
  // The checkpoint due at `step` is taken when the current save is finished. A Warning where that
  // takes more than a second from now.
  void Delayed(int64_t step);
  // The gang is ending. No event of a save comes after this.
  void Stop();

  // A gang begins from this checkpoint, which becomes this job's: it may lack a row, or belong to
  // another job.
  void Adopt(const checkpoint::Manifest& manifest, const std::string& directory);
  void ObserveOutput();  // how much room its file system has left

 private:
  void OnSaved(const checkpoint::Committed& committed, const Content& content,
               const Events& events);
  void OnFailed(const v1::Error& error, int64_t step, const Events& events);
  void TellDelayed(int64_t step);
  void Retain(const Content& content);
  void Drop(const Content& content, const std::string& directory);
  bool PersistDeletion(const std::vector<int64_t>& steps);
  v1::CheckpointInfo InfoOf(const checkpoint::Manifest& manifest,
                            const std::string& directory) const;
  void DropSaver();

  const JobContext& job_;
  std::unique_ptr<CheckpointSaver> saver_;
  int64_t ended_saves_ = 0;  // committed or failed
  Lifetime lifetime_;        // cut by Stop
  Lifetime looks_;           // of what looks at the output directory
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_OUTPUT_JOB_CHECKPOINTS_H_
