// The main of a fuzz target without libFuzzer: every file of a corpus, and seeded mutants of each.
//   TARGET CORPUS [MUTANTS [FIRST]]   MUTANTS of each file (default 0), counted from FIRST
// A death names its input: the same file with 1 mutant from that number plays it again.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutate.h"

namespace coxswain::fuzz {
namespace {

char playing[512];  // what a signal handler may read

void NameInput(int signal_number) {
  const ssize_t ignored = write(STDERR_FILENO, playing, strlen(playing));
  (void)ignored;
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void Play(const std::string& name, const std::string& bytes) {
  std::snprintf(playing, sizeof(playing), "fuzz: died in %s\n", name.c_str());
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

std::vector<std::string> FilesOf(const char* folder) {
  std::vector<std::string> paths;
  if (std::filesystem::is_regular_file(folder)) return {folder};
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

uint32_t Number(int argc, char** argv, int index) {
  uint32_t number = 0;
  if (index < argc) std::from_chars(argv[index], argv[index] + strlen(argv[index]), number);
  return number;
}

int Replay(int argc, char** argv) {
  if (argc < 2 || !std::filesystem::exists(argv[1])) {
    std::fprintf(stderr, "%s: the first argument is a corpus, a folder or one of its files\n",
                 argv[0]);
    return 2;
  }
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGTERM, SIGALRM}) {
    signal(number, NameInput);
  }
  const std::vector<std::string> paths = FilesOf(argv[1]);
  std::vector<std::string> corpus;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  const uint32_t mutants = Number(argc, argv, 2), first = Number(argc, argv, 3);
  const auto began = std::chrono::steady_clock::now();
  for (size_t i = 0; i < corpus.size(); ++i) {
    Play(paths[i], corpus[i]);
    for (uint32_t m = first; m < first + mutants; ++m) {
      const uint32_t seed = m * 65537 + static_cast<uint32_t>(i);
      Play(paths[i] + ", mutant " + std::to_string(m), Mutate(corpus[i], corpus, seed));
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("%zu inputs and %zu mutants in %.1f s\n", corpus.size(), corpus.size() * mutants,
              took.count());
  return corpus.empty() ? 1 : 0;
}

}  // namespace
}  // namespace coxswain::fuzz

int main(int argc, char** argv) { return coxswain::fuzz::Replay(argc, argv); }
