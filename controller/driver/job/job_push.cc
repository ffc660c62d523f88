#include "controller/driver/job/job_push.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"

namespace coxswain::driver {

void JobPush::Start() {
  const v1::Job& job = job_.record.job();
  const bool merged = !job.merged_dir().empty();
  cancelled_ = std::make_shared<std::atomic<bool>>(false);
  auto result = std::make_shared<absl::StatusOr<PushedTo>>();
  const PushInput input{.to = job_.spec.push_to_hub,
                        .directory = merged ? job.merged_dir() : job.artifact_dir(),
                        .digest = merged ? job.merged_digest() : job.artifact_digest(),
                        .job = job.name(),
                        .owner = job.owner(),
                        .cancelled = [cancelled = cancelled_] { return cancelled->load(); }};
  job_.deps.loop->Offload(
      Lane::kTransfers,
      GuardedInto(result,
                  [result, input, lane = job_.deps.lane_work] { *result = lane->push(input); }),
      lifetime_.Wrap([this, result] { job_.listener.OnPushed(*result); }));
}

void JobPush::Stop() {
  if (cancelled_) cancelled_->store(true);
  lifetime_.Reset();
}

std::string WithWayOut(const std::string& message, const std::string& directory,
                       const std::string& repository) {
  return absl::StrCat(message, "; the export is whole in ", directory, ", and `cox push ",
                      directory, " ", repository, "` sends it");
}

}  // namespace coxswain::driver
