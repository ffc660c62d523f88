#include "controller/transport/host_stream.h"

#include <utility>
#include <vector>

#include "common/net/grpc_status.h"
#include "controller/transport/worker_transport.h"
#include "coxswain/v1/relay_service.grpc.pb.h"

namespace coxswain {
namespace {

constexpr char kMethod[] = "Run";
// Commands that gather to more than this go out: far below the largest message.
constexpr size_t kMostGatheredBytes = 4 << 20;

}  // namespace

// A Run stream over a host's. The host's lives as long as anybody may hear of it.
class RelayedCommands : public CommandStream {
 public:
  RelayedCommands(std::shared_ptr<HostStream> host, std::shared_ptr<HostStream::Stream> stream)
      : host_(std::move(host)), stream_(std::move(stream)) {}
  ~RelayedCommands() override { host_->Drop(*stream_); }
  void Write(const SharedCommand& shared, const v1::Command& own) override {
    host_->Write(*stream_, shared, own);
  }
  void Flush() override { host_->Flush(); }
  void Listen() override {}  // a host's stream is always read
  void WritesDone() override { host_->WritesDone(*stream_); }

 private:
  const std::shared_ptr<HostStream> host_;
  const std::shared_ptr<HostStream::Stream> stream_;
};

HostStream::HostStream(std::shared_ptr<OpenCalls> calls, std::shared_ptr<grpc::Channel> channel,
                       access::SignCall sign)
    : calls_(std::move(calls)), channel_(std::move(channel)), sign_(std::move(sign)) {}

HostStream::~HostStream() { call_->Cancel(); }

void HostStream::Begin() {
  using Call = QueuedCall<v1::HostCommands, v1::HostEvents>;
  const std::weak_ptr<HostStream> weak = weak_from_this();
  Call::Reactions reactions;
  reactions.on_message = [weak](const v1::HostEvents& message) {
    if (const auto host = weak.lock()) host->Arrived(message);
  };
  reactions.on_done = [weak, calls = calls_](std::shared_ptr<grpc::ClientContext> context,
                                             const grpc::Status& status) {
    calls->Ended(std::move(context), [weak, status] {
      if (const auto host = weak.lock()) host->Broken(FromGrpc(status));
    });
  };
  call_ = std::make_shared<Call>(ReadTime::kAtOnce, std::move(reactions));
  calls_->Began(call_->context());
  if (sign_) sign_(call_->context().get());
  call_->Begin([this](grpc::ClientContext* context, auto* reactor) {
    v1::Relay::NewStub(channel_)->async()->Run(context, reactor);
  });
}

std::unique_ptr<CommandStream> HostStream::Open(const WorkerTarget& worker,
                                                const Incoming<v1::Event>& incoming) {
  auto stream = std::make_shared<Stream>();
  stream->name = NameOf(worker);
  stream->on_arrival = incoming.on_arrival;
  stream->incoming = incoming;
  {
    MutexLock lock(mu_);
    if (ended_) return nullptr;
    stream->number = ++last_number_;
    streams_[stream->number] = stream;
    Add(*stream)->mutable_open()->set_slot(worker.slot);
  }
  calls_->Post([host = shared_from_this()] { host->Flush(); });  // if no command takes it along
  return std::make_unique<RelayedCommands>(shared_from_this(), std::move(stream));
}

v1::StreamCommand* HostStream::Add(const Stream& to) {
  v1::StreamCommand* entry = gathered_.add_entries();
  entry->set_stream(to.number);
  return entry;
}

void HostStream::Write(Stream& stream, const SharedCommand& shared, const v1::Command& own) {
  MutexLock lock(mu_);
  if (ended_ || stream.half_closed) return;
  if (gathered_.shared() != shared.bytes) {
    if (!gathered_.shared().empty()) FlushLocked();
    gathered_.set_shared(shared.bytes);
  }
  std::string* bytes = Add(stream)->mutable_command();
  own.SerializeToString(bytes);
  gathered_bytes_ += bytes->size();
  if (gathered_bytes_ > kMostGatheredBytes) FlushLocked();
}

void HostStream::WritesDone(Stream& stream) {
  MutexLock lock(mu_);
  if (ended_ || std::exchange(stream.half_closed, true)) return;
  Add(stream)->mutable_half_close();
  FlushLocked();
}

void HostStream::Drop(Stream& stream) {
  stream.incoming = {};
  MutexLock lock(mu_);
  stream.half_closed = true;
  if (streams_.count(stream.number) == 0) return;
  Add(stream)->mutable_cancel();
  FlushLocked();
}

void HostStream::Flush() {
  MutexLock lock(mu_);
  FlushLocked();
}

void HostStream::FlushLocked() {
  if (gathered_.entries().empty()) return;
  gathered_bytes_ = 0;
  call_->Write(std::exchange(gathered_, v1::HostCommands()));
}

void HostStream::Arrived(const v1::HostEvents& message) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(mu_);
    for (const v1::StreamEvent& entry : message.entries()) {
      const auto it = streams_.find(entry.stream());
      streams.push_back(it == streams_.end() ? nullptr : it->second);
      if (it != streams_.end() && entry.has_closed()) streams_.erase(it);
    }
    if (streams_.empty() && !std::exchange(ended_, true)) call_->WritesDone();
  }
  for (int i = 0; i < message.entries_size(); ++i) {
    const v1::StreamEvent& entry = message.entries(i);
    const auto& stream = streams[static_cast<size_t>(i)];
    if (stream == nullptr) continue;
    if (!entry.has_closed()) {
      Deliver(stream, entry.event());
      continue;
    }
    const absl::Status status(static_cast<absl::StatusCode>(entry.closed().code()),
                              entry.closed().message());
    Close(stream, CallError(stream->name, kMethod, status));
  }
}

void HostStream::Deliver(const std::shared_ptr<Stream>& stream, const std::string& bytes) {
  v1::Event event;
  if (!event.ParseFromString(bytes)) {
    return Close(stream, absl::InternalError(absl::StrCat(
                             stream->name, ": not an Event: ", bytes.size(), " bytes")));
  }
  if (stream->on_arrival) return stream->on_arrival(std::move(event));
  calls_->Post([stream, event = std::move(event)] {
    if (stream->incoming.on_message) stream->incoming.on_message(event);
  });
}

void HostStream::Close(const std::shared_ptr<Stream>& stream, const absl::Status& status) {
  calls_->Post([stream, status] {
    if (stream->incoming.on_closed) std::exchange(stream->incoming.on_closed, {})(status);
  });
}

// A relay that ends the stream while others are open has died, whatever it says.
void HostStream::Broken(const absl::Status& status) {
  Streams left;
  {
    MutexLock lock(mu_);
    ended_ = true;
    left.swap(streams_);
  }
  const absl::Status broken = absl::UnavailableError(
      status.ok() ? "the relay closed the stream of the host" : status.message());
  for (const auto& [number, stream] : left) {
    Close(stream, CallError(stream->name, kMethod, broken));
  }
}

}  // namespace coxswain
