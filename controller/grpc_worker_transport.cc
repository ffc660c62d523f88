#include "controller/grpc_worker_transport.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/client_callback.h>

#include "absl/strings/str_cat.h"
#include "common/grpc_status.h"
#include "coxswain/v1/worker_service.grpc.pb.h"

namespace coxswain {

// How one worker is called: commands travel as bytes that were serialised by us.
struct Peer {
  explicit Peer(const std::shared_ptr<grpc::Channel>& channel) : stub(channel), commands(channel) {}
  v1::Worker::Stub stub;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::Event> commands;
};

// Shared by the transport and every call in progress.
struct GrpcWorkerTransport::Impl {
  Loop* loop = nullptr;
  TlsFiles tls;
  bool insecure = false;

  std::mutex mu;
  std::condition_variable all_done;
  std::set<grpc::ClientContext*> calls;                // guarded by mu
  bool closed = false;                                 // guarded by mu
  std::map<std::string, std::shared_ptr<Peer>> peers;  // by address; loop thread only

  void Began(grpc::ClientContext* context) {
    std::lock_guard lock(mu);
    calls.insert(context);
    if (closed) context->TryCancel();
  }
  // `then` is posted unless the transport is gone.
  void Ended(grpc::ClientContext* context, Loop::Task then) {
    std::lock_guard lock(mu);
    if (!closed) loop->Post(std::move(then));
    calls.erase(context);
    all_done.notify_all();
  }
  void Post(Loop::Task task) {
    std::lock_guard lock(mu);
    if (!closed) loop->Post(std::move(task));
  }
  absl::StatusOr<std::shared_ptr<Peer>> PeerOf(const WorkerTarget& worker) {
    const auto it = peers.find(worker.address);
    if (it != peers.end()) return it->second;
    absl::StatusOr<SocketAddress> address = ParseSocketAddress(worker.address);
    if (!address.ok()) return address.status();
    auto credentials = ChannelCredentials(*address, tls, insecure);
    if (!credentials.ok()) return credentials.status();
    return peers[worker.address] = std::make_shared<Peer>(NewChannel(worker.address, *credentials));
  }
};

namespace {

using Impl = GrpcWorkerTransport::Impl;

constexpr char kRunMethod[] = "/coxswain.v1.Worker/Run";

absl::Status Named(const WorkerTarget& worker, const char* method, const grpc::Status& status) {
  const absl::Status plain = FromGrpc(status);
  if (plain.ok()) return plain;
  const bool ours = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                    status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!ours) return plain;
  return absl::Status(plain.code(), absl::StrCat("worker ", worker.id, " at ", worker.address, ": ",
                                                 method, ": ", status.error_message()));
}

template <typename Request, typename Response>
struct UnaryCall {
  grpc::ClientContext context;
  Request request;
  Response response;
};

template <typename Request, typename Response, typename Start>
void Unary(const std::shared_ptr<Impl>& impl, const WorkerTarget& worker, const char* method,
           const Request& request, WorkerTransport::Timeout timeout,
           WorkerTransport::Done<Response> done, Start start) {
  absl::StatusOr<std::shared_ptr<Peer>> peer = impl->PeerOf(worker);
  if (!peer.ok()) {
    impl->Post([done, status = peer.status()] { done(status); });
    return;
  }
  auto call = std::make_shared<UnaryCall<Request, Response>>();
  call->request = request;
  call->context.set_deadline(std::chrono::system_clock::now() + timeout);
  impl->Began(&call->context);
  start(&(*peer)->stub, &call->context, &call->request, &call->response,
        [impl, call, done, worker, method, keep = *peer](grpc::Status status) {
          impl->Ended(&call->context, [call, done, worker, method, status] {
            if (status.ok()) {
              done(std::move(call->response));
            } else {
              done(Named(worker, method, status));
            }
          });
        });
}

// One bidirectional stream. gRPC owns it between StartCall and OnDone; `self_` keeps it alive.
template <typename Request, typename Response>
class BidiCall : public grpc::ClientBidiReactor<Request, Response>,
                 public std::enable_shared_from_this<BidiCall<Request, Response>> {
 public:
  BidiCall(std::shared_ptr<Impl> impl, std::shared_ptr<Peer> peer, WorkerTarget worker,
           const char* method, Incoming<Response> incoming)
      : impl_(std::move(impl)),
        peer_(std::move(peer)),
        worker_(std::move(worker)),
        method_(method),
        on_arrival_(std::move(incoming.on_arrival)),
        incoming_(std::move(incoming)) {}

  template <typename Open>
  void Begin(Open open) {
    self_ = this->shared_from_this();
    impl_->Began(&context_);
    open(peer_.get(), &context_, this);
    // Writes come from the loop, outside of reactions: the hold lasts while they may.
    this->AddHold();
    this->StartRead(&response_);
    this->StartCall();
  }

  void Write(Request request) {
    std::lock_guard lock(mu_);
    if (half_closed_ || dead_) return;
    queue_.push_back(std::move(request));
    if (queue_.size() == 1) this->StartWrite(&queue_.front());
  }
  void WritesDone() {
    std::lock_guard lock(mu_);
    if (half_closed_ || dead_) return;
    half_closed_ = true;
    if (queue_.empty()) FinishWriting();
  }
  void Listen() {
    std::lock_guard lock(mu_);
    if (!dead_) ReadOwed();
  }
  // The owner is gone: no callback from here on.
  void Drop() {
    incoming_ = {};
    context_.TryCancel();
    std::lock_guard lock(mu_);
    ReleaseHold();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {  // the worker closed, or the connection broke: nothing more can be written
      std::lock_guard lock(mu_);
      dead_ = true;
      ReleaseHold();
      return;
    }
    Response message = std::exchange(response_, Response());
    if (on_arrival_) return Arrived(std::move(message));
    impl_->Post([self = this->shared_from_this(), message = std::move(message)] {
      if (self->incoming_.on_message) self->incoming_.on_message(message);
    });
    this->StartRead(&response_);
  }
  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mu_);
    queue_.pop_front();
    if (!ok || dead_) {
      dead_ = true;
      queue_.clear();
      ReleaseHold();
      return;
    }
    ReadOwed();
    if (!queue_.empty()) {
      this->StartWrite(&queue_.front());
    } else if (half_closed_) {
      FinishWriting();
    }
  }
  void OnDone(const grpc::Status& status) override {
    const absl::Status named = Named(worker_, method_, status);
    auto self = std::move(self_);
    impl_->Ended(&context_, [self, named] {
      if (self->incoming_.on_closed) std::exchange(self->incoming_.on_closed, {})(named);
    });
  }

 private:
  // The answer to the message may be written before on_arrival_ returns: the read is owed by then.
  void Arrived(Response message) {
    bool last = false;
    {
      std::lock_guard lock(mu_);
      last = half_closed_;
      owed_read_ = !last;
    }
    on_arrival_(std::move(message));
    if (last) this->StartRead(&response_);
  }
  void ReadOwed() {  // mu_ held
    if (std::exchange(owed_read_, false)) this->StartRead(&response_);
  }
  void FinishWriting() {  // mu_ held
    ReadOwed();
    this->StartWritesDone();
    ReleaseHold();
  }
  void ReleaseHold() {  // mu_ held
    if (std::exchange(held_, false)) this->RemoveHold();
  }

  const std::shared_ptr<Impl> impl_;
  const std::shared_ptr<Peer> peer_;
  const WorkerTarget worker_;
  const char* const method_;
  const std::function<void(Response)> on_arrival_;
  Incoming<Response> incoming_;  // loop thread only
  std::shared_ptr<BidiCall> self_;
  grpc::ClientContext context_;
  Response response_;
  std::mutex mu_;
  std::deque<Request> queue_;  // front: being written
  bool half_closed_ = false;
  bool dead_ = false;
  bool held_ = true;
  bool owed_read_ = false;  // after the next write, or Listen
};

