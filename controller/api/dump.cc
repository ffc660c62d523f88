#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <vector>

#include "common/event_json.h"
#include "common/hash.h"
#include "controller/api/operations.h"
#include "controller/failure/errors.h"

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

json RankJson(const gang::RankDump& dump) {
  json out = {{"rank", dump.rank}, {"worker", dump.worker}};
  if (dump.answer.ok()) {
    out["dump"] = json::parse(dump.answer->json(), nullptr, false);
  } else {
    out["error"] = std::string(dump.answer.status().message());
  }
  return out;
}

json RanksJson(const std::vector<gang::RankDump>& dumps) {
  json ranks = json::array();
  for (const gang::RankDump& dump : dumps) ranks.push_back(RankJson(dump));
  return ranks;
}

// What the ranks were doing when a gang failed.
json FailureJson(const driver::FailureDump& failure) {
  return {{"epoch", failure.epoch},
          {"time_unix_ms", failure.unix_ms},
          {"error", failure::Describe(failure.error)},
          {"ranks", RanksJson(failure.ranks)}};
}

struct DumpState {
  json job;
  std::vector<gang::RankDump> ranks;
  std::shared_ptr<const driver::FailureDump> failure;  // null: there was none
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
        job["ranks"] = RanksJson(dump->ranks);
        if (dump->failure != nullptr) job["last_failure"] = FailureJson(*dump->failure);
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
  dump->failure = (*job)->last_dump();
  const gang::Gang* gang = (*job)->gang();
  if (gang == nullptr) {
    Deliver(context, dump, reply);
    return;
  }
  std::vector<int> ranks(gang->ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  gang::DumpRanks(context.deps.transport, *gang, ranks, kAskTimeout,
                  [&context, dump, reply](std::vector<gang::RankDump> answers) {
                    dump->ranks = std::move(answers);
                    Deliver(context, dump, reply);
                  });
}

}  // namespace coxswain::api
