// Tokenizer throughput: MB/s = UTF-8 bytes of input / 1e6 / seconds of Encode, ids only.
//
//   build/cpu/bench/tokenizer_bench [TOKENIZER_DIR...]     from the repository root
//
// Input: tiny_shakespeare and wiki_demo of ../shared (env COXSWAIN_SHARED) in documents of 2,000
// characters; tokenizers Qwen2.5 (byte-level BPE), and TinyLlama and Phi-3 (BPE over characters,
// without words). Each run loads a fresh tokenizer, so that its caches are cold; the
// load is not timed. Prints median and p90 and writes bench/results/tokenizer.json. Runs Hugging
// Face tokenizers on the same documents where python3 can import it.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/report.h"
#include "controller/text/tokenizer/file/gzip_file.h"
#include "controller/text/tokenizer/tokenizer.h"

namespace {

using coxswain::data::Tokenizer;
using Clock = std::chrono::steady_clock;

constexpr int kRuns = 5;
constexpr int kDocumentCharacters = 2000;

std::string ReadCommand(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  char block[256];
  while (std::fgets(block, sizeof(block), pipe) != nullptr) out += block;
  pclose(pipe);
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::string SharedDir() {
  const char* path = std::getenv("COXSWAIN_SHARED");
  return path != nullptr ? path : "../shared";
}

void CutDocuments(const std::string& text, std::vector<std::string>* documents) {
  size_t begin = 0;
  int characters = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const bool starts = i == text.size() || (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (!starts) continue;
    if (characters == kDocumentCharacters || i == text.size()) {
      if (i > begin) documents->push_back(text.substr(begin, i - begin));
      begin = i;
      characters = 0;
    }
    ++characters;
  }
}

// CPU time of this thread, seconds.
double ThreadCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Sorted, slowest first: MB/s by the clock, and MB per second of the calling thread's CPU time,
// which other processes on the machine disturb less.
struct Rates {
  std::vector<double> wall;
  std::vector<double> cpu;
  int64_t tokens = 0;
};

Rates Measure(const std::string& directory, const std::vector<std::string>& documents,
              int threads) {
  const std::vector<std::string_view> views(documents.begin(), documents.end());
  double megabytes = 0;
  for (const std::string_view view : views) megabytes += static_cast<double>(view.size()) / 1e6;
  Rates rates;
  for (int run = 0; run < kRuns; ++run) {
    const auto tokenizer = Tokenizer::Load(directory);
    if (!tokenizer.ok()) {
      std::fprintf(stderr, "%s\n", std::string(tokenizer.status().message()).c_str());
      std::exit(1);
    }
    const auto start = Clock::now();
    const double cpu_start = ThreadCpuSeconds();
    const auto ids = (*tokenizer)->EncodeBatch(views, threads);
    rates.cpu.push_back(megabytes / (ThreadCpuSeconds() - cpu_start));
    rates.wall.push_back(megabytes / std::chrono::duration<double>(Clock::now() - start).count());
    rates.tokens = 0;
    for (const auto& document : *ids) rates.tokens += static_cast<int64_t>(document.size());
  }
  std::sort(rates.wall.begin(), rates.wall.end());
  std::sort(rates.cpu.begin(), rates.cpu.end());
  return rates;
}

// MB/s of Hugging Face tokenizers, one thread, on the same documents; negative: not installed.
double MeasureHuggingFace(const std::string& directory) {
  static constexpr std::string_view kScript = R"PY(
import gzip, os, sys, time
os.environ["TOKENIZERS_PARALLELISM"] = "false"
try:
    from tokenizers import Tokenizer
except ImportError:
    sys.exit(0)
p = sys.argv[1] + "/tokenizer.json"
s = open(p).read() if os.path.exists(p) else gzip.open(p + ".gz").read().decode()
docs = []
for f in ("tiny_shakespeare.txt", "wiki_demo.txt"):
    c = open(sys.argv[2] + "/data/text/" + f, encoding="utf-8", newline="").read()
    docs += [c[i:i + 2000] for i in range(0, len(c), 2000)]
mb = sum(len(d.encode()) for d in docs) / 1e6
rates = []
for _ in range(5):
    t = Tokenizer.from_str(s)
    a = time.perf_counter()
    for d in docs: t.encode(d, add_special_tokens=False).ids
    rates.append(mb / (time.perf_counter() - a))
print(sorted(rates)[2])
)PY";
  const char* python = std::getenv("COXSWAIN_PYTHON");
  const std::string answer =
      ReadCommand(std::string(python != nullptr ? python : "python3") + " -c '" +
                  std::string(kScript) + "' '" + directory + "' '" + SharedDir() + "' 2>/dev/null");
  return answer.empty() ? -1.0 : std::atof(answer.c_str());
}

nlohmann::json MeasureTokenizer(const std::string& directory,
                                const std::vector<std::string>& documents) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  nlohmann::json result;
  std::printf("%s\n", directory.c_str());
  for (const int threads : {1, cores}) {
    const Rates rates = Measure(directory, documents, threads);
    // p90 of the time of a run is the rate that 90 % of runs reach: the slowest of five.
    std::printf("%2d thread%s  median %6.1f MB/s   p90 %6.1f MB/s   (%lld tokens)\n", threads,
                threads == 1 ? " " : "s", rates.wall[kRuns / 2], rates.wall[0],
                static_cast<long long>(rates.tokens));
    nlohmann::json& entry = result["threads_" + std::to_string(threads)];
    entry = {{"median_mb_per_s", rates.wall[kRuns / 2]},
             {"p90_mb_per_s", rates.wall[0]},
             {"tokens", rates.tokens}};
    if (threads > 1) continue;
    std::printf("            median %6.1f MB per CPU second\n", rates.cpu[kRuns / 2]);
    entry["median_mb_per_cpu_s"] = rates.cpu[kRuns / 2];
  }
  const double hugging_face = MeasureHuggingFace(directory);
  if (hugging_face > 0) {
    std::printf("Hugging Face tokenizers, 1 thread  median %6.1f MB/s\n", hugging_face);
    result["hugging_face_median_mb_per_s"] = hugging_face;
  } else {
    std::printf("Hugging Face tokenizers: skipped, python3 cannot import it\n");
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> directories(argv + 1, argv + argc);
  for (const char* name : {"qwen2.5", "tinyllama-llama2", "phi-3-mini"}) {
    if (argc == 1) directories.push_back(SharedDir() + "/data/tokenizers/" + name);
  }
  std::vector<std::string> documents;
  for (const char* name : {"tiny_shakespeare.txt", "wiki_demo.txt"}) {
    const auto text = coxswain::data::ReadMaybeGzip(SharedDir() + "/data/text/" + name);
    if (!text.ok()) {
      std::printf("skipped: needs ../shared (%s)\n", std::string(text.status().message()).c_str());
      return 0;
    }
    CutDocuments(*text, &documents);
  }
  nlohmann::json result = {
      {"bench", "tokenizer"},
      {"command", "build/cpu/bench/tokenizer_bench"},
      {"setting",
       "tiny_shakespeare + wiki_demo, documents of 2,000 characters, caches cold, ids only"},
      {"load_average", ReadCommand("cut -d\" \" -f1 /proc/loadavg")},
      {"documents", documents.size()}};
  std::printf("%s\n%s\n", coxswain::bench::Machine().c_str(),
              result["setting"].get<std::string>().c_str());
  for (const std::string& directory : directories) {
    const std::string name = std::filesystem::path(directory).filename().string();
    result["tokenizers"][name] = MeasureTokenizer(directory, documents);
  }
  coxswain::bench::WriteResults("bench/results/tokenizer.json", std::move(result));
  return 0;
}
