#include "worker/agent/endpoint_file.h"

#include <unistd.h>

#include <cstdio>

#include <nlohmann/json.hpp>

#include "common/files/durable_file.h"
#include "common/logging.h"

namespace coxswain::agent {

absl::Status EndpointFile::Publish(const std::string& address, const std::string& metrics_address,
                                   const std::string& incarnation) {
  MutexLock lock(mu_);
  address_ = address;
  metrics_address_ = metrics_address;
  incarnation_ = incarnation;
  published_ = true;
  return Write();
}

void EndpointFile::SetRegistered(bool registered) {
  MutexLock lock(mu_);
  registered_ = registered;
  if (!published_) return;
  if (const absl::Status status = Write(); !status.ok()) {
    log::Warning("endpoint file not renewed", {{"error", status.ToString()}});
  }
}

void EndpointFile::Remove() {
  MutexLock lock(mu_);
  published_ = false;
  if (!path_.empty()) std::remove(path_.c_str());
}

absl::Status EndpointFile::Write() {
  if (path_.empty()) return absl::OkStatus();
  const nlohmann::json content = {{"address", address_},
                                  {"metrics_address", metrics_address_},
                                  {"incarnation", incarnation_},
                                  {"pid", getpid()},
                                  {"registered", registered_}};
  return WriteFileDurably(path_, content.dump() + "\n");
}

}  // namespace coxswain::agent
