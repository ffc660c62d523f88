// PREPARING: what `auto` under spec.resources comes to, before anything depends on it.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/stored_job.h"
#include "controller/driver/choose_resources.h"
#include "controller/driver/job_driver.h"
#include "controller/driver/make_events.h"
#include "controller/failure/errors.h"

namespace coxswain::driver {

bool JobDriver::WaitsForChoice() const {
  return phase() == v1::JOB_STATE_PREPARING && data_prepared_;
}

void JobDriver::LookForWorkers() {
  if (WaitsForChoice() && HasResources()) StartPreparation();
}

// Tokens are the same with any resources.
config::JobSpec JobDriver::SpecOfData() const {
  const ResourceChoice assumed = AssumedResources(spec_);
  config::JobSpec spec = spec_;
  spec.device = assumed.device;
  spec.workers = assumed.workers;
  return spec;
}

bool JobDriver::HasResources() {
  if (config::HasChosenResources(spec_)) return true;
  const std::optional<ResourceChoice> choice = ChooseResources(spec_, deps_.registry->All());
  if (!choice) return false;
  const int64_t settled_ns = deps_.registry->last_registered_ns() +
                             std::chrono::nanoseconds(deps_.settings.settle).count();
  const int64_t left_ns = settled_ns - deps_.loop->clock().NowNs();
  if (!choice->final && left_ns > 0) {
    deps_.loop->CancelTimer(choice_timer_);
    choice_timer_ = deps_.loop->After(std::chrono::milliseconds(left_ns / 1000000 + 1),
                                      lifetime_.Wrap([this] { LookForWorkers(); }));
    return false;
  }
  return TakeResources(*choice);
}

// The job again, whose rules may refuse the choice.
bool JobDriver::TakeResources(const ResourceChoice& choice) {
  config::ParsedJob parsed =
      config::ReadStoredJob(job().effective_json(), job().yaml(), row().base_dir, choice.chosen());
  if (!parsed.errors.empty()) {
    Fail(failure::MakeError(
        absl::InvalidArgumentError(
            absl::StrCat(choice.Text(), ": ", config::FormatErrors(parsed.errors, "job.yaml"))),
        {.phase = "resources"}));
    return false;
  }
  spec_ = std::move(parsed.spec);
  v1::Job& job = record_.edit();
  job.set_device(config::DeviceName(spec_.device));
  job.set_workers(static_cast<int32_t>(spec_.workers));
  job.set_resources_reason(choice.reason);
  job.set_effective_json(parsed.effective_json);
  record_.AddEvent(ResourcesChosenEvent(job.device(), job.workers()), choice.Text());
  return true;
}

}  // namespace coxswain::driver
