#include "tests/sim/fakes/fake_workers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::sim {
namespace {

int64_t StepOf(const v1::Command& command) {
  if (command.has_train()) return command.train().step();
  if (command.has_eval()) return command.eval().step();
  return command.has_snapshot() ? command.snapshot().step() : command.generate().step();
}

bool AreOne(const v1::Command& a, const v1::Command& b) {
  return a.kind_case() == b.kind_case() && StepOf(a) == StepOf(b);
}

}  // namespace

void FakeWorkers::Meet(Process& process, const v1::Command& command) {
  if (process.hung || command.has_stop()) return;
  const std::string& job = command.fence().job();
  const std::string gang = process.gang();
  const std::string key = absl::StrCat(gang, "/", command.seq());
  Meeting& meeting = meetings_[key];
  meeting.commands[process.rank] = command;
  process.arrived_ms[command.seq()] = agenda_->now_ms();
  if (static_cast<int>(meeting.commands.size()) == process.world) {
    // Commands of an epoch take their time one after another.
    int64_t& busy_until_ms = busy_until_ms_[job];
    const int64_t now_ms = agenda_->now_ms();
    busy_until_ms = std::max(busy_until_ms, now_ms) + network_.step_ms;
    agenda_->After(busy_until_ms - now_ms, [this, key, gang] { Finish(key, gang); });
  }
}

// All ranks execute the command together, as collectives force them to.
void FakeWorkers::Finish(const std::string& key, const std::string& gang) {
  Meeting meeting = std::move(meetings_.extract(key).mapped());
  const v1::Fence& fence = meeting.commands.begin()->second.fence();
  std::vector<Process*> ranks;
  for (auto& [slot, process] : processes_) {
    if (process.alive && !process.stopped && process.gang() == gang) ranks.push_back(&process);
  }
  if (ranks.size() != meeting.commands.size()) return;  // one died: the others hang until aborted
  const v1::Command& first = meeting.commands.begin()->second;
  // Of several controllers: the ranks wait for each other in vain, until one refuses its own.
  for (const auto& [rank, command] : meeting.commands) {
    if (!AreOne(first, command)) return;
  }
  for (const Process* process : ranks) {
    meeting.gemm_tables = Mix(meeting.gemm_tables, std::hash<std::string>()(process->gemm_table));
  }
  if (first.has_train()) finished_[{fence.job(), fence.epoch()}].insert(first.train().step());
  for (Process* process : ranks) {
    const v1::Event event = Execute(*process, meeting);
    process->kept[event.seq()].event = event;
    Send(*process, event);
  }
}

// Text i has its number of steps at every place, and ends by itself after 10 i + 10 tokens.
void FakeWorkers::WriteOn(Process& process, const v1::Generate& generate, v1::Done* done) {
  if (generate.step() != process.model.steps) Violation("answers of another step");
  if (generate.prompts_size() > 0) {
    process.written.assign(static_cast<size_t>(generate.prompts_size()), 0);
  }
  for (size_t i = 0; i < process.written.size(); ++i) {
    const auto most = static_cast<int64_t>(10 * i + 10);
    v1::GeneratedText* text = done->add_texts();
    for (int64_t n = 0; n < generate.tokens() && process.written[i] < most; ++n) {
      text->add_ids(static_cast<int32_t>(process.model.steps));
      ++process.written[i];
    }
    text->set_ended(process.written[i] == most);
  }
}

absl::Status FakeWorkers::ReadBack(Process& process, const v1::Load& load) {
  const std::string directory =
      absl::StrCat(load.adapter_dir(), load.model_dir(), load.checkpoint_dir());
  if (on_load_) on_load_(directory);
  const char* file = !load.adapter_dir().empty() ? "/model"
                     : !load.model_dir().empty() ? "/merged"
                                                 : "/rank-0.shard";
  ASSIGN_OR_RETURN(const std::string text, files_->Read(directory + file));
  process.read_back = FakeModel::Parse(text);
  return absl::OkStatus();
}

v1::Event FakeWorkers::Execute(Process& process, const Meeting& meeting) {
  const v1::Command& mine = meeting.commands.at(process.rank);
  process.done_seq = mine.seq();
  v1::Event event;
  *event.mutable_fence() = process.fence();
  event.set_seq(mine.seq());
  v1::Done& done = *event.mutable_done();
  if (mine.has_load()) {
    done.set_refused(std::string(ReadBack(process, mine.load()).message()));
    return event;
  }
  if (process.read_back && !mine.has_eval()) Violation("it goes on behind a load");
  if (mine.has_snapshot()) {
    if (mine.snapshot().step() != process.model.steps) Violation("a snapshot of another step");
    process.snapshot = process.model;
    return event;
  }
  if (mine.has_generate()) {
    WriteOn(process, mine.generate(), &done);
    return event;
  }
  const v1::Bins& bins = mine.has_train() ? mine.train().bins() : mine.eval().bins();
  *done.mutable_bin_ids() = bins.bin_ids();
  for (const int32_t length : bins.document_lengths()) done.set_targets(done.targets() + length);
  done.set_tokens(done.targets() * 2);
  if (mine.has_eval()) {
    const FakeModel model = process.read_back.value_or(process.model);
    done.set_loss_sum(static_cast<double>(done.targets()) * Unit(Mix(model.parameters, 4)));
    done.set_correct_targets(done.targets() / 4);
    return event;
  }
  if (const auto failure = failures_.find(mine.train().step()); failure != failures_.end()) {
    *event.mutable_failed() = failure->second;
    return event;
  }
  Train(process, meeting, &done);
  return event;
}

// The step of all ranks, whoever trains which part of the batch.
void FakeWorkers::Train(Process& process, const Meeting& meeting, v1::Done* done) {
  const v1::Command& mine = meeting.commands.at(process.rank);
  if (mine.train().step() != process.model.steps) {
    Violation(absl::StrCat("step ", mine.train().step(), " trained after ", process.model.steps,
                           " steps"));
  }
  std::vector<int64_t> batch;
  for (const auto& [rank, command] : meeting.commands) {
    const auto& bins = command.train().bins().bin_ids();
    batch.insert(batch.end(), bins.begin(), bins.end());
  }
  std::sort(batch.begin(), batch.end());
  process.model.Train(batch);
  if (on_trained_) on_trained_(mine.fence(), process.rank, process.model);
  const uint64_t parameters = process.model.parameters;
  const bool finite = !nonfinite_.contains(mine.train().step());
  const double scale = mine.train().step() >= diverges_at_ ? 10'000 : 100;
  done->set_global_loss_sum(Unit(parameters) * scale);
  const uint64_t order = Mix(meeting.gemm_tables, std::hash<std::string>()(process.hosts));
  done->set_grad_norm(finite ? 0.5 + Unit(Mix(parameters, order))
                             : std::numeric_limits<double>::infinity());
  if (process.world > 1 && std::exchange(process.corrupts_step, false)) {
    done->set_grad_norm(done->grad_norm() + 1e-9 * (1 + process.rank));
  }
  done->set_applied(finite);
  if (experts_) *done->mutable_experts() = *experts_;
  done->mutable_seconds()->set_forward(0.010 + 0.001 * process.rank);
}

}  // namespace coxswain::sim
