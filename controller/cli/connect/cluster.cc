#include "controller/cli/connect/cluster.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files/private_folder.h"
#include "common/identity.h"
#include "common/net/grpc_endpoint.h"
#include "common/status_macros.h"
#include "controller/cli/connect/client.h"
#include "controller/cli/machine/interrupt.h"

namespace coxswain::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;
constexpr std::chrono::seconds kStartPatience{60};

std::string Path(const std::string& directory, const char* name) {
  return absl::StrCat(directory, "/", name);
}

Json ProcessJson(const Process& process) {
  return {{"pid", process.pid}, {"start_ticks", process.start_ticks}};
}

Process ProcessFrom(const Json& json) {
  return {json.value("pid", pid_t{0}), json.value("start_ticks", uint64_t{0})};
}

absl::Status WriteClusterFile(const Cluster& cluster) {
  const std::string path = Path(cluster.directory, "cluster.json");
  const Json json = {{"controller", ProcessJson(cluster.controller)},
                     {"supervisor", ProcessJson(cluster.supervisor)},
                     {"workers", cluster.workers},
                     {"gpus", cluster.gpus},
                     {"prometheus", ProcessJson(cluster.prometheus.process)},
                     {"prometheus_address", cluster.prometheus.address}};
  std::ofstream out(path + ".new");
  out << json.dump(2) << "\n";
  out.close();
  if (!out || std::rename((path + ".new").c_str(), path.c_str()) != 0) {
    return absl::InternalError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

// A process that must live for what is waited for.
struct Watched {
  const char* name;  // "controller"
  Process process;
  std::string log_path;
  int64_t log_begin = 0;  // byte from which on the log is this process's

  std::string LastWords() const {
    return absl::StrCat("Newest lines of ", log_path, ":\n", TailOfFile(log_path, 10, log_begin));
  }
};

int64_t BytesOf(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

// Polls `ready` until it holds. One that ends meanwhile ends the waiting, with its last words.
template <typename Ready>
absl::Status WaitFor(const std::vector<Watched>& watched, const std::string& what, Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + kStartPatience;
  for (;;) {
    ASSIGN_OR_RETURN(const bool done, ready());
    if (done) return absl::OkStatus();
    for (const Watched& one : watched) {
      if (IsRunning(one.process)) continue;
      return absl::InternalError(
          absl::StrCat(what, ": the ", one.name, " ended. ", one.LastWords()));
    }
    if (std::chrono::steady_clock::now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          what, " took longer than ", kStartPatience.count(), " s. ", watched.back().LastWords()));
    }
    if (WaitForInterrupt(50)) return absl::CancelledError("interrupted");
  }
}

std::string AddressOr(const std::string& address) {
  return address.empty() ? "127.0.0.1:0" : address;
}

// On the addresses of cluster->endpoint where it has some: workers that run already dial those.
absl::Status StartController(const ClusterArgs& args, Cluster* cluster) {
  const std::string endpoint_path = Path(args.directory, "endpoint.json");
  const std::string log_path = Path(args.directory, "controller.log");
  ASSIGN_OR_RETURN(const std::string binary, FindBinary("coxswain-controller"));
  std::error_code error;
  fs::remove(endpoint_path, error);
  const int64_t log_begin = BytesOf(log_path);
  std::vector<std::string> arguments = {"--listen",        AddressOr(cluster->endpoint.grpc),
                                        "--metrics",       AddressOr(cluster->endpoint.metrics),
                                        "--state-dir",     Path(args.directory, "controller"),
                                        "--endpoint-file", endpoint_path};
  if (args.open) arguments.emplace_back("--open");
  ASSIGN_OR_RETURN(cluster->controller, Spawn({.binary = binary,
                                               .args = arguments,
                                               .log_path = log_path,
                                               .die_with_parent = args.die_with_parent}));
  return WaitFor({{"controller", cluster->controller, log_path, log_begin}},
                 "starting the controller", [&]() -> absl::StatusOr<bool> {
                   ASSIGN_OR_RETURN(const std::optional<Endpoint> endpoint,
                                    ReadEndpoint(endpoint_path));
                   if (endpoint.has_value()) cluster->endpoint = *endpoint;
                   return endpoint.has_value();
                 });
}

absl::Status StartSupervisor(const ClusterArgs& args, Cluster* cluster) {
  ASSIGN_OR_RETURN(const std::string binary, FindBinary("coxswain-supervisor"));
  ASSIGN_OR_RETURN(
      cluster->supervisor,
      Spawn({.binary = binary,
             .args = {"--controller", cluster->endpoint.grpc, "--workers",
                      std::to_string(args.workers), "--gpus", std::to_string(args.gpus),
                      "--threads", std::to_string(args.threads), "--listen", "127.0.0.1:0",
                      "--metrics", "127.0.0.1:0", "--state-dir", Path(args.directory, "workers")},
             .log_path = Path(args.directory, "supervisor.log"),
             .die_with_parent = args.die_with_parent}));
  return absl::OkStatus();
}

// Free, or at work for a job that went on after a restart.
bool IsRegistered(const v1::WorkerInfo& worker) {
  return worker.state() == "READY" || !worker.job().empty();
}

absl::Status WaitForWorkers(const ClusterArgs& args, const Cluster& cluster) {
  Connection connection;
  connection.server = cluster.endpoint.grpc;
  Client client(connection);
  return WaitFor(
      {{"controller", cluster.controller, Path(args.directory, "controller.log")},
       {"supervisor", cluster.supervisor, Path(args.directory, "supervisor.log")}},
      absl::StrCat("registering ", cluster.processes(), " workers"), [&]() -> absl::StatusOr<bool> {
        const auto workers = client.ListWorkers(std::chrono::seconds(5));
        return workers.ok() && std::count_if(workers->workers().begin(), workers->workers().end(),
                                             IsRegistered) >= cluster.processes();
      });
}

absl::Status StartMissing(const ClusterArgs& args, Cluster* cluster) {
  if (!IsRunning(cluster->controller)) RETURN_IF_ERROR(StartController(args, cluster));
  if (!IsRunning(cluster->supervisor)) RETURN_IF_ERROR(StartSupervisor(args, cluster));
  RETURN_IF_ERROR(WaitForWorkers(args, *cluster));
  if (args.prometheus && !IsRunning(cluster->prometheus.process)) {
    ASSIGN_OR_RETURN(cluster->prometheus, StartPrometheus(args.directory, cluster->endpoint.metrics,
                                                          args.die_with_parent));
  }
  return WriteClusterFile(*cluster);
}

}  // namespace

