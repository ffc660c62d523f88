#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/hash.h"
#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kAskTimeout{5000};
constexpr int64_t kNewestEvents = 256;

json JobJson(Context& context, const driver::JobDriver& job) {
  const v1::Job& info = job.job();
  json out = {{"id", info.id()},
              {"state", std::string(state::PhaseName(info.state()))},
              {"epoch", info.epoch()},
              {"term", context.deps.registry->term()},
              {"restarts", info.restarts()},
              {"step", info.progress().step()},
              {"total_steps", info.progress().total_steps()},
              {"recipe_hash", ToHex(info.recipe_hash())},
              {"plan_hash", ToHex(info.plan_hash())},
              {"credits", context.deps.settings.credits}};
  json epochs = json::array();
  if (auto rows = context.deps.journal->store()->Epochs(info.id()); rows.ok()) {
    for (const store::EpochRow& row : *rows) {
      epochs.push_back({{"epoch", row.epoch},
                        {"term", row.term},
                        {"plan_hash", ToHex(row.plan_hash)},
                        {"fingerprint", row.fingerprint},
                        {"world_size", row.world_size},
                        {"start_step", row.start_step}});
    }
  }
  out["epochs"] = std::move(epochs);
  json events = json::array();
  if (auto rows = context.deps.journal->store()->Events(info.id(), 0, INT64_MAX); rows.ok()) {
    const size_t first = rows->size() > kNewestEvents ? rows->size() - kNewestEvents : 0;
    for (size_t i = first; i < rows->size(); ++i) {
      const v1::JobEvent& event = (*rows)[i];
      events.push_back({{"id", event.id()},
                        {"time_unix_ms", event.time_unix_ms()},
                        {"type", event.type()},
                        {"message", event.message()},
                        {"data", json::parse(event.data_json(), nullptr, false)}});
    }
  }
  out["events"] = std::move(events);
  return out;
}

struct DumpState {
  json ranks = json::array();
  json job;
  int outstanding = 0;
};

}  // namespace

void Dump(Context& context, const v1::DumpRequest& request, Reply<v1::DumpResponse> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  auto dump = std::make_shared<DumpState>();
  dump->job = JobJson(context, **job);
  const auto deliver = [dump, reply] {
    v1::DumpResponse response;
    dump->job["ranks"] = dump->ranks;
    response.set_json(dump->job.dump(2));
    reply(std::move(response));
  };
  const driver::Gang* gang = (*job)->gang();
  if (gang == nullptr) {
    deliver();
    return;
  }
  dump->outstanding = gang->world_size();
  for (int rank = 0; rank < gang->world_size(); ++rank) {
    dump->ranks.push_back({{"rank", rank}, {"worker", gang->ranks[rank].target.id}});
    context.deps.transport->Dump(
        gang->ranks[rank].target, kAskTimeout,
        [dump, rank, deliver](const absl::StatusOr<v1::WorkerDumpResponse>& answer) {
          if (answer.ok()) {
            dump->ranks[rank]["dump"] = json::parse(answer->json(), nullptr, false);
          } else {
            dump->ranks[rank]["error"] = std::string(answer.status().message());
          }
          if (--dump->outstanding == 0) deliver();
        });
  }
}

}  // namespace coxswain::api
