// The controller's version, and its workers: listed, and kept from new jobs.
#include "controller/api/operations.h"

namespace coxswain::api {

void Version(Context& context, const v1::VersionRequest& request, Reply<v1::BuildInfo> reply) {
  reply(context.build);
}

namespace {

void Describe(const v1::RegisterRequest& hello, v1::WorkerInfo* info) {
  info->set_address(hello.address());
  info->set_metrics_address(hello.metrics_address());
  info->set_host(hello.host());
  info->set_device_name(hello.device_name());
  info->set_memory_bytes(hello.memory_bytes());
  info->set_threads(hello.threads());
  *info->mutable_build() = hello.build();
  info->set_incarnation(hello.incarnation());
  info->set_pid(hello.pid());
}

// What concerns other users' jobs, and how a worker is reached.
void Hide(Context& context, const std::string& user, v1::WorkerInfo* worker) {
  worker->clear_address();
  worker->clear_metrics_address();
  worker->clear_pid();
  worker->clear_incarnation();
  if (worker->job().empty() || context.jobs->Find(worker->job(), user).ok()) return;
  worker->set_job("(of another user)");
  worker->set_rank(-1);
}

}  // namespace

void ListWorkers(Context& context, const v1::ListWorkersRequest& request,
                 const access::Principal& caller, Reply<v1::ListWorkersResponse> reply) {
  v1::ListWorkersResponse response;
  for (const scheduler::Worker& worker : context.deps.registry->All()) {
    v1::WorkerInfo* info = response.add_workers();
    info->set_id(worker.target.id);
    info->set_state(std::string(state::StatusName(worker.status)));
    info->set_job(worker.job);
    info->set_rank(worker.rank);
    Describe(worker.hello, info);
    info->set_heartbeat_age_seconds(context.deps.registry->BeatAgeSeconds(worker));
    info->set_cordoned(worker.cordoned);
  }
  for (const auto& [id, refused] : context.deps.registry->refused()) {
    v1::WorkerInfo* info = response.add_workers();
    info->set_id(id);
    info->set_state("REFUSED");
    info->set_rank(-1);
    Describe(refused.hello, info);
    info->set_heartbeat_age_seconds(context.deps.registry->AgeSeconds(refused.since_ns));
    info->set_cordoned(refused.reason);
  }
  for (const scheduler::Cordon& cordon : context.deps.registry->cordons().All()) {
    v1::WorkerCordon* shown = response.add_cordons();
    shown->set_target(cordon.target);
    shown->set_reason(cordon.reason);
    shown->set_since_unix_ms(cordon.since_unix_ms);
    shown->set_automatic(cordon.automatic);
  }
  if (caller.role == access::Role::kUser) {
    for (v1::WorkerInfo& worker : *response.mutable_workers()) Hide(context, caller.name, &worker);
  }
  reply(std::move(response));
}

void Cordon(Context& context, const v1::CordonRequest& request, Reply<v1::CordonResponse> reply) {
  if (const absl::Status status = context.jobs->Cordon(request.target(), request.reason());
      !status.ok()) {
    reply(status);
    return;
  }
  v1::CordonResponse response;
  for (const std::string& worker : context.jobs->WorkersOf(request.target())) {
    response.add_workers(worker);
  }
  reply(std::move(response));
}

void Uncordon(Context& context, const v1::UncordonRequest& request,
              Reply<v1::UncordonResponse> reply) {
  if (const absl::Status status = context.jobs->Uncordon(request.target()); !status.ok()) {
    reply(status);
    return;
  }
  v1::UncordonResponse response;
  for (const std::string& worker : context.jobs->WorkersOf(request.target())) {
    response.add_workers(worker);
  }
  reply(std::move(response));
}

}  // namespace coxswain::api
