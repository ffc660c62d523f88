// Formats jobs as tables and sentences.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_JOB_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_JOB_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/cli/text/output.h"
#include "coxswain/v1/common.pb.h"
#include "coxswain/v1/job.pb.h"
#include "coxswain/v1/job_event.pb.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::cli {

std::string StateName(v1::JobState state);    // "RUNNING"
std::string WorkersText(const v1::Job& job);  // "4", or "auto" until the number is chosen
// "cuda (auto: 4 workers, NVIDIA H200)"; empty for a job of a release that did not store it.
std::string DeviceText(const v1::Job& job);
// One line: the resources that `auto` was resolved to, or that the choice is still open. Empty when
// the job gave them.
std::string ResourcesLine(const v1::Job& job);

// Sum of the classes of the buffer table.
uint64_t Allocated(const v1::MemoryBytes& memory);

// 0..1: finished part of the steps, or of data preparation while that runs.
double ProgressFraction(const v1::Job& job);

// NAME STATE METHOD MODEL WORKERS PROGRESS STEP LOSS ETA RESTARTS AGE; wide adds EVAL-LOSS,
// TOKENS/S, GANG, PRIORITY and BASE-MODEL.
std::string JobsTable(const std::vector<v1::Job>& jobs, bool wide, int64_t now_unix_ms);

// ID TIME TYPE STATE MESSAGE.
std::string EventsTable(const std::vector<v1::JobEvent>& events, int64_t now_unix_ms);

// WORKER STATE JOB RANK DEVICE MEMORY THREADS HEARTBEAT; wide adds ADDRESS, METRICS, BUILD and PID.
std::string WorkersTable(const v1::ListWorkersResponse& workers, bool wide);

// A line for each cordon: target, time, reason. Empty without cordons.
std::string CordonLines(const v1::ListWorkersResponse& workers, int64_t now_unix_ms);

// A line about the job, then every rank with host, device, memory, build, last step (from 1) and
// the numbers of that step.
std::string RanksTable(const v1::InspectResponse& ranks, bool wide);

// The result of a job that was followed: loss before and after, artifact, commands to type next.
std::string Summary(const v1::Job& job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_JOB_TEXT_H_
