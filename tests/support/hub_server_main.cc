// coxswain-test-hub FOLDER: HubServer over FOLDER until its standard input ends. Prints the
// endpoint first.
#include <cstdio>
#include <stdexcept>

#include "tests/support/hub_server.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: coxswain-test-hub FOLDER\n");
    return 2;
  }
  try {
    const coxswain::support::HubServer server(argv[1]);
    std::printf("%s\n", server.endpoint().c_str());
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "coxswain-test-hub: %s\n", error.what());
    return 1;
  }
}
