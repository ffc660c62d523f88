// coxswain-worker-cpu and, with COXSWAIN_WORKER_CUDA, coxswain-worker-cuda: one worker process.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/faults/fault_flag.h"
#include "common/faults/fault_point.h"
#include "common/gpu_table.h"
#include "common/host.h"
#include "common/identity.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "kernels/cpu/blas_core.h"
#include "worker/agent/endpoint_file.h"
#include "worker/agent/host_info.h"
#include "worker/agent/life_sign.h"
#include "worker/agent/worker_node.h"
#include "worker/engine/device/device.h"
#include "worker/engine/device/gpu_probe.h"

namespace coxswain {
namespace {

#ifdef COXSWAIN_WORKER_CUDA
constexpr bool kCuda = true;
#else
constexpr bool kCuda = false;
#endif
// A part of a GPU's memory that is free when nobody uses it: the driver has the rest.
constexpr double kAllFree = 0.97;

struct Flags {
  agent::WorkerOptions worker;
  std::string log_file;
  std::string endpoint_file;
  int gpu = 0;
  std::string gemm_table;
  int life_sign = -1;
};

// --list-gpus: a whole use of the program.
[[noreturn]] void PrintDevices() {
  const auto devices = engine::ListDevices();
  if (!devices.ok()) {
    std::fprintf(stderr, "%s\n", std::string(devices.status().message()).c_str());
    throw CLI::RuntimeError(agent::kExitBadConfig);
  }
  for (size_t i = 0; i < devices->size(); ++i) {
    std::printf("GPU %zu\t%s\n", i, (*devices)[i].name.c_str());
  }
  throw CLI::Success();
}

void AddCudaFlags(CLI::App& app, Flags& flags) {
  app.add_option("--gpu", flags.gpu, "0-based number of the GPU to use (default: --slot)")
      ->check(CLI::Range(0, 1023));
  app.add_flag_callback("--list-gpus", PrintDevices,
                        "print number and name of the GPUs that --gpu can name, and end");
  app.add_option("--gemm-table", flags.gemm_table,
                 "keep measured GEMM choices in this file (default: "
                 "$XDG_CACHE_HOME/coxswain/gemm-DEVICE.json)");
}

void AddFlags(CLI::App& app, Flags& flags) {
  agent::WorkerOptions& worker = flags.worker;
  app.set_version_flag("--version", std::string(BuildVersion()));
  app.add_option("--controller", worker.controller, "host:port of the controller")->required();
  app.add_option("--slot", worker.slot, "0-based number of this worker on its host")
      ->check(CLI::Range(0, 1023));
  app.add_option("--host-id", worker.host_id,
                 "name of this host; workers with another name count as being on another host, "
                 "even on the same machine (default: the host's name)")
      ->check(agent::HostIdProblem);
  app.add_option("--listen", worker.listen, "host:port to serve (default 127.0.0.1:7080+slot)");
  app.add_option("--advertise", worker.advertise,
                 "host that controller and workers reach this one by (default: that of --listen)");
  app.add_option(
      "--relay", worker.relay,
      "host:port of the relay that carries this worker's command stream (default: none)");
  app.add_option("--supervisor", worker.supervisor,
                 "host:port where the supervisor can be asked to end this worker (default: none)");
  app.add_option(
      "--supervisor-id", worker.supervisor_id,
      "UUID of the supervisor; a worker that it starts replaces its older one in the slot");
  app.add_option("--life-sign", flags.life_sign,
                 "file descriptor that gets a byte a second while this process is well")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--metrics", worker.metrics,
                 "host:port of /metrics (default 127.0.0.1:7180+slot, \"\": off)");
  app.add_option("--threads", worker.threads, "CPU threads of compute (default: all)")
      ->check(CLI::Range(1, 1024));
  app.add_option(
         "--memory-bytes", worker.memory_bytes,
         kCuda ? "device memory a plan may use, CUDA's runtime included (default: all but 1 GiB)"
               : "memory a plan may use (default: 80 % of what this process may have)")
      ->check(CLI::PositiveNumber);
  app.add_option("--tls-cert", worker.tls.cert, "PEM certificate of this worker");
  app.add_option("--tls-key", worker.tls.key, "PEM key of this worker");
  app.add_option("--tls-ca", worker.tls.ca, "PEM file of the CA to trust");
  app.add_flag("--insecure", worker.insecure,
               "use plaintext on loopback even if certificates are given");
  app.add_option("--join-token-file", worker.join_token_file,
                 "file with the secret that the controller shares (default: the one that a "
                 "controller of this user leaves on this machine)");
  app.add_flag("--open", worker.open, "obey anybody who reaches the port");
  app.add_flag("--open-pages", worker.open_pages,
               "serve --metrics to anybody; only for a port that a network policy guards");
  app.add_option("--pages-token-file", worker.pages_token_file,
                 "file with a secret; its bearer reads --metrics from another machine (default: "
                 "nobody does)");
  app.add_option("--role-uri", worker.role_uri,
                 "beginning of the URI in a certificate that names a role; ROLE or ROLE/NAME "
                 "follows it")
      ->capture_default_str()
      ->check(access::RoleUriProblem);
  app.add_option("--log-file", flags.log_file, "write the log to this file too");
  app.add_option("--endpoint-file", flags.endpoint_file,
                 "write the addresses served as JSON to this file");
  fault::AddListFlag(app, fault::Process::kWorker);
  if (kCuda) AddCudaFlags(app, flags);
}

void FillDefaults(const CLI::App& app, agent::WorkerOptions& worker) {
  if (app.count("--listen") == 0) worker.listen = "127.0.0.1:" + std::to_string(7080 + worker.slot);
  if (app.count("--metrics") == 0) {
    worker.metrics = "127.0.0.1:" + std::to_string(7180 + worker.slot);
  }
  if (app.count("--threads") == 0) worker.threads = UsableCpus();
}

// Hides the other GPUs from this process: each of its threads then works on the one, and takes no
// memory of another. Before CUDA is first called.
absl::Status ShowOnly(int gpu) {
  const char* shown = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string name = std::to_string(gpu);
  if (shown != nullptr) {
    const std::vector<std::string> names = absl::StrSplit(shown, ',', absl::SkipEmpty());
    if (gpu >= static_cast<int>(names.size())) {
      return absl::FailedPreconditionError(
          absl::StrCat("GPU ", gpu, " does not exist: CUDA_VISIBLE_DEVICES is \"", shown, "\""));
    }
    name = names[static_cast<size_t>(gpu)];
  }
  setenv("CUDA_VISIBLE_DEVICES", name.c_str(), 1);
  ASSIGN_OR_RETURN(const int count, engine::CountDevices());
  if (count == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("GPU ", gpu, " does not exist on this host"));
}

// NCCL's idea of which ranks share a host is that of the controller. Before NCCL is loaded.
void TellNcclTheHost(const std::string& host_id) {
  if (kCuda && !host_id.empty()) setenv("NCCL_HOSTID", host_id.c_str(), 1);
}

// Chooses the device and fills in what the worker tells of it.
absl::Status OpenDevice(const CLI::App& app, Flags& flags) {
  agent::WorkerOptions& worker = flags.worker;
  if (kCuda && app.count("--gpu") == 0) flags.gpu = worker.slot;
  if (kCuda) RETURN_IF_ERROR(ShowOnly(flags.gpu));
  const auto opened = engine::OpenDevice(0);
  if (kCuda && !opened.ok()) {  // its number here is that of the one that is shown
    return absl::Status(opened.status().code(),
                        absl::StrCat("GPU ", flags.gpu, ": ", opened.status().message()));
  }
  ASSIGN_OR_RETURN(const kernels::DeviceDescription device, opened);
  worker.gpu = flags.gpu;
  worker.numa_node = kCuda ? agent::NumaNodeOf(device.pci_bus) : 0;
  worker.pci_bus = device.pci_bus;
  worker.device = device.kind;
  worker.device_name = kCuda ? device.name : agent::CpuModel();
  worker.compute_capability = device.capability;
  if (app.count("--memory-bytes") > 0) return absl::OkStatus();
  if (!kCuda) {
    worker.memory_bytes = PlannableBytes(1);
    return absl::OkStatus();
  }
  const auto all = static_cast<int64_t>(kAllFree * static_cast<double>(device.total_bytes));
  const auto free_bytes =
      static_cast<uint64_t>(engine::SettledFreeBytes(all, kernels::FreeMemoryBytes));
  worker.memory_bytes = engine::PlannableDeviceBytes(free_bytes);
  worker.memory_now = engine::PlannableDeviceBytesNow;
  return absl::OkStatus();
}

// Before the worker registers, when it has no job yet: a probe disturbs none. Without one the
// worker runs as well, and no time is predicted.
void Probe(agent::WorkerOptions& worker) {
  if (!kCuda || GpuOf(worker.device_name).rates) return;
  const absl::StatusOr<GpuProbe> probe = engine::ProbeGpu();
  if (!probe.ok()) {
    log::Warning("the rates of the GPU were not measured: no time is predicted for it",
                 {{"device", worker.device_name}, {"error", probe.status().ToString()}});
    return;
  }
  worker.probe = *probe;
  log::Info("the rates of the GPU were measured",
            {{"device", worker.device_name},
             {"product_tflops_per_second", probe->product_flops_per_second / 1e12},
             {"copy_gb_per_second", probe->copy_bytes_per_second / 1e9}});
}

// "NVIDIA H200" -> gemm-nvidia-h200.json in the cache directory.
std::string GemmTablePath(const std::string& device_name) {
  std::string name = device_name;
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) ? static_cast<char>(std::tolower(byte)) : '-';
  }
  return CacheDir() + "/gemm-" + name + ".json";
}

