// Writes common/faults/FAULTS.md to standard output.
#include <cstdio>

#include "common/faults/fault_table.h"

int main() {
  std::fputs(coxswain::fault::FaultsPage().c_str(), stdout);
  return 0;
}
