// A Worker service that answers commands by their numbers, and what tests look at: who is behind a
// relay without epochs and engines.
#ifndef COXSWAIN_TESTS_WORKER_SUPERVISOR_ECHO_WORKER_H_
#define COXSWAIN_TESTS_WORKER_SUPERVISOR_ECHO_WORKER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <grpcpp/server.h>

#include "coxswain/v1/worker_service.grpc.pb.h"

namespace coxswain::supervisor {

// On an ephemeral port of loopback. Answers each command with Events of its seq.
class EchoWorker : public v1::Worker::Service {
 public:
  EchoWorker();
  ~EchoWorker() override;  // its streams break

  const std::string& address() const { return address_; }
  // As worker/agent/endpoint_file.h does, into `state_dir`.
  void WriteEndpoint(const std::string& state_dir, int index) const;

  void Hold(bool hold);          // answers wait meanwhile
  void AnswerTimes(int events);  // to each command

  std::vector<v1::Command> commands() const;
  int open() const;       // Run streams
  int cancelled() const;  // Run streams that ended so

 private:
  grpc::Status Run(grpc::ServerContext* context,
                   grpc::ServerReaderWriter<v1::Event, v1::Command>* stream) override;

  mutable std::mutex mu_;
  std::condition_variable changed_;
  bool hold_ = false, stopping_ = false;
  int times_ = 1, open_ = 0, cancelled_ = 0;
  std::vector<v1::Command> commands_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace coxswain::supervisor

#endif  // COXSWAIN_TESTS_WORKER_SUPERVISOR_ECHO_WORKER_H_
