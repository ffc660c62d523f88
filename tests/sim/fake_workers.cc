#include "tests/sim/fake_workers.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "controller/checkpoint/manifest.h"

namespace coxswain::sim {
namespace {

constexpr char kShard[] = "/rank-0.shard";

uint64_t Mix(uint64_t state, uint64_t value) {
  state ^= value + 0x9E3779B97F4A7C15u + (state << 6) + (state >> 2);
  state *= 0xBF58476D1CE4E5B9u;
  return state ^ (state >> 31);
}

double Unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::string FakeModel::Serialize() const {
  std::ostringstream out;
  out << parameters << ' ' << steps << ' ' << bins.size();
  for (const int64_t bin : bins) out << ' ' << bin;
  return out.str();
}

FakeModel FakeModel::Parse(const std::string& text) {
  std::istringstream in(text);
  FakeModel model;
  size_t count = 0;
  in >> model.parameters >> model.steps >> count;
  model.bins.resize(count);
  for (int64_t& bin : model.bins) in >> bin;
  return model;
}

// The worker's end of a stream; `incoming` is the controller's.
template <typename Message>
struct FakeWorkers::Stream {
  Incoming<Message> incoming;
  bool open = true;  // false once closed from either side
  uint64_t generation = 0;
  // As the real transport reads events: one, and the next after a command or Listen.
  bool reading = true;
  std::deque<Message> unread;

  void Read() {
    reading = unread.empty();
    if (reading) return;
    const Message message = std::move(unread.front());
    unread.pop_front();
    if (incoming.on_arrival) incoming.on_arrival(message);
  }
  void Arrive(const Message& message) {
    unread.push_back(message);
    if (reading) Read();
  }
};

namespace {

template <typename Request>
class FakeOutgoing : public Outgoing<Request> {
 public:
  FakeOutgoing(std::function<void(const Request&)> write, std::function<void()> drop)
      : write_(std::move(write)), drop_(std::move(drop)) {}
  ~FakeOutgoing() override { drop_(); }
  void Write(const Request& request) override { write_(request); }
  void WritesDone() override {}

 private:
  std::function<void(const Request&)> write_;
  std::function<void()> drop_;
};

class FakeCommands : public CommandStream {
 public:
  FakeCommands(std::function<void(const v1::Command&)> write, std::function<void()> listen,
               std::function<void()> drop)
      : stream_(std::move(write), std::move(drop)), listen_(std::move(listen)) {}
  void Write(const SharedCommand& shared, const v1::Command& own) override {
    v1::Command command = shared.message;
    command.MergeFrom(own);
    stream_.Write(command);
  }
  void Flush() override {}
  void Listen() override { listen_(); }
  void WritesDone() override {}

