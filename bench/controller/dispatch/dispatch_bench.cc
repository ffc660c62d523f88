// What telling a gang its steps costs the controller: CPU per worker and step, latency of a
// command, memory per worker, bytes sent.
//
// The controller is real: loop, session, fan-out, gRPC on loopback. So are the workers but for
// their engine (worker/agent over the fake engine of its tests), in other processes, whose time
// does not count; they answer a step when all have begun it, as after a collective. With one credit
// each command goes out when the step before is committed, so that latency = engine has it -
// controller decided to send it, over all workers of a step. The kernel counts a loopback packet's
// way up to the receiver's socket as time of the sender. Workers of a host get commands through its
// relay (worker/supervisor/relay.h), which runs beside them in those processes; with one worker a
// host there is none.
//
// Payloads of a rank and step: "empty" one document of two tokens; "ids" and "tokens" 16 bins of
// 2,048 tokens in 256 documents, by document ids and with tokens, lengths and label mask.
//
//   build/cpu/bench/dispatch_bench [--fake-workers 1,64,1024,4096] [--workers-per-host 8]
//       [--payloads empty,ids,tokens] [--no-tls] [--steps N] [--limit-us X]
//   writes bench/results/dispatch.json
//
// A row's CPU and memory are those with two credits, its latency that with one; "ids" without TLS
// also says how long the engines wait for commands when a step takes 50 ms.
// --limit-us: no latency and no file; exit 1 when a row costs more CPU per worker-step, or memory
// grows, three times in succession. Exit 77 when this host cannot have so many workers.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/controller/dispatch/fake_workers.h"
#include "bench/controller/dispatch/large_gang.h"
#include "bench/controller/dispatch/run.h"
#include "bench/report.h"
#include "common/logging.h"
#include "controller/transport/fan_out.h"

namespace coxswain::bench {
namespace {

constexpr double kMostGrowth = 150;  // bytes per worker-step; a command or answer kept is more
constexpr int kMostTries = 3;        // what else a host does costs time here, now and then
constexpr int kSkipped = 77;
constexpr int kIdleSteps = 40;
constexpr int64_t kIdleStepMs = 50;

struct Flags {
  std::vector<int> workers = {1, 64, 1024, 4096};
  std::vector<std::string> payloads = {"empty", "ids", "tokens"};
  bool no_tls = false;
  int steps = 0;  // 0: by the number of workers
  double limit_us = 0;
  std::string json = "bench/results/dispatch.json";
  int serve = 0;
  FakeWorkersArgs fake;
};

Shape ShapeOf(const std::string& payload, int workers, int steps) {
  Shape shape{.steps = steps, .ranks = workers};
  if (payload != "empty") {
    shape.bins_per_rank = shape.documents_per_bin = 16;
    shape.document_tokens = 128;
  }
  return shape;
}

// Enough for some seconds of work.
int StepsFor(const Flags& flags, int workers) {
  return flags.steps > 0 ? flags.steps : std::clamp(100000 / workers, 60, 1000);
}

TlsFiles Certificates(const std::string& directory) {
  const std::string key = directory + "/key.pem", cert = directory + "/cert.pem";
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
      "/CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout " +
      key + " -out " + cert + " 2>/dev/null";
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "dispatch_bench: openssl cannot make a certificate: try --no-tls\n");
    std::exit(1);
  }
  return {.cert = cert, .key = key, .ca = cert};
}

// The controller has a connection to each worker and relay; a process of 256 workers four sockets
// to each of them.
bool EnoughFiles(int workers) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t need = static_cast<rlim_t>(workers) * 9 / 8 + 1536;
  if (limit.rlim_cur >= need) return true;
  std::printf("skipped: %d fake workers need %llu open files, the limit is %llu\n", workers,
              static_cast<unsigned long long>(need),
              static_cast<unsigned long long>(limit.rlim_cur));
  return false;
}

