// Both ends of a stream in virtual time.
#ifndef COXSWAIN_TESTS_SIM_FAKES_FAKE_STREAM_H_
#define COXSWAIN_TESTS_SIM_FAKES_FAKE_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "controller/transport/worker_transport.h"

namespace coxswain::sim {

// The worker's end; `incoming` is the controller's.
template <typename Message>
struct FakeStream {
  Incoming<Message> incoming;
  bool open = true;         // false once closed from either side
  uint64_t generation = 0;  // of the controller
  // As the real transport reads events: one, and the next after a command or Listen.
  bool reading = true;
  std::deque<Message> unread;
  // Of commands that came on it, 0: none yet. Only their events go there.
  uint64_t first_seq = 0, last_seq = 0;

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

// The controller's end: `drop` when it is destroyed.
template <typename Request>
class FakeOutgoing : public Outgoing<Request> {
 public:
  FakeOutgoing(std::function<void(const Request&)> write, std::function<void()> drop)
      : write_(std::move(write)), drop_(std::move(drop)) {}
  ~FakeOutgoing() override { drop_(); }
  void Write(const Request& request) override { write_(request); }
  void WritesDone() override {}

 private:
  const std::function<void(const Request&)> write_;
  const std::function<void()> drop_;
};

// Its end of a Run stream.
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

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_FAKE_STREAM_H_
