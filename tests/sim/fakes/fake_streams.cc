#include "tests/sim/fakes/fake_workers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "worker/agent/wire/command_identity.h"

namespace coxswain::sim {

template <typename Message>
void FakeWorkers::End(const std::shared_ptr<FakeStream<Message>>& stream, absl::Status status) {
  if (!stream || !std::exchange(stream->open, false)) return;
  ToController(Delay(), [stream, status = std::move(status)] {
    if (stream->incoming.on_closed) stream->incoming.on_closed(status);
  });
}
template void FakeWorkers::End(const std::shared_ptr<FakeStream<v1::Event>>&, absl::Status);
template void FakeWorkers::End(const std::shared_ptr<FakeStream<v1::ConnectResponse>>&,
                               absl::Status);

std::unique_ptr<Outgoing<v1::ConnectRequest>> FakeWorkers::Connect(
    const WorkerTarget& worker, Incoming<v1::ConnectResponse> incoming) {
  auto stream = std::make_shared<FakeStream<v1::ConnectResponse>>();
  stream->incoming = std::move(incoming);
  stream->generation = generation_;
  agenda_->After(Delay(), [this, worker, stream] {
    Process* process = stream->generation == generation_ ? Find(worker) : nullptr;
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
    if (other.alive && other.connect && other.InGangOf(process)) peers.push_back(&other);
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
  auto stream = std::make_shared<FakeStream<v1::Event>>();
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
        agenda_->After(network_.max_delay_ms, [this, incarnation, stream, command] {
          OnCommand(incarnation, stream, command);
        });
      },
      listen,
      [stream] {
        stream->incoming = {};
        stream->open = false;
      });
}

void FakeWorkers::OnCommand(const std::string& incarnation,
                            const std::shared_ptr<FakeStream<v1::Event>>& from,
                            const v1::Command& command) {
  for (auto& [slot, process] : processes_) {
    if (process.incarnation != incarnation || !reachable(slot)) continue;
    if (from->first_seq == 0) from->first_seq = command.seq();
    from->last_seq = command.seq();
    const absl::Status status = Accept(process, command);
    if (status.ok()) return;
    if (process.run == from) process.run = nullptr;
    End(from, status);
    return;
  }
}

// What is sent again is the same command, and runs once.
absl::Status FakeWorkers::Accept(Process& process, const v1::Command& command) {
  RETURN_IF_ERROR(process.gate.Check(command.fence()));
  if (command.seq() > process.last_seq + 1) {
    return absl::AbortedError(absl::StrCat("command sequence number ", command.seq(), ", expected ",
                                           process.last_seq + 1));
  }
  if (command.seq() == process.last_seq + 1) {
    process.last_seq = command.seq();
    process.kept[command.seq()] = {agent::KindOf(command), agent::IdentityOf(command), {}};
    Meet(process, command);
    return absl::OkStatus();
  }
  Process::Kept& kept = process.kept[command.seq()];
  if (kept.identity != agent::IdentityOf(command)) {
    return absl::AbortedError(
        absl::StrCat("command ", command.seq(), " comes again as ", agent::Summary(command)));
  }
  if (!kept.event) return absl::OkStatus();  // its event comes when it is done
  *kept.event->mutable_fence() = process.fence();
  Send(process, *kept.event);
  return absl::OkStatus();
}

void FakeWorkers::Send(Process& process, const v1::Event& event) {
  const auto stream = process.run;
  if (!stream || process.cut) return;
  if (event.seq() < stream->first_seq || event.seq() > stream->last_seq) return;
  const bool twice = Unit(random_()) < network_.duplicate_events;
  for (int copy = 0; copy < (twice ? 2 : 1); ++copy) {
    ToController(network_.max_delay_ms + copy, [stream, event] { stream->Arrive(event); });
  }
}

std::unique_ptr<Outgoing<v1::WorkerLogsRequest>> FakeWorkers::Logs(
    const WorkerTarget& worker, const v1::WorkerLogsRequest& request,
    Incoming<v1::LogLine> incoming) {
  auto stream = std::make_shared<FakeStream<v1::LogLine>>();
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

}  // namespace coxswain::sim
