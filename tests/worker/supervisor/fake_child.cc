// Stands for a worker under the supervisor: writes down each start beside its endpoint file, then
// does what COXSWAIN_FAKE_CHILD says.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

int main(int argc, char** argv) {
  const std::string mode = std::getenv("COXSWAIN_FAKE_CHILD");
  std::string base, arguments;
  for (int i = 1; i < argc; ++i) {
    arguments += std::string(argv[i]) + "|";
    if (std::string(argv[i]) == "--endpoint-file" && i + 1 < argc) base = argv[i + 1];
  }
  int starts = 1;
  if (std::ifstream in(base + ".starts"); in) {
    for (std::string line; std::getline(in, line);) ++starts;
  }
  std::ofstream(base + ".starts", std::ios::app) << getpid() << "\n";
  std::ofstream(base + ".arguments") << arguments;
  if (mode == "dies-once" && starts == 1) return 3;
  if (mode == "exit-0") return 0;
  if (mode == "exit-64") return 64;
  if (mode == "exit-77") return 77;
  if (mode == "ignores-sigterm") {
    signal(SIGTERM, SIG_IGN);
  } else {
    signal(SIGTERM, [](int) { _exit(0); });
  }
  if (mode == "registers") {
    std::ofstream(base) << "{\"pid\": " << getpid() << ", \"registered\": true}\n";
  }
  std::ofstream(base + ".ready") << getpid() << "\n";
  while (true) pause();
}