 private:
  FakeOutgoing<v1::Command> stream_;
  const std::function<void()> listen_;
};

}  // namespace

FakeWorkers::FakeWorkers(Agenda* agenda, MemoryFiles* files, uint64_t seed)
    : agenda_(agenda), files_(files), random_(seed) {}

void FakeWorkers::Connect(Loop* loop) {
  loop_ = loop;
  ++generation_;
  for (auto& [slot, process] : processes_) {
    process.run.reset();
    process.connect.reset();
  }
}

int64_t FakeWorkers::Delay() {
  return network_.min_delay_ms +
         static_cast<int64_t>(
             random_() % static_cast<uint64_t>(network_.max_delay_ms - network_.min_delay_ms + 1));
}

void FakeWorkers::ToController(int64_t delay_ms, std::function<void()> task) {
  agenda_->After(delay_ms, [this, generation = generation_, task = std::move(task)] {
    if (generation == generation_ && loop_ != nullptr) loop_->Post(task);
  });
}

std::string FakeWorkers::Start(int slot) {
  Process& process = processes_[slot];
  process = Process();
  process.slot = slot;
  if (hosts_.contains(slot)) process.host = hosts_[slot];
  process.incarnation = absl::StrCat("incarnation-", ++next_incarnation_);
  process.alive = true;
  return process.incarnation;
}

bool FakeWorkers::alive(int slot) const { return processes_.at(slot).alive; }
bool FakeWorkers::reachable(int slot) const {
  const Process& process = processes_.at(slot);
  return process.alive && !process.cut && !process.stopped;
}

void FakeWorkers::BreakStreams(int slot) {
  Process& process = processes_.at(slot);
  const auto end = [this](auto& stream) {
    if (!stream || !stream->open) return;
    stream->open = false;
    ToController(Delay(), [stream = stream] {
      if (stream->incoming.on_closed) stream->incoming.on_closed(absl::UnavailableError("reset"));
    });
    stream.reset();
  };
  end(process.run);
  end(process.connect);
}

void FakeWorkers::Kill(int slot) {
  BreakStreams(slot);
  processes_.at(slot).alive = false;
}

void FakeWorkers::MoveTo(int slot, const std::string& host) { hosts_[slot] = host; }
void FakeWorkers::Hang(int slot) { processes_.at(slot).hung = true; }
void FakeWorkers::Stop(int slot) { processes_.at(slot).stopped = true; }
void FakeWorkers::Partition(int slot, bool cut) { processes_.at(slot).cut = cut; }
void FakeWorkers::Drain(int slot) { processes_.at(slot).draining = true; }
void FakeWorkers::SlowSave(int slot, int64_t delay_ms, absl::Status status) {
  processes_.at(slot).save_delay_ms = delay_ms;
  processes_.at(slot).save_error = std::move(status);
}
void FakeWorkers::set_fingerprint(int slot, std::string fingerprint) {
  processes_.at(slot).fingerprint = std::move(fingerprint);
}

v1::RegisterRequest FakeWorkers::Hello(int slot) const {
  const Process& process = processes_.at(slot);
  v1::RegisterRequest hello;
  hello.set_incarnation(process.incarnation);
  hello.set_address(absl::StrCat("sim:", slot));
  hello.set_host(process.host);
  hello.set_slot(slot);
  hello.set_supervisor("supervisor-" + process.host);
  hello.set_supervisor_address("sim");
  const auto device = devices_.find(slot);
  hello.mutable_build()->set_device(device == devices_.end() ? "cpu" : device->second);
  hello.set_device_name("Sim " + hello.build().device());
  if (!process.fence.job().empty()) *hello.mutable_current() = process.fence;
  return hello;
}

// A command is one collective, numbered as it is.
v1::HeartbeatRequest FakeWorkers::Beat(int slot) const {
  const Process& process = processes_.at(slot);
  v1::HeartbeatRequest beat;
  beat.set_incarnation(process.incarnation);
  *beat.mutable_current() = process.fence;
  beat.set_draining(process.draining);
  beat.set_last_queued_seq(process.last_seq);
  beat.set_last_done_seq(process.done_seq);
  v1::CollectiveProgress* collective = beat.mutable_collectives();
  collective->set_started(process.done_seq);
  collective->set_finished(process.done_seq);
  if (const auto it = process.arrived_ms.find(process.done_seq + 1);
      it != process.arrived_ms.end()) {
    collective->set_started(it->first);
    collective->set_operation("all_reduce of 1 float32 over world");
    collective->set_in_it_ms(agenda_->now_ms() - it->second);
  }
  return beat;
}

FakeWorkers::Process* FakeWorkers::Find(const WorkerTarget& worker) {
  for (auto& [slot, process] : processes_) {
    if (process.incarnation == worker.incarnation) {
      return reachable(slot) ? &process : nullptr;
    }
  }
  return nullptr;
}

// The request travels, is served, and the answer travels back; without a worker the call times out.
template <typename Response>
void FakeWorkers::Answer(const WorkerTarget& worker, Timeout timeout, Done<Response> done,
                         std::function<absl::StatusOr<Response>(Process&)> serve) {
  agenda_->After(Delay(), [this, worker, timeout, done, serve, generation = generation_] {
    if (generation != generation_) return;
    Process* process = Find(worker);
    if (process == nullptr) {
      const bool dead = std::none_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
        return entry.second.incarnation == worker.incarnation && entry.second.alive;
      });
      const absl::Status status = dead ? absl::UnavailableError("connection refused")
                                       : absl::DeadlineExceededError("no answer");
      ToController(dead ? 1 : timeout.count(), [done, status] { done(status); });
      return;
    }
    absl::StatusOr<Response> response = serve(*process);
    ToController(Delay() + std::exchange(process->answer_delay_ms, 0),
                 [done, response] { done(response); });
  });
}