nlohmann::json RowOf(const RunArgs& args, int per_host, const std::string& payload,
                     const RunResult& r) {
  return {{"workers", args.shape.ranks},
          {"workers_per_host", per_host},
          {"payload", payload},
          {"tls", !args.tls.empty()},
          {"steps", args.shape.steps - args.warm_up},
          {"command_bytes", r.command_bytes},
          {"us_per_worker_step", r.cpu_us_per_worker_step},
          {"loop_us_per_worker_step", r.loop_us_per_worker_step},
          {"ms_per_step", 1e3 * r.seconds_per_step},
          {"egress_mb_per_s",
           1e-6 * static_cast<double>(r.command_bytes * args.shape.ranks) / r.seconds_per_step},
          {"kib_per_worker", r.kib_per_worker},
          {"grown_bytes_per_worker_step", r.grown_bytes_per_worker_step}};
}

void Print(const nlohmann::json& row) {
  const auto number = [&row](const char* name) { return row.value(name, 0.0); };
  std::printf(
      "%6d/%-2d %-7s %-4s %8lld B %8.1f us %7.1f us %9.1f ms/step %8.1f MB/s %8.1f KiB %+7.1f B\n",
      row["workers"].get<int>(), row["workers_per_host"].get<int>(),
      row["payload"].get<std::string>().c_str(), row["tls"].get<bool>() ? "tls" : "-",
      row["command_bytes"].get<long long>(), number("us_per_worker_step"),
      number("loop_us_per_worker_step"), number("ms_per_step"), number("egress_mb_per_s"),
      number("kib_per_worker"), number("grown_bytes_per_worker_step"));
  if (row.contains("latency_p50_ms")) {
    std::printf("       latency of a command with k = 1: p50 %.3f ms, p99 %.3f ms\n",
                number("latency_p50_ms"), number("latency_p99_ms"));
  }
  if (row.contains("idle_percent_two_credits")) {
    std::printf(
        "       steps of %lld ms: %.1f us of CPU, engines wait for commands %.3f %% of the time "
        "with "
        "k = 2, %.3f %% with k = 1\n",
        static_cast<long long>(kIdleStepMs), number("idle_step_us_per_worker_step"),
        number("idle_percent_two_credits"), number("idle_percent_one_credit"));
  }
  std::fflush(stdout);
}

bool Holds(double limit_us, const nlohmann::json& row) {
  const double us = row["us_per_worker_step"].get<double>();
  const double grown = row["grown_bytes_per_worker_step"].get<double>();
  if (us > limit_us) {
    std::printf("above: %.1f us of CPU per worker-step, limit %.1f\n", us, limit_us);
  }
  if (grown > kMostGrowth) {
    std::printf("above: memory grows by %.1f bytes per worker-step, limit %.1f\n", grown,
                kMostGrowth);
  }
  return us <= limit_us && grown <= kMostGrowth;
}

// Runs of one group of workers, one after the other.
class Group {
 public:
  Group(const Flags& flags, int workers, const std::string& directory, const TlsFiles& tls)
      : flags_(flags),
        workers_(workers),
        steps_(StepsFor(flags, workers)),
        stamps_file_(directory + "/stamps-" + std::to_string(workers)),
        stamps_(stamps_file_, workers, std::max(steps_, kIdleSteps)),
        processes_(workers, {.per_host = flags.fake.per_host,
                             .steps = std::max(steps_, kIdleSteps),
                             .stamps = stamps_file_,
                             .tls = tls}) {
    run_.directory = directory;
    run_.tls = tls;
  }

  nlohmann::json Row(const std::string& payload) {
    run_.document_ids = payload == "ids";
    run_.shape = ShapeOf(payload, workers_, steps_);
    nlohmann::json row = RowOf(run_, flags_.fake.per_host, payload, Go(2));
    if (flags_.limit_us > 0) return row;
    const RunResult one = Go(1);
    row["latency_p50_ms"] = one.p50_ms;
    row["latency_p99_ms"] = one.p99_ms;
    if (payload != "ids" || !run_.tls.empty()) return row;
    run_.shape.steps = kIdleSteps;
    run_.step_ms = kIdleStepMs;
    row["idle_step_ms"] = kIdleStepMs;
    const RunResult two = Go(2);
    row["idle_step_us_per_worker_step"] = two.cpu_us_per_worker_step;
    row["idle_percent_two_credits"] = 100 * two.idle_ratio;
    row["idle_percent_one_credit"] = 100 * Go(1).idle_ratio;
    run_.step_ms = 0;
    return row;
  }

