#include "controller/transport/grpc_worker_transport.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/client_callback.h>

#include "absl/strings/str_cat.h"
#include "common/net/grpc_status.h"
#include "common/net/queued_call.h"
#include "common/status_macros.h"
#include "controller/transport/host_stream.h"
#include "controller/transport/open_calls.h"
#include "controller/transport/worker_transport.h"
#include "coxswain/v1/relay_service.grpc.pb.h"
#include "coxswain/v1/worker_service.grpc.pb.h"

namespace coxswain {

// How one worker is called: commands travel as bytes that were serialised by us.
struct Peer {
  explicit Peer(const std::shared_ptr<grpc::Channel>& channel) : stub(channel), commands(channel) {}
  v1::Worker::Stub stub;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::Event> commands;
};

struct GrpcWorkerTransport::Impl {
  Impl(Loop* loop, TlsFiles tls, bool insecure, access::SignCall sign)
      : calls(std::make_shared<OpenCalls>(loop)),
        tls(std::move(tls)),
        insecure(insecure),
        sign(std::move(sign)) {}

  const std::shared_ptr<OpenCalls> calls;
  const TlsFiles tls;
  const bool insecure;
  const access::SignCall sign;                         // empty: nothing proves who calls
  std::map<std::string, std::shared_ptr<Peer>> peers;  // by address; loop thread only, as the next
  std::map<std::string, std::unique_ptr<v1::Relay::Stub>> supervisors;

  void Sign(grpc::ClientContext* call) const {
    if (sign) sign(call);
  }
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const std::string& address) const {
    ASSIGN_OR_RETURN(const SocketAddress socket, ParseSocketAddress(address));
    ASSIGN_OR_RETURN(const auto credentials, ChannelCredentials(socket, tls, insecure));
    return NewChannel(address, credentials);
  }
  absl::StatusOr<std::shared_ptr<Peer>> PeerOf(const WorkerTarget& worker) {
    const auto it = peers.find(worker.address);
    if (it != peers.end()) return it->second;
    ASSIGN_OR_RETURN(const auto channel, Dial(worker.address));
    return peers[worker.address] = std::make_shared<Peer>(channel);
  }
  absl::StatusOr<v1::Relay::Stub*> SupervisorOf(const WorkerTarget& worker) {
    std::unique_ptr<v1::Relay::Stub>& stub = supervisors[worker.supervisor];
    if (stub == nullptr) {
      ASSIGN_OR_RETURN(const auto channel, Dial(worker.supervisor));
      stub = v1::Relay::NewStub(channel);
    }
    return stub.get();
  }
};

namespace {

using Impl = GrpcWorkerTransport::Impl;

constexpr char kRunMethod[] = "/coxswain.v1.Worker/Run";
// Of the time for stacks: what is left for the answer's way back, and the longest that a process
// may be held, which gives no heartbeat meanwhile and is lost without any for 5 s.
constexpr std::chrono::milliseconds kAnswerTravels{200}, kLongestHeld{3000};

absl::Status ErrorOf(const WorkerTarget& worker, const char* method, const grpc::Status& status) {
  WorkerTarget dialled = worker;
  dialled.relay.clear();
  return CallError(NameOf(dialled), method, FromGrpc(status));
}

template <typename Request, typename Response>
struct UnaryCall {
  std::shared_ptr<grpc::ClientContext> context = std::make_shared<grpc::ClientContext>();
  Request request;
  Response response;
};

// `start` starts it: (context, request, response, what to call in the end).
template <typename Request, typename Response, typename Start>
void Call(const std::shared_ptr<Impl>& impl, const WorkerTarget& worker, const char* method,
          const Request& request, WorkerTransport::Timeout timeout,
          WorkerTransport::Done<Response> done, Start start) {
  auto call = std::make_shared<UnaryCall<Request, Response>>();
  call->request = request;
  call->context->set_deadline(std::chrono::system_clock::now() + timeout);
  impl->Sign(call->context.get());
  impl->calls->Began(call->context);
  start(call->context.get(), &call->request, &call->response,
        [calls = impl->calls, call, done, worker, method](const grpc::Status& status) {
          calls->Ended(std::move(call->context), [call, done, worker, method, status] {
            if (status.ok()) {
              done(std::move(call->response));
            } else {
              done(ErrorOf(worker, method, status));
            }
          });
        });
}

template <typename Request, typename Response, typename Start>
void Unary(const std::shared_ptr<Impl>& impl, const WorkerTarget& worker, const char* method,
           const Request& request, WorkerTransport::Timeout timeout,
           WorkerTransport::Done<Response> done, Start start) {
  absl::StatusOr<std::shared_ptr<Peer>> peer = impl->PeerOf(worker);
  if (!peer.ok()) {
    impl->calls->Post([done, status = peer.status()] { done(status); });
    return;
  }
  Call(impl, worker, method, request, timeout, std::move(done),
       [&](auto... args) { start(&(*peer)->stub, std::move(args)...); });
}

// A bidirectional stream and who hears of it.
template <typename Request, typename Response>
class Stream {
 public:
  template <typename Open>
  Stream(const std::shared_ptr<Impl>& impl, const WorkerTarget& worker, const char* method,
         Incoming<Response> incoming, Open open)
      : incoming_(std::make_shared<Incoming<Response>>(std::move(incoming))) {
    const std::shared_ptr<OpenCalls>& calls = impl->calls;
    typename Call::Reactions reactions;
    const ReadTime read_time = incoming_->on_arrival ? ReadTime::kLate : ReadTime::kAtOnce;
    if (incoming_->on_arrival) {
      reactions.on_message = incoming_->on_arrival;
    } else {
      reactions.on_message = [calls, incoming = incoming_](Response message) {
        calls->Post([incoming, message = std::move(message)] {
          if (incoming->on_message) incoming->on_message(message);
        });
      };
    }
    reactions.on_done = [calls, incoming = incoming_, worker, method](
                            // NOLINTNEXTLINE(performance-unnecessary-value-param) it is moved from
                            std::shared_ptr<grpc::ClientContext> context,
                            const grpc::Status& status) {
      calls->Ended(std::move(context), [incoming, error = ErrorOf(worker, method, status)] {
        if (incoming->on_closed) std::exchange(incoming->on_closed, {})(error);
      });
    };
    call_ = std::make_shared<Call>(read_time, std::move(reactions));
    calls->Began(call_->context());
    impl->Sign(call_->context().get());
    call_->Begin(open);
  }
  // No callback from here on.
  ~Stream() {
    *incoming_ = {};
    call_->Cancel();
  }
  QueuedCall<Request, Response>* operator->() const { return call_.get(); }

