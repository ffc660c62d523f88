// The picture as PNG, drawn by librsvg, which is loaded when somebody asks for it: a machine that
// draws none needs neither it nor fonts.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_PICTURE_PNG_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_PICTURE_PNG_H_

#include <string>

#include "absl/status/statusor.h"

namespace coxswain::status_page {

// Bytes of a PNG file of the SVG document, two pixels for each of its units. FailedPrecondition:
// librsvg 2.52 or newer is not on this machine; says how to install it. InvalidArgument: `svg` is
// no SVG that has a size. `library`: its file, another one in tests.
absl::StatusOr<std::string> PngOf(const std::string& svg, const char* library = "librsvg-2.so.2");

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_PICTURE_PNG_H_