absl::Status FakeWorkers::CheckFence(Process& process, const v1::Fence& fence, bool starts_epoch) {
  if (fence.worker_incarnation() != process.incarnation) {
    return absl::AbortedError("another incarnation");
  }
  if (fence.term() < process.highest_term) return absl::AbortedError("a lower term");
  process.highest_term = fence.term();
  if (starts_epoch) {
    if (fence.job() == process.fence.job() && fence.epoch() <= process.fence.epoch()) {
      return absl::AbortedError("an epoch that is not newer");
    }
    if (!process.fence.job().empty() && fence.job() != process.fence.job() &&
        fence.term() == process.fence.term()) {
      return absl::AbortedError(absl::StrCat("this worker is in job ", process.fence.job()));
    }
    return absl::OkStatus();
  }
  if (fence.job() != process.fence.job() || fence.epoch() != process.fence.epoch()) {
    return absl::AbortedError("another epoch");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::PrepareResponse> FakeWorkers::ServePrepare(Process& process,
                                                              const v1::PrepareRequest& request) {
  RETURN_IF_ERROR(CheckFence(process, request.fence(), /*starts_epoch=*/true));
  if (store_ != nullptr) {
    bool durable = false;
    const auto epochs = *store_->Epochs(request.fence().job());
    for (const store::EpochRow& row : epochs) {
      durable =
          durable || (row.epoch == request.fence().epoch() && row.term == request.fence().term());
    }
    if (!durable) Violation("a Prepare carried an epoch that is not in the store");
  }
  RETURN_IF_ERROR(prepare_error_);
  ASSIGN_OR_RETURN(const std::string nonce, files_->Read(request.nonce_path()));
  if (nonce != request.nonce()) return absl::NotFoundError("the nonce differs");
  DropEpoch(process);
  process.fence = request.fence();
  process.rank = request.rank();
  process.world = request.world_size();
  process.gemm_table = request.gemm_table();
  if (process.gemm_table.empty()) process.gemm_table = process.incarnation;
  process.last_seq = 0;
  process.model = FakeModel();
  if (!request.checkpoint_dir().empty()) {
    RETURN_IF_ERROR(CheckShards(request.checkpoint_dir()));
    ASSIGN_OR_RETURN(const std::string shard, files_->Read(request.checkpoint_dir() + kShard));
    process.model = FakeModel::Parse(shard);
  }
  v1::PrepareResponse response;
  response.set_fingerprint(process.fingerprint);
  response.set_start_step(process.model.steps);
  response.set_applied_updates(process.model.steps);
  if (process.rank == 0) response.set_gemm_table(process.gemm_table);
  return response;
}

// As an engine does where it reads.
absl::Status FakeWorkers::CheckShards(const std::string& directory) {
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::ReadManifest(files_, directory));
  for (const ManifestFile& file : manifest.files) {
    if (!file.in_blocks()) continue;
    RETURN_IF_ERROR(files_->CheckBlocks(absl::StrCat(directory, "/", file.name), file.blocks()));
  }
  return absl::OkStatus();
}

void FakeWorkers::Prepare(const WorkerTarget& worker, const v1::PrepareRequest& request,
                          Timeout timeout, Done<v1::PrepareResponse> done) {
  Answer<v1::PrepareResponse>(worker, timeout, std::move(done), [this, request](Process& process) {
    return ServePrepare(process, request);
  });
}

std::unique_ptr<Outgoing<v1::ConnectRequest>> FakeWorkers::Connect(
    const WorkerTarget& worker, Incoming<v1::ConnectResponse> incoming) {
  auto stream = std::make_shared<Stream<v1::ConnectResponse>>();
  stream->incoming = std::move(incoming);
  agenda_->After(Delay(), [this, worker, stream] {
    Process* process = Find(worker);
    if (process == nullptr) {
      ToController(1, [stream] {
        if (stream->incoming.on_closed) {
          stream->incoming.on_closed(absl::UnavailableError("connection refused"));
        }
      });
      return;
    }
    if (process->hung) return;
    process->connect = stream;
    ToController(0, [stream, rank = process->rank] {
      v1::ConnectResponse key;
      key.mutable_set()->set_key(absl::StrCat("rank/", rank));
      if (stream->incoming.on_message) stream->incoming.on_message(key);
    });
    OnConnected(*process);
  });
  const auto write = [this, worker](const v1::ConnectRequest& message) {
    Process* process = Find(worker);
    if (process != nullptr && !message.gemm_table().empty()) {
      process->gemm_table = message.gemm_table();
    }
  };
  return std::make_unique<FakeOutgoing<v1::ConnectRequest>>(write,
                                                            [stream] { stream->incoming = {}; });
}

// Done is sent to every rank when the last one of the epoch has connected.
void FakeWorkers::OnConnected(Process& process) {
  std::vector<Process*> peers;
  for (auto& [slot, other] : processes_) {
    if (other.alive && other.connect && other.fence.job() == process.fence.job() &&
        other.fence.epoch() == process.fence.epoch()) {
      peers.push_back(&other);
    }
  }
  if (static_cast<int>(peers.size()) < process.world) return;
  std::map<int, std::string> host_of_rank;
  for (const Process* peer : peers) host_of_rank[peer->rank] = peer->host;
  const std::string hosts = absl::StrJoin(host_of_rank, ",", absl::PairFormatter("@"));
  for (size_t i = 0; i < peers.size(); ++i) {
    Process* peer = peers[i];
    peer->hosts = hosts;
    v1::ConnectResponse done;
    done.mutable_done()->set_fingerprint("hosts=" + hosts);
    v1::LinkSpeed* link = done.mutable_done()->add_links();
    link->set_bytes(1024);
    link->set_bytes_per_second(1e9 / static_cast<double>(i + 1));
    ToController(Delay(), [stream = peer->connect, done] {
      if (stream->incoming.on_message) stream->incoming.on_message(done);
    });
    peer->connect.reset();
  }
}

std::unique_ptr<CommandStream> FakeWorkers::Run(const WorkerTarget& worker,
                                                Incoming<v1::Event> incoming) {
  auto stream = std::make_shared<Stream<v1::Event>>();
  stream->incoming = std::move(incoming);
  stream->generation = generation_;
  const std::string incarnation = worker.incarnation;
  Process* process = Find(worker);
  if (process == nullptr) {
    ToController(1, [stream] {
      if (stream->incoming.on_closed) {
        stream->incoming.on_closed(absl::UnavailableError("connection refused"));
      }
    });
  } else {
    process->run = stream;
  }
  // Never inside the call.
  const auto listen = [this, stream] {
    if (!stream->reading) ToController(0, [stream] { stream->Read(); });
  };
  return std::make_unique<FakeCommands>(
      [this, incarnation, stream, listen](const v1::Command& command) {
        if (!stream->open) return;
        listen();
        // Commands of one stream never overtake each other.
        agenda_->After(network_.max_delay_ms,
                       [this, incarnation, command] { OnCommand(incarnation, command); });
      },
      listen,
      [stream] {
        stream->incoming = {};
        stream->open = false;
      });
}

void FakeWorkers::OnCommand(const std::string& incarnation, const v1::Command& command) {
  for (auto& [slot, process] : processes_) {
    if (process.incarnation != incarnation || !reachable(slot)) continue;
    if (!CheckFence(process, command.fence(), false).ok()) return;
    if (command.seq() != process.last_seq + 1) return;
    process.last_seq = command.seq();
    Meet(process, command);
    return;
  }
}

void FakeWorkers::Meet(Process& process, const v1::Command& command) {
  if (process.hung || command.has_stop()) return;
  const std::string key =
      absl::StrCat(process.fence.job(), "/", process.fence.epoch(), "/", command.seq());
  Meeting& meeting = meetings_[key];
  meeting.commands[process.rank] = command;
  process.arrived_ms[command.seq()] = agenda_->now_ms();
  if (static_cast<int>(meeting.commands.size()) == process.world) {
    // Commands of an epoch take their time one after another.
    int64_t& busy_until_ms = busy_until_ms_[process.fence.job()];
    const int64_t now_ms = agenda_->now_ms();
    busy_until_ms = std::max(busy_until_ms, now_ms) + network_.step_ms;
    agenda_->After(busy_until_ms - now_ms, [this, key] { Finish(key); });
  }
}

// All ranks execute the command together, as collectives force them to.
void FakeWorkers::Finish(const std::string& key) {
  Meeting meeting = meetings_[key];
  meetings_.erase(key);
  const v1::Fence& fence = meeting.commands.begin()->second.fence();
  std::vector<Process*> ranks;
  for (auto& [slot, process] : processes_) {
    if (process.alive && !process.stopped && process.fence.job() == fence.job() &&
        process.fence.epoch() == fence.epoch()) {
      ranks.push_back(&process);
    }
  }
  if (ranks.size() != meeting.commands.size()) return;  // one died: the others hang until aborted
  const v1::Command& first = meeting.commands.begin()->second;
  for (const Process* process : ranks) {
    meeting.gemm_tables = Mix(meeting.gemm_tables, std::hash<std::string>()(process->gemm_table));
  }
  if (first.has_train()) finished_.insert({fence.job(), fence.epoch(), first.train().step()});
  for (Process* process : ranks) {
    const v1::Event event = Execute(*process, meeting);
    const auto stream = process->run;
    if (!stream || process->cut) continue;
    const bool twice = Unit(random_()) < network_.duplicate_events;
    for (int copy = 0; copy < (twice ? 2 : 1); ++copy) {
      ToController(network_.max_delay_ms + copy, [stream, event] { stream->Arrive(event); });
    }
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

v1::Event FakeWorkers::Execute(Process& process, const Meeting& meeting) {
  const v1::Command& mine = meeting.commands.at(process.rank);
  process.done_seq = mine.seq();
  v1::Event event;
  *event.mutable_fence() = process.fence;
  event.set_seq(mine.seq());
  v1::Done& done = *event.mutable_done();
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
    done.set_loss_sum(static_cast<double>(done.targets()) * Unit(Mix(process.model.parameters, 4)));
    done.set_correct_targets(done.targets() / 4);
    return event;
  }
  if (const auto failure = failures_.find(mine.train().step()); failure != failures_.end()) {
    *event.mutable_failed() = failure->second;
    return event;
  }
  if (mine.train().step() != process.model.steps) {
    Violation(absl::StrCat("step ", mine.train().step(), " trained after ", process.model.steps,
                           " steps"));
  }
  std::vector<int64_t> batch;  // whoever trains which part of it
  for (const auto& [rank, command] : meeting.commands) {
    const auto& bins = command.train().bins().bin_ids();
    batch.insert(batch.end(), bins.begin(), bins.end());
  }
  std::sort(batch.begin(), batch.end());
  uint64_t& parameters = process.model.parameters;
  for (const int64_t bin : batch) {
    parameters = Mix(parameters, static_cast<uint64_t>(bin));
    process.model.bins.push_back(bin);
  }
  ++process.model.steps;
  const bool finite = !nonfinite_.contains(mine.train().step());
  done.set_global_loss_sum(Unit(parameters) * 100);
  const uint64_t order = Mix(meeting.gemm_tables, std::hash<std::string>()(process.hosts));
  done.set_grad_norm(finite ? 0.5 + Unit(Mix(parameters, order))
                            : std::numeric_limits<double>::infinity());
  done.set_applied(finite);
  done.mutable_seconds()->set_forward(0.010 + 0.001 * process.rank);
  return event;
}

void FakeWorkers::SaveShard(const WorkerTarget& worker, const v1::SaveShardRequest& request,
                            Timeout timeout, Done<v1::SaveShardResponse> done) {
  Answer<v1::SaveShardResponse>(
      worker, timeout, std::move(done),
      [this, request](Process& process) -> absl::StatusOr<v1::SaveShardResponse> {
        RETURN_IF_ERROR(CheckFence(process, request.fence(), false));
        if (!process.snapshot || process.snapshot->steps != request.step()) {
          return absl::FailedPreconditionError("not the newest snapshot");
        }
        process.answer_delay_ms = process.save_delay_ms;
        RETURN_IF_ERROR(process.save_error);
        v1::SaveShardResponse response;
        if (process.rank != 0) return response;
        const std::string content = process.snapshot->Serialize();
        RETURN_IF_ERROR(files_->WriteDurably(request.directory() + kShard, content));
        v1::ShardFile* file = response.add_files();
        file->set_name("rank-0.shard");
        file->set_bytes(static_cast<int64_t>(content.size()));
        file->set_block_digests(DigestsOf(content).digests);
        return response;
      });
}

std::unique_ptr<Outgoing<v1::WorkerLogsRequest>> FakeWorkers::Logs(
    const WorkerTarget& worker, const v1::WorkerLogsRequest& request,
    Incoming<v1::LogLine> incoming) {
  auto stream = std::make_shared<Stream<v1::LogLine>>();
  stream->incoming = std::move(incoming);
  ToController(Delay(), [stream, worker, follow = request.follow()] {
    v1::LogLine line;
    line.set_level("info");
    line.set_json(absl::StrCat("{\"worker\":\"", worker.id, "\"}"));
    if (stream->incoming.on_message) stream->incoming.on_message(line);
    if (!follow && stream->incoming.on_closed) stream->incoming.on_closed(absl::OkStatus());
  });
  return std::make_unique<FakeOutgoing<v1::WorkerLogsRequest>>([](const v1::WorkerLogsRequest&) {},
                                                               [stream] { stream->incoming = {}; });
}

void FakeWorkers::Inspect(const WorkerTarget& worker, Timeout timeout,
                          Done<v1::WorkerInspectResponse> done) {
  Answer<v1::WorkerInspectResponse>(
      worker, timeout, std::move(done),
      [](Process& process) -> absl::StatusOr<v1::WorkerInspectResponse> {
        v1::WorkerInspectResponse response;
        *response.mutable_fence() = process.fence;
        response.set_rank(process.rank);
        response.set_state("RUNNING");
        response.set_last_step(process.model.steps - 1);
        return response;
      });
}

void FakeWorkers::Dump(const WorkerTarget& worker, Timeout timeout,
                       Done<v1::WorkerDumpResponse> done) {
  Answer<v1::WorkerDumpResponse>(
      worker, timeout, std::move(done),
      [](Process& process) -> absl::StatusOr<v1::WorkerDumpResponse> {
        v1::WorkerDumpResponse response;
        response.set_json(absl::StrCat("{\"epoch\":", process.fence.epoch(), "}"));
        return response;
      });
}

void FakeWorkers::DropEpoch(Process& process) {
  process.fence.Clear();
  process.snapshot.reset();
  process.hung = false;
  process.done_seq = 0;
  process.arrived_ms.clear();
  process.run.reset();
  process.connect.reset();
}

void FakeWorkers::Abort(const WorkerTarget& worker, const v1::AbortRequest& request,
                        Timeout timeout, Done<v1::AbortResponse> done) {
  Answer<v1::AbortResponse>(worker, timeout, std::move(done),
                            [this, request](Process& process) -> absl::StatusOr<v1::AbortResponse> {
                              if (process.fence.job().empty()) return v1::AbortResponse();
                              RETURN_IF_ERROR(CheckFence(process, request.fence(), false));
                              DropEpoch(process);
                              return v1::AbortResponse();
                            });
}

void FakeWorkers::Release(const WorkerTarget& worker, const v1::ReleaseRequest& request,
                          Timeout timeout, Done<v1::ReleaseResponse> done) {
  Answer<v1::ReleaseResponse>(
      worker, timeout, std::move(done),
      [this, request](Process& process) -> absl::StatusOr<v1::ReleaseResponse> {
        RETURN_IF_ERROR(CheckFence(process, request.fence(), false));
        DropEpoch(process);
        return v1::ReleaseResponse();
      });
}

void FakeWorkers::EndWorker(const WorkerTarget& worker, const std::string&, Timeout timeout,
                            Done<v1::EndWorkerResponse> done) {
  agenda_->After(Delay(), [this, worker, timeout, done] {
    const auto found = std::find_if(processes_.begin(), processes_.end(), [&](const auto& entry) {
      return entry.second.incarnation == worker.incarnation && entry.second.alive;
    });
    if (found == processes_.end()) {
      ToController(Delay(), [done] { done(absl::NotFoundError("it has ended")); });
    } else if (found->second.cut) {
      ToController(timeout.count(), [done] { done(absl::DeadlineExceededError("no answer")); });
    } else {
      if (on_ended_) on_ended_(found->first);
      ToController(Delay(), [done] { done(v1::EndWorkerResponse()); });
    }
  });
}

}  // namespace coxswain::sim