// Uses the choices of earlier workers, and keeps those that the next gang makes. A table that
// cannot be read or written costs time, not the worker.
void KeepGemmTable(Flags& flags) {
  if (!kCuda) return;
  if (flags.gemm_table.empty()) flags.gemm_table = GemmTablePath(flags.worker.device_name);
  auto file = std::make_shared<engine::GemmTableFile>(flags.gemm_table);
  const auto tell = [path = flags.gemm_table](const char* what, const absl::StatusOr<bool>& done) {
    if (!done.ok()) {
      log::Warning("GEMM table not used", {{"error", done.status().ToString()}});
    } else if (*done) {
      log::Info(what, {{"file", path}});
    }
  };
  tell("GEMM table loaded", file->Load());
  flags.worker.on_connected = [file, tell] { tell("GEMM table written", file->Save()); };
}

// OpenMP and OpenBLAS read their thread counts when they are loaded, before main: the process
// starts itself again under the right ones, so that the count is exactly --threads everywhere.
void PinThreads(int threads, char** argv) {
  const std::string count = std::to_string(threads);
  bool pinned = true;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const char* value = std::getenv(name);
    pinned = pinned && value != nullptr && count == value;
    setenv(name, count.c_str(), 1);
  }
  if (pinned) return;
  kernels::cpu::StartAgain(argv);
  std::perror("coxswain-worker-cpu: cannot start itself again with pinned threads");
  std::_Exit(1);
}

