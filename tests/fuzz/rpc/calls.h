// The RPCs of every service, as a fuzz target plays them: a message of any bytes each.
#ifndef COXSWAIN_TESTS_FUZZ_RPC_CALLS_H_
#define COXSWAIN_TESTS_FUZZ_RPC_CALLS_H_

#include <cstddef>
#include <memory>
#include <string_view>

namespace coxswain::fuzz {

// One service, or two, with what they serve. An object sees the calls of one input.
class Calls {
 public:
  virtual ~Calls() = default;
  virtual size_t count() const = 0;
  // Plays RPC `method`, below count(), in the order of the .proto. Bytes that are no message of its
  // request are not played: gRPC refuses them before any code of ours. Expect (fuzz_target.h) says
  // what is promised.
  virtual void Play(size_t method, std::string_view message) = 0;
};

// Jobs and Registry: the operations over a simulated cluster whose job "runs" trains.
std::unique_ptr<Calls> ControllerCalls();
// Worker: an agent over the fake engine. A plan hash "=" stands for that of the plan sent last.
std::unique_ptr<Calls> WorkerCalls();
// Relay: over gRPC, before a worker in slot 0 that answers every command.
std::unique_ptr<Calls> RelayCalls();

}  // namespace coxswain::fuzz

#endif  // COXSWAIN_TESTS_FUZZ_RPC_CALLS_H_
