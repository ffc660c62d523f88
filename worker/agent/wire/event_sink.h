// Where the events of a Run stream go.
#ifndef COXSWAIN_WORKER_AGENT_WIRE_EVENT_SINK_H_
#define COXSWAIN_WORKER_AGENT_WIRE_EVENT_SINK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "coxswain/v1/worker_service.pb.h"

namespace coxswain::agent {

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

#endif  // COXSWAIN_WORKER_AGENT_WIRE_EVENT_SINK_H_
