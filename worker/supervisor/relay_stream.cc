#include "worker/supervisor/relay_stream.h"

#include <string>
#include <utility>
#include <vector>

#include <grpcpp/generic/generic_stub.h>

#include "common/faults/fault_point.h"
#include "common/net/grpc_status.h"

namespace coxswain::supervisor {
namespace {

constexpr char kRunMethod[] = "/coxswain.v1.Worker/Run";

// One message's bytes after the other's: protobuf merges them.
grpc::ByteBuffer Joined(const grpc::Slice& shared, const std::string& own) {
  const grpc::Slice slices[] = {shared, grpc::Slice(own)};
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace

void RelayStream::Begin() {
  self_ = shared_from_this();
  StartRead(&commands_);
}

void RelayStream::OnReadDone(bool ok) {
  if (!ok) return EndStreams();
  fault::Pass(fault::Point::kRelayCommands);
  const grpc::Slice shared(commands_.shared());
  const auto round = std::make_shared<int>(0);
  for (const v1::StreamCommand& entry : commands_.entries()) {
    if (entry.has_open()) {
      Open(entry.stream(), entry.open().slot());
      continue;
    }
    const bool command = entry.kind_case() == v1::StreamCommand::kCommand;
    const auto call = Find(entry.stream(), command ? round : nullptr);
    if (call == nullptr) continue;
    if (entry.has_half_close()) {
      call->WritesDone();
    } else if (entry.has_cancel()) {
      call->Cancel();
    } else {
      call->Write(Joined(shared, entry.command()));
    }
  }
  commands_.Clear();
  MutexLock lock(mu_);
  if (!finished_) StartRead(&commands_);
}

void RelayStream::Open(uint64_t stream, int slot) {
  const absl::Status failed = fault::Reach(fault::Point::kRelayOpen);
  const auto channel = failed.ok() ? workers_->Dial(slot) : failed;
  if (!channel.ok()) return Closed(stream, channel.status());
  WorkerCall::Reactions reactions;
  reactions.on_message = [self = shared_from_this(), stream](const grpc::ByteBuffer& event) {
    self->Arrived(stream, event);
  };
  reactions.on_done = [self = shared_from_this(), stream](
                          std::shared_ptr<grpc::ClientContext> context,
                          const grpc::Status& status) {
    context.reset();
    self->Closed(stream, FromGrpc(status));
  };
  auto call = std::make_shared<WorkerCall>(ReadTime::kAtOnce, std::move(reactions));
  {
    MutexLock lock(mu_);
    if (ending_) return;
    streams_[stream].call = call;
  }
  workers_->Sign()(call->context().get());
  call->Begin([&channel](grpc::ClientContext* context, auto* reactor) {
    grpc::GenericStub(*channel).PrepareBidiStreamingCall(context, kRunMethod, {}, reactor);
  });
}

std::shared_ptr<RelayStream::WorkerCall> RelayStream::Find(uint64_t stream, const Round& round) {
  MutexLock lock(mu_);
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return nullptr;
  if (round != nullptr) {
    ++*round;
    it->second.unanswered.push_back(round);
  }
  return it->second.call;
}

bool RelayStream::Answers(uint64_t stream) {
  const auto it = streams_.find(stream);
  if (it == streams_.end() || it->second.unanswered.empty()) return true;
  const Round round = std::move(it->second.unanswered.front());
  it->second.unanswered.pop_front();
  return --*round == 0;
}

void RelayStream::Arrived(uint64_t stream, const grpc::ByteBuffer& event) {
  std::vector<grpc::Slice> slices;
  event.Dump(&slices).IgnoreError();
  MutexLock lock(mu_);
  v1::StreamEvent* entry = gathered_.add_entries();
  entry->set_stream(stream);
  std::string* bytes = entry->mutable_event();
  for (const grpc::Slice& slice : slices) {
    bytes->append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  if (Answers(stream)) {
    due_ = true;
    Send();
  } else {
    SendSoon();
  }
}

void RelayStream::SendSoon() {
  if (std::exchange(waiting_, true)) return;
  wait_ = std::make_unique<grpc::Alarm>();
  wait_->Set(std::chrono::system_clock::now() + kLongestWait, [weak = weak_from_this()](bool) {
    if (const auto call = weak.lock()) call->WaitedLong();
  });
}

void RelayStream::WaitedLong() {
  MutexLock lock(mu_);
  waiting_ = false;
  due_ = due_ || !gathered_.entries().empty();
  Send();
}

void RelayStream::Closed(uint64_t stream, const absl::Status& status) {
  MutexLock lock(mu_);
  streams_.erase(stream);
  v1::StreamEvent* entry = gathered_.add_entries();
  entry->set_stream(stream);
  entry->mutable_closed()->set_code(status.raw_code());
  entry->mutable_closed()->set_message(std::string(status.message()));
  due_ = true;
  Send();
}

void RelayStream::Send() {
  if (in_flight_ || finished_) return;
  if (due_ && !gathered_.entries().empty()) {
    writing_.Clear();
    writing_.Swap(&gathered_);
    fault::Pass(fault::Point::kRelayEvents);
    in_flight_ = true;
    due_ = false;
    StartWrite(&writing_);
  } else if (ending_ && streams_.empty()) {
    finished_ = true;
    Finish(grpc::Status::OK);
  }
}

void RelayStream::OnWriteDone(bool ok) {
  MutexLock lock(mu_);
  in_flight_ = false;
  if (!ok) gathered_.Clear();
  Send();
}

void RelayStream::EndStreams() {
  std::map<uint64_t, Carried> open;
  {
    MutexLock lock(mu_);
    ending_ = true;
    open = streams_;
    Send();
  }
  for (const auto& [stream, carried] : open) carried.call->Cancel();
}

void RelayStream::OnCancel() { EndStreams(); }

void RelayStream::OnDone() { self_.reset(); }

}  // namespace coxswain::supervisor
