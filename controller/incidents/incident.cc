#include "controller/incidents/incident.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "controller/failure/errors.h"
#include "controller/failure/odd_ranks.h"
#include "controller/failure/stack_groups.h"
#include "controller/incidents/explain_incident.h"

namespace coxswain::incidents {
namespace {

using nlohmann::json;

constexpr size_t kFewCommands = 8, kLeastDumpBytes = 4096;

size_t SizeOf(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).size();
}

// What a rank says of itself, in at most so many bytes.
json OwnAccount(const std::string& text, size_t most_bytes) {
  json dump = json::parse(text, nullptr, false);
  if (!dump.is_object()) return json::object({{"problem", "what it sent is no JSON object"}});
  const auto commands = dump.find("commands");
  if (text.size() > most_bytes && commands != dump.end() && commands->is_array() &&
      commands->size() > kFewCommands) {
    const auto old = static_cast<int64_t>(commands->size() - kFewCommands);
    commands->erase(commands->begin(), commands->begin() + old);
    dump["older_commands"] = old;
  }
  if (SizeOf(dump) <= std::max(most_bytes, kLeastDumpBytes)) return dump;
  return json::object({{"problem", absl::StrCat("what it sent has ", text.size(), " bytes")}});
}

json CollectiveJson(const v1::CollectiveProgress& collective) {
  return {{"started", collective.started()},
          {"finished", collective.finished()},
          {"operation", collective.operation()},
          {"in_it_ms", collective.in_it_ms()}};
}

json ViewJson(const gang::RankView& view) {
  return {{"phase", view.phase},
          {"suspect", view.suspect},
          {"beat_age_seconds", view.beat_age_seconds},
          {"queued_seq", view.beat.last_queued_seq()},
          {"done_seq", view.beat.last_done_seq()},
          {"collectives", CollectiveJson(view.beat.collectives())},
          {"answered_seq", view.answered_seq},
          {"silent_seconds", view.silent_seconds},
          {"in_flight", view.in_flight},
          {"credits", view.credits}};
}

json ProcessJson(const v1::ProcessState& process) {
  return {{"pid", process.pid()},
          {"state", process.state()},
          {"threads", process.threads()},
          {"resident_bytes", process.resident_bytes()},
          {"cpu_seconds", process.cpu_seconds()},
          {"host_load", process.host_load()}};
}

json RankJson(const gang::RankDump& rank, size_t most_bytes) {
  json out = {{"rank", rank.rank},
              {"worker", rank.worker},
              {"host", rank.host},
              {"controller", ViewJson(rank.view)}};
  if (rank.answer.ok()) {
    out["dump"] = OwnAccount(rank.answer->json(), most_bytes);
  } else {
    out["error"] = CleanText(std::string(rank.answer.status().message()));
  }
  if (rank.stacks.ok()) {
    out["process"] = ProcessJson(rank.stacks->process());
    out["stacks"] = rank.stacks->text();
  } else {
    out["stacks_error"] = CleanText(std::string(rank.stacks.status().message()));
  }
  return out;
}

// By its own account where it gave one, else by its last heartbeat.
void AddProgress(const json& account, failure::RankEvidence* evidence) {
  const auto number = [](const json& object, const char* key) -> uint64_t {
    const auto it = object.find(key);
    return it != object.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
  };
  const uint64_t done = number(account, "last_done_seq");
  const auto collectives = account.find("collectives");
  if (done < evidence->done_seq || collectives == account.end() || !collectives->is_object()) {
    return;
  }
  evidence->done_seq = done;
  evidence->collective = number(*collectives, "started");
  evidence->in_it_ms = static_cast<int64_t>(number(*collectives, "in_it_ms"));
  const auto operation = collectives->find("operation");
  const bool named = operation != collectives->end() && operation->is_string();
  evidence->operation = named ? operation->get<std::string>() : "";
}

failure::RankEvidence EvidenceOf(const gang::RankDump& rank, const json& document) {
  const v1::HeartbeatRequest& beat = rank.view.beat;
  failure::RankEvidence evidence{.rank = rank.rank,
                                 .host = rank.host,
                                 .ended = absl::IsNotFound(rank.stacks.status()),
                                 .done_seq = beat.last_done_seq(),
                                 .collective = beat.collectives().started(),
                                 .operation = beat.collectives().operation(),
                                 .in_it_ms = beat.collectives().in_it_ms()};
  if (rank.stacks.ok()) {
    evidence.pid = rank.stacks->process().pid();
    evidence.process_state = rank.stacks->process().state();
  }
  if (!rank.answer.ok()) evidence.silence = document.at("error").get<std::string>();
  if (document.contains("dump")) AddProgress(document.at("dump"), &evidence);
  return evidence;
}

json GroupsJson(const std::vector<failure::StackGroup>& groups) {
  json out = json::array();
  for (const failure::StackGroup& group : groups) {
    if (out.size() == kMostGroups) break;
    out.push_back({{"ranks", group.ranks}, {"stacks", CleanText(group.stacks, kMostGroupBytes)}});
  }
  return out;
}

}  // namespace

json IncidentJson(const Incident& incident) {
  const bool failed = incident.reason == Reason::kFailure;
  json out = {{"job", incident.job},
              {"epoch", incident.epoch},
              {"time_unix_ms", incident.unix_ms},
              {"reason", NameOf(incident.reason)},
              {"error", failed ? failure::Describe(incident.error) : std::string()}};
  json& ranks = out["ranks"] = json::array();
  std::vector<failure::RankEvidence> evidence;
  std::map<int, std::string> stacks;
  const size_t most_bytes = kMostDumpBytes / std::max<size_t>(1, incident.ranks.size());
  for (const gang::RankDump& rank : incident.ranks) {
    ranks.push_back(RankJson(rank, most_bytes));
    evidence.push_back(EvidenceOf(rank, ranks.back()));
    if (rank.stacks.ok()) stacks[rank.rank] = rank.stacks->text();
  }
  const std::vector<failure::StackGroup> groups = failure::GroupStacks(stacks);
  const failure::Finding finding = failure::FindOddRanks(evidence, groups);
  out["groups"] = GroupsJson(groups);
  out["finding"] = {{"ranks", finding.ranks}, {"why", finding.why}, {"advice", finding.advice}};
  out["explanation"] = ExplainIncident(out);
  return out;
}

}  // namespace coxswain::incidents
