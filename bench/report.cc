#include "bench/report.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>
#include <thread>
#include <vector>

#include "common/identity.h"

namespace coxswain::bench {
namespace {

constexpr const char* kQuery =
    "nvidia-smi --id=0 --format=csv,noheader,nounits --query-gpu=name,driver_version,clocks.sm,"
    "clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active 2>/dev/null";

std::string FirstLineOf(const char* command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command, "r"), pclose);
  if (pipe == nullptr) return "";
  std::array<char, 512> line{};
  if (std::fgets(line.data(), line.size(), pipe.get()) == nullptr) return "";
  std::string text = line.data();
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace

std::string Machine() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, model = "unknown processor";
  while (std::getline(cpuinfo, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  return model + " x " + std::to_string(std::thread::hardware_concurrency());
}

nlohmann::json GpuState() {
  std::istringstream line(FirstLineOf(kQuery));
  std::vector<std::string> fields;
  for (std::string field; std::getline(line, field, ',');) {
    const size_t first = field.find_first_not_of(' ');
    fields.push_back(first == std::string::npos ? "" : field.substr(first));
  }
  if (fields.size() != 7) return nullptr;
  // A field that the driver does not report reads 0.
  const auto number = [&](size_t i) { return std::strtod(fields[i].c_str(), nullptr); };
  return {{"name", fields[0]},       {"driver", fields[1]}, {"sm_mhz", number(2)},
          {"memory_mhz", number(3)}, {"watts", number(4)},  {"celsius", number(5)},
          {"throttle", fields[6]}};
}

std::string GpuStateText(const nlohmann::json& state) {
  if (state.is_null()) return "no nvidia-smi";
  char text[160];
  std::snprintf(text, sizeof(text), "SM %.0f MHz, memory %.0f MHz, %.0f W, %.0f C, throttle %s",
                state["sm_mhz"].get<double>(), state["memory_mhz"].get<double>(),
                state["watts"].get<double>(), state["celsius"].get<double>(),
                state["throttle"].get<std::string>().c_str());
  return text;
}

void WriteResults(const std::string& path, nlohmann::json results) {
  results["commit"] = BuildCommit();
  results["machine"] = Machine();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;  // the stream below reports what matters
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::ofstream file(path);
  file << results.dump(1) << "\n";
  file.close();
  if (!file) {
    std::fprintf(stderr, "%s cannot be written\n", path.c_str());
    std::exit(1);
  }
}

}  // namespace coxswain::bench
