#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/event_json.h"
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
  return out;
}

json EventsJson(store::History* history, const std::string& job) {
  json events = json::array();
  const absl::StatusOr<std::vector<v1::JobEvent>> newest =
      history->NewestEvents(job, kNewestEvents);
  if (!newest.ok()) return events;
  for (const v1::JobEvent& event : *newest) {
    events.push_back({{"id", event.id()},
                      {"time_unix_ms", event.time_unix_ms()},
                      {"type", event.type()},
                      {"message", event.message()},
                      {"data", EventData(event)}});
  }
  return events;
}

struct RankDump {
  std::string worker;
  absl::StatusOr<v1::WorkerDumpResponse> answer = absl::UnknownError("not asked");
};

json RankJson(size_t rank, const RankDump& dump) {
  json out = {{"rank", rank}, {"worker", dump.worker}};
  if (dump.answer.ok()) {
    out["dump"] = json::parse(dump.answer->json(), nullptr, false);
  } else {
    out["error"] = std::string(dump.answer.status().message());
  }
  return out;
}

struct DumpState {
  json job;
  std::vector<RankDump> ranks;
  int outstanding = 0;
};

// Parses and prints what the ranks and the store hold, in a lane: it may be large.
void Deliver(Context& context, const std::shared_ptr<DumpState>& dump,
             const Reply<v1::DumpResponse>& reply) {
  auto response = std::make_shared<v1::DumpResponse>();
  context.deps.loop->Offload(
      Lane::kRequests,
      [dump, response, history = context.deps.journal->store()->history()] {
        json& job = dump->job;
        job["events"] = EventsJson(history, job.at("id"));
        job["ranks"] = json::array();
        for (size_t rank = 0; rank < dump->ranks.size(); ++rank) {
          job["ranks"].push_back(RankJson(rank, dump->ranks[rank]));
        }
        response->set_json(job.dump(2, ' ', false, json::error_handler_t::replace));
      },
      [response, reply] { reply(std::move(*response)); });
}

}  // namespace

void Dump(Context& context, const v1::DumpRequest& request, Reply<v1::DumpResponse> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  auto dump = std::make_shared<DumpState>();
  dump->job = JobJson(context, **job);
  const driver::Gang* gang = (*job)->gang();
  if (gang == nullptr) {
    Deliver(context, dump, reply);
    return;
  }
  dump->outstanding = gang->world_size();
  for (int rank = 0; rank < gang->world_size(); ++rank) {
    dump->ranks.push_back({.worker = gang->ranks[rank].target.id});
    context.deps.transport->Dump(
        gang->ranks[rank].target, kAskTimeout,
        [&context, dump, rank, reply](absl::StatusOr<v1::WorkerDumpResponse> answer) {
          dump->ranks[static_cast<size_t>(rank)].answer = std::move(answer);
          if (--dump->outstanding == 0) Deliver(context, dump, reply);
        });
  }
}

}  // namespace coxswain::api
