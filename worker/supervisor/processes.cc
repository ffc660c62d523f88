#include "worker/supervisor/processes.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files/read_file.h"

namespace coxswain::supervisor {

std::string FindInPath(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream directories(path == nullptr ? "" : path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    std::string candidate = absl::StrCat(directory, "/", name);
    if (!directory.empty() && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

absl::StatusOr<std::string> FindBinary(const std::string& name) {
  std::error_code error;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  const auto libexec = here.parent_path() / "libexec" / "coxswain";
  for (const auto& directory : {here, libexec}) {
    std::string candidate = (directory / name).string();
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  std::string found = FindInPath(name);
  if (!found.empty()) return found;
  return absl::NotFoundError(absl::StrCat(name, " is neither in ", here.string(), " nor in ",
                                          libexec.string(), " nor in PATH"));
}

namespace {

constexpr int kUserTicks = 14, kSystemTicks = 15;  // fields of /proc/PID/stat, from 1

// The value behind `field` of /proc/PID/status; empty: it has none.
std::string ValueOf(const std::string& status, const char* field) {
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, absl::StrCat(field, ":"))) continue;
    return std::string(absl::StripAsciiWhitespace(rest));
  }
  return "";
}

// A program's name, the second field, may hold anything, blanks and parentheses too.
double CpuSeconds(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  int64_t ticks = 0;
  std::string value;
  for (int field = 3; field <= kSystemTicks && fields >> value; ++field) {
    if (field >= kUserTicks) ticks += std::atoll(value.c_str());
  }
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::optional<ProcessFacts> ReadProcess(pid_t pid) {
  const std::string folder = absl::StrCat("/proc/", pid);
  const std::string status = ReadFile(folder + "/status").value_or("");
  if (status.empty()) return std::nullopt;
  constexpr int64_t kKiB = 1024;
  return ProcessFacts{
      .parent = std::atoi(ValueOf(status, "PPid").c_str()),
      .tracer = std::atoi(ValueOf(status, "TracerPid").c_str()),
      .state = ValueOf(status, "State"),
      .threads = std::atoi(ValueOf(status, "Threads").c_str()),
      .resident_bytes = std::atoll(ValueOf(status, "VmRSS").c_str()) * kKiB,
      .cpu_seconds = CpuSeconds(ReadFile(folder + "/stat").value_or("")),
  };
}

double HostLoad() {
  std::ifstream in("/proc/loadavg");
  double load = 0;
  return in >> load ? load : 0;
}

absl::StatusOr<Endpoint> ReadEndpoint(const std::string& state_dir, int index) {
  const std::string file = absl::StrCat(state_dir, "/worker-", index, ".json");
  std::ifstream in(file);
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::UnavailableError(
        absl::StrCat("no worker serves here: ", file, " does not exist or is no endpoint file"));
  }
  return Endpoint{.address = json.value("address", std::string()),
                  .incarnation = json.value("incarnation", std::string()),
                  .pid = json.value("pid", pid_t{0}),
                  .registered = json.value("registered", false)};
}

}  // namespace coxswain::supervisor
