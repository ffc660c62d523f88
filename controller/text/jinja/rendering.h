// The inputs of a rendering besides variables, and its result.
#ifndef COXSWAIN_CONTROLLER_TEXT_JINJA_RENDERING_H_
#define COXSWAIN_CONTROLLER_TEXT_JINJA_RENDERING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace coxswain::data::jinja {

// The time and zone that strftime_now uses.
struct Clock {
  absl::Time now;
  absl::TimeZone zone;
};

// Bytes [begin, end) of a rendering that the template marks with {% generation %}. As in
// transformers, a mark begins at the start of the outermost expression or block that is being
// printed, so that a mark inside a macro begins where the macro's call does.
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

#endif  // COXSWAIN_CONTROLLER_TEXT_JINJA_RENDERING_H_
