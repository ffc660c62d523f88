// Seeded changes of an input, for builds without libFuzzer.
#ifndef COXSWAIN_TESTS_FUZZ_MUTATE_H_
#define COXSWAIN_TESTS_FUZZ_MUTATE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace coxswain::fuzz {

// One to four changes of `input`: bits and bytes replaced, pieces cut out, doubled, or taken from
// another of the `corpus`. Equal arguments give equal bytes on every machine. At most 64 KiB.
std::string Mutate(std::string input, const std::vector<std::string>& corpus, uint32_t seed);

}  // namespace coxswain::fuzz

#endif  // COXSWAIN_TESTS_FUZZ_MUTATE_H_
