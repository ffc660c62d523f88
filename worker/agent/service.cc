#include "worker/agent/service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/net/grpc_status.h"
#include "worker/agent/wire/log_stream.h"
#include "worker/agent/wire/queued_stream.h"
#include "worker/agent/wire/wire.h"

namespace coxswain::agent {
namespace {

class ConnectStream : public QueuedStream<v1::ConnectRequest, v1::ConnectResponse> {
 public:
  explicit ConnectStream(Agent* agent) : agent_(agent) { Begin(); }

 private:
  void OnMessage(const v1::ConnectRequest& message) override {
    if (rendezvous_ == nullptr && !Start(message)) return;
    if (!message.key().empty()) rendezvous_->Deliver(message.key(), message.value());
  }
  void OnEndOfMessages() override {
    if (rendezvous_ != nullptr) {
      rendezvous_->Cancel("the controller closed the Connect stream");
    } else {
      outbox()->Close(absl::OkStatus());
    }
  }

  bool Start(const v1::ConnectRequest& first) {
    auto started = agent_->Connect(
        first,
        [out = outbox()](const std::string& key, const std::string& value) {
          v1::ConnectResponse response;
          response.mutable_set()->set_key(key);
          response.mutable_set()->set_value(value);
          out->Write(std::move(response));
        },
        [out = outbox()](const absl::StatusOr<Agent::Connected>& connected) {
          v1::ConnectResponse response;
          v1::ConnectDone& done = *response.mutable_done();
          if (connected.ok()) {
            done = ToConnectDone(connected->links, connected->fingerprint);
          } else {
            *done.mutable_error() = ToError(connected.status(), "connect");
          }
          out->Write(std::move(response));
          out->Close(absl::OkStatus());
        });
    if (!started.ok()) {
      outbox()->Close(started.status());
      return false;
    }
    rendezvous_ = std::move(*started);
    return true;
  }

  Agent* const agent_;
  std::shared_ptr<RelayRendezvous> rendezvous_;
};

class RunStream : public QueuedStream<v1::Command, v1::Event> {
 public:
  // One command runs, the next is decoded meanwhile.
  explicit RunStream(Agent* agent)
      : QueuedStream(/*most_unanswered=*/2),
        agent_(agent),
        sink_(std::make_shared<Sink>(outbox())) {
    Begin();
  }

 private:
  struct Sink : EventSink {
    explicit Sink(std::shared_ptr<Outbox> outbox) : out(std::move(outbox)) {}
    void Send(const v1::Event& event) override { out->Write(event); }
    void Close(const absl::Status& status) override { out->Close(status); }
    const std::shared_ptr<Outbox> out;
  };

  void OnMessage(const v1::Command& command) override {
    const absl::Status status = agent_->Submit(sink_, command);
    if (!status.ok()) sink_->Close(status);
  }
  void OnEndOfMessages() override { agent_->EndOfCommands(sink_); }

  Agent* const agent_;
  const std::shared_ptr<Sink> sink_;
};

// Finishes a unary call from whatever thread has its result.
template <typename Response>
auto Reply(grpc::ServerUnaryReactor* reactor, Response* response) {
  return [reactor, response](absl::StatusOr<Response> result) {
    if (result.ok()) *response = std::move(*result);
    reactor->Finish(ToGrpc(result.status()));
  };
}

// A stream that ends with its first word.
template <typename Reactor>
class Refusal : public Reactor {
 public:
  explicit Refusal(const absl::Status& status) { this->Finish(ToGrpc(status)); }

