// What goes into a rendering beside variables, and what comes out.
#ifndef COXSWAIN_CONTROLLER_DATA_JINJA_RENDERING_H_
#define COXSWAIN_CONTROLLER_DATA_JINJA_RENDERING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace coxswain::data::jinja {

// What strftime_now answers: this time, in this zone.
struct Clock {
  absl::Time now;
  absl::TimeZone zone;
};

// Bytes [begin, end) of a rendering that the template marks with {% generation %}. As transformers
// counts them: from the length of the text before the outermost expression or block that is being
// printed, so that marks inside of a macro begin where its call does.
struct GenerationSpan {
  size_t begin;
  size_t end;
};

struct Rendering {
  std::string text;
  std::vector<GenerationSpan> spans;  // in the order in which the blocks ended
};

// The spans counted in code points, as Python counts them.
std::vector<GenerationSpan> CodePointSpans(const Rendering& rendering);

}  // namespace coxswain::data::jinja

#endif  // COXSWAIN_CONTROLLER_DATA_JINJA_RENDERING_H_