 private:
  RunResult Go(int credits) {
    run_.credits = credits;
    ++run_.epoch;
    return RunSteps(run_, processes_.targets(), &stamps_);
  }

  const Flags& flags_;
  const int workers_, steps_;
  const std::string stamps_file_;
  Stamps stamps_;
  const FakeWorkerProcesses processes_;
  RunArgs run_;
};

// Whether `row` or a repetition holds; `row` is that of the last one.
bool HoldsInTheEnd(double limit_us, const std::string& payload, Group& group, nlohmann::json* row) {
  for (int tries = 1; !Holds(limit_us, *row); ++tries) {
    if (tries == kMostTries) return false;
    *row = group.Row(payload);
    Print(*row);
  }
  return true;
}

int Measure(const Flags& flags) {
  if (!std::all_of(flags.workers.begin(), flags.workers.end(), EnoughFiles)) return kSkipped;
  char scratch[] = "/tmp/dispatch_bench.XXXXXX";
  const std::string directory = mkdtemp(scratch);
  std::vector<TlsFiles> ways = {TlsFiles()};
  if (!flags.no_tls) ways.push_back(Certificates(directory));
  nlohmann::json rows = nlohmann::json::array();
  bool holds = true;
  std::printf("%s; times of this process; %d sender threads\n", Machine().c_str(),
              FanOut::DefaultThreads() + 1);
  std::printf("workers/host payload   command   CPU/w-step of its loop\n");
  for (const int workers : flags.workers) {
    for (const TlsFiles& tls : ways) {
      Group group(flags, workers, directory, tls);
      for (const std::string& payload : flags.payloads) {
        rows.push_back(group.Row(payload));
        Print(rows.back());
        if (flags.limit_us > 0)
          holds = HoldsInTheEnd(flags.limit_us, payload, group, &rows.back()) && holds;
      }
    }
  }
  std::filesystem::remove_all(directory);
  const nlohmann::json large = AtTenThousand(rows);
  if (flags.limit_us > 0) return holds ? 0 : 1;
  WriteResults(flags.json, {{"rows", rows}, {"at_10000", large}});
  return 0;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Controller CPU, latency and memory per worker");
  app.add_option("--fake-workers", flags.workers, "numbers of workers")->delimiter(',');
  app.add_option("--payloads", flags.payloads, "empty, ids, tokens")->delimiter(',');
  app.add_flag("--no-tls", flags.no_tls, "plaintext only");
  app.add_option("--steps", flags.steps, "steps per row, warm-up included");
  app.add_option("--limit-us", flags.limit_us, "fail above this CPU per worker-step");
  app.add_option("--json", flags.json, "result file");
  app.add_option("--workers-per-host", flags.fake.per_host,
                 "workers behind one relay; 1: each is dialled")
      ->check(CLI::Range(1, 64));
  app.add_option("--serve", flags.serve)->group("");
  app.add_option("--stamps", flags.fake.stamps)->group("");
  app.add_option("--tls-cert", flags.fake.tls.cert)->group("");
  app.add_option("--tls-key", flags.fake.tls.key)->group("");
  app.add_option("--tls-ca", flags.fake.tls.ca)->group("");
  CLI11_PARSE(app, argc, argv);
  if (flags.serve > 0) {
    flags.fake.workers = flags.serve;
    flags.fake.all_workers = flags.workers.front();
    flags.fake.steps = flags.steps;
    return ServeFakeWorkers(flags.fake);
  }
  log::Init("bench", log::Level::kError);
  return Measure(flags);
}

}  // namespace
}  // namespace coxswain::bench

int main(int argc, char** argv) { return coxswain::bench::Main(argc, argv); }
