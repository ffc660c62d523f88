// A bidirectional server stream whose messages go out through a queue that any thread may fill.
#ifndef COXSWAIN_WORKER_AGENT_WIRE_QUEUED_STREAM_H_
#define COXSWAIN_WORKER_AGENT_WIRE_QUEUED_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include <grpcpp/support/server_callback.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/net/grpc_status.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::agent {

// Deletes itself when the stream is done. `Outbox` outlives it: writing to a finished stream does
// nothing. gRPC allows one read and one write in flight, and nothing after Finish.
//
// With `most_unanswered` > 0 each message is answered by one, and the next is read only while fewer
// are unanswered. gRPC tells the peer of every message read in a packet of its own: read late, that
// comes together with the answer and wakes the peer once.
template <typename In, typename Out>
class QueuedStream : public grpc::ServerBidiReactor<In, Out> {
 public:
  class Outbox {
   public:
    void Write(Out message) {
      MutexLock lock(mu_);
      if (closing_ || stream_ == nullptr) return;
      --unanswered_;
      queue_.push_back(std::move(message));
      if (writing_) return;
      QueuedStream* const stream = stream_;
      const Out* const front = BeginWrite();
      lock.Unlock();
      stream->StartWrite(front);
    }
    void Close(const absl::Status& status) {
      MutexLock lock(mu_);
      if (closing_ || stream_ == nullptr) return;
      closing_ = ToGrpc(status);
      if (writing_) return;
      QueuedStream* const stream = stream_;
      const grpc::Status last = BeginFinish();
      lock.Unlock();
      stream->Finish(last);
    }

   private:
    friend class QueuedStream;

    // gRPC is called without mu_. The stream cannot end between Unlock and StartWrite: Finish waits
    // for `writing_`.
    const Out* BeginWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      writing_ = true;
      return &queue_.front();
    }
    grpc::Status BeginFinish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      finished_ = true;
      return *closing_;
    }
    void WriteDone(bool ok) {
      MutexLock lock(mu_);
      writing_ = false;
      queue_.pop_front();
      if (!ok) queue_.clear();
      if (owed_read_ != nullptr && !finished_) {
        stream_->StartRead(std::exchange(owed_read_, nullptr));
      }
      QueuedStream* const stream = stream_;
      if (!queue_.empty()) {
        const Out* const front = BeginWrite();
        lock.Unlock();
        stream->StartWrite(front);
      } else if (closing_ && !finished_) {
        const grpc::Status last = BeginFinish();
        lock.Unlock();
        stream->Finish(last);
      }
    }
    void CountMessage() {
      MutexLock lock(mu_);
      ++unanswered_;
    }
    void ReadNext(In* message) {
      MutexLock lock(mu_);
      if (finished_) return;
      if (most_unanswered_ > 0 && unanswered_ >= most_unanswered_) {
        owed_read_ = message;
      } else {
        stream_->StartRead(message);
      }
    }

    Mutex mu_;
    QueuedStream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;
    std::deque<Out> queue_ ABSL_GUARDED_BY(mu_);
    bool writing_ ABSL_GUARDED_BY(mu_) = false;
    std::optional<grpc::Status> closing_ ABSL_GUARDED_BY(mu_);
    bool finished_ ABSL_GUARDED_BY(mu_) = false;
    int most_unanswered_ ABSL_GUARDED_BY(mu_) = 0;
    int unanswered_ ABSL_GUARDED_BY(mu_) = 0;
    // Where the next message goes once an answer was written.
    In* owed_read_ ABSL_GUARDED_BY(mu_) = nullptr;
  };

  explicit QueuedStream(int most_unanswered = 0) : outbox_(std::make_shared<Outbox>()) {
    outbox_->stream_ = this;
    outbox_->most_unanswered_ = most_unanswered;
  }

 protected:
  const std::shared_ptr<Outbox>& outbox() const { return outbox_; }
  // Once, when the derived object is complete.
  void Begin() { outbox_->ReadNext(&in_); }

  virtual void OnMessage(const In& message) = 0;
  virtual void OnEndOfMessages() = 0;  // the peer half-closed, or the stream broke

 private:
  void OnReadDone(bool ok) final {
    if (!ok) return OnEndOfMessages();
    outbox_->CountMessage();
    OnMessage(in_);
    outbox_->ReadNext(&in_);
  }
  void OnWriteDone(bool ok) final { outbox_->WriteDone(ok); }
  void OnCancel() final {
    OnEndOfMessages();
    outbox_->Close(absl::CancelledError("the stream was cancelled"));
  }
  void OnDone() final {
    {
      MutexLock lock(outbox_->mu_);
      outbox_->stream_ = nullptr;
    }
    delete this;
  }

  const std::shared_ptr<Outbox> outbox_;
  In in_;
};

// Where the events of a Run stream go.

// A sink is thread-safe but for the two numbers, which the agent guards. Calls never wait; after
// Close, or once the stream broke, they do nothing.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void Send(const v1::Event& event) = 0;
  virtual void Close(const absl::Status& status) = 0;  // after the events sent before

  uint64_t first_seq = 0;  // of the commands that came on this stream, 0: none yet
  uint64_t last_seq = 0;
  bool half_closed = false;  // no command follows
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_WIRE_QUEUED_STREAM_H_
