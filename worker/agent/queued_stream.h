// A bidirectional server stream whose messages go out through a queue that any thread may fill.
#ifndef COXSWAIN_WORKER_AGENT_QUEUED_STREAM_H_
#define COXSWAIN_WORKER_AGENT_QUEUED_STREAM_H_

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "common/grpc_status.h"

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
      std::unique_lock<std::mutex> lock(mu_);
      if (closing_ || stream_ == nullptr) return;
      --unanswered_;
      queue_.push_back(std::move(message));
      if (!writing_) WriteFront(lock);
    }
    void Close(const absl::Status& status) {
      std::unique_lock<std::mutex> lock(mu_);
      if (closing_ || stream_ == nullptr) return;
      closing_ = ToGrpc(status);
      if (!writing_) FinishNow(lock);
    }

   private:
    friend class QueuedStream;

    // The stream cannot end between unlock and StartWrite: Finish waits for `writing_`.
    void WriteFront(std::unique_lock<std::mutex>& lock) {
      writing_ = true;
      const Out* front = &queue_.front();
      lock.unlock();
      stream_->StartWrite(front);
    }
    void FinishNow(std::unique_lock<std::mutex>& lock) {
      finished_ = true;
      lock.unlock();
      stream_->Finish(*closing_);
    }
    void WriteDone(bool ok) {
      std::unique_lock<std::mutex> lock(mu_);
      writing_ = false;
      queue_.pop_front();
      if (!ok) queue_.clear();
      if (owed_read_ != nullptr && !finished_) {
        stream_->StartRead(std::exchange(owed_read_, nullptr));
      }
      if (!queue_.empty()) {
        WriteFront(lock);
      } else if (closing_ && !finished_) {
        FinishNow(lock);
      }
    }
    void CountMessage() {
      std::lock_guard<std::mutex> lock(mu_);
      ++unanswered_;
    }
    void ReadNext(In* message) {
      std::lock_guard<std::mutex> lock(mu_);
      if (finished_) return;
      if (most_unanswered_ > 0 && unanswered_ >= most_unanswered_) {
        owed_read_ = message;
      } else {
        stream_->StartRead(message);
      }
    }

    std::mutex mu_;
    QueuedStream* stream_ = nullptr;
    std::deque<Out> queue_;
    bool writing_ = false;
    std::optional<grpc::Status> closing_;
    bool finished_ = false;
    int most_unanswered_ = 0;
    int unanswered_ = 0;
    In* owed_read_ = nullptr;  // where the next message goes once an answer was written
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
      std::lock_guard<std::mutex> lock(outbox_->mu_);
      outbox_->stream_ = nullptr;
    }
    delete this;
  }

  const std::shared_ptr<Outbox> outbox_;
  In in_;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_QUEUED_STREAM_H_
