// Text in columns, left-aligned, three spaces apart, as kubectl prints them.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_TABLE_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace coxswain::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  // `row` has as many cells as the header. Empty cells show as "-". Each cell is put on one line
  // (common/outside_text.h).
  void Add(std::vector<std::string> row);
  // One line per row, the header first; `indent` spaces before each. No trailing spaces.
  std::string Text(int indent = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Characters of UTF-8 text; each counts as one column.
int DisplayWidth(std::string_view text);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_TABLE_H_
