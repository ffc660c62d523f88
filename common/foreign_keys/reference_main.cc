// Prints the reference page: foreign_key_reference > common/foreign_keys/REFERENCE.md
#include <iostream>

#include "common/foreign_keys/reference.h"

int main() {
  std::cout << coxswain::foreign_keys::ForeignKeyReference();
  return 0;
}
