// The caller's end of a bidirectional stream whose messages go out through a queue that any thread
// may fill.
#ifndef COXSWAIN_COMMON_NET_QUEUED_CALL_H_
#define COXSWAIN_COMMON_NET_QUEUED_CALL_H_

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"

namespace coxswain {

// Says when a message is read after the one before.
enum class ReadTime {
  kAtOnce,
  // With the next message written, or Listen: gRPC tells the peer of what was read, in a packet of
  // its own where a read is already waiting, else together with what is written next.
  kLate,
};

// A call keeps itself alive from Begin until on_done has returned. Thread-safe; only Cancel may
// come before Begin, which then makes a call that is cancelled.
template <typename Request, typename Response>
class QueuedCall : public grpc::ClientBidiReactor<Request, Response>,
                   public std::enable_shared_from_this<QueuedCall<Request, Response>> {
 public:
  // They run on threads of gRPC, one at a time, which they must not hold up.
  struct Reactions {
    std::function<void(Response)> on_message;
    // It is called once, last. It gives away the call's context, which holds its channel: who
    // destroys the channels waits until it is gone, for the last of a process must not end on a
    // thread of gRPC.
    std::function<void(std::shared_ptr<grpc::ClientContext>, const grpc::Status&)> on_done;
  };

  QueuedCall(ReadTime read_time, Reactions reactions)
      : late_(read_time == ReadTime::kLate), reactions_(std::move(reactions)) {}

  // Once. `open(context, reactor)` makes the call.
  template <typename Open>
  void Begin(Open open) {
    self_ = this->shared_from_this();
    open(context().get(), this);
    Hold();
    this->StartRead(&response_);
    this->StartCall();
  }

  std::shared_ptr<grpc::ClientContext> context() const {  // before Begin
    MutexLock lock(mu_);
    return context_;
  }

  // Sent in order; dropped after WritesDone, Cancel, or the end of the stream.
  void Write(Request request) {
    MutexLock lock(mu_);
    if (half_closed_ || dead_) return;
    queue_.push_back(std::move(request));
    if (queue_.size() == 1) this->StartWrite(&queue_.front());
  }
  // Half-close after the queue.
  void WritesDone() {
    MutexLock lock(mu_);
    if (half_closed_ || dead_) return;
    half_closed_ = true;
    if (queue_.empty()) FinishWriting();
  }
  void Listen() {
    MutexLock lock(mu_);
    if (!dead_) ReadOwed();
  }
  // on_done still comes.
  void Cancel() {
    MutexLock lock(mu_);
    if (context_ != nullptr) context_->TryCancel();
    ReleaseHold();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {  // the peer closed, or the connection broke: nothing more can be written
      MutexLock lock(mu_);
      dead_ = true;
      ReleaseHold();
      return;
    }
    // The answer to the message may be written before on_message returns: the next one is owed by
    // then, and read when it has returned.
    SetReacting(true);
    reactions_.on_message(std::exchange(response_, Response()));
    SetReacting(false);
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mu_);
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
    const auto self = std::move(self_);
    std::shared_ptr<grpc::ClientContext> context;
    {
      MutexLock lock(mu_);
      context.swap(context_);
    }
    reactions_.on_done(std::move(context), status);
  }

 private:
  void SetReacting(bool reacting) {
    MutexLock lock(mu_);
    reacting_ = reacting;
    if (reacting) {
      owed_read_ = late_ && !half_closed_;
    } else if (!owed_read_) {
      this->StartRead(&response_);
    }
  }
  void ReadOwed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (std::exchange(owed_read_, false) && !reacting_) this->StartRead(&response_);
  }
  void FinishWriting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ReadOwed();
    this->StartWritesDone();
    ReleaseHold();
  }
  // Writes come from outside of reactions: the call is held open while they may.
  void Hold() {
    MutexLock lock(mu_);
    held_ = true;
    this->AddHold();
  }
  void ReleaseHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (std::exchange(held_, false)) this->RemoveHold();
  }

  const bool late_;
  const Reactions reactions_;
  std::shared_ptr<QueuedCall> self_;
  Response response_;
  mutable Mutex mu_;
  std::shared_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mu_) =
      std::make_shared<grpc::ClientContext>();
  std::deque<Request> queue_ ABSL_GUARDED_BY(mu_);  // front: being written
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  bool dead_ ABSL_GUARDED_BY(mu_) = false;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  bool reacting_ ABSL_GUARDED_BY(mu_) = false;   // on_message has not returned
  bool owed_read_ ABSL_GUARDED_BY(mu_) = false;  // until a message is written, or Listen
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_NET_QUEUED_CALL_H_
