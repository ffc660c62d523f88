// One measured run: the real loop, transport, fan-out, session and program over fake workers.
#ifndef COXSWAIN_BENCH_CONTROLLER_DISPATCH_RUN_H_
#define COXSWAIN_BENCH_CONTROLLER_DISPATCH_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/controller/dispatch/curriculum.h"
#include "bench/controller/dispatch/stamps.h"
#include "common/net/grpc_endpoint.h"
#include "controller/transport/worker_transport.h"

namespace coxswain::bench {

struct RunArgs {
  Shape shape;       // steps: warm-up included
  int warm_up = 10;  // steps not measured
  int credits = 1;
  int64_t step_ms = 0;        // time that the fake engines take
  bool document_ids = false;  // commands may carry them
  uint64_t epoch = 1;         // higher than in runs before
  std::string directory;      // scratch
  TlsFiles tls;
};

struct RunResult {
  int64_t command_bytes = 0;           // of one rank's TRAIN
  double cpu_us_per_worker_step = 0;   // user and system time of this process
  double loop_us_per_worker_step = 0;  // of the loop's thread, which also sends its share
  double seconds_per_step = 0;
  double p50_ms = 0, p99_ms = 0;           // decision to send -> engine has the command
  double kib_per_worker = 0;               // private resident memory since before the first channel
  double grown_bytes_per_worker_step = 0;  // heap in use over the second half of the steps
  double idle_ratio = 0;                   // mean over ranks: waiting for a command / time
};

// Exits the process with a message when a worker fails.
RunResult RunSteps(const RunArgs& args, const std::vector<WorkerTarget>& workers, Stamps* stamps);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_CONTROLLER_DISPATCH_RUN_H_
