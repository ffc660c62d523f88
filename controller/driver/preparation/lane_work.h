// Work that takes seconds and runs in lanes: data preparation, planning, export.
#ifndef COXSWAIN_CONTROLLER_DRIVER_PREPARATION_LANE_WORK_H_
#define COXSWAIN_CONTROLLER_DRIVER_PREPARATION_LANE_WORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/checkpoint/manifest.h"
#include "controller/driver/preparation/worker_facts.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/deal_bins.h"
#include "controller/folders/seal_folder.h"
#include "controller/folders/staged_export.h"
#include "controller/runtime/files.h"
#include "controller/runtime/held_file.h"
#include "controller/sources/fetch_sources.h"
#include "controller/sources/hub_access.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain::driver {

struct PrepareHooks {
  std::function<void(double fraction)> progress;  // any thread
  std::function<bool()> cancelled;                // any thread
};

struct GangPlan {
  std::string bytes;       // serialised plan
  std::string hash;        // SHA-256 of bytes, 32 bytes
  v1::MemoryBytes memory;  // per rank
  std::vector<std::string> advice;
  double flops_per_token = 0;  // forward and backward
  int64_t micro_batch_bins = 1;
  int64_t checkpoint_bytes = 0;  // of one; 0: nothing is saved
  BinWork work;
  plan::Prediction predicted = {};
  bool links_measured = false;  // what `predicted` rests on
};

struct PlanInput {
  std::string job;
  const config::JobSpec* spec = nullptr;
  const Curriculum* curriculum = nullptr;  // as made by `prepare`
  WorkerFacts workers;                     // of the gang
  // Manifest of the checkpoint to continue from, if its recipe has another length; else null.
  const checkpoint::Manifest* extended = nullptr;
};

struct ExportInput {
  config::JobSpec spec;
  std::string plan_bytes;
  std::string checkpoint_dir;
  std::string owner;  // ending of names in .staging
  Author author;      // of the manifest
  Guard guard;        // of each replacement of a directory
  // What stage_export has written of this input, in place of writing it now.
  std::optional<StagedExport> staged = {};
  std::string unverified = {};  // why what is written now is not verified
};

struct ExportedTo {
  std::string directory;              // what users load
  std::string merged_directory;       // the merged model beside an adapter, else empty
  std::string digest;                 // of the manifest in `directory`
  std::string merged_digest;          // likewise
  std::vector<std::string> replaced;  // "<directory> of job <job>": exports of other jobs
  std::vector<Verification> verifications = {};  // as Job.verifications
};

struct PushInput {
  config::PushSpec to;
  std::string directory;            // of the export
  std::string digest;               // of its manifest, 32 bytes
  std::string job;                  // its name, for people
  std::string owner;                // Job.owner, empty: an operator
  std::function<bool()> cancelled;  // any thread
};

struct PushedTo {
  std::string commit;
  std::string url;         // of it, for people
  int64_t sent_bytes = 0;  // of contents; 0: the repository had them
};

struct LaneWork {
  // Downloads what `spec` names of the Hub, with the token that serves `owner` (Job.owner).
  std::function<absl::StatusOr<std::vector<sources::FetchedSource>>(
      const config::JobSpec& spec, const std::string& owner, const sources::FetchHooks&)>
      fetch;
  std::function<absl::StatusOr<std::shared_ptr<const Curriculum>>(const config::JobSpec&,
                                                                  const PrepareHooks&)>
      prepare;
  // Writes the sums of a curriculum that keeps references beside its token stores.
  std::function<absl::Status(const Curriculum&, const ReferenceSums&)> keep_references;
  std::function<absl::StatusOr<GangPlan>(const PlanInput&)> plan;
  // Reads the plan of a running gang; `memory` and `advice` stay empty. FailedPrecondition, naming
  // both recipes, when the plan is not of the curriculum's recipe.
  std::function<absl::StatusOr<GangPlan>(const std::string& bytes, const Curriculum&)> read_plan;
  // Writes an export aside; export_artifacts with `staged` puts it in place. Without, it does both.
  std::function<absl::StatusOr<StagedExport>(const ExportInput&)> stage_export;
  std::function<absl::StatusOr<ExportedTo>(const ExportInput&)> export_artifacts;
  // Sends an export to the Hub, with the token of this process, which serves operators alone: for
  // another owner it is Unauthenticated. Errors as hub::PushFolder;
  // NotFound: the directory holds no export of `digest` any more.
  std::function<absl::StatusOr<PushedTo>(const PushInput&)> push;
};

// The production side, over controller/data, controller/planner and ExportArtifacts. Token stores
// are cached below `cache_dir`. `files` moves exports into place. `access`: whose tokens the Hub is
// sent.
LaneWork MakeLaneWork(const std::string& cache_dir, Files* files,
                      const sources::HubAccess& access = {});

struct PlanPage {
  std::string text;
  std::string json;
};

// The page that `cox plan` prints for a job on such workers. It names the checkpoint in `files`
// that the job would extend. Cancelled soon after `cancelled` returns true.
absl::StatusOr<PlanPage> MakePlanPage(const std::string& cache_dir, Files* files,
                                      const config::JobSpec& spec, const WorkerFacts& workers,
                                      const std::function<bool()>& cancelled);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_PREPARATION_LANE_WORK_H_