absl::StatusOr<Cluster> StartCluster(const ClusterArgs& args,
                                     const std::optional<Cluster>& survivors) {
  for (const char* name : {"controller", "workers"}) {
    RETURN_IF_ERROR(MakePrivateFolder(Path(args.directory, name)));
  }
  Cluster cluster = survivors.value_or(Cluster());
  cluster.directory = args.directory;
  cluster.workers = args.workers;
  cluster.gpus = args.gpus;
  const absl::Status status = StartMissing(args, &cluster);
  if (status.ok()) return cluster;
  StopCluster(cluster);
  return status;
}

absl::StatusOr<std::vector<std::string>> ListGpus(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string binary, FindBinary("coxswain-worker-cuda"));
  const std::string path = Path(directory, absl::StrCat("gpus-", RandomHex(8), ".log").c_str());
  RETURN_IF_ERROR(MakePrivateFolder(directory));
  ASSIGN_OR_RETURN(const Process process,
                   Spawn({.binary = binary, .args = {"--list-gpus"}, .log_path = path}));
  while (IsRunning(process)) {
    if (WaitForInterrupt(20)) return absl::CancelledError("interrupted");
  }
  std::string said = TailOfFile(path, 1024);
  std::error_code error;
  fs::remove(path, error);
  std::vector<std::string> names;
  for (const absl::string_view line : absl::StrSplit(said, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, '\t');
    if (parts.size() == 2 && absl::StartsWith(parts[0], "GPU ")) names.push_back(parts[1]);
  }
  absl::StripAsciiWhitespace(&said);
  if (names.empty()) return absl::FailedPreconditionError(said);
  return names;
}

absl::StatusOr<std::optional<Cluster>> FindCluster(const std::string& directory) {
  std::ifstream in(Path(directory, "cluster.json"));
  if (!in) return std::nullopt;
  const Json json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("controller") || !json.contains("supervisor")) {
    return absl::InvalidArgumentError(
        absl::StrCat(Path(directory, "cluster.json"), ": not written by cox up"));
  }
  Cluster cluster;
  cluster.directory = directory;
  cluster.controller = ProcessFrom(json["controller"]);
  cluster.supervisor = ProcessFrom(json["supervisor"]);
  cluster.workers = json.value("workers", 0);
  cluster.gpus = json.value("gpus", 0);
  cluster.prometheus.process = ProcessFrom(json.value("prometheus", Json::object()));
  if (IsRunning(cluster.prometheus.process)) {
    cluster.prometheus.address = json.value("prometheus_address", "");
  }
  if (!IsRunning(cluster.controller) && !IsRunning(cluster.supervisor)) return std::nullopt;
  ASSIGN_OR_RETURN(const std::optional<Endpoint> endpoint,
                   ReadEndpoint(Path(directory, "endpoint.json")));
  if (endpoint.has_value()) cluster.endpoint = *endpoint;
  return cluster;
}

absl::Status CheckProcesses(const Cluster& cluster) {
  for (const Watched& one :
       {Watched{"controller", cluster.controller, Path(cluster.directory, "controller.log")},
        Watched{"supervisor", cluster.supervisor, Path(cluster.directory, "supervisor.log")}}) {
    if (IsRunning(one.process)) continue;
    return absl::InternalError(
        absl::StrCat("the ", one.name, " ended by itself. ", one.LastWords()));
  }
  return absl::OkStatus();
}

bool StopCluster(const Cluster& cluster, std::chrono::milliseconds grace, Patience patience) {
  const bool prometheus_left = Terminate(cluster.prometheus.process, grace, patience);
  const bool workers_left = Terminate(cluster.supervisor, grace, patience);
  const bool controller_left = Terminate(cluster.controller, grace, patience);
  std::error_code error;
  fs::remove(Path(cluster.directory, "endpoint.json"), error);
  fs::remove(Path(cluster.directory, "cluster.json"), error);
  return prometheus_left && workers_left && controller_left;
}

absl::StatusOr<ClusterLock> ClusterLock::Take(const std::string& directory) {
  RETURN_IF_ERROR(MakePrivateFolder(directory));
  const std::string path = Path(directory, "lock");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(errno)));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return absl::FailedPreconditionError(
        absl::StrCat("another cox holds ", path, "; wait until it is done"));
  }
  return ClusterLock(fd);
}

ClusterLock::~ClusterLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace coxswain::cli
