#include "bench/controller/dispatch/large_gang.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace coxswain::bench {
namespace {

constexpr double kWorkers = 10000;
constexpr double kEgressBytesPerMs = 25e9 / 8 / 1000;  // a port of 25 Gbit/s

struct Need {
  std::string resource;
  double ms_per_step;
  std::string answer;
};

// The plaintext row of `payload` with the most workers, null without one.
nlohmann::json Largest(const nlohmann::json& rows, const std::string& payload) {
  nlohmann::json largest;
  for (const nlohmann::json& row : rows) {
    if (row["payload"] != payload || row["tls"].get<bool>()) continue;
    if (largest.is_null() || row["workers"] > largest["workers"]) largest = row;
  }
  return largest;
}

double EgressMs(const nlohmann::json& row) {
  return kWorkers * row["command_bytes"].get<double>() / kEgressBytesPerMs;
}

}  // namespace

nlohmann::json AtTenThousand(const nlohmann::json& rows) {
  const nlohmann::json ids = Largest(rows, "ids"), tokens = Largest(rows, "tokens");
  if (ids.is_null()) return nullptr;
  // A worker is dialled for everything but its commands.
  const double per_host = ids["workers_per_host"];
  const double relays = per_host > 1 ? kWorkers / per_host : 0;
  const double cores = std::thread::hardware_concurrency();
  const double loop_us = ids["loop_us_per_worker_step"], all_us = ids["us_per_worker_step"];
  std::vector<Need> needs = {
      {"loop thread", 1e-3 * loop_us * kWorkers,
       "one wake-up, one join and one deal a step; hidden by k = 2 while a step takes longer"},
      {"CPU of all threads / cores", 1e-3 * all_us * kWorkers / cores,
       "a message a host; the shared part of a command is serialised once; all cores"},
      {"egress at 25 Gbit/s", EgressMs(ids), "document ids, read from the mapped token store"}};
  if (!tokens.is_null()) {
    needs.push_back({"egress if tokens were sent", EgressMs(tokens),
                     "not met: above 64 KiB a rank a command carries document ids"});
  }
  std::sort(needs.begin(), needs.end(),
            [](const Need& a, const Need& b) { return a.ms_per_step > b.ms_per_step; });
  nlohmann::json result = {
      {"workers", kWorkers},
      {"from_workers", ids["workers"]},
      {"memory_gib", ids["kib_per_worker"].get<double>() * kWorkers / (1 << 20)},
      {"open_files", kWorkers + relays}};
  std::printf("at 10,000 GPUs, by the rows of %d workers, milliseconds a step:\n",
              ids["workers"].get<int>());
  for (const Need& need : needs) {
    std::printf("  %9.1f  %-26s  %s\n", need.ms_per_step, need.resource.c_str(),
                need.answer.c_str());
    result["needs"].push_back(
        {{"resource", need.resource}, {"ms_per_step", need.ms_per_step}, {"answer", need.answer}});
    const bool met = need.resource != "egress if tokens were sent";
    if (met && !result.contains("first_limit")) result["first_limit"] = need.resource;
  }
  std::printf("  met first: %s; %.2f GiB and %.0f open files\n",
              result["first_limit"].get<std::string>().c_str(), result["memory_gib"].get<double>(),
              kWorkers + relays);
  return result;
}

}  // namespace coxswain::bench
