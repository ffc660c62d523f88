#include "tests/worker/supervisor/echo_worker.h"

#include <chrono>
#include <fstream>

#include <grpcpp/server_builder.h>

namespace coxswain::supervisor {

EchoWorker::EchoWorker() {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
}

EchoWorker::~EchoWorker() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  server_->Shutdown(std::chrono::system_clock::now());
}

void EchoWorker::WriteEndpoint(const std::string& state_dir, int index) const {
  std::ofstream(state_dir + "/worker-" + std::to_string(index) + ".json")
      << "{\"address\": \"" << address_ << "\", \"incarnation\": \"echo-" << index
      << "\", \"pid\": " << getpid() << "}";
}

void EchoWorker::Hold(bool hold) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    hold_ = hold;
  }
  changed_.notify_all();
}

void EchoWorker::AnswerTimes(int events) {
  std::lock_guard<std::mutex> lock(mu_);
  times_ = events;
}

std::vector<v1::Command> EchoWorker::commands() const {
  std::lock_guard<std::mutex> lock(mu_);
  return commands_;
}

int EchoWorker::open() const {
  std::lock_guard<std::mutex> lock(mu_);
  return open_;
}

int EchoWorker::cancelled() const {
  std::lock_guard<std::mutex> lock(mu_);
  return cancelled_;
}

grpc::Status EchoWorker::Run(grpc::ServerContext* context,
                             grpc::ServerReaderWriter<v1::Event, v1::Command>* stream) {
  std::unique_lock<std::mutex> lock(mu_);
  ++open_;
  v1::Command command;
  while (true) {
    lock.unlock();
    const bool read = stream->Read(&command);
    lock.lock();
    if (!read) break;
    commands_.push_back(command);
    changed_.wait(lock, [this] { return !hold_ || stopping_; });
    v1::Event event;
    *event.mutable_fence() = command.fence();
    event.set_seq(command.seq());
    for (int i = 0; i < times_; ++i) stream->Write(event);
  }
  --open_;
  if (context->IsCancelled()) ++cancelled_;
  return grpc::Status::OK;
}

}  // namespace coxswain::supervisor
