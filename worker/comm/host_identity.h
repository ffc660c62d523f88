// Which machine this process runs on.
#ifndef COXSWAIN_WORKER_COMM_HOST_IDENTITY_H_
#define COXSWAIN_WORKER_COMM_HOST_IDENTITY_H_

#include <string>

namespace coxswain::comm {

// The id changes with every start of the machine and is the same in its containers; empty where it
// is not told.
std::string BootId();

// The name is equal for processes that NCCL takes to be of one host: NCCL_HOSTID, or host name and
// boot.
std::string NcclHost();

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_HOST_IDENTITY_H_
