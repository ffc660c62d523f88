// Faults of the Connect and Run streams: faulty_transport.h.
#include <memory>
#include <utility>

#include "tests/sim/agenda.h"
#include "tests/sim/fakes/faulty_transport.h"

namespace coxswain::sim {
namespace {

// Hands messages on, all of them late once one was, in their order: none overtakes one that waits.
template <typename Message>
std::function<void(const Message&)> Late(Agenda* agenda, std::shared_ptr<HeldBack> held,
                                         std::function<void(int64_t, std::function<void()>)> later,
                                         std::function<void(const Message&)> next) {
  return [agenda, held = std::move(held), later = std::move(later),
          next = std::move(next)](const Message& message) {
    if (!held->Holds(*agenda)) return next(message);
    later(held->Wait(*agenda), held->Push([next, message] { next(message); }));
  };
}

}  // namespace

std::unique_ptr<Outgoing<v1::ConnectRequest>> FaultyTransport::Connect(
    const WorkerTarget& worker, Incoming<v1::ConnectResponse> incoming) {
  if (!Begin(Call::kConnect, worker)) {
    return std::make_unique<FakeOutgoing<v1::ConnectRequest>>([](const v1::ConnectRequest&) {},
                                                              [] {});
  }
  const std::optional<Armed> armed = Take(Call::kConnect, worker);
  if (armed) {
    switch (armed->fault) {
      case MessageFault::kDropRequest:  // the stream is open, nothing of it arrives
        incoming = {};
        break;
      case MessageFault::kLoseReply:
        agenda_->After(armed->delay_ms, [this, slot = worker.slot] { base_->BreakStreams(slot); });
        break;
      case MessageFault::kDelayRequest:
      case MessageFault::kDelayReply: {
        auto held = std::make_shared<HeldBack>();
        held->not_before_ms = agenda_->now_ms() + armed->delay_ms;
        incoming.on_message = Late<v1::ConnectResponse>(
            agenda_, held,
            [this](int64_t ms, std::function<void()> task) { ToController(ms, std::move(task)); },
            std::move(incoming.on_message));
        break;
      }
      case MessageFault::kDuplicate:
        incoming.on_message =
            [next = std::move(incoming.on_message)](const v1::ConnectResponse& message) {
              next(message);
              if (message.has_set()) next(message);
            };
        break;
    }
  }
  auto stream =
      std::shared_ptr<Outgoing<v1::ConnectRequest>>(base_->Connect(worker, std::move(incoming)));
  return std::make_unique<FakeOutgoing<v1::ConnectRequest>>(
      [this, stream](const v1::ConnectRequest& request) {
        if (crash_->Pass()) stream->Write(request);
      },
      [] {});
}

// A Run stream whose commands can be lost with it, and late.
class FaultyTransport::Commands : public CommandStream {
 public:
  Commands(FaultyTransport* transport, WorkerTarget worker, std::unique_ptr<CommandStream> base,
           std::shared_ptr<HeldBack> events, std::shared_ptr<bool> doubled)
      : transport_(transport),
        worker_(std::move(worker)),
        base_(std::move(base)),
        events_(std::move(events)),
        doubled_(std::move(doubled)) {}

  void Write(const SharedCommand& shared, const v1::Command& own) override {
    if (!transport_->Begin(Call::kRun, worker_) || broken_) return;
    if (const auto armed = transport_->Take(Call::kRun, worker_)) Meet(*armed);
    Agenda* agenda = transport_->agenda_;
    if (broken_) return;
    if (!commands_->Holds(*agenda)) {
      base_->Write(shared, own);
      return;
    }
    agenda->After(commands_->Wait(*agenda),
                  commands_->Push(
                      [base = std::weak_ptr<CommandStream>(base_), command = shared.message, own] {
                        if (const auto stream = base.lock())
                          stream->Write(SharedCommand(command), own);
                      }));
  }
  void Flush() override { base_->Flush(); }
  void Listen() override { base_->Listen(); }
  void WritesDone() override { base_->WritesDone(); }

 private:
  void Meet(const Armed& armed) {
    Agenda* agenda = transport_->agenda_;
    switch (armed.fault) {
      case MessageFault::kDropRequest:
        broken_ = true;
        Break(0);
        break;
      case MessageFault::kLoseReply:  // most likely while the command is worked on
        Break(armed.delay_ms);
        break;
      case MessageFault::kDelayRequest:
        commands_->not_before_ms = agenda->now_ms() + armed.delay_ms;
        break;
      case MessageFault::kDelayReply:
        events_->not_before_ms = agenda->now_ms() + armed.delay_ms;
        break;
      case MessageFault::kDuplicate:
        *doubled_ = true;
        break;
    }
  }
  void Break(int64_t delay_ms) {
    transport_->agenda_->After(delay_ms, [base = transport_->base_, worker = worker_] {
      base->BreakStreams(worker.slot);
    });
  }

  FaultyTransport* const transport_;
  const WorkerTarget worker_;
  const std::shared_ptr<CommandStream> base_;
  const std::shared_ptr<HeldBack> events_;
  const std::shared_ptr<HeldBack> commands_ = std::make_shared<HeldBack>();
  const std::shared_ptr<bool> doubled_;  // the next event
  bool broken_ = false;
};

std::unique_ptr<CommandStream> FaultyTransport::Run(const WorkerTarget& worker,
                                                    Incoming<v1::Event> incoming) {
  auto held = std::make_shared<HeldBack>();
  auto doubled = std::make_shared<bool>(false);
  const auto arrive = Late<v1::Event>(
      agenda_, held,
      [this](int64_t ms, std::function<void()> task) { ToController(ms, std::move(task)); },
      incoming.on_arrival);
  incoming.on_arrival = [arrive, doubled](v1::Event event) {
    if (std::exchange(*doubled, false)) arrive(event);
    arrive(event);
  };
  return std::make_unique<Commands>(this, worker, base_->Run(worker, std::move(incoming)), held,
                                    doubled);
}

}  // namespace coxswain::sim
