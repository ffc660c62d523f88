// main() of the benchmarks that use Google Benchmark.
#ifndef COXSWAIN_BENCH_GOOGLE_MAIN_H_
#define COXSWAIN_BENCH_GOOGLE_MAIN_H_

namespace coxswain::bench {

// Runs the registered benchmarks with the library's flags and writes its JSON, with commit and
// machine in "context", to `results`, unless --benchmark_out or --benchmark_filter is given: a part
// of a run does not replace a whole one.
int GoogleMain(int argc, char** argv, const char* results);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_GOOGLE_MAIN_H_
