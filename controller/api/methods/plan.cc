// A job file judged, with and without its plan.
#include <memory>
#include <utility>

#include "common/config/parser/job_parser.h"
#include "common/guarded.h"
#include "common/status_macros.h"
#include "controller/api/operations.h"
#include "controller/checkpoint/goes_on.h"
#include "controller/driver/preparation/choose_resources.h"
#include "controller/folders/output_place.h"
#include "controller/planner/adapters/adapter_settings.h"
#include "controller/sources/fetch_sources.h"
#include "controller/sources/kept_revisions.h"

namespace coxswain::api {
namespace {

v1::ValidateResponse ResponseOf(const config::ParsedJob& parsed) {
  v1::ValidateResponse response;
  for (const config::ConfigError& error : parsed.errors) {
    v1::ConfigError* out = response.add_errors();
    out->set_path(error.path);
    out->set_line(error.line);
    out->set_message(error.message);
  }
  return response;
}

}  // namespace

void Validate(Context& context, const v1::ValidateRequest& request,
              Reply<v1::ValidateResponse> reply) {
  auto parsed = std::make_shared<config::ParsedJob>(
      config::ParseJob(request.yaml(), BaseDirectory(request.yaml_path())));
  if (!parsed->errors.empty()) {
    reply(ResponseOf(*parsed));
    return;
  }
  context.deps.loop->Offload(
      Lane::kRequests,
      [files = context.deps.files, parsed] {
        AddOutputPlaceErrors(files, parsed.get());
        if (parsed->errors.empty()) checkpoint::AddGoesOnErrors(files, parsed.get());
      },
      [reply, parsed] { reply(ResponseOf(*parsed)); });
}

namespace {

// The job with the files that it names of the Hub in the cache. In a lane.
absl::StatusOr<config::ParsedJob> Bring(const Context& context, const std::string& owner,
                                        config::ParsedJob parsed, const Gone& gone) {
  if (!sources::NamesSources(parsed.spec)) return parsed;
  sources::KeepRevisions(checkpoint::JobThere(context.deps.files, parsed.spec), &parsed.spec);
  ASSIGN_OR_RETURN(sources::PinnedJob pinned, context.pin(std::move(parsed), owner, gone));
  RETURN_IF_ERROR(
      context.deps.lane_work->fetch(pinned.job.spec, owner, {.progress = {}, .cancelled = gone})
          .status());
  return std::move(pinned.job);
}

}  // namespace

void Plan(Context& context, const v1::PlanRequest& request, const access::Principal& caller,
          Gone gone, Reply<v1::PlanResponse> reply) {
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
                  [&context, files = context.deps.files, yaml = request.yaml(), base_dir,
                   owner = OwnerOf(caller), parsed, resources, workers, chosen, gone, result] {
                    if (gone()) {
                      *result = absl::CancelledError("nobody waits for the plan any more");
                      return;
                    }
                    auto job = Bring(context, owner, parsed, gone);
                    if (!job.ok()) job = sources::ToldApart(job.status());
                    if (job.ok()) {
                      job = planner::TakeOverAdapter(*std::move(job), yaml, base_dir, resources);
                    }
                    absl::Status place =
                        job.ok() ? CheckOutputPlace(files, job->spec) : job.status();
                    if (place.ok()) place = checkpoint::CheckGoesOn(files, *job);
                    *result = place.ok() ? context.plan(job->spec, workers, gone) : place;
                    if (result->ok()) (*result)->set_text(chosen + (*result)->text());
                  }),
      [reply, result] { reply(*result); });
}

}  // namespace coxswain::api