 private:
  using Call = QueuedCall<Request, Response>;

  const std::shared_ptr<Incoming<Response>> incoming_;  // loop thread only
  std::shared_ptr<Call> call_;
};

class ConnectHandle : public Outgoing<v1::ConnectRequest> {
 public:
  ConnectHandle(const std::shared_ptr<Impl>& impl, Peer* peer, const WorkerTarget& worker,
                Incoming<v1::ConnectResponse> incoming)
      : stream_(impl, worker, "Connect", std::move(incoming),
                [peer](auto... args) { peer->stub.async()->Connect(args...); }) {}
  void Write(const v1::ConnectRequest& request) override { stream_->Write(request); }
  void WritesDone() override { stream_->WritesDone(); }

 private:
  const Stream<v1::ConnectRequest, v1::ConnectResponse> stream_;
};

class CommandHandle : public CommandStream {
 public:
  CommandHandle(const std::shared_ptr<Impl>& impl, Peer* peer, const WorkerTarget& worker,
                Incoming<v1::Event> incoming)
      : stream_(impl, worker, "Run", std::move(incoming),
                [peer](grpc::ClientContext* context, auto* reactor) {
                  peer->commands.PrepareBidiStreamingCall(context, kRunMethod, {}, reactor);
                }) {}
  // Parsing one message after the other merges them.
  void Write(const SharedCommand& shared, const v1::Command& own) override {
    const size_t head = shared.bytes.size();
    grpc::Slice slice(head + own.ByteSizeLong());
    auto* bytes = const_cast<uint8_t*>(slice.begin());
    // NOLINTNEXTLINE(bugprone-not-null-terminated-result) bytes, not text
    std::memcpy(bytes, shared.bytes.data(), head);
    own.SerializeWithCachedSizesToArray(bytes + head);
    stream_->Write(grpc::ByteBuffer(&slice, 1));
  }
  void Flush() override {}  // it has gone
  void Listen() override { stream_->Listen(); }
  void WritesDone() override { stream_->WritesDone(); }

