#include "worker/agent/host_info.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace coxswain::agent {
namespace {

constexpr size_t kLongestHostId = 253;  // as a name of the DNS

}  // namespace

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

std::string HostIdProblem(const std::string& id) {
  const bool plain = std::all_of(id.begin(), id.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
  if (plain && !id.empty() && id.size() <= kLongestHostId) return "";
  return "'" + id + "' is no name for a host: use 1 to " + std::to_string(kLongestHostId) +
         " letters, digits, '.', '-' and '_'";
}

std::string CpuModel() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "cpu";
}

int NumaNodeOf(const std::string& pci_bus) {
  std::string name = pci_bus;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::ifstream in("/sys/bus/pci/devices/" + name + "/numa_node");
  int node = 0;  // -1 in the file: one node, or a virtual machine that hides them
  return in >> node ? std::max(0, node) : 0;
}

}  // namespace coxswain::agent
