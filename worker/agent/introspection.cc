// Agent: what it says about itself, at any time.
#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/files/hash.h"
#include "worker/agent/agent.h"
#include "worker/agent/device_state.h"
#include "worker/agent/wire/wire.h"

namespace coxswain::agent {
namespace {

// A dump before an abort has two seconds in all.
constexpr std::chrono::milliseconds kDriverPatience{700};

nlohmann::json FenceJson(const v1::Fence& fence) {
  return {{"term", fence.term()},
          {"job", fence.job()},
          {"epoch", fence.epoch()},
          {"worker_incarnation", fence.worker_incarnation()},
          {"plan_hash", ToHex(fence.plan_hash())}};
}

nlohmann::json EventJson(const v1::Event& event) {
  if (event.has_failed()) {
    return {{"failed", event.failed().message()}, {"code", event.failed().code()}};
  }
  const v1::Done& done = event.done();
  return {{"loss_sum", done.loss_sum()},   {"targets", done.targets()},
          {"grad_norm", done.grad_norm()}, {"nonfinite", done.nonfinite()},
          {"tokens", done.tokens()},       {"applied", done.applied()}};
}

nlohmann::json CollectivesJson(const comm::Progress& progress) {
  nlohmann::json out = {{"started", progress.started},
                        {"finished", progress.finished},
                        {"operation", progress.operation},
                        {"in_it_ms", progress.in_it_for.count()}};
  auto& communicators = out["communicators"] = nlohmann::json::array();
  for (const comm::CommunicatorProgress& on : progress.communicators) {
    communicators.push_back({{"name", on.name},
                             {"ranks", on.size},
                             {"started", on.started},
                             {"finished", on.finished},
                             {"operation", on.operation},
                             {"bytes", on.bytes},
                             {"in_it_ms", on.in_it_for.count()},
                             {"state", on.started > on.finished ? "in progress" : "finished"}});
  }
  return out;
}

nlohmann::json MemoryJson(const engine::MemoryBytes& memory) {
  return {{"weights", memory.weights},
          {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},
          {"activations", memory.activations},
          {"workspace", memory.workspace},
          {"peak", memory.peak},
          {"host", memory.host}};
}

}  // namespace

v1::WorkerInspectResponse Agent::Inspect() const {
  MutexLock lock(mu_);
  v1::WorkerInspectResponse response = last_step_;
  if (gate_.current()) *response.mutable_fence() = *gate_.current();
  response.set_state(StateName(state_));
  response.set_host(options_.host);
  response.set_device_name(options_.device_name);
  response.set_threads(options_.threads);
  *response.mutable_build() = options_.build;
  *response.mutable_memory() = ToWire(memory_);
  if (epoch_ != nullptr) {
    response.set_rank(epoch_->rank);
    response.set_last_done_seq(epoch_->last_done_seq);
    response.set_choices(epoch_->chosen_algorithms);
  }
  return response;
}

void Agent::Dump(std::function<void(const std::string& json)> done) {
  teller_.Post([this, done = std::move(done)] { done(DumpJson()); });
}

std::string Agent::DumpJson() const {
  nlohmann::json device = DeviceState(options_.pci_bus, kDriverPatience);
  MutexLock lock(mu_);
  nlohmann::json dump = {
      {"state", StateName(state_)},           {"host", options_.host},
      {"device", std::move(device)},          {"incarnation", options_.incarnation},
      {"highest_term", gate_.highest_term()}, {"fenced_messages", gate_.refused()},
      {"memory", MemoryJson(memory_)},        {"last_step", last_step_.last_step()}};
  if (gate_.current()) dump["fence"] = FenceJson(*gate_.current());
  if (newest_ != nullptr) {
    const Epoch& epoch = *newest_;
    dump["rank"] = epoch.rank;
    dump["world_size"] = epoch.world_size;
    dump["last_queued_seq"] = epoch.last_queued_seq;
    dump["last_done_seq"] = epoch.last_done_seq;
    if (epoch.connected && epoch.engine != nullptr) {
      dump["collectives"] = CollectivesJson(epoch.engine->collectives());
    }
    auto& commands = dump["commands"] = nlohmann::json::array();
    for (const Record& record : epoch.records) {
      commands.push_back({{"seq", record.seq},
                          {"command", record.summary},
                          {"queued_unix_ms", record.queued_unix_ms},
                          {"begun_unix_ms", record.begun_unix_ms},
                          {"seconds", record.seconds},
                          {"event", EventJson(record.event)}});
    }
    auto& waiting = dump["waiting"] = nlohmann::json::array();
    for (const Record& record : epoch.waiting) {
      waiting.push_back({{"seq", record.seq},
                         {"command", record.summary},
                         {"queued_unix_ms", record.queued_unix_ms},
                         {"begun_unix_ms", record.begun_unix_ms}});
    }
  }
  return dump.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace coxswain::agent