 private:
  const Stream<grpc::ByteBuffer, v1::Event> stream_;
};

// A handle of a stream that could not be opened; on_closed follows from the loop.
class ClosedHandle : public Outgoing<v1::ConnectRequest>,
                     public Outgoing<v1::WorkerLogsRequest>,
                     public CommandStream {
 public:
  template <typename Response>
  ClosedHandle(const std::shared_ptr<Impl>& impl, Incoming<Response> incoming,
               absl::Status status) {
    impl->calls->Post(lifetime_.Wrap([incoming, status] { incoming.on_closed(status); }));
  }
  void Write(const v1::ConnectRequest&) override {}
  void Write(const v1::WorkerLogsRequest&) override {}
  void Write(const SharedCommand&, const v1::Command&) override {}
  void Flush() override {}
  void Listen() override {}
  void WritesDone() override {}

 private:
  Lifetime lifetime_;
};

template <typename Handle, typename Stream, typename Response>
std::unique_ptr<Stream> OpenBidi(const std::shared_ptr<Impl>& impl, const WorkerTarget& worker,
                                 Incoming<Response> incoming) {
  absl::StatusOr<std::shared_ptr<Peer>> peer = impl->PeerOf(worker);
  if (!peer.ok()) {
    return std::make_unique<ClosedHandle>(impl, std::move(incoming), peer.status());
  }
  return std::make_unique<Handle>(impl, peer->get(), worker, std::move(incoming));
}

class LogsCall : public grpc::ClientReadReactor<v1::LogLine>,
                 public std::enable_shared_from_this<LogsCall> {
 public:
  LogsCall(const Impl& impl, WorkerTarget worker, v1::WorkerLogsRequest request,
           Incoming<v1::LogLine> incoming)
      : calls_(impl.calls),
        worker_(std::move(worker)),
        request_(std::move(request)),
        incoming_(std::move(incoming)) {
    impl.Sign(context_.get());
  }

  void Begin(Peer* peer) {
    self_ = shared_from_this();
    calls_->Began(context_);
    peer->stub.async()->Logs(context_.get(), &request_, this);
    StartRead(&line_);
    StartCall();
  }
  void Drop() {
    incoming_ = {};
    if (const auto context = open_.lock()) context->TryCancel();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    calls_->Post([self = shared_from_this(), line = line_] {
      if (self->incoming_.on_message) self->incoming_.on_message(line);
    });
    StartRead(&line_);
  }
  void OnDone(const grpc::Status& status) override {
    const absl::Status named = ErrorOf(worker_, "Logs", status);
    auto self = std::move(self_);
    calls_->Ended(std::move(context_), [self, named] {
      if (self->incoming_.on_closed) std::exchange(self->incoming_.on_closed, {})(named);
    });
  }

 private:
  const std::shared_ptr<OpenCalls> calls_;
  const WorkerTarget worker_;
  const v1::WorkerLogsRequest request_;
  Incoming<v1::LogLine> incoming_;  // loop thread only
  std::shared_ptr<LogsCall> self_;
  std::shared_ptr<grpc::ClientContext> context_ = std::make_shared<grpc::ClientContext>();
  const std::weak_ptr<grpc::ClientContext> open_ = context_;  // until it has ended
  v1::LogLine line_;
};

class LogsHandle : public Outgoing<v1::WorkerLogsRequest> {
 public:
  explicit LogsHandle(std::shared_ptr<LogsCall> call) : call_(std::move(call)) {}
  ~LogsHandle() override { call_->Drop(); }
  void Write(const v1::WorkerLogsRequest&) override {}  // a single request, sent at the start
  void WritesDone() override {}

 private:
  std::shared_ptr<LogsCall> call_;
};

}  // namespace

GrpcWorkerTransport::GrpcWorkerTransport(Loop* loop, TlsFiles tls, bool insecure,
                                         access::SignCall sign)
    : impl_(std::make_shared<Impl>(loop, std::move(tls), insecure, std::move(sign))) {}

GrpcWorkerTransport::~GrpcWorkerTransport() { impl_->calls->CancelAll(); }

void GrpcWorkerTransport::Prepare(const WorkerTarget& worker, const v1::PrepareRequest& request,
                                  Timeout timeout, Done<v1::PrepareResponse> done) {
  Unary(impl_, worker, "Prepare", request, timeout, std::move(done),
        [](v1::Worker::Stub* stub, auto... args) { stub->async()->Prepare(args...); });
}

std::unique_ptr<Outgoing<v1::ConnectRequest>> GrpcWorkerTransport::Connect(
    const WorkerTarget& worker, Incoming<v1::ConnectResponse> incoming) {
  return OpenBidi<ConnectHandle, Outgoing<v1::ConnectRequest>>(impl_, worker, std::move(incoming));
}

std::unique_ptr<CommandStream> GrpcWorkerTransport::Run(const WorkerTarget& worker,
                                                        Incoming<v1::Event> incoming) {
  if (worker.relay.empty()) {
    return OpenBidi<CommandHandle, CommandStream>(impl_, worker, std::move(incoming));
  }
  std::shared_ptr<HostStream>& host = hosts_[worker.relay];
  std::unique_ptr<CommandStream> stream = host == nullptr ? nullptr : host->Open(worker, incoming);
  if (stream != nullptr) return stream;
  const auto channel = impl_->Dial(worker.relay);
  if (!channel.ok()) {
    return std::make_unique<ClosedHandle>(impl_, std::move(incoming), channel.status());
  }
  host = std::make_shared<HostStream>(impl_->calls, *channel, impl_->sign);
  host->Begin();
  return host->Open(worker, incoming);
}

