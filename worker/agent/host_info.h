// Facts about the machine on which a worker runs.
#ifndef COXSWAIN_WORKER_AGENT_HOST_INFO_H_
#define COXSWAIN_WORKER_AGENT_HOST_INFO_H_

#include <string>

namespace coxswain::agent {

std::string HostName();
// The reason why `id` cannot name a host (--host-id); empty: it can.
std::string HostIdProblem(const std::string& id);
std::string CpuModel();  // "model name" of /proc/cpuinfo, "cpu" where it has none

// The NUMA node of a PCI device ("0000:1b:00.0"); 0 where the host does not say.
int NumaNodeOf(const std::string& pci_bus);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_HOST_INFO_H_
