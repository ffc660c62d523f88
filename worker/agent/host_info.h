// Facts about the machine on which a worker runs.
#ifndef COXSWAIN_WORKER_AGENT_HOST_INFO_H_
#define COXSWAIN_WORKER_AGENT_HOST_INFO_H_

#include <cstdint>
#include <string>

namespace coxswain::agent {

std::string HostName();
// The reason why `id` cannot name a host (--host-id); empty: it can.
std::string HostIdProblem(const std::string& id);
std::string CpuModel();  // "model name" of /proc/cpuinfo, "cpu" where it has none
int UsableCpus();        // CPUs this process may run on

// The NUMA node of a PCI device ("0000:1b:00.0"); 0 where the host does not say.
int NumaNodeOf(const std::string& pci_bus);

// Bytes this process may use: the smaller of the machine's memory and its cgroup's limit.
uint64_t MemoryLimitBytes();
// What `workers` processes of one host may each plan with: an equal part of 80 %; the rest is for
// the page cache, libraries and the controller.
uint64_t PlannableBytes(int workers);

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_HOST_INFO_H_
