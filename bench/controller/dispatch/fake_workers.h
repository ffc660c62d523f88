// Workers made of worker/agent over the fake engine, and the relays of their hosts, many in one
// process, on loopback.
#ifndef COXSWAIN_BENCH_CONTROLLER_DISPATCH_FAKE_WORKERS_H_
#define COXSWAIN_BENCH_CONTROLLER_DISPATCH_FAKE_WORKERS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/net/grpc_endpoint.h"
#include "controller/transport/worker_transport.h"

namespace coxswain::bench {

struct FakeWorkersArgs {
  int workers = 1;
  int per_host = 8;     // behind one relay; 1: no relay, each is dialled
  int all_workers = 1;  // of the bench: extent of the stamps
  int steps = 1;        // likewise
  std::string stamps;   // file
  TlsFiles tls;         // empty: plaintext
};

// The other process: serves until its input ends. Prints a line per worker: address, incarnation,
// relay ("-": none) and slot there.
int ServeFakeWorkers(const FakeWorkersArgs& args);

// At most 32 processes of whole hosts, this program started again; ended when destroyed.
class FakeWorkerProcesses {
 public:
  // Exits the process with a message when a process cannot start.
  FakeWorkerProcesses(int workers, FakeWorkersArgs args);
  ~FakeWorkerProcesses();
  FakeWorkerProcesses(const FakeWorkerProcesses&) = delete;
  FakeWorkerProcesses& operator=(const FakeWorkerProcesses&) = delete;

  const std::vector<WorkerTarget>& targets() const { return targets_; }

 private:
  void Spawn(const FakeWorkersArgs& args);

  struct Process {
    pid_t pid = 0;
    int input = -1;
  };
  std::vector<Process> processes_;
  std::vector<WorkerTarget> targets_;
};

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_CONTROLLER_DISPATCH_FAKE_WORKERS_H_