template <typename Request, typename Response>
class BidiHandle : public Outgoing<Request> {
 public:
  explicit BidiHandle(std::shared_ptr<BidiCall<Request, Response>> call) : call_(std::move(call)) {}
  ~BidiHandle() override { call_->Drop(); }
  void Write(const Request& request) override { call_->Write(request); }
  void WritesDone() override { call_->WritesDone(); }

 private:
  std::shared_ptr<BidiCall<Request, Response>> call_;
};

class CommandHandle : public CommandStream {
 public:
  explicit CommandHandle(std::shared_ptr<BidiCall<grpc::ByteBuffer, v1::Event>> call)
      : call_(std::move(call)) {}
  ~CommandHandle() override { call_->Drop(); }
  // Parsing one message after the other merges them.
  void Write(const SharedCommand& shared, const v1::Command& own) override {
    const size_t head = shared.bytes.size();
    grpc::Slice slice(head + own.ByteSizeLong());
    auto* bytes = const_cast<uint8_t*>(slice.begin());
    std::memcpy(bytes, shared.bytes.data(), head);
    own.SerializeWithCachedSizesToArray(bytes + head);
    call_->Write(grpc::ByteBuffer(&slice, 1));
  }
  void Listen() override { call_->Listen(); }
  void WritesDone() override { call_->WritesDone(); }

 private:
  const std::shared_ptr<BidiCall<grpc::ByteBuffer, v1::Event>> call_;
};

