#include "tests/fuzz/mutate.h"

#include <cstddef>
#include <random>

namespace coxswain::fuzz {
namespace {

constexpr size_t kMostBytes = 64 << 10;

// Where signs, lengths and encodings turn.
constexpr unsigned char kEdges[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '0',
                                    '9',  '-',  '"',  '{',  '[',  '\n'};

void Change(std::string* text, const std::vector<std::string>& corpus, std::mt19937* random) {
  const auto below = [&](size_t bound) { return bound == 0 ? 0 : (*random)() % bound; };
  const size_t at = below(text->size());
  const size_t count = 1 + below(24);
  switch (below(text->empty() ? 1 : 6)) {
    case 0: {
      const std::string& other = corpus[below(corpus.size())];
      text->insert(at, other.empty() ? "0" : other.substr(below(other.size()), count));
      break;
    }
    case 1:
      (*text)[at] = static_cast<char>((*text)[at] ^ (1 << below(8)));
      break;
    case 2:
      (*text)[at] = static_cast<char>(kEdges[below(sizeof(kEdges))]);
      break;
    case 3:
      text->erase(at, count);
      break;
    case 4:
      text->insert(at, text->substr(below(text->size()), count));
      break;
    default:
      (*text)[at] = static_cast<char>(below(256));
  }
}

}  // namespace

std::string Mutate(std::string input, const std::vector<std::string>& corpus, uint32_t seed) {
  std::mt19937 random(seed);
  const size_t changes = 1 + random() % 4;
  for (size_t i = 0; i < changes; ++i) Change(&input, corpus, &random);
  if (input.size() > kMostBytes) input.resize(kMostBytes);
  return input;
}

}  // namespace coxswain::fuzz
