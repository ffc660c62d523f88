#include "bench/google_main.h"

#include <benchmark/benchmark.h>

#include <string>
#include <string_view>
#include <vector>

#include "bench/report.h"
#include "common/identity.h"

namespace coxswain::bench {

int GoogleMain(int argc, char** argv, const char* results) {
  bool whole = true;
  std::vector<char*> arguments(argv, argv + argc);
  for (const std::string_view argument : arguments) {
    if (argument.starts_with("--benchmark_out") || argument.starts_with("--benchmark_filter")) {
      whole = false;
    }
  }
  std::string out = std::string("--benchmark_out=") + results;
  std::string format = "--benchmark_out_format=json";
  if (whole) {
    arguments.push_back(out.data());
    arguments.push_back(format.data());
  }
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::AddCustomContext("commit", std::string(BuildCommit()));
  benchmark::AddCustomContext("machine", Machine());
  const size_t run = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return run > 0 ? 0 : 1;
}

}  // namespace coxswain::bench
