// The training steps that the files of bench/results hold, as jobs that can be planned again.
#ifndef COXSWAIN_TESTS_BENCH_RECORDED_STEPS_H_
#define COXSWAIN_TESTS_BENCH_RECORDED_STEPS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/worker/engine/step_rows.h"

namespace coxswain::bench {

// An object of a file that has the name of a row. Its place in the file names it:
// "h200_step.json rows[3] 7b_full_1024".
struct Recorded {
  std::string name;
  std::string file;
  std::string gpu = {};      // by the table of GPUs; empty: the file names none
  std::string without = {};  // what an ablation left out of the engine, without "balance"
  // Milliseconds of one optimizer step; 0: the object has none that the engine of its commit took.
  double milliseconds = 0;
  Row row = {};  // to be planned; without a name where no table has the row
};

// Of all files of `directory`, by name and place. A gang's object holds up to three: its step
// (".gang"), that without overlap (".overlap_off") and that of one GPU (".single"). An object of
// builds or settings in turns holds the newer build's (".new"), or one each.
std::vector<Recorded> ReadRecorded(const std::string& directory);

}  // namespace coxswain::bench

#endif  // COXSWAIN_TESTS_BENCH_RECORDED_STEPS_H_