// A handle of a stream that could not be opened; on_closed follows from the loop.
class ClosedHandle : public Outgoing<v1::ConnectRequest>,
                     public Outgoing<v1::WorkerLogsRequest>,
                     public CommandStream {
 public:
  template <typename Response>
  ClosedHandle(const std::shared_ptr<Impl>& impl, Incoming<Response> incoming,
               absl::Status status) {
    impl->Post(lifetime_.Wrap([incoming, status] { incoming.on_closed(status); }));
  }
  void Write(const v1::ConnectRequest&) override {}
  void Write(const v1::WorkerLogsRequest&) override {}
  void Write(const SharedCommand&, const v1::Command&) override {}
  void Listen() override {}
  void WritesDone() override {}

 private:
  Lifetime lifetime_;
};

template <typename Handle, typename Stream, typename Request, typename Response, typename Open>
std::unique_ptr<Stream> OpenBidi(const std::shared_ptr<Impl>& impl, const WorkerTarget& worker,
                                 const char* method, Incoming<Response> incoming, Open open) {
  absl::StatusOr<std::shared_ptr<Peer>> peer = impl->PeerOf(worker);
  if (!peer.ok()) {
    return std::make_unique<ClosedHandle>(impl, std::move(incoming), peer.status());
  }
  auto call = std::make_shared<BidiCall<Request, Response>>(impl, *peer, worker, method,
                                                            std::move(incoming));
  call->Begin(open);
  return std::make_unique<Handle>(std::move(call));
}

class LogsCall : public grpc::ClientReadReactor<v1::LogLine>,
                 public std::enable_shared_from_this<LogsCall> {
 public:
  LogsCall(std::shared_ptr<Impl> impl, std::shared_ptr<Peer> peer, WorkerTarget worker,
           v1::WorkerLogsRequest request, Incoming<v1::LogLine> incoming)
      : impl_(std::move(impl)),
        peer_(std::move(peer)),
        worker_(std::move(worker)),
        request_(std::move(request)),
        incoming_(std::move(incoming)) {}

  void Begin() {
    self_ = shared_from_this();
    impl_->Began(&context_);
    peer_->stub.async()->Logs(&context_, &request_, this);
    StartRead(&line_);
    StartCall();
  }
  void Drop() {
    incoming_ = {};
    context_.TryCancel();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    impl_->Post([self = shared_from_this(), line = line_] {
      if (self->incoming_.on_message) self->incoming_.on_message(line);
    });
    StartRead(&line_);
  }
  void OnDone(const grpc::Status& status) override {
    const absl::Status named = Named(worker_, "Logs", status);
    auto self = std::move(self_);
    impl_->Ended(&context_, [self, named] {
      if (self->incoming_.on_closed) std::exchange(self->incoming_.on_closed, {})(named);
    });
  }

 private:
  const std::shared_ptr<Impl> impl_;
  const std::shared_ptr<Peer> peer_;
  const WorkerTarget worker_;
  const v1::WorkerLogsRequest request_;
  Incoming<v1::LogLine> incoming_;  // loop thread only
  std::shared_ptr<LogsCall> self_;
  grpc::ClientContext context_;
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

GrpcWorkerTransport::GrpcWorkerTransport(Loop* loop, TlsFiles tls, bool insecure)
    : impl_(std::make_shared<Impl>()) {
  impl_->loop = loop;
  impl_->tls = std::move(tls);
  impl_->insecure = insecure;
}

GrpcWorkerTransport::~GrpcWorkerTransport() {
  std::unique_lock lock(impl_->mu);
  impl_->closed = true;
  for (grpc::ClientContext* context : impl_->calls) context->TryCancel();
  impl_->all_done.wait(lock, [this] { return impl_->calls.empty(); });
}

void GrpcWorkerTransport::Prepare(const WorkerTarget& worker, const v1::PrepareRequest& request,
                                  Timeout timeout, Done<v1::PrepareResponse> done) {
  Unary(impl_, worker, "Prepare", request, timeout, std::move(done),
        [](v1::Worker::Stub* stub, auto... args) { stub->async()->Prepare(args...); });
}

std::unique_ptr<Outgoing<v1::ConnectRequest>> GrpcWorkerTransport::Connect(
    const WorkerTarget& worker, Incoming<v1::ConnectResponse> incoming) {
  return OpenBidi<BidiHandle<v1::ConnectRequest, v1::ConnectResponse>, Outgoing<v1::ConnectRequest>,
                  v1::ConnectRequest>(
      impl_, worker, "Connect", std::move(incoming),
      [](Peer* peer, auto... args) { peer->stub.async()->Connect(args...); });
}

std::unique_ptr<CommandStream> GrpcWorkerTransport::Run(const WorkerTarget& worker,
                                                        Incoming<v1::Event> incoming) {
  return OpenBidi<CommandHandle, CommandStream, grpc::ByteBuffer>(
      impl_, worker, "Run", std::move(incoming),
      [](Peer* peer, grpc::ClientContext* context, auto* reactor) {
        peer->commands.PrepareBidiStreamingCall(context, kRunMethod, {}, reactor);
      });
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
  auto call = std::make_shared<LogsCall>(impl_, *peer, worker, request, std::move(incoming));
  call->Begin();
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

}  // namespace coxswain