// Until a first SIGTERM or SIGINT has drained the worker. A second one ends the process now.
void WaitForEnd(const sigset_t& signals, agent::WorkerNode& node) {
  int signal = 0;
  sigwait(&signals, &signal);
  log::Info("signal", {{"signal", strsignal(signal)}});
  node.Drain();
  const timespec poll{0, 50'000'000};
  while (!node.Drained()) {
    signal = sigtimedwait(&signals, nullptr, &poll);
    if (signal > 0) {
      log::Warning("second signal: leaving now", {{"signal", strsignal(signal)}});
      std::_Exit(128 + signal);
    }
  }
}

int Run(int argc, char** argv) {
  Flags flags;
  CLI::App app{"Coxswain worker: executes one rank's part of training jobs"};
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : agent::kExitBadConfig;
  }
  FillDefaults(app, flags.worker);
  if (!kCuda) kernels::cpu::UseWidestBlasCore(argv);
  if (!kCuda) PinThreads(flags.worker.threads, argv);

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // inherited by every thread started below
  signal(SIGPIPE, SIG_IGN);

  TellNcclTheHost(flags.worker.host_id);
  agent::LifeSign life_sign(flags.life_sign);
  log::Init("worker", log::Level::kInfo, flags.log_file);
  absl::Status status = fault::ArmFromEnvironment(fault::Process::kWorker);
  if (status.ok()) status = OpenDevice(app, flags);
  if (!status.ok()) {
    log::Error(std::string(status.message()));
    return absl::IsUnavailable(status) ? agent::kExitDeviceLost : agent::kExitBadConfig;
  }
  Probe(flags.worker);
  KeepGemmTable(flags);
  flags.worker.exit = [](int code, const std::string& why) {
    log::Error("the worker ends", {{"exit_code", code}, {"error", why}});
    std::_Exit(code);
  };
  agent::EndpointFile endpoint(flags.endpoint_file);
  flags.worker.on_registered = [&endpoint](bool registered) { endpoint.SetRegistered(registered); };
  auto node = agent::WorkerNode::Start(flags.worker);
  if (node.ok()) {
    const absl::Status status =
        endpoint.Publish((*node)->address(), (*node)->metrics_address(), (*node)->incarnation());
    if (!status.ok()) node = status;
  }
  if (!node.ok()) {
    log::Error("the worker cannot start", {{"error", node.status().ToString()}});
    const bool config = node.status().code() == absl::StatusCode::kInvalidArgument ||
                        node.status().code() == absl::StatusCode::kFailedPrecondition;
    return config ? agent::kExitBadConfig : 1;
  }
  life_sign.Follow([&agent = (*node)->agent()] { (void)agent.progress(); });
  log::Info("serving", {{"address", (*node)->address()},
                        {"metrics", (*node)->metrics_address()},
                        {"slot", flags.worker.slot},
                        {"device", flags.worker.device_name},
                        {"threads", flags.worker.threads},
                        {"memory_bytes", flags.worker.memory_bytes}});
  WaitForEnd(signals, **node);
  log::Info("drained");
  life_sign.Follow({});
  node->reset();
  endpoint.Remove();
  return agent::kExitDrained;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) { return coxswain::Run(argc, argv); }
