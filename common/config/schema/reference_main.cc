// Prints the reference page: config_reference > common/config/REFERENCE.md
#include <iostream>

#include "common/config/schema/reference.h"

int main() {
  std::cout << coxswain::config::SchemaReference();
  return 0;
}
