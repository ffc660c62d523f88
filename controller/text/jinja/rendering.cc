#include "controller/text/jinja/rendering.h"

#include <algorithm>
#include <string_view>

#include "controller/text/jinja/values/unicode.h"

namespace coxswain::data::jinja {

std::vector<GenerationSpan> CodePointSpans(const Rendering& rendering) {
  std::vector<GenerationSpan> spans = rendering.spans;
  std::vector<size_t*> edges;
  for (GenerationSpan& span : spans) {
    edges.push_back(&span.begin);
    edges.push_back(&span.end);
  }
  std::stable_sort(edges.begin(), edges.end(),
                   [](const size_t* a, const size_t* b) { return *a < *b; });
  const std::string_view text = rendering.text;
  size_t bytes = 0;
  size_t code_points = 0;
  for (size_t* edge : edges) {
    code_points += static_cast<size_t>(CodePoints(text.substr(bytes, *edge - bytes)));
    bytes = *edge;
    *edge = code_points;
  }
  return spans;
}

}  // namespace coxswain::data::jinja
