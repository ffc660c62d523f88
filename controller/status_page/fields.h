// Values of a page as JSON that templates are filled with: text; true shows a section; an object or
// each object of a list shows one with these values; a key ">x" includes template x. What an object
// lacks is looked up in those around it: an optional key has a name of its own on the whole page.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_FIELDS_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_FIELDS_H_

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace coxswain::status_page {

// A number as people read it, with the exact value beside it: <data value="EXACT">TEXT</data>.
inline nlohmann::json Number(const std::string& exact, const std::string& text) {
  return {{"EXACT", exact}, {"TEXT", text}};
}
nlohmann::json Real(double value, int digits);  // digits after the point
nlohmann::json Scientific(double value);        // "1.34e-04"
nlohmann::json Count(int64_t value);            // "1,234"
nlohmann::json Whole(double value);             // rounded, "1,234"
nlohmann::json Bytes(uint64_t value);           // "1.50 MiB"
// A moment: {"ISO", "CLOCK" (UTC, with the date when it is not today), "AGO"}.
nlohmann::json Moment(int64_t unix_ms, int64_t now_unix_ms);
// At most `bytes` bytes once escaped, cut between characters, an ellipsis for what is missing.
std::string Shortened(const std::string& text, size_t bytes);

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_FIELDS_H_
