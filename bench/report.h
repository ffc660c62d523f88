// What every benchmark's result file says beside its numbers: commit, machine, state of the GPU.
#ifndef COXSWAIN_BENCH_REPORT_H_
#define COXSWAIN_BENCH_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace coxswain::bench {

// Model and number of the processors of this host.
std::string Machine();

// Of GPU 0 now, as nvidia-smi reports it: name, driver, sm_mhz, memory_mhz, watts, celsius,
// throttle (bits of clocks_event_reasons). Null where nvidia-smi is missing or fails. Takes some 50
// ms; the clocks are those of a moment without work unless work is queued.
nlohmann::json GpuState();
// "SM 1980 MHz, memory 3201 MHz, 412 W, 51 C"; "no nvidia-smi" for null.
std::string GpuStateText(const nlohmann::json& state);

// Writes `results` with "commit" and "machine" added to `path`, for which folders are made. Exits
// the process with a message when the file cannot be written: a run without its result is void.
void WriteResults(const std::string& path, nlohmann::json results);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_REPORT_H_
