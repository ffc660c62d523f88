// Where a Prometheus finds the workers, in the form of its HTTP service discovery.
#ifndef COXSWAIN_CONTROLLER_API_SCRAPE_TARGETS_H_
#define COXSWAIN_CONTROLLER_API_SCRAPE_TARGETS_H_

#include <string>
#include <vector>

#include "controller/scheduler/registry.h"

namespace coxswain::api {

// JSON: one group for each worker that lives and serves metrics, e.g.
//   [{"targets": ["10.0.0.7:7180"], "labels": {"instance": "node-7/0", "device": "cuda"}}]
// `instance` is the worker's id: it outlives its processes and their ports. A worker that listens
// on every interface is named by the host that it is reached by.
std::string ScrapeTargets(const std::vector<scheduler::Worker>& workers);

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_SCRAPE_TARGETS_H_
