#include "controller/api/operations.h"

namespace coxswain::api {

void ListWorkers(Context& context, const v1::ListWorkersRequest& request,
                 Reply<v1::ListWorkersResponse> reply) {
  v1::ListWorkersResponse response;
  for (const scheduler::Worker& worker : context.deps.registry->All()) {
    v1::WorkerInfo* info = response.add_workers();
    info->set_id(worker.target.id);
    info->set_state(std::string(state::StatusName(worker.status)));
    info->set_job(worker.job);
    info->set_rank(worker.rank);
    info->set_address(worker.target.address);
    info->set_metrics_address(worker.hello.metrics_address());
    info->set_host(worker.hello.host());
    info->set_device_name(worker.hello.device_name());
    info->set_memory_bytes(worker.hello.memory_bytes());
    info->set_threads(worker.hello.threads());
    *info->mutable_build() = worker.hello.build();
    info->set_heartbeat_age_seconds(context.deps.registry->BeatAgeSeconds(worker));
    info->set_incarnation(worker.target.incarnation);
    info->set_pid(worker.hello.pid());
    info->set_cordoned(worker.cordoned);
  }
  for (const scheduler::Cordon& cordon : context.deps.registry->cordons().All()) {
    v1::WorkerCordon* shown = response.add_cordons();
    shown->set_target(cordon.target);
    shown->set_reason(cordon.reason);
    shown->set_since_unix_ms(cordon.since_unix_ms);
    shown->set_automatic(cordon.automatic);
  }
  reply(std::move(response));
}

}  // namespace coxswain::api