 private:
  void OnDone() override { delete this; }
};
using RefusedConnect = Refusal<grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>>;
using RefusedRun = Refusal<grpc::ServerBidiReactor<v1::Command, v1::Event>>;
using RefusedLogs = Refusal<grpc::ServerWriteReactor<v1::LogLine>>;

auto Reply(grpc::ServerUnaryReactor* reactor) {
  return [reactor](const absl::Status& status) { reactor->Finish(ToGrpc(status)); };
}

}  // namespace

absl::Status Service::Admit(const grpc::CallbackServerContext& call, const char* method) const {
  const access::CallCredentials credentials = access::ReadCallCredentials(call);
  const absl::Status refused = door_.Admit(credentials, method).status();
  if (!refused.ok()) {
    log::Warning("a call is refused: it is none of this worker's controller",
                 {{"method", method}, {"peer", credentials.peer}, {"error", refused.ToString()}});
  }
  return refused;
}

template <typename Start>
grpc::ServerUnaryReactor* Service::Unary(grpc::CallbackServerContext* call, const char* method,
                                         Start start) const {
  auto* reactor = call->DefaultReactor();
  if (const absl::Status refused = Admit(*call, method); !refused.ok()) {
    reactor->Finish(ToGrpc(refused));
  } else {
    start(reactor);
  }
  return reactor;
}

grpc::ServerUnaryReactor* Service::Prepare(grpc::CallbackServerContext* context,
                                           const v1::PrepareRequest* request,
                                           v1::PrepareResponse* response) {
  return Unary(context, "Worker.Prepare", [&](grpc::ServerUnaryReactor* reactor) {
    agent_->Prepare(*request, Reply(reactor, response));
  });
}

grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>* Service::Connect(
    grpc::CallbackServerContext* context) {
  const absl::Status refused = Admit(*context, "Worker.Connect");
  if (!refused.ok()) return new RefusedConnect(refused);
  return new ConnectStream(agent_);
}

grpc::ServerBidiReactor<v1::Command, v1::Event>* Service::Run(
    grpc::CallbackServerContext* context) {
  const absl::Status refused = Admit(*context, "Worker.Run");
  if (!refused.ok()) return new RefusedRun(refused);
  return new RunStream(agent_);
}

grpc::ServerUnaryReactor* Service::SaveShard(grpc::CallbackServerContext* context,
                                             const v1::SaveShardRequest* request,
                                             v1::SaveShardResponse* response) {
  return Unary(context, "Worker.SaveShard", [&](grpc::ServerUnaryReactor* reactor) {
    agent_->SaveShard(*request, Reply(reactor, response));
  });
}

grpc::ServerWriteReactor<v1::LogLine>* Service::Logs(grpc::CallbackServerContext* context,
                                                     const v1::WorkerLogsRequest* request) {
  if (const absl::Status refused = Admit(*context, "Worker.Logs"); !refused.ok()) {
    return new RefusedLogs(refused);
  }
  if (request->tail() < 0) {
    return new RefusedLogs(absl::InvalidArgumentError(
        absl::StrCat("tail is ", request->tail(), ": 0 or more lines are needed")));
  }
  LogBefore before = [agent = agent_, job = request->job()]() -> std::optional<uint64_t> {
    if (job.empty()) return 0;
    return agent->LogBefore(job);
  };
  return new LogStream(*request, agent_->Inspect().rank(), std::move(before));
}

grpc::ServerUnaryReactor* Service::Inspect(grpc::CallbackServerContext* context,
                                           const v1::WorkerInspectRequest*,
                                           v1::WorkerInspectResponse* response) {
  return Unary(context, "Worker.Inspect", [&](grpc::ServerUnaryReactor* reactor) {
    *response = agent_->Inspect();
    reactor->Finish(grpc::Status::OK);
  });
}

grpc::ServerUnaryReactor* Service::Dump(grpc::CallbackServerContext* context,
                                        const v1::WorkerDumpRequest*,
                                        v1::WorkerDumpResponse* response) {
  return Unary(context, "Worker.Dump", [&](grpc::ServerUnaryReactor* reactor) {
    agent_->Dump([reactor, response](const std::string& json) {
      response->set_json(json);
      reactor->Finish(grpc::Status::OK);
    });
  });
}

grpc::ServerUnaryReactor* Service::Abort(grpc::CallbackServerContext* context,
                                         const v1::AbortRequest* request, v1::AbortResponse*) {
  return Unary(context, "Worker.Abort",
               [&](grpc::ServerUnaryReactor* reactor) { agent_->Abort(*request, Reply(reactor)); });
}

grpc::ServerUnaryReactor* Service::Release(grpc::CallbackServerContext* context,
                                           const v1::ReleaseRequest* request,
                                           v1::ReleaseResponse*) {
  return Unary(context, "Worker.Release", [&](grpc::ServerUnaryReactor* reactor) {
    agent_->Release(*request, Reply(reactor));
  });
}

}  // namespace coxswain::agent
