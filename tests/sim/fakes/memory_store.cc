#include "tests/sim/fakes/memory_store.h"

#include <algorithm>
#include <limits>

#include "common/status_macros.h"

namespace coxswain::store {
namespace {

constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();

// Calls `visit` with the rows of `job` in a map whose keys begin with the job, in their order.
template <typename Map, typename Visit>
void ForJob(Map& map, const typename Map::key_type& first, Visit visit) {
  const std::string& job = std::get<0>(first);
  for (auto at = map.lower_bound(first); at != map.end() && std::get<0>(at->first) == job; ++at) {
    visit(at->second);
  }
}

// Removes the rows of `job` from such a map.
template <typename Map>
void EraseJob(Map& map, const typename Map::key_type& first) {
  const auto begin = map.lower_bound(first);
  auto end = begin;
  while (end != map.end() && std::get<0>(end->first) == std::get<0>(first)) ++end;
  map.erase(begin, end);
}

}  // namespace

absl::StatusOr<uint64_t> MemoryStore::NextTerm(uint64_t seen) {
  RETURN_IF_ERROR(write_error_);
  return term_ = std::max(term_, seen) + 1;
}

absl::Status MemoryStore::Commit(const Batch& batch) {
  RETURN_IF_ERROR(write_error_);
  for (const JobRow& row : batch.new_jobs) {
    if (!jobs_.contains(row.job.id())) continue;
    return absl::AlreadyExistsError("memory store: there is a job " + row.job.id() + " already");
  }
  for (const JobRow& row : batch.new_jobs) jobs_[row.job.id()] = row;
  for (const JobRow& row : batch.jobs) {
    if (const auto at = jobs_.find(row.job.id()); at != jobs_.end()) at->second = row;
  }
  for (const EpochRow& row : batch.epochs) {
    epochs_[{row.job, row.epoch}] = row;
    evals_.erase(evals_.lower_bound({row.job, 0, kFirst}),
                 evals_.lower_bound({row.job, row.epoch, kFirst}));
  }
  for (const EvalRow& row : batch.evals) evals_[{row.job, row.epoch, row.step}] = row;
  for (const PositionRow& row : batch.positions) positions_[row.job] = row;
  for (const PlanRow& row : batch.plans) plans_[row.hash] = row.bytes;
  for (const StepRow& row : batch.steps) {
    for (auto at = steps_.lower_bound({row.job, row.step, 0});
         at != steps_.end() && at->second.job == row.job && at->second.step == row.step; ++at) {
      if (at->second.epoch < row.epoch) at->second.superseded = true;
    }
    steps_[{row.job, row.step, row.epoch}] = row;
  }
  for (const CheckpointRow& row : batch.checkpoints) checkpoints_[{row.job, row.step}] = row;
  for (const KeyRow& row : batch.keys) keys_[row.key] = row;
  for (const LinkRow& row : batch.links) links_[{row.gang, row.bytes}] = row;
  for (const CordonRow& row : batch.cordons) {
    row.lifted ? static_cast<void>(cordons_.erase(row.target))
               : static_cast<void>(cordons_[row.target] = row);
  }
  for (const TokenRow& row : batch.tokens) tokens_[{row.created_unix_ms, row.id}] = row;
  for (const v1::JobEvent& event : batch.events) {
    events_[event.job()].push_back(event);
    events_[event.job()].back().set_id(++last_event_);
  }
  for (const std::string& id : batch.deleted_jobs) DeleteJob(id);
  return absl::OkStatus();
}

void MemoryStore::DeleteJob(const std::string& id) {
  jobs_.erase(id);
  events_.erase(id);
  positions_.erase(id);
  preparations_.erase(id);
  EraseJob(epochs_, {id, 0});
  EraseJob(evals_, {id, 0, kFirst});
  EraseJob(steps_, {id, kFirst, 0});
  EraseJob(checkpoints_, {id, kFirst});
  std::erase_if(keys_, [&](const auto& entry) { return entry.second.job == id; });
}

absl::StatusOr<std::vector<JobRow>> MemoryStore::Jobs() {
  std::vector<JobRow> rows;
  for (const auto& [id, row] : jobs_) rows.push_back(row);
  std::sort(rows.begin(), rows.end(),
            [](const JobRow& a, const JobRow& b) { return a.order < b.order; });
  return rows;
}

absl::StatusOr<std::vector<EpochRow>> MemoryStore::Epochs(const std::string& job) {
  std::vector<EpochRow> rows;
  ForJob(epochs_, {job, 0}, [&](const EpochRow& row) { rows.push_back(row); });
  return rows;
}

absl::StatusOr<std::vector<EvalRow>> MemoryStore::Evals(const std::string& job, uint64_t epoch) {
  std::vector<EvalRow> rows;
  ForJob(evals_, {job, epoch, kFirst}, [&](const EvalRow& row) {
    if (row.epoch == epoch) rows.push_back(row);
  });
  return rows;
}

absl::StatusOr<std::optional<PositionRow>> MemoryStore::Position(const std::string& job) {
  const auto it = positions_.find(job);
  if (it == positions_.end()) return std::optional<PositionRow>();
  return std::optional<PositionRow>(it->second);
}

absl::StatusOr<int64_t> MemoryStore::UnendedPreparations(const std::string& job) {
  const auto it = preparations_.find(job);
  return it == preparations_.end() ? 0 : it->second;
}

absl::Status MemoryStore::SetUnendedPreparations(const std::string& job, int64_t count) {
  RETURN_IF_ERROR(write_error_);
  count == 0 ? static_cast<void>(preparations_.erase(job))
             : static_cast<void>(preparations_[job] = count);
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryStore::PlanBytes(const std::string& hash) {
  const auto it = plans_.find(hash);
  if (it == plans_.end()) return absl::NotFoundError("memory store: no plan of that hash");
  return it->second;
}

absl::StatusOr<std::vector<StepRow>> MemoryStore::Steps(const std::string& job, int64_t from_step) {
  std::vector<StepRow> rows;
  ForJob(steps_, {job, from_step, 0}, [&](const StepRow& row) {
    if (!row.superseded) rows.push_back(row);
  });
  return rows;
}

std::vector<StepRow> MemoryStore::AllSteps(const std::string& job) const {
  std::vector<StepRow> rows;
  ForJob(steps_, {job, kFirst, 0}, [&](const StepRow& row) { rows.push_back(row); });
  return rows;
}

absl::StatusOr<std::vector<CheckpointRow>> MemoryStore::Checkpoints(const std::string& job) {
  std::vector<CheckpointRow> rows;
  ForJob(checkpoints_, {job, kFirst}, [&](const CheckpointRow& row) { rows.push_back(row); });
  return rows;
}

absl::StatusOr<std::optional<KeyRow>> MemoryStore::FindKey(const std::string& key) {
  const auto it = keys_.find(key);
  if (it == keys_.end()) return std::optional<KeyRow>();
  return std::optional<KeyRow>(it->second);
}

absl::StatusOr<std::vector<LinkRow>> MemoryStore::Links() {
  std::vector<LinkRow> rows;
  for (const auto& [key, row] : links_) rows.push_back(row);
  return rows;
}

absl::StatusOr<std::vector<CordonRow>> MemoryStore::Cordons() {
  std::vector<CordonRow> rows;
  for (const auto& [target, row] : cordons_) rows.push_back(row);
  return rows;
}

absl::StatusOr<std::vector<TokenRow>> MemoryStore::Tokens() {
  std::vector<TokenRow> rows;
  for (const auto& [key, row] : tokens_) rows.push_back(row);
  return rows;
}

absl::StatusOr<std::vector<v1::JobEvent>> MemoryStore::Events(const std::string& job, int64_t after,
                                                              int64_t limit) {
  std::vector<v1::JobEvent> out;
  const auto it = events_.find(job);
  if (it == events_.end()) return out;
  const auto& events = it->second;
  auto at = std::upper_bound(events.begin(), events.end(), after,
                             [](int64_t id, const v1::JobEvent& event) { return id < event.id(); });
  for (; at != events.end() && static_cast<int64_t>(out.size()) < limit; ++at) out.push_back(*at);
  return out;
}

absl::StatusOr<std::vector<v1::JobEvent>> MemoryStore::NewestEvents(const std::string& job,
                                                                    int64_t limit) {
  const auto it = events_.find(job);
  if (it == events_.end()) return std::vector<v1::JobEvent>();
  const auto& events = it->second;
  const int64_t count = std::min(limit, static_cast<int64_t>(events.size()));
  return std::vector<v1::JobEvent>(events.end() - count, events.end());
}

}  // namespace coxswain::store