void GrpcWorkerTransport::SaveShard(const WorkerTarget& worker, const v1::SaveShardRequest& request,
                                    Timeout timeout, Done<v1::SaveShardResponse> done) {
  Unary(impl_, worker, "SaveShard", request, timeout, std::move(done),
        [](v1::Worker::Stub* stub, auto... args) { stub->async()->SaveShard(args...); });
}

std::unique_ptr<Outgoing<v1::WorkerLogsRequest>> GrpcWorkerTransport::Logs(
    const WorkerTarget& worker, const v1::WorkerLogsRequest& request,
    Incoming<v1::LogLine> incoming) {
  absl::StatusOr<std::shared_ptr<Peer>> peer = impl_->PeerOf(worker);
  if (!peer.ok()) {
    return std::make_unique<ClosedHandle>(impl_, std::move(incoming), peer.status());
  }
  auto call = std::make_shared<LogsCall>(*impl_, worker, request, std::move(incoming));
  call->Begin(peer->get());
  return std::make_unique<LogsHandle>(std::move(call));
}

void GrpcWorkerTransport::Inspect(const WorkerTarget& worker, Timeout timeout,
                                  Done<v1::WorkerInspectResponse> done) {
  Unary(impl_, worker, "Inspect", v1::WorkerInspectRequest(), timeout, std::move(done),
        [](v1::Worker::Stub* stub, auto... args) { stub->async()->Inspect(args...); });
}

void GrpcWorkerTransport::Dump(const WorkerTarget& worker, Timeout timeout,
                               Done<v1::WorkerDumpResponse> done) {
  Unary(impl_, worker, "Dump", v1::WorkerDumpRequest(), timeout, std::move(done),
        [](v1::Worker::Stub* stub, auto... args) { stub->async()->Dump(args...); });
}

void GrpcWorkerTransport::Abort(const WorkerTarget& worker, const v1::AbortRequest& request,
                                Timeout timeout, Done<v1::AbortResponse> done) {
  Unary(impl_, worker, "Abort", request, timeout, std::move(done),
        [](v1::Worker::Stub* stub, auto... args) { stub->async()->Abort(args...); });
}

void GrpcWorkerTransport::Release(const WorkerTarget& worker, const v1::ReleaseRequest& request,
                                  Timeout timeout, Done<v1::ReleaseResponse> done) {
  Unary(impl_, worker, "Release", request, timeout, std::move(done),
        [](v1::Worker::Stub* stub, auto... args) { stub->async()->Release(args...); });
}

void GrpcWorkerTransport::EndWorker(const WorkerTarget& worker, const std::string& reason,
                                    Timeout timeout, Done<v1::EndWorkerResponse> done) {
  const absl::StatusOr<v1::Relay::Stub*> stub = impl_->SupervisorOf(worker);
  if (!stub.ok()) {
    impl_->calls->Post([done, status = stub.status()] { done(status); });
    return;
  }
  v1::EndWorkerRequest request;
  request.set_slot(worker.slot);
  request.set_incarnation(worker.incarnation);
  request.set_reason(reason);
  Call(impl_, worker, "EndWorker", request, timeout, std::move(done),
       [&](auto... args) { (*stub)->async()->EndWorker(std::move(args)...); });
}

void GrpcWorkerTransport::Stacks(const WorkerTarget& worker, int64_t most_bytes, Timeout timeout,
                                 Done<v1::StacksResponse> done) {
  const absl::StatusOr<v1::Relay::Stub*> stub =
      worker.supervisor.empty()
          ? absl::FailedPreconditionError(absl::StrCat(
                "worker ", worker.id, " has told of no supervisor that could read its stacks: it ",
                "was started by hand, or under --relay \"\""))
          : impl_->SupervisorOf(worker);
  if (!stub.ok()) {
    impl_->calls->Post([done, status = stub.status()] { done(status); });
    return;
  }
  v1::StacksRequest request;
  request.set_slot(worker.slot);
  request.set_incarnation(worker.incarnation);
  request.set_limit_ms(
      std::clamp(timeout - kAnswerTravels, WorkerTransport::Timeout(1), kLongestHeld).count());
  request.set_most_bytes(most_bytes);
  Call(impl_, worker, "Stacks", request, timeout, std::move(done),
       [&](auto... args) { (*stub)->async()->Stacks(std::move(args)...); });
}

}  // namespace coxswain
