#include "bench/controller/dispatch/fake_workers.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <grpcpp/server_builder.h>

#include "bench/controller/dispatch/stamps.h"
#include "common/ids.h"
#include "common/logging.h"
#include "tests/worker/agent/fake_engine.h"
#include "worker/agent/agent.h"
#include "worker/agent/service.h"

extern char** environ;

namespace coxswain::bench {
namespace {

constexpr int kWorkersPerProcess = 256;

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "dispatch_bench: %s\n", why.c_str());
  std::exit(1);
}

struct FakeWorker {
  std::unique_ptr<agent::WorkerMetrics> metrics = std::make_unique<agent::WorkerMetrics>();
  std::unique_ptr<agent::Agent> agent;
  std::unique_ptr<agent::Service> service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

FakeWorker StartWorker(const TlsFiles& tls) {
  FakeWorker worker;
  agent::AgentOptions options;
  options.incarnation = NewUuid();
  options.host = "bench";
  options.on_abort_deadline = [](const std::string& why) { Die(why); };
  options.on_device_lost = options.on_abort_deadline;
  worker.agent = std::make_unique<agent::Agent>(std::move(options), worker.metrics.get());
  worker.service = std::make_unique<agent::Service>(worker.agent.get());
  SocketAddress listen{"127.0.0.1", 0};
  const auto credentials = ServerCredentials(listen, tls, false);
  if (!credentials.ok()) Die(credentials.status().ToString());
  grpc::ServerBuilder builder;
  builder.RegisterService(worker.service.get());
  auto server = StartServer(&builder, &listen, *credentials);
  if (!server.ok()) Die(server.status().ToString());
  worker.server = std::move(*server);
  worker.address = listen.text();
  return worker;
}

}  // namespace

int ServeFakeWorkers(const FakeWorkersArgs& args) {
  log::Init("worker", log::Level::kError);
  Stamps stamps(args.stamps, args.all_workers, args.steps);
  fake_engine::Hooks hooks;
  hooks.train = [&stamps](int, int64_t step, const std::function<bool()>&) {
    stamps.Add(step);
    stamps.AwaitAll(step);
    if (const int64_t ms = stamps.step_ms(); ms > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    }
    return absl::OkStatus();
  };
  fake_engine::SetHooks(hooks);
  std::vector<FakeWorker> workers;
  for (int i = 0; i < args.workers; ++i) {
    workers.push_back(StartWorker(args.tls));
    std::printf("%s %s\n", workers.back().address.c_str(),
                workers.back().agent->options().incarnation.c_str());
  }
  std::fflush(stdout);
  std::cin.ignore(1 << 20, EOF);
  std::_Exit(0);  // what a worker does at its end is not measured
}

FakeWorkerProcesses::FakeWorkerProcesses(int workers, FakeWorkersArgs args) {
  args.all_workers = workers;
  for (int left = workers; left > 0; left -= kWorkersPerProcess) {
    args.workers = std::min(left, kWorkersPerProcess);
    Spawn(args);
  }
}

FakeWorkerProcesses::~FakeWorkerProcesses() {
  for (const Process& process : processes_) close(process.input);
  for (const Process& process : processes_) waitpid(process.pid, nullptr, 0);
}

void FakeWorkerProcesses::Spawn(const FakeWorkersArgs& args) {
  std::vector<std::string> words = {"/proc/self/exe", "--serve=" + std::to_string(args.workers),
                                    "--fake-workers=" + std::to_string(args.all_workers),
                                    "--steps=" + std::to_string(args.steps),
                                    "--stamps=" + args.stamps};
  if (!args.tls.empty()) {
    words.push_back("--tls-cert=" + args.tls.cert);
    words.push_back("--tls-key=" + args.tls.key);
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int input[2], output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) Die("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], 0);
  posix_spawn_file_actions_adddup2(&actions, output[1], 1);
  Process process;
  if (posix_spawn(&process.pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ) != 0) {
    Die("cannot start fake workers");
  }
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  process.input = input[1];
  processes_.push_back(process);
  FILE* lines = fdopen(output[0], "r");
  char address[128], incarnation[128];
  for (int i = 0; i < args.workers; ++i) {
    if (std::fscanf(lines, "%127s %127s", address, incarnation) != 2) Die("fake workers died");
    targets_.push_back({.id = "bench/" + std::to_string(targets_.size()),
                        .address = address,
                        .incarnation = incarnation});
  }
  std::fclose(lines);
}

}  // namespace coxswain::bench
