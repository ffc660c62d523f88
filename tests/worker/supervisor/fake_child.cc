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
  int life_sign = -1;
  for (int i = 1; i < argc; ++i) {
    arguments += std::string(argv[i]) + "|";
    if (std::string(argv[i]) == "--endpoint-file" && i + 1 < argc) base = argv[i + 1];
    if (std::string(argv[i]) == "--life-sign") life_sign = std::atoi(argv[i + 1]);
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
    std::ofstream(base) << "{\"pid\": " << getpid() << ", \"incarnation\": \"i-" << getpid()
                        << "\", \"registered\": true}\n";
  }
  const bool gives_signs = mode == "gives-signs" || (mode == "first-gives-signs" &&
                                                     base.find("worker-0") != std::string::npos);
  if (gives_signs && write(life_sign, "", 1) != 1) return 5;
  std::ofstream(base + ".ready") << getpid() << "\n";
  while (gives_signs) {
    usleep(100'000);
    if (write(life_sign, "", 1) != 1) return 5;
  }
  while (true) pause();
}
