#include <memory>

#include "common/config/job_parser.h"
#include "common/guarded.h"
#include "controller/api/operations.h"
#include "controller/checkpoint/goes_on.h"
#include "controller/driver/choose_resources.h"
#include "controller/output_place.h"
#include "controller/planner/adapter_settings.h"

namespace coxswain::api {

void Plan(Context& context, const v1::PlanRequest& request, Gone gone,
          Reply<v1::PlanResponse> reply) {
  const std::string base_dir = BaseDirectory(request.yaml_path());
  config::ParsedJob parsed = config::ParseJob(request.yaml(), base_dir);
  config::ChosenResources resources;
  std::string chosen;  // a line before the plan's text
  if (parsed.errors.empty() && !config::HasChosenResources(parsed.spec)) {
    const driver::ResourceChoice choice =
        driver::ChooseResources(parsed.spec, context.deps.registry->All())
            .value_or(driver::AssumedResources(parsed.spec));
    chosen = choice.Text() + "\n";
    resources = choice.chosen();
    parsed = config::ParseJob(request.yaml(), base_dir, resources);
  }
  if (!parsed.errors.empty()) {
    reply(absl::InvalidArgumentError(config::FormatErrors(parsed.errors, request.yaml_path())));
    return;
  }
  const char* device = config::DeviceName(parsed.spec.device);
  std::vector<scheduler::Worker> living =
      driver::LivingWorkers(context.deps.registry->All(), device);
  driver::WorkerFacts workers = driver::LeastOf(living);
  if (living.size() >= static_cast<size_t>(parsed.spec.workers)) {
    living.resize(static_cast<size_t>(parsed.spec.workers));
    workers.links = context.deps.registry->links().Find(living);
    workers.ranks_of_hosts = driver::RanksOfHosts(living);
  }
  auto result = std::make_shared<absl::StatusOr<v1::PlanResponse>>();
  context.deps.loop->Offload(
      Lane::kPlans,
      GuardedInto(result,
                  [plan = context.plan, files = context.deps.files, yaml = request.yaml(), base_dir,
                   parsed, resources, workers, chosen, gone, result] {
                    if (gone()) {
                      *result = absl::CancelledError("nobody waits for the plan any more");
                      return;
                    }
                    const auto job = planner::TakeOverAdapter(parsed, yaml, base_dir, resources);
                    absl::Status place =
                        job.ok() ? CheckOutputPlace(files, job->spec) : job.status();
                    if (place.ok()) place = checkpoint::CheckGoesOn(files, *job);
                    *result = place.ok() ? plan(job->spec, workers, gone) : place;
                    if (result->ok()) (*result)->set_text(chosen + (*result)->text());
                  }),
      [reply, result] { reply(*result); });
}

}  // namespace coxswain::api
