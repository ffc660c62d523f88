#include "bench/controller/dispatch/fake_workers.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <grpcpp/server_builder.h>

#include "bench/controller/dispatch/stamps.h"
#include "common/identity.h"
#include "common/logging.h"
#include "tests/worker/agent/fake_engine.h"
#include "worker/agent/agent.h"
#include "worker/agent/endpoint_file.h"
#include "worker/agent/service.h"
#include "worker/supervisor/relay.h"

extern char** environ;

namespace coxswain::bench {
namespace {

constexpr int kMostProcesses = 32;

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
  worker.service =
      std::make_unique<agent::Service>(worker.agent.get(), access::Door({.open = true}));
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

// Workers that share a relay, which finds them by their endpoint files.
struct FakeHost {
  std::vector<FakeWorker> workers;
  std::unique_ptr<supervisor::StackTaker> stacks = std::make_unique<supervisor::StackTaker>();
  std::unique_ptr<supervisor::Relay> relay;
};

FakeHost StartHost(const FakeWorkersArgs& args, int workers, const std::string& directory) {
  FakeHost host;
  std::filesystem::create_directory(directory);
  for (int slot = 0; slot < workers; ++slot) {
    host.workers.push_back(StartWorker(args.tls));
    const FakeWorker& worker = host.workers.back();
    const std::string& incarnation = worker.agent->options().incarnation;
    const auto written =
        agent::EndpointFile(directory + "/worker-" + std::to_string(slot) + ".json")
            .Publish(worker.address, "", incarnation);
    if (!written.ok()) Die(written.ToString());
  }
  std::string address = "-";
  if (args.per_host > 1) {
    auto relay = supervisor::Relay::Start(
        {"127.0.0.1", 0},
        {.state_dir = directory, .workers = workers, .tls = args.tls, .open = true},
        [](int, pid_t, const std::string&) {}, host.stacks.get());
    if (!relay.ok()) Die(relay.status().ToString());
    host.relay = std::move(*relay);
    address = "127.0.0.1:" + std::to_string(host.relay->port());
  }
  for (int slot = 0; slot < workers; ++slot) {
    const FakeWorker& worker = host.workers[static_cast<size_t>(slot)];
    std::printf("%s %s %s %d\n", worker.address.c_str(),
                worker.agent->options().incarnation.c_str(), address.c_str(), slot);
  }
  return host;
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
  std::vector<FakeHost> hosts;
  for (int left = args.workers; left > 0; left -= args.per_host) {
    const std::string directory =
        args.stamps + "-host-" + std::to_string(getpid()) + "-" + std::to_string(hosts.size());
    hosts.push_back(StartHost(args, std::min(left, args.per_host), directory));
  }
  std::fflush(stdout);
  std::cin.ignore(1 << 20, EOF);
  std::_Exit(0);  // what a worker does at its end is not measured
}

FakeWorkerProcesses::FakeWorkerProcesses(int workers, FakeWorkersArgs args) {
  args.all_workers = workers;
  const int hosts = (workers + args.per_host - 1) / args.per_host;
  const int hosts_each = (hosts + kMostProcesses - 1) / kMostProcesses;
  for (int left = workers; left > 0; left -= args.workers) {
    args.workers = std::min(left, hosts_each * args.per_host);
    Spawn(args);
  }
}

FakeWorkerProcesses::~FakeWorkerProcesses() {
  for (const Process& process : processes_) close(process.input);
  for (const Process& process : processes_) waitpid(process.pid, nullptr, 0);
}

void FakeWorkerProcesses::Spawn(const FakeWorkersArgs& args) {
  std::vector<std::string> words = {"/proc/self/exe",
                                    "--serve=" + std::to_string(args.workers),
                                    "--fake-workers=" + std::to_string(args.all_workers),
                                    "--workers-per-host=" + std::to_string(args.per_host),
                                    "--steps=" + std::to_string(args.steps),
                                    "--stamps=" + args.stamps};
  if (!args.tls.empty()) {
    words.push_back("--tls-cert=" + args.tls.cert);
    words.push_back("--tls-key=" + args.tls.key);
    words.push_back("--tls-ca=" + args.tls.ca);
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
  char address[128], incarnation[128], relay[128];
  for (int i = 0, slot = 0; i < args.workers; ++i) {
    if (std::fscanf(lines, "%127s %127s %127s %d", address, incarnation, relay, &slot) != 4) {
      Die("fake workers died");
    }
    targets_.push_back({.id = "bench/" + std::to_string(targets_.size()),
                        .address = address,
                        .incarnation = incarnation,
                        .relay = std::string(relay) == "-" ? "" : relay,
                        .slot = slot});
  }
  std::fclose(lines);
}

}  // namespace coxswain::bench
